//! Pipelines that read what is there, and end.

use std::time::Duration;

use super::{LATER, equal, name, reading, tables_with_rows};
use crate::harness::{Kafka, Postgres, Walferry, eventually};

/// When nothing is left to be read, tables are looked at four times a minute: the end is not to wait for that.
const AT_ONCE: Duration = Duration::from_secs(12);

async fn ends_once_all_is_read(guarantee: &str) {
    let (postgres, kafka) = (Postgres::shared(16), Kafka::shared());
    let database = postgres.database().await;
    tables_with_rows(&database, 1_000).await.stop().await;
    let name = name();
    let config = reading(&name, &database, &kafka, guarantee).text("snapshot.mode", "only");
    let mut walferry = Walferry::start(&config);
    eventually("nothing is left to be read", LATER, async || {
        let log = walferry.whole_log();
        let over = log.contains("every table is read");
        let done = log.matches("snapshot of a table: done").count();
        (over || done == crate::workload::TABLES.len()).then_some(())
    })
    .await;
    let exit = walferry.end(AT_ONCE).await;
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);
    assert_eq!(equal(&database, &kafka.address, &name).await.duplicates, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pipeline_that_only_reads_tables_ends_as_soon_as_kafka_has_them() {
    ends_once_all_is_read("at-least-once").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pipeline_that_only_reads_tables_ends_as_soon_as_they_are_committed() {
    ends_once_all_is_read("exactly-once").await;
}
