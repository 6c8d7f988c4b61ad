//! What stands in the records: keys, rows, what was not sent, names, types; read by the independent reader.

mod envelopes;
mod identity;
mod names;
mod types;

use crate::harness::{Config, Database, Kafka, Reading, Row, Walferry, read_events};
use std::time::Duration;

pub const SOON: Duration = Duration::from_secs(30);

/// Runs the pipeline over these statements, each its own transaction unless it says otherwise, until all is confirmed.
pub async fn publish(database: &Database<'_>, config: &Config, statements: &[&str]) {
    let mut walferry = Walferry::start(config);
    walferry.ready(SOON).await;
    for sql in statements {
        database.execute(sql).await;
    }
    database.confirmed(walferry.slot(), SOON, || walferry.log()).await;
    let exit = walferry.terminate(SOON).await;
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);
}

fn one_line(row: Option<&Row>) -> String {
    let Some(row) = row else { return "-".to_owned() };
    let columns: Vec<String> = row
        .iter()
        .map(|(name, value)| format!("{name}={}", value.as_deref().unwrap_or("NULL")))
        .collect();
    columns.join(" ")
}

/// Each event of a topic on a line: operation, key, before, after, unchanged.
pub fn lines(reading: &Reading, topic: &str) -> Vec<String> {
    reading
        .events
        .iter()
        .filter(|e| e.topic == topic)
        .map(|e| {
            format!(
                "{} | {} | {} | {} | {}",
                e.op,
                one_line(e.key.as_ref()),
                one_line(e.before.as_ref()),
                one_line(e.after.as_ref()),
                e.unchanged.join(",")
            )
        })
        .collect()
}

pub async fn faultless_events(kafka: &Kafka, topics: &[String]) -> Reading {
    let reading = read_events(&kafka.address, topics).await;
    reading.is_faultless();
    assert_eq!(reading.duplicates, 0);
    reading
}
