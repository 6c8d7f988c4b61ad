//! Flink SQL reads the topics with its own `debezium-avro-confluent` format while rows change, and what it makes of them is
//! compared with Postgres's tables. `scripts/flink` fetches Flink and runs it.

mod client;
mod copies;
mod tables;

use self::client::{Job, SqlClient};
use self::copies::Copies;
use crate::harness::{Config, Kafka, Postgres, Registry, Walferry, eventually, read};
use crate::workload::{Workload, create_tables, pipeline, seed};
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(60);
const LATER: Duration = Duration::from_secs(300);

/// Committed before Flink starts, and again while it runs.
const CHANGES: u64 = 6_000;

/// What becomes of walferry while Flink reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Disturbance {
    Nothing,
    /// Killed, and changes come twice.
    Kills,
    /// Killed, with Kafka transactions.
    KillsUnderExactlyOnce,
}

struct Pipeline {
    types: &'static str,
    name: String,
    config: Config,
    walferry: Walferry,
}

/// Reads what Flink writes until no table is left of those that are asked for.
async fn written(what: &str, copies: &mut Copies, flink: &mut SqlClient, lacking: fn(&Copies) -> Vec<String>) {
    let begin = Instant::now();
    while !lacking(copies).is_empty() {
        let not_yet = || format!("{what}; not yet: {:?}", lacking(copies));
        assert!(flink.is_running(), "Flink has ended: {}\n{}", not_yet(), flink.log());
        assert!(begin.elapsed() < LATER, "{}\n{}", not_yet(), flink.log());
        tokio::task::block_in_place(|| copies.read());
    }
}

async fn follow(types: &[&'static str], disturbance: Disturbance) {
    let guarantee = match disturbance {
        Disturbance::KillsUnderExactlyOnce => "exactly-once",
        _ => "at-least-once",
    };
    let (postgres, kafka) = (Postgres::shared(18), Kafka::shared());
    let database = postgres.database().await;
    create_tables(&database).await;
    database.execute(tables::EXTRA).await;
    // Flink's format takes no update and no delete without the old row.
    for table in &tables::TABLES {
        let full = format!("ALTER TABLE {} REPLICA IDENTITY FULL", table.name);
        database.execute(&full).await;
    }

    let mut pipelines = Vec::new();
    for types in types {
        let name = pipeline();
        let config = Config::new(&name, &database, &kafka)
            .text("avro.types", types)
            .text("kafka.truncate", "skip")
            .text("delivery.guarantee", guarantee)
            // What is not confirmed when it crashes comes again.
            .text("replication.status_interval", "5s")
            // Debezium's form of a numeric without precision has no NaN.
            .set("avro.columns", r#"{ "public.orders.amount" = { type = "string" } }"#);
        let mut walferry = Walferry::start(&config);
        walferry.ready(SOON).await;
        pipelines.push(Pipeline {
            types,
            name,
            config,
            walferry,
        });
    }
    let workload = Workload::without_truncates(&database, 2, seed(), Duration::from_millis(20)).await;
    database.execute(&tables::changes(0)).await;
    eventually("changes before Flink starts", LATER, async || {
        (workload.committed() > CHANGES).then_some(())
    })
    .await;
    for pipeline in &pipelines {
        let log = || pipeline.walferry.log();
        database.confirmed(&pipeline.name, LATER, log).await;
    }

    let job = Job {
        brokers: &kafka.address,
        registry: &Registry::shared().url,
        pipelines: pipelines.iter().map(|p| (p.types, p.name.clone())).collect(),
        deduplicates: disturbance == Disturbance::Kills,
        isolation: match disturbance {
            Disturbance::KillsUnderExactlyOnce => "read_committed",
            _ => "read_uncommitted",
        },
    };
    let mut copies = Copies::create(&kafka, &job).await;
    let mut flink = SqlClient::start(&job);
    written("Flink writes every table", &mut copies, &mut flink, Copies::empty).await;
    let before = workload.committed();
    for round in 1..=3 {
        database.execute(tables::ALTERED[round - 1]).await;
        database.execute(&tables::changes(round)).await;
        let goal = before + CHANGES / 3 * u64::try_from(round).unwrap();
        eventually("changes while Flink runs", LATER, async || {
            (workload.committed() > goal).then_some(())
        })
        .await;
        if disturbance != Disturbance::Nothing {
            for pipeline in &mut pipelines {
                pipeline.walferry.kill();
                pipeline.walferry = Walferry::start(&pipeline.config);
                pipeline.walferry.ready(SOON).await;
            }
        }
    }
    let committed = workload.stop().await;
    // Each topic has one partition, and Flink one task for each: what it makes of the last row comes last.
    for table in &tables::TABLES {
        database.execute(table.last).await;
    }
    for pipeline in &pipelines {
        let log = || pipeline.walferry.log();
        database.confirmed(&pipeline.name, LATER, log).await;
    }
    written("Flink gets to the end", &mut copies, &mut flink, Copies::not_at_end).await;

    let mut differences = Vec::new();
    for pipeline in &pipelines {
        let (types, name) = (pipeline.types, &pipeline.name);
        let tables = job.tables().map(|table| (table.name, table.expected(types)));
        let totals = tables::TOTALS
            .iter()
            .map(|total| (total.name, total.expected.to_owned()));
        for (table, select) in tables.chain(totals) {
            let expected = copies::expected(database.rows(&select).await);
            let (found, records) = copies.rows(&client::copy(name, table));
            eprintln!(
                "flink: types = {types:8} {table:16} {:6} rows in Postgres, {:6} in Flink after {records} records",
                expected.values().sum::<i64>(),
                found.values().sum::<i64>()
            );
            differences.extend(copies::differences(
                &format!("types = {types}, {table}"),
                &expected,
                &found,
            ));
        }
        let topics: Vec<String> = job
            .tables()
            .map(|table| format!("{name}.public.{}", table.name))
            .collect();
        let duplicates = read(&kafka.address, &topics).await.duplicates;
        match disturbance {
            Disturbance::Kills => assert!(duplicates > 0, "nothing came twice: the test proves nothing"),
            _ => assert_eq!(duplicates, 0),
        }
        eprintln!("flink: {duplicates} changes came twice");
    }
    assert!(
        differences.is_empty(),
        "Flink's tables differ\n{}",
        differences.join("\n")
    );
    eprintln!(
        "flink: equal, after {committed} changes of the workload, {} of them while Flink ran",
        committed - before
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Flink: scripts/flink"]
async fn flink_sql_has_the_tables_that_postgres_has() {
    follow(&["avro", "debezium"], Disturbance::Nothing).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Flink: scripts/flink"]
async fn flink_sql_that_drops_repeated_changes_has_the_tables_after_kills_too() {
    follow(&["avro"], Disturbance::Kills).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Flink: scripts/flink"]
async fn under_exactly_once_flink_sql_has_the_tables_after_kills_and_drops_nothing() {
    follow(&["avro"], Disturbance::KillsUnderExactlyOnce).await;
}
