//! The initial snapshot.

use super::{LATER, SOON, all_read, equal, name, reading, rows_read, tables_with_rows};
use crate::harness::{Kafka, Postgres, Walferry, heavy};
use crate::workload::{TABLES, topics};

pub(super) async fn rows_under_a_workload(guarantee: &str, version: u32, changes: u64) {
    let (postgres, kafka) = (Postgres::shared(version), Kafka::shared());
    let database = postgres.database().await;
    let workload = tables_with_rows(&database, changes).await;
    let name = name();
    let config = reading(&name, &database, &kafka, guarantee);
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    all_read(&walferry, LATER).await;
    workload.stop().await;
    database.confirmed(walferry.slot(), LATER, || walferry.log()).await;
    let reading = equal(&database, &kafka.address, &name).await;
    assert_eq!(reading.duplicates, 0);
    for topic in topics(&name) {
        eprintln!(
            "{topic}: {} rows read of {:?}",
            rows_read(&reading, &topic),
            reading.topics[&topic].counts
        );
    }
    let exit = walferry.terminate(SOON).await;
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);

    // It does not do it again, though it may.
    let before = reading.records;
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    for table in TABLES {
        database
            .execute(&format!("REVOKE SELECT ON {table} FROM postgres"))
            .await;
    }
    database.confirmed(walferry.slot(), LATER, || walferry.log()).await;
    let after = equal(&database, &kafka.address, &name).await;
    assert_eq!(after.records, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_were_there_come_beside_a_workload_that_changes_them() {
    let _alone = heavy().await;
    rows_under_a_workload("at-least-once", 17, 20_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_were_there_come_beside_a_workload_under_exactly_once() {
    let _alone = heavy().await;
    rows_under_a_workload("exactly-once", 15, 20_000).await;
}
