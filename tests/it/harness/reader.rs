//! What the independent reader made of the topics.

use super::postgres::Row;
use super::{Database, Env};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

#[derive(Deserialize)]
pub struct Reading {
    pub records: u64,
    /// Positions that were seen.
    pub changes: u64,
    /// Records whose position had been seen before.
    pub duplicates: u64,
    pub transactions: u64,
    /// By kind: order, gaps, repeats that differ, changes that fit no row. None in a good run.
    pub faults: BTreeMap<String, u64>,
    pub samples: BTreeMap<String, Vec<String>>,
    pub topics: BTreeMap<String, Topic>,
    #[serde(default)]
    pub events: Vec<Event>,
    pub headers: BTreeMap<String, u64>,
}

#[derive(Deserialize)]
pub struct Topic {
    pub counts: BTreeMap<String, u64>,
    pub key: Option<Vec<String>>,
    pub rows: Vec<Row>,
}

#[derive(Deserialize, Debug)]
pub struct Event {
    pub topic: String,
    pub commit_lsn: String,
    pub ordinal: u64,
    pub op: String,
    pub key: Option<Row>,
    pub before: Option<Row>,
    pub after: Option<Row>,
    pub unchanged: Vec<String>,
}

/// Reads these topics from their beginning to their present end.
pub async fn read(brokers: &str, topics: &[String]) -> Reading {
    replay(brokers, topics, &[]).await
}

/// The same, with what was aborted, or is not committed yet.
pub async fn read_uncommitted(brokers: &str, topics: &[String]) -> Reading {
    replay(brokers, topics, &["--uncommitted"]).await
}

/// The same, with every event spelt out.
pub async fn read_events(brokers: &str, topics: &[String]) -> Reading {
    replay(brokers, topics, &["--events"]).await
}

/// A record as it came.
#[derive(Deserialize, Debug)]
pub struct Record {
    pub topic: String,
    pub partition: i32,
    pub offset: i64,
    pub key: Option<Row>,
    /// A row, each value as Postgres prints it; an envelope as it was decoded. None: a tombstone.
    pub value: Option<serde_json::Value>,
    /// The value's schema.
    pub schema: Option<serde_json::Value>,
    /// The value's bytes after the schema's id, in hex.
    pub avro: Option<String>,
    pub headers: BTreeMap<String, String>,
}

impl Record {
    /// Of the row that the value is.
    pub fn column(&self, name: &str) -> Option<&str> {
        self.value.as_ref().expect("a row")[name].as_str()
    }
}

/// The rows of a topic as the text that Postgres's input functions take.
#[derive(Deserialize)]
pub struct Written {
    pub columns: Vec<String>,
    /// In the order of the records; of an envelope the old row, then the new one.
    pub rows: Vec<Vec<Option<String>>>,
}

/// What the records of these topics mean as text, by the documented mapping alone. `semicolons`: the columns that are arrays of
/// boxes, as `table.column`.
pub async fn write_back(brokers: &str, topics: &[String], semicolons: &[String]) -> BTreeMap<String, Written> {
    let semicolons = semicolons.join(",");
    let answer = python("write_back.py", brokers, topics, &["--semicolons", &semicolons]).await;
    serde_json::from_slice(&answer).unwrap()
}

/// Every record of these topics up to their present end, in the order of each partition; not judged.
pub async fn read_records(brokers: &str, topics: &[String]) -> Vec<Record> {
    serde_json::from_slice(&python("replay.py", brokers, topics, &["--records"]).await).unwrap()
}

async fn replay(brokers: &str, topics: &[String], flags: &[&str]) -> Reading {
    serde_json::from_slice(&python("replay.py", brokers, topics, flags).await).unwrap()
}

async fn python(script: &str, brokers: &str, topics: &[String], flags: &[&str]) -> Vec<u8> {
    let env = Env::get();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reader").join(script);
    let output = tokio::process::Command::new(&env.python)
        .arg(script)
        .args(flags)
        .args(["--brokers", brokers, "--registry", &env.registry])
        .args(topics)
        .output()
        .await
        .unwrap();
    assert!(
        output.status.success(),
        "the reader failed:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

impl Reading {
    #[track_caller]
    pub fn is_faultless(&self) {
        assert!(self.faults.is_empty(), "{:?}\n{:#?}", self.faults, self.samples);
    }

    /// The replayed table is Postgres's own.
    pub async fn equals(&self, database: &Database<'_>, table: &str, topic: &str) {
        let count = |rows: Vec<Row>| {
            let mut bag: BTreeMap<Row, i64> = BTreeMap::new();
            for row in rows {
                *bag.entry(row).or_default() += 1;
            }
            bag
        };
        let expected = count(database.rows(&format!("SELECT * FROM {table}")).await);
        let found = count(self.topics[topic].rows.clone());
        if expected != found {
            let missing: Vec<_> = expected
                .iter()
                .filter(|(row, n)| found.get(row) != Some(n))
                .take(3)
                .collect();
            let extra: Vec<_> = found
                .iter()
                .filter(|(row, n)| expected.get(row) != Some(n))
                .take(3)
                .collect();
            panic!(
                "{table} differs from {topic}: {} distinct rows in Postgres, {} replayed\nPostgres: {missing:#?}\nKafka: {extra:#?}\n{:#?}",
                expected.len(),
                found.len(),
                self.samples
            );
        }
    }

    /// Of one topic and kind of operation.
    pub fn events_of<'a>(&'a self, topic: &'a str, op: &'a str) -> impl Iterator<Item = &'a Event> {
        self.events.iter().filter(move |e| e.topic == topic && e.op == op)
    }
}
