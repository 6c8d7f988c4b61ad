//! Two instances of one pipeline: the standby waits, then takes over.

use crate::harness::{Config, Kafka, Postgres, Walferry};
use crate::workload::{Workload, create_tables, pipeline, seed, verify};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn the_standby_waits_for_the_slot_and_takes_over() {
    let (postgres, kafka) = (Postgres::shared(17), Kafka::shared());
    let database = postgres.database().await;
    create_tables(&database).await;
    let name = pipeline();
    let config = Config::new(&name, &database, &kafka);
    let mut first = Walferry::start(&config);
    first.ready(SOON).await;
    let mut second = Walferry::start(&config);
    second.not_ready_because("slot", SOON).await;
    let workload = Workload::endless(&database, 2, seed()).await;
    crate::harness::eventually("the workload is under way", SOON, async || {
        (workload.committed() > 1_000).then_some(())
    })
    .await;
    assert!(second.is_running());
    first.kill();
    second.ready(Duration::from_secs(60)).await;
    let committed = workload.stop().await;
    database
        .confirmed(&name, Duration::from_secs(60), || second.log())
        .await;
    verify(&database, &kafka.address, &name, committed).await;
    let exit = second.terminate(SOON).await;
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);
}
