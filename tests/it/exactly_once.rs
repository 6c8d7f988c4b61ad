//! `guarantee = "exactly-once"`: readers of what is committed see each change once, whatever is killed when.

use crate::harness::{Config, Database, Kafka, Postgres, Walferry};
use crate::workload::{Workload, create_tables, pipeline, seed, verify};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);

fn config(name: &str, database: &Database<'_>, kafka: &Kafka) -> Config {
    Config::new(name, database, kafka)
        .set("kafka.partitions", "3")
        .text("delivery.guarantee", "exactly-once")
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_kills_lose_nothing_and_repeat_nothing() {
    let (postgres, kafka) = (Postgres::shared(18), Kafka::shared());
    let database = postgres.database().await;
    create_tables(&database).await;
    let name = pipeline();
    let config = config(&name, &database, &kafka);
    let seed = seed();
    let mut pause = fastrand::Rng::with_seed(seed);
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    let workload = Workload::endless(&database, 4, seed).await;
    for _ in 0..10 {
        // Somewhere in the middle: the moment is the disturbance, nothing is waited for.
        tokio::time::sleep(Duration::from_millis(pause.u64(200..1500))).await;
        walferry.kill();
        walferry = Walferry::start(&config);
        walferry.ready(Duration::from_secs(60)).await;
    }
    let committed = workload.stop().await;
    database
        .confirmed(walferry.slot(), Duration::from_secs(180), || walferry.log())
        .await;
    let reading = verify(&database, &kafka.address, &name, committed).await;
    assert_eq!(reading.duplicates, 0);
}
