//! `walferry tail`: a line of JSON for each record that `run` would publish.

use std::collections::HashMap;
use std::io::{self, IsTerminal};
use std::ops::ControlFlow;
use std::time::Duration;

use apache_avro::Schema;
use apache_avro::reader::datum::GenericDatumReader;
use clap::Args;

use super::render::{self, Paint};
use super::schema::failed;
use super::{Exit, duration, logs, output, signals, table_pattern};
use crate::config::Loaded;
use crate::config::glob::TablePattern;
use crate::pipeline::tail::{self, TailRecord};

/// What `tail` may be told.
#[derive(Debug, Args)]
pub struct TailArgs {
    /// Stop after this time instead of at Ctrl-C, such as 20s or 5m.
    #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
    pub limit: Option<Duration>,
    /// Stop after so many records.
    #[arg(long = "limit", value_name = "RECORDS")]
    pub records: Option<u64>,
    /// The tables to show: schema.table, with * and ?. Without any, all that are published, and logical messages.
    #[arg(value_name = "TABLE", value_parser = table_pattern)]
    pub tables: Vec<TablePattern>,
}

/// Prints until it is told to stop.
pub(super) async fn tail(loaded: Loaded, args: TailArgs) -> Exit {
    if let Err(exit) = logs::start(&loaded) {
        return exit;
    }
    let shutdown = match signals::drain_or_say_why() {
        Ok(shutdown) => shutdown,
        Err(exit) => return exit,
    };
    let stop = async {
        tokio::select! {
            () = shutdown.requested() => {}
            () = after(args.limit) => {}
        }
    };
    let mut printer = Printer {
        left: args.records,
        paint: paint(
            io::stdout().is_terminal(),
            std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()),
        ),
        schemas: HashMap::new(),
        ended: Ok(()),
    };
    if args.records == Some(0) {
        return Exit::Stopped;
    }
    let ended = tail::tail(&loaded.config, &args.tables, stop, |record| printer.print(record)).await;
    match (printer.ended, ended) {
        (Err(Failure::Output(error)), _) => output::end_of(Err(error)),
        (Err(Failure::Avro(error)), _) => {
            output::notice(&format!("walferry: a record cannot be decoded: {error}\n"));
            Exit::Failed
        }
        (Ok(()), Err(error)) => failed(&error),
        (Ok(()), Ok(())) => Exit::Stopped,
    }
}

async fn after(limit: Option<Duration>) {
    match limit {
        Some(limit) => tokio::time::sleep(limit).await,
        None => std::future::pending().await,
    }
}

/// Colours where somebody looks, unless they were asked not to be there (no-color.org).
fn paint(terminal: bool, no_color: bool) -> Paint {
    if terminal && !no_color {
        Paint::Colours
    } else {
        Paint::Plain
    }
}

enum Failure {
    Output(io::Error),
    Avro(Box<apache_avro::Error>),
}

impl From<apache_avro::Error> for Failure {
    fn from(error: apache_avro::Error) -> Self {
        Failure::Avro(Box::new(error))
    }
}

struct Printer {
    /// How many more records may be printed.
    left: Option<u64>,
    paint: Paint,
    /// Parsed, by their text.
    schemas: HashMap<String, Schema>,
    ended: Result<(), Failure>,
}

impl Printer {
    fn print(&mut self, record: &TailRecord<'_>) -> ControlFlow<()> {
        let printed = self
            .line(record)
            .and_then(|line| output::try_data(&line).map_err(Failure::Output));
        if let Err(failure) = printed {
            self.ended = Err(failure);
            return ControlFlow::Break(());
        }
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(1);
            if *left == 0 {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    /// One record: topic, key, value, and headers where there are any.
    fn line(&mut self, record: &TailRecord<'_>) -> Result<String, Failure> {
        let paint = self.paint;
        let mut line = String::new();
        line.push('{');
        paint.key("topic", &mut line);
        paint.string(record.topic, &mut line);
        for (name, datum) in [("key", record.key), ("value", record.value)] {
            line.push(',');
            paint.key(name, &mut line);
            match datum {
                Some((schema, datum)) => self.put(schema, datum, &mut line)?,
                None => paint.literal("null", &mut line),
            }
        }
        if !record.headers.is_empty() {
            line.push(',');
            paint.key("headers", &mut line);
            line.push('{');
            for (index, (name, value)) in record.headers.iter().enumerate() {
                if index > 0 {
                    line.push(',');
                }
                paint.key(name, &mut line);
                paint.string(&String::from_utf8_lossy(value), &mut line);
            }
            line.push('}');
        }
        line.push_str("}\n");
        Ok(line)
    }

    fn put(&mut self, text: &str, mut datum: &[u8], line: &mut String) -> Result<(), Failure> {
        if !self.schemas.contains_key(text) {
            self.schemas.insert(text.to_owned(), Schema::parse_str(text)?);
        }
        let Some(schema) = self.schemas.get(text) else {
            return Ok(());
        };
        let value = GenericDatumReader::builder(schema).build()?.read_value(&mut datum)?;
        render::put(&value, schema, &HashMap::new(), self.paint, line);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_whose_users_want_them() {
        assert_eq!(paint(true, false), Paint::Colours);
        assert_eq!(paint(true, true), Paint::Plain);
        assert_eq!(paint(false, false), Paint::Plain);
    }
}
