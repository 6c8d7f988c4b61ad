//! `walferry replay`: dead letters, published after all.

use clap::Args;

use super::schema::failed;
use super::{Exit, logs, output, signals, table_pattern};
use crate::config::Loaded;
use crate::config::glob::TablePattern;
use crate::pipeline::replay::{self, ReplayOptions, Replayed, StillDeadLetter};
use crate::telemetry::Metrics;

/// What `replay` may be told.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// Say what could be published, and change nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Begin at the beginning of the topic, also with letters that were replayed before.
    #[arg(long)]
    pub all: bool,
    /// Do not try again what cannot be published: it stays in the topic, and the next replay passes it over.
    #[arg(long, conflicts_with = "dry_run")]
    pub give_up: bool,
    /// The tables: schema.table, with * and ?. Without any, all of them, and logical messages.
    #[arg(value_name = "TABLE", value_parser = table_pattern)]
    pub tables: Vec<TablePattern>,
}

/// Prints a line for each letter that is dead still, and what became of all.
pub(super) async fn replay(loaded: Loaded, args: ReplayArgs) -> Exit {
    if let Err(exit) = logs::start(&loaded) {
        return exit;
    }
    let shutdown = match signals::drain_or_say_why() {
        Ok(shutdown) => shutdown,
        Err(exit) => return exit,
    };
    let metrics = match Metrics::new() {
        Ok(metrics) => metrics,
        Err(error) => {
            output::notice(&format!("walferry: {}\n", output::chain(&error)));
            return Exit::Failed;
        }
    };
    let options = ReplayOptions {
        dry_run: args.dry_run,
        all: args.all,
        give_up: args.give_up,
        tables: &args.tables,
    };
    let mut written = Ok(());
    let replayed = replay::replay(&loaded.config, options, &metrics, shutdown, |letter| {
        if written.is_ok() {
            written = output::try_data(&line(letter));
        }
    })
    .await;
    let replayed = match replayed {
        Ok(Some(replayed)) => replayed,
        Ok(None) => {
            let topic = &loaded.config.delivery.dead_letter_topic;
            return output::data(&format!("topic {topic} does not exist: there are no dead letters\n"));
        }
        Err(error) => return failed(&error),
    };
    match output::end_of(written.and_then(|()| output::try_data(&summary(&replayed, args.dry_run)))) {
        Exit::Stopped if replayed.failed > 0 || replayed.stopped => Exit::Failed,
        exit => exit,
    }
}

fn line(letter: &StillDeadLetter<'_>) -> String {
    let mut text = format!("failed   {}[{}]@{}", letter.topic, letter.partition, letter.offset);
    if let Some(table) = &letter.table {
        text.push_str(&format!("  {table}"));
    }
    if let Some(position) = letter.position {
        text.push_str(&format!("  {} {}", position.commit_lsn, position.ordinal));
    }
    format!("{text}  {}\n", letter.why)
}

fn summary(replayed: &Replayed, dry_run: bool) -> String {
    let published = if dry_run { "could be published" } else { "published" };
    let mut text = format!("{} {published}, {} failed", replayed.published, replayed.failed);
    if replayed.left > 0 {
        text.push_str(&format!(", {} of other tables left", replayed.left));
    }
    if replayed.foreign > 0 {
        text.push_str(&format!(", {} of other pipelines passed over", replayed.foreign));
    }
    if replayed.stopped {
        text.push_str("; stopped before the end");
    }
    format!("{text}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::Position;
    use crate::lsn::Lsn;

    #[test]
    fn a_letter_that_is_dead_still_has_a_line_with_its_place_and_why() {
        let mut letter = StillDeadLetter {
            topic: "shop.dead-letter",
            partition: 0,
            offset: 12,
            table: Some("public.t".to_owned()),
            position: Some(Position {
                commit_lsn: Lsn::new(0x16_B374_D848),
                ordinal: 3,
            }),
            why: "it is too large".to_owned(),
        };
        assert_eq!(
            line(&letter),
            "failed   shop.dead-letter[0]@12  public.t  16/B374D848 3  it is too large\n"
        );
        (letter.table, letter.position) = (None, None);
        assert_eq!(line(&letter), "failed   shop.dead-letter[0]@12  it is too large\n");
    }

    #[test]
    fn the_last_line_counts() {
        let mut replayed = Replayed {
            published: 3,
            ..Replayed::default()
        };
        assert_eq!(summary(&replayed, false), "3 published, 0 failed\n");
        replayed.failed = 1;
        replayed.left = 2;
        assert_eq!(
            summary(&replayed, true),
            "3 could be published, 1 failed, 2 of other tables left\n"
        );
        replayed.foreign = 4;
        replayed.stopped = true;
        assert_eq!(
            summary(&replayed, false),
            "3 published, 1 failed, 2 of other tables left, 4 of other pipelines passed over; stopped before the end\n"
        );
    }
}
