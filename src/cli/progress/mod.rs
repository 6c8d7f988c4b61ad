//! How far the snapshots are, for people: bars on a terminal, lines of the log elsewhere.

mod bars;
mod events;
pub(super) mod figures;

use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::MultiProgress;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub(super) use bars::{AboveBars, Bars, screen};
pub(super) use events::{Event, Follower};

use crate::telemetry::Status;
use crate::telemetry::snapshots::{SnapshotState, SnapshotView, TableSnapshot};

/// How often the board is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// Tells of the snapshots from a task of its own, until it is ended.
#[derive(Debug)]
pub(super) struct Teller {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Teller {
    /// Begins. Without a screen the log has it all.
    pub(super) fn start(status: Arc<Status>, screen: Option<MultiProgress>) -> Self {
        let (stop, mut stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            let mut bars = screen.map(Bars::new);
            let mut follower = Follower::default();
            let mut look = || {
                let Some(view) = status.snapshots().view() else {
                    return;
                };
                for event in follower.look(&view, Instant::now()) {
                    match (&bars, &event) {
                        (Some(_), Event::Progress(_)) => {}
                        _ => log(&event),
                    }
                }
                if let Some(bars) = &mut bars {
                    bars.show(&view);
                }
            };
            loop {
                tokio::select! {
                    () = tokio::time::sleep(LOOK) => look(),
                    _ = &mut stopped => break,
                }
            }
            // What came after the last look: a pipeline that reads tables and nothing else ends right after the last one.
            look();
            if let Some(bars) = &mut bars {
                bars.clear();
            }
        });
        Teller { stop, task }
    }

    /// Tells what is left to tell, and ends.
    pub(super) async fn end(self) {
        // It cannot be gone: nothing else stops it.
        let _ = self.stop.send(());
        let _ = self.task.await;
    }
}

/// `2 of 7 tables are read, 24.7%`
fn tables_of(view: &SnapshotView) -> String {
    let percent = view
        .percent
        .map_or_else(String::new, |percent| format!(", {percent:.1}%"));
    match view.tables_total {
        0 => "the tables to read are looked up".to_owned(),
        total => format!("{} of {total} tables are read{percent}", view.tables_ended),
    }
}

fn log(event: &Event) {
    match event {
        Event::Begun(table) => tracing::info!(
            table = table.table,
            cause = %table.cause,
            estimated_rows = table.estimated_rows,
            "snapshot of a table: begun"
        ),
        Event::Ended(table) => log_end(table),
        Event::Paused(reason) => tracing::info!(reason, "snapshots: paused"),
        Event::Resumed => tracing::info!("snapshots: going on"),
        Event::Progress(view) => tracing::info!(
            tables = format!("{} of {}", view.tables_ended, view.tables_total),
            rows = view.rows,
            percent = view.percent,
            remaining = view.remaining_seconds.map(figures::time),
            "snapshots: going on"
        ),
    }
}

fn log_end(table: &TableSnapshot) {
    let (name, rows, superseded) = (&table.table, table.rows, table.superseded);
    match table.state {
        SnapshotState::Failed => tracing::warn!(
            table = name,
            rows,
            reason = table.reason.as_deref().unwrap_or("unknown"),
            "snapshot of a table: failed"
        ),
        SnapshotState::Cancelled => tracing::info!(table = name, rows, "snapshot of a table: cancelled"),
        SnapshotState::Waiting | SnapshotState::Reading | SnapshotState::Paused | SnapshotState::Done => {
            tracing::info!(table = name, rows, superseded, "snapshot of a table: done");
        }
    }
}

/// An event as a line, for a command that has no log.
pub(super) fn line(event: &Event) -> String {
    match event {
        Event::Begun(table) => match table.estimated_rows {
            Some(estimate) => format!("{}: begun, about {} rows", table.table, figures::count(estimate)),
            None => format!("{}: begun", table.table),
        },
        Event::Ended(table) => {
            let reason = table
                .reason
                .as_ref()
                .map_or_else(String::new, |reason| format!(": {reason}"));
            format!(
                "{}: {}, {} rows{reason}",
                table.table,
                table.state,
                figures::count(table.rows)
            )
        }
        Event::Paused(reason) => format!("paused: {reason}"),
        Event::Resumed => "going on".to_owned(),
        Event::Progress(view) => {
            let mut parts: Vec<String> = vec![tables_of(view)];
            parts.extend(
                view.remaining_seconds
                    .map(|left| format!("{} left", figures::time(left))),
            );
            for table in view.tables.iter().filter(|table| table.state == SnapshotState::Reading) {
                parts.push(format!("{} {}", table.table, figures::progress(table)));
            }
            parts.join("; ")
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::io;
    use std::sync::Mutex;

    use super::*;
    use crate::telemetry::snapshots::SnapshotCause;

    /// A table in the midst of it.
    pub(in crate::cli) fn reading(table: &str) -> TableSnapshot {
        TableSnapshot {
            table: table.to_owned(),
            cause: SnapshotCause::Initial,
            state: SnapshotState::Reading,
            rows: 1_234_567,
            superseded: 12,
            estimated_rows: Some(5_000_000),
            percent: Some(24.7),
            rows_per_second: Some(41_000.0),
            remaining_seconds: Some(92),
            started_at: Some("2026-01-02T03:04:05Z".to_owned()),
            finished_at: None,
            reason: None,
        }
    }

    pub(in crate::cli) fn view(tables: Vec<TableSnapshot>) -> SnapshotView {
        SnapshotView {
            tables_ended: 1,
            tables_total: 7,
            rows: 1_234_567,
            percent: Some(24.7),
            remaining_seconds: Some(7_500),
            tables,
            ..SnapshotView::nothing()
        }
    }

    #[test]
    fn an_event_is_a_line() {
        let table = reading("public.a");
        let failed = TableSnapshot {
            state: SnapshotState::Failed,
            reason: Some("no right to read it".to_owned()),
            ..reading("public.b")
        };
        for (event, expected) in [
            (Event::Begun(table.clone()), "public.a: begun, about 5,000,000 rows"),
            (
                Event::Ended(failed),
                "public.b: failed, 1,234,567 rows: no right to read it",
            ),
            (Event::Paused("asked for".to_owned()), "paused: asked for"),
            (
                Event::Progress(view(vec![table])),
                "1 of 7 tables are read, 24.7%; 2h 5m left; \
                 public.a 24.7%, 1,234,567 of about 5,000,000 rows, 41,000/s, 1m 32s left",
            ),
        ] {
            assert_eq!(line(&event), expected);
        }
    }

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn what_happened_after_the_last_look_is_told_at_the_end() {
        let written = Written::default();
        let writer = written.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || writer.clone());
        // The runtime of a test has one thread, and the task runs on it.
        let _log = tracing::subscriber::set_default(subscriber.finish());
        let status = Arc::new(Status::new("shop", "s", "p"));
        let teller = Teller::start(Arc::clone(&status), None);
        let board = status.snapshots();
        board.waiting("public.a", SnapshotCause::Initial, None);
        board.begun("public.a", 0);
        board.rows("public.a", 5, 1);
        board.finished("public.a");
        teller.end().await;
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<&str> = text
            .lines()
            .filter_map(|line| line.split_once("progress: "))
            .map(|(_, line)| line)
            .collect();
        assert_eq!(
            lines,
            [
                "snapshot of a table: begun table=\"public.a\" cause=initial",
                "snapshot of a table: done table=\"public.a\" rows=5 superseded=1",
            ]
        );
    }
}
