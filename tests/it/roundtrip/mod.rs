//! Every value comes back, by Postgres's own judgement.
//!
//! Values of every type, some written out by hand and some generated, go into tables; walferry publishes them; an independent
//! reader turns what it finds in Kafka into text, by the documented mapping alone; the text goes into a second table through
//! Postgres's input functions; and Postgres finds no difference between the two tables.

mod containers;
mod judge;
mod refused;
mod scalars;
mod settings;
mod strings;
mod tables;
mod text;
mod types;

use crate::harness::{Config, Database, Kafka, Postgres, Walferry, heavy, write_back};
use crate::workload::{pipeline, seed};
use fastrand::Rng;
use std::time::Duration;
use tables::Table;

const LONG: Duration = Duration::from_secs(600);

/// The labels of the enum `mood`, in its order.
const MOODS: &[&str] = &["ok", "größer", "a b", "x\"y\\", "NULL", "it's", "{}", "(,)", ""];

/// More values than these take turns, with a seed one higher each time.
const ROUND: usize = 200;

/// How many generated values a column gets: `WALFERRY_TEST_VALUES`.
fn generated_values() -> usize {
    std::env::var("WALFERRY_TEST_VALUES").map_or(60, |text| text.parse().expect("WALFERRY_TEST_VALUES is a number"))
}

/// A pipeline of the tables that hold values, without those that have no binary form where there is need for one.
fn publishing_values(name: &str, database: &Database<'_>, kafka: &Kafka, format: &str) -> Config {
    let excluded = if format == "binary" {
        "[\"public.v_text_only\"]"
    } else {
        "[]"
    };
    Config::new(name, database, kafka)
        .text("replication.format", format)
        .set("replication.tables", "[\"public.v_*\"]")
        .set("replication.exclude_tables", excluded)
        .set("kafka.properties", "{ \"message.max.bytes\" = \"8000000\" }")
        .set("kafka.topic_config", "{ \"max.message.bytes\" = \"8000000\" }")
}

struct Run {
    format: &'static str,
    envelope: &'static str,
    name: String,
    walferry: Walferry,
}

impl Run {
    async fn start(database: &Database<'_>, kafka: &Kafka, format: &'static str, envelope: &'static str) -> Self {
        let name = pipeline();
        let config = publishing_values(&name, database, kafka, format).text("avro.envelope", envelope);
        let mut walferry = Walferry::start(&config);
        walferry.ready(LONG).await;
        Run {
            format,
            envelope,
            name,
            walferry,
        }
    }

    fn reads(&self, table: &Table) -> bool {
        table.has_binary_form || self.format == "text"
    }
}

async fn every_value_comes_back(version: u32) {
    let _alone = heavy().await;
    let (wanted, seed) = (generated_values(), seed());
    let rounds = u64::try_from(wanted.div_ceil(ROUND)).unwrap();
    let mut total = 0;
    for round in 0..rounds {
        total += come_back(version, seed.wrapping_add(round), wanted.min(ROUND)).await;
    }
    eprintln!("round trip: Postgres {version}: {total} values came back");
}

/// One round: edges and so many generated values of each type, in both formats and envelopes.
async fn come_back(version: u32, seed: u64, generated: usize) -> usize {
    let (postgres, kafka) = (Postgres::shared(version), Kafka::shared());
    let database = postgres.database().await;
    let mut rng = Rng::with_seed(seed);
    let tables = tables::create(&database, version).await;
    let mut runs = Vec::new();
    for format in ["text", "binary"] {
        for envelope in ["debezium", "row"] {
            runs.push(Run::start(&database, &kafka, format, envelope).await);
        }
    }
    for table in &tables {
        table.fill(&database, &mut rng, generated).await;
        // The old row is whole, and what TOAST leaves out of the new one is filled in from it.
        database.execute(&format!("UPDATE {} SET id = id", table.name)).await;
    }
    let mut total = 0;
    for run in &mut runs {
        database.confirmed(&run.name, LONG, || run.walferry.log()).await;
        let exit = run.walferry.terminate(LONG).await;
        assert_eq!(exit.code, Some(0), "{}", exit.stderr);
        let read: Vec<&Table> = tables.iter().filter(|table| run.reads(table)).collect();
        let topics: Vec<String> = read
            .iter()
            .map(|table| format!("{}.public.{}", run.name, table.name))
            .collect();
        let semicolons: Vec<String> = read.iter().flat_map(|table| table.semicolons()).collect();
        let mut found = write_back(&kafka.address, &topics, &semicolons).await;
        let mut values = 0;
        for (table, topic) in read.iter().zip(&topics) {
            let written = found.remove(topic).expect("a topic that was asked for");
            // The row that was inserted, and of the update the new one and, in the envelope that has it, the old one.
            let copies = if run.envelope == "debezium" { 3 } else { 2 };
            values += judge::find_no_difference(&database, table, &written, copies).await;
        }
        eprintln!(
            "round trip: Postgres {version}, {}, {}: {values} values",
            run.format, run.envelope
        );
        total += values;
    }
    total
}

macro_rules! versions {
    ($($name:ident: $version:literal;)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            every_value_comes_back($version).await;
        }
    )*};
}

versions! {
    every_value_comes_back_from_postgres_14: 14;
    every_value_comes_back_from_postgres_15: 15;
    every_value_comes_back_from_postgres_16: 16;
    every_value_comes_back_from_postgres_17: 17;
    every_value_comes_back_from_postgres_18: 18;
}
