//! Every server version: a mixed workload, replayed by an independent reader into tables equal to Postgres's own.

use crate::harness::{Config, Kafka, Postgres, Walferry, heavy};
use crate::workload::{Workload, create_tables, pipeline, seed, verify};
use std::time::Duration;

async fn replays_to_the_same_tables(version: u32, changes: u64, format: &str) {
    let _alone = heavy().await;
    let (postgres, kafka) = (Postgres::shared(version), Kafka::shared());
    let database = postgres.database().await;
    create_tables(&database).await;
    let name = pipeline();
    let config = Config::new(&name, &database, &kafka)
        .set("kafka.partitions", "3")
        .text("replication.format", format);
    let mut walferry = Walferry::start(&config);
    walferry.ready(Duration::from_secs(60)).await;

    let workload = Workload::start(&database, 4, changes, seed()).await;
    let committed = workload.done().await;
    assert!(committed >= changes);
    database
        .confirmed(walferry.slot(), Duration::from_secs(180), || walferry.log())
        .await;
    let reading = verify(&database, &kafka.address, &name, committed).await;
    assert_eq!(reading.duplicates, 0, "an undisturbed run repeats nothing");

    let exit = walferry.terminate(Duration::from_secs(35)).await;
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);
}

macro_rules! versions {
    ($($name:ident: $version:literal, $changes:literal, $format:literal;)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            replays_to_the_same_tables($version, $changes, $format).await;
        }
    )*};
}

versions! {
    postgres_10_replays_to_the_same_tables: 10, 20_000, "auto";
    postgres_11_replays_to_the_same_tables: 11, 20_000, "auto";
    postgres_12_replays_to_the_same_tables: 12, 20_000, "auto";
    postgres_13_replays_to_the_same_tables: 13, 20_000, "auto";
    postgres_14_replays_to_the_same_tables: 14, 100_000, "auto";
    postgres_15_replays_to_the_same_tables: 15, 100_000, "auto";
    postgres_16_replays_to_the_same_tables: 16, 100_000, "text";
    postgres_17_replays_to_the_same_tables: 17, 100_000, "binary";
    postgres_18_replays_to_the_same_tables: 18, 100_000, "auto";
}
