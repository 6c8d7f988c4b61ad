//! Rows that were there before the pipeline was, beside a workload that changes them.

mod asked;
mod initial;
mod large;
mod only;
mod resume;
mod rows;
mod servers;

use crate::harness::{Config, Database, Kafka, Reading, Walferry, eventually, read};
use crate::workload::{TABLES, Workload, create_tables, pipeline, seed, topics};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(60);
/// A chunk waits for the stream more than once, and that for Kafka: beside everything else this takes seconds.
const LATER: Duration = Duration::from_secs(300);

/// A consumer meets a change of a row before the row itself, where it is read later.
const BEFORE_ITS_ROW: [&str; 3] = ["updates_of_nothing", "deletes_of_nothing", "unchanged_of_nothing"];

/// A change that is in the rows of a table without a key already is not published, and its place stays free.
const BESIDE_KEYLESS_ROWS: &[&str] = &["gaps"];

/// Beside that, where the pipeline was killed: at-least-once, a delete may be repeated without its tombstone.
fn after_kills(guarantee: &str) -> &'static [&'static str] {
    match guarantee {
        "exactly-once" => BESIDE_KEYLESS_ROWS,
        _ => &["gaps", "deletes_without_tombstone"],
    }
}

/// Nothing is wrong but what comes of rows that are read beside the stream, and of these kinds.
#[track_caller]
fn is_faultless_but_for(kinds: &[&str], reading: &mut Reading) {
    let is_allowed = |kind: &str| BEFORE_ITS_ROW.contains(&kind) || kinds.contains(&kind);
    reading.faults.retain(|kind, _| !is_allowed(kind));
    reading.is_faultless();
}

/// A pipeline that reads what is there, in chunks.
fn reading(name: &str, database: &Database<'_>, kafka: &Kafka, guarantee: &str) -> Config {
    Config::new(name, database, kafka)
        .set("kafka.partitions", "3")
        .text("snapshot.mode", "initial")
        .set("snapshot.chunk_rows", "2000")
        .text("delivery.guarantee", guarantee)
        .text("delivery.state_topic", &format!("{name}.state"))
}

/// The workload's tables with so many changes behind them that nobody has read, and more coming.
async fn tables_with_rows(database: &Database<'_>, changes: u64) -> Workload {
    create_tables(database).await;
    let workload = Workload::paced(database, 4, seed(), Duration::from_millis(10)).await;
    eventually("the tables have rows", LATER, async || {
        (workload.committed() > changes).then_some(())
    })
    .await;
    workload
}

/// Waits until nothing is left to be read.
async fn all_read(walferry: &Walferry, limit: Duration) {
    eventually(&format!("every table is read\n{}", walferry.log()), limit, async || {
        let status = walferry.status().await;
        let snapshot = status.get("snapshot")?;
        let ended = |table: &serde_json::Value| table["state"] == "done";
        let tables = snapshot["tables"].as_array()?;
        (snapshot["due"] == false && tables.iter().all(ended)).then_some(())
    })
    .await;
}

/// What a consumer has of the workload's tables is what Postgres has, and nothing of a key went back in time.
async fn equal(database: &Database<'_>, brokers: &str, pipeline: &str) -> Reading {
    let topics = topics(pipeline);
    let mut reading = read(brokers, &topics).await;
    is_faultless_but_for(BESIDE_KEYLESS_ROWS, &mut reading);
    for (table, topic) in TABLES.iter().zip(&topics) {
        reading.equals(database, table, topic).await;
    }
    reading
}

/// Rows that a snapshot found, in this topic.
fn rows_read(reading: &Reading, topic: &str) -> u64 {
    reading.topics[topic].counts.get("op_r").copied().unwrap_or_default()
}

fn name() -> String {
    pipeline()
}
