//! Every server version: a mixed workload, replayed by an independent reader into tables equal to Postgres's own.

use crate::harness::{Config, Kafka, Postgres, Walferry, heavy};
use crate::streaming::{stream_early, streamed};
use crate::workload::{Workload, create_tables, pipeline, seed, verify};
use std::time::Duration;

/// How Postgres sends large transactions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sent {
    /// When they have committed.
    Whole,
    /// While they run, and with `debug_logical_replication_streaming` every one, where the server has that.
    Running,
}

async fn replays_to_the_same_tables(version: u32, changes: u64, format: &str, sent: Sent) {
    let _alone = heavy().await;
    let (postgres, kafka) = (Postgres::shared(version), Kafka::shared());
    let database = postgres.database().await;
    create_tables(&database).await;
    if sent == Sent::Running {
        stream_early(&database).await;
    }
    let name = pipeline();
    let config = Config::new(&name, &database, &kafka)
        .set("kafka.partitions", "3")
        .text("replication.format", format);
    let mut walferry = Walferry::start(&config);
    walferry.ready(Duration::from_secs(60)).await;

    let workload = match sent {
        Sent::Whole => Workload::start(&database, 4, changes, seed()).await,
        Sent::Running => Workload::large(&database, 4, changes, seed()).await,
    };
    let committed = workload.done().await;
    assert!(committed >= changes);
    database
        .confirmed(walferry.slot(), Duration::from_secs(180), || walferry.log())
        .await;
    let reading = verify(&database, &kafka.address, &name, committed).await;
    assert_eq!(reading.duplicates, 0, "an undisturbed run repeats nothing");
    let streamed = streamed(&walferry).await;
    assert_eq!(
        streamed > 50,
        sent == Sent::Running,
        "{streamed} transactions were streamed"
    );

    let exit = walferry.terminate(Duration::from_secs(35)).await;
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);
}

macro_rules! versions {
    ($($name:ident: $version:literal, $changes:literal, $format:literal, $sent:ident;)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            replays_to_the_same_tables($version, $changes, $format, Sent::$sent).await;
        }
    )*};
}

versions! {
    postgres_10_replays_to_the_same_tables: 10, 20_000, "auto", Whole;
    postgres_11_replays_to_the_same_tables: 11, 20_000, "auto", Whole;
    postgres_12_replays_to_the_same_tables: 12, 20_000, "auto", Whole;
    postgres_13_replays_to_the_same_tables: 13, 20_000, "auto", Whole;
    postgres_14_replays_to_the_same_tables: 14, 100_000, "auto", Whole;
    postgres_15_replays_to_the_same_tables: 15, 100_000, "auto", Whole;
    postgres_16_replays_to_the_same_tables: 16, 100_000, "text", Whole;
    postgres_17_replays_to_the_same_tables: 17, 100_000, "binary", Whole;
    postgres_18_replays_to_the_same_tables: 18, 100_000, "auto", Whole;
    postgres_14_streams_and_replays_to_the_same_tables: 14, 100_000, "text", Running;
    postgres_15_streams_and_replays_to_the_same_tables: 15, 100_000, "binary", Running;
    postgres_16_streams_and_replays_to_the_same_tables: 16, 100_000, "auto", Running;
    postgres_18_streams_and_replays_to_the_same_tables: 18, 100_000, "text", Running;
}
