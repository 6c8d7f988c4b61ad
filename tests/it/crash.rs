//! walferry ends, one way or the other, and is started again.

use crate::harness::{Config, Kafka, Postgres, Reading, Walferry};
use crate::workload::{Workload, create_tables, pipeline, seed, verify};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);

/// What was read after ten kills at any moment of a workload.
async fn after_ten_kills(guarantee: &str, version: u32) -> Reading {
    let (postgres, kafka) = (Postgres::shared(version), Kafka::shared());
    let database = postgres.database().await;
    create_tables(&database).await;
    let name = pipeline();
    let config = Config::new(&name, &database, &kafka)
        .set("kafka.partitions", "3")
        .text("delivery.guarantee", guarantee)
        // Of its own: what a kill leaves open keeps no other pipeline waiting.
        .text("delivery.state_topic", &format!("{name}.state"));
    let seed = seed();
    let mut pause = fastrand::Rng::with_seed(seed);
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    let workload = Workload::endless(&database, 4, seed).await;
    for _ in 0..10 {
        // Somewhere in the middle: the moment is the disturbance, nothing is waited for.
        tokio::time::sleep(Duration::from_millis(pause.u64(200..1500))).await;
        let before = workload.committed();
        walferry.kill();
        walferry = Walferry::start(&config);
        walferry.ready(Duration::from_secs(60)).await;
        assert!(
            workload.committed() > before,
            "the workload went on while walferry was down"
        );
    }
    let committed = workload.stop().await;
    database
        .confirmed(walferry.slot(), Duration::from_secs(180), || walferry.log())
        .await;
    let reading = verify(&database, &kafka.address, &name, committed).await;
    eprintln!("{} changes, {} repeated", reading.changes, reading.duplicates);
    reading
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_kills_lose_nothing_and_repeat_only_what_carries_its_first_position() {
    after_ten_kills("at-least-once", 17).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_kills_under_exactly_once_lose_nothing_and_repeat_nothing() {
    assert_eq!(after_ten_kills("exactly-once", 18).await.duplicates, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clean_restart_in_the_middle_repeats_nothing() {
    let (postgres, kafka) = (Postgres::shared(16), Kafka::shared());
    let database = postgres.database().await;
    create_tables(&database).await;
    let name = pipeline();
    let config = Config::new(&name, &database, &kafka).set("kafka.partitions", "3");
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    let workload = Workload::endless(&database, 4, seed()).await;
    for _ in 0..3 {
        let from = workload.committed();
        crate::harness::eventually("the workload goes on", SOON, async || {
            (workload.committed() > from + 2_000).then_some(())
        })
        .await;
        let exit = walferry.terminate(Duration::from_secs(35)).await;
        assert_eq!(exit.code, Some(0), "{}", exit.stderr);
        walferry = Walferry::start(&config);
        walferry.ready(Duration::from_secs(60)).await;
    }
    let committed = workload.stop().await;
    database
        .confirmed(walferry.slot(), Duration::from_secs(120), || walferry.log())
        .await;
    let reading = verify(&database, &kafka.address, &name, committed).await;
    assert_eq!(reading.duplicates, 0);
}
