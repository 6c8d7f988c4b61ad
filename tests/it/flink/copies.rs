//! What Flink writes: each table's rows by key, or its changes; read as they come.

use super::client::{Job, copy};
use super::tables::TOTALS;
use crate::harness::{Kafka, Row};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// Rows, as canonical JSON, and how often each is there.
pub type Bag = BTreeMap<String, i64>;

/// One table as far as Flink has written it.
struct Copy {
    topic: String,
    keyed: bool,
    by_key: HashMap<Vec<u8>, Value>,
    bag: Bag,
    changes: u64,
    /// The field and the text of the last row.
    mark: (&'static str, &'static str),
    at_end: bool,
}

pub struct Copies {
    consumer: BaseConsumer,
    copies: Vec<Copy>,
}

impl Copies {
    /// Makes the topics that the job writes to.
    pub async fn create(kafka: &Kafka, job: &Job<'_>) -> Self {
        let mut copies = Vec::new();
        for (types, name) in &job.pipelines {
            let tables = job.tables().map(|table| {
                let field = table.columns[table.mark.column].form(types).name;
                (table.name, !table.key.is_empty(), (field, table.mark.value))
            });
            let totals = TOTALS.iter().map(|total| {
                let field = total.columns.split('`').nth(1).unwrap();
                (total.name, true, (field, total.mark))
            });
            for (table, keyed, mark) in tables.chain(totals) {
                copies.push(Copy {
                    topic: copy(name, table),
                    keyed,
                    by_key: HashMap::new(),
                    bag: Bag::new(),
                    changes: 0,
                    mark,
                    at_end: false,
                });
            }
        }
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", &kafka.address)
            .set("group.id", "walferry-flink")
            .set("enable.auto.commit", "false")
            .create()
            .unwrap();
        let mut assignment = TopicPartitionList::new();
        for copy in &copies {
            kafka.create_topic(&copy.topic, 1).await;
            assignment
                .add_partition_offset(&copy.topic, 0, Offset::Beginning)
                .unwrap();
        }
        consumer.assign(&assignment).unwrap();
        Copies { consumer, copies }
    }

    /// Reads some of what there is, and waits a little where there is nothing.
    pub fn read(&mut self) {
        for _ in 0..1_000 {
            let Some(message) = self.consumer.poll(Duration::from_millis(200)) else {
                return;
            };
            let message = message.unwrap();
            let copy = self
                .copies
                .iter_mut()
                .find(|copy| copy.topic == message.topic())
                .unwrap();
            copy.apply(message.key(), message.payload());
        }
    }

    /// The topics that nothing was written to.
    pub fn empty(&self) -> Vec<String> {
        self.those(|copy| copy.changes == 0)
    }

    /// The topics that lack the last row.
    pub fn not_at_end(&self) -> Vec<String> {
        self.those(|copy| !copy.at_end)
    }

    fn those(&self, which: impl Fn(&Copy) -> bool) -> Vec<String> {
        self.copies
            .iter()
            .filter(|copy| which(copy))
            .map(|copy| copy.topic.clone())
            .collect()
    }

    /// The rows of one, and from how many records.
    pub fn rows(&self, topic: &str) -> (Bag, u64) {
        let copy = self.copies.iter().find(|copy| copy.topic == topic).unwrap();
        let bag = match copy.keyed {
            true => bag(copy.by_key.values()),
            false => copy.bag.clone(),
        };
        (bag, copy.changes)
    }
}

impl Copy {
    fn apply(&mut self, key: Option<&[u8]>, payload: Option<&[u8]>) {
        self.changes += 1;
        let value = payload.map(|payload| serde_json::from_slice::<Value>(payload).unwrap());
        if self.keyed {
            let key = key.unwrap().to_vec();
            match value {
                Some(row) => {
                    self.note(&row);
                    self.by_key.insert(key, row);
                }
                None => {
                    self.by_key.remove(&key);
                }
            }
            return;
        }
        let value = value.unwrap();
        let (row, by) = match value["op"].as_str() {
            Some("c") => (&value["after"], 1),
            Some("d") => (&value["before"], -1),
            other => panic!("{}: op {other:?}", self.topic),
        };
        self.note(row);
        let row = canonical(row).to_string();
        let count = self.bag.entry(row.clone()).or_default();
        *count += by;
        if *count == 0 {
            self.bag.remove(&row);
        }
    }

    fn note(&mut self, row: &Value) {
        self.at_end |= row[self.mark.0] == self.mark.1;
    }
}

/// What Postgres says: a column `row` of JSON.
pub fn expected(rows: Vec<Row>) -> Bag {
    let rows: Vec<Value> = rows
        .iter()
        .map(|row| serde_json::from_str(row["row"].as_deref().unwrap()).unwrap())
        .collect();
    bag(rows.iter())
}

fn bag<'a>(rows: impl Iterator<Item = &'a Value>) -> Bag {
    let mut bag = Bag::new();
    for row in rows {
        *bag.entry(canonical(row).to_string()).or_default() += 1;
    }
    bag
}

/// One text for each value: 3 and 3.0 are the same number.
fn canonical(value: &Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => {
            let number = number.as_f64().unwrap();
            match format!("{number:.0}").parse::<i64>() {
                Ok(whole) if number.fract() == 0.0 => whole.into(),
                _ => value.clone(),
            }
        }
        Value::Array(items) => items.iter().map(canonical).collect(),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, field)| (name.clone(), canonical(field)));
            Value::Object(fields.collect())
        }
        other => other.clone(),
    }
}

/// The rows of which one side has more, a few of each.
pub fn differences(table: &str, expected: &Bag, found: &Bag) -> Vec<String> {
    const SHOWN: usize = 5;
    let more = |of: &Bag, than: &Bag, whose: &str| {
        of.iter()
            .filter(|(row, count)| than.get(*row).unwrap_or(&0) < count)
            .map(|(row, _)| format!("{table}: only in {whose}: {row}"))
            .collect::<Vec<_>>()
    };
    let (missing, additional) = (more(expected, found, "Postgres"), more(found, expected, "Flink"));
    let mut out = Vec::new();
    if !missing.is_empty() || !additional.is_empty() {
        out.push(format!(
            "{table}: {} rows only in Postgres, {} only in Flink",
            missing.len(),
            additional.len()
        ));
    }
    out.extend(missing.into_iter().take(SHOWN));
    out.extend(additional.into_iter().take(SHOWN));
    out
}

#[test]
fn a_row_that_flink_lacks_has_twice_or_has_in_another_form_is_a_difference() {
    let rows = |texts: &[&str]| {
        let rows: Vec<Value> = texts.iter().map(|text| serde_json::from_str(text).unwrap()).collect();
        bag(rows.iter())
    };
    let postgres = rows(&[r#"{"id": 1, "v": 3}"#, r#"{"id": 2, "v": null}"#]);
    assert_eq!(
        differences(
            "t",
            &postgres,
            &rows(&[r#"{"v": null, "id": 2}"#, r#"{"id": 1, "v": 3.0}"#])
        ),
        Vec::<String>::new()
    );
    for other in [
        &[r#"{"id": 1, "v": 3}"#][..],
        &[
            r#"{"id": 1, "v": 3}"#,
            r#"{"id": 2, "v": null}"#,
            r#"{"id": 2, "v": null}"#,
        ],
        &[r#"{"id": 1, "v": 3}"#, r#"{"id": 2, "v": 0}"#],
        &[r#"{"id": 1, "v": "3"}"#, r#"{"id": 2, "v": null}"#],
    ] {
        assert!(!differences("t", &postgres, &rows(other)).is_empty(), "{other:?}");
    }
}
