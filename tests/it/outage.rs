//! One of the servers goes away under load, and comes back.

use crate::harness::{Config, Kafka, Link, Postgres, Proxy, Registry, Stop, Walferry, eventually};
use crate::workload::{Workload, create_tables, pipeline, seed, verify};
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(30);
const MEMORY_MIB: u64 = 150;

#[tokio::test(flavor = "multi_thread")]
async fn kafka_away_for_90_seconds_keeps_the_replication_connection_and_bounds_memory() {
    let postgres = Postgres::private(16, &[("wal_sender_timeout", "10s")]);
    let mut kafka = Kafka::private().await;
    let database = postgres.database().await;
    create_tables(&database).await;
    let name = pipeline();
    let config = Config::new(&name, &database, &kafka).text("delivery.max_in_flight", "16MiB");
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    let walsender = database.walsender(walferry.slot()).await.unwrap();
    let workload = Workload::endless(&database, 4, seed()).await;
    eventually("the workload is under way", SOON, async || {
        (workload.committed() > 2_000).then_some(())
    })
    .await;

    kafka.kill();
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(90) {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(walferry.is_running(), "{}", walferry.log());
        assert_eq!(
            database.walsender(walferry.slot()).await.as_ref(),
            Some(&walsender),
            "the same walsender after {:?}\n{}",
            begin.elapsed(),
            walferry.log()
        );
    }
    walferry.not_ready_because("kafka", Duration::from_secs(10)).await;
    kafka.start();
    kafka.ready().await;
    let committed = workload.stop().await;
    database
        .confirmed(walferry.slot(), Duration::from_secs(240), || walferry.log())
        .await;
    assert_eq!(database.walsender(walferry.slot()).await, Some(walsender));
    let memory = walferry.peak_memory_mib();
    assert!(memory < MEMORY_MIB, "{memory} MiB");
    assert_eq!(
        walferry
            .metrics()
            .await
            .series("walferry_reconnects_total{peer=\"postgres\"}"),
        0.0
    );
    let reading = verify(&database, &kafka.address, &name, committed).await;
    assert_eq!(reading.duplicates, 0, "nothing was sent again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_broker_is_survived_like_one_that_is_gone() {
    let postgres = Postgres::private(18, &[("wal_sender_timeout", "4s")]);
    let mut kafka = Kafka::private().await;
    let database = postgres.database().await;
    create_tables(&database).await;
    let name = pipeline();
    let mut walferry = Walferry::start(&Config::new(&name, &database, &kafka));
    walferry.ready(SOON).await;
    let walsender = database.walsender(walferry.slot()).await.unwrap();
    let workload = Workload::endless(&database, 2, seed()).await;
    eventually("the workload is under way", SOON, async || {
        (workload.committed() > 1_000).then_some(())
    })
    .await;
    kafka.freeze();
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!(database.walsender(walferry.slot()).await, Some(walsender));
    kafka.thaw();
    let committed = workload.stop().await;
    database
        .confirmed(walferry.slot(), Duration::from_secs(180), || walferry.log())
        .await;
    verify(&database, &kafka.address, &name, committed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_stops_fast_within_5_seconds_and_is_found_again() {
    let postgres = Postgres::private(15, &[]);
    let kafka = Kafka::shared();
    let mut database = postgres.database().await;
    create_tables(&database).await;
    let name = pipeline();
    let mut walferry = Walferry::start(&Config::new(&name, &database, &kafka));
    walferry.ready(SOON).await;
    let mut committed = 0;
    let seed = seed();
    for round in 0..3 {
        database
            .execute(&format!(
                "INSERT INTO events SELECT {}, n::text FROM generate_series(1, 60000) n",
                100 + round
            ))
            .await;
        committed += 60_000;
        // The changes are on their way when the server is told to stop.
        let took = postgres.stop(Stop::Fast);
        assert!(
            took < Duration::from_secs(5),
            "pg_ctl stop -m fast took {took:?}\n{}",
            walferry.log()
        );
        walferry.not_ready_because("", SOON).await;
        postgres.start();
        database.reconnect().await;
        walferry.ready(Duration::from_secs(60)).await;
    }
    assert!(
        walferry
            .metrics()
            .await
            .series("walferry_reconnects_total{peer=\"postgres\"}")
            >= 3.0
    );
    let workload = Workload::start(&database, 2, 2_000, seed).await;
    committed += workload.done().await;
    database
        .confirmed(walferry.slot(), Duration::from_secs(120), || walferry.log())
        .await;
    verify(&database, &kafka.address, &name, committed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_of_postgres_is_survived() {
    let postgres = Postgres::private(17, &[]);
    let kafka = Kafka::shared();
    let mut database = postgres.database().await;
    create_tables(&database).await;
    let name = pipeline();
    let mut walferry = Walferry::start(&Config::new(&name, &database, &kafka));
    walferry.ready(SOON).await;
    let committed = Workload::start(&database, 2, 5_000, seed()).await.done().await;
    postgres.stop(Stop::Immediate);
    postgres.start();
    database.reconnect().await;
    walferry.ready(Duration::from_secs(60)).await;
    database
        .confirmed(walferry.slot(), Duration::from_secs(60), || walferry.log())
        .await;
    verify(&database, &kafka.address, &name, committed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_registry_away_for_60_seconds_is_waited_for() {
    let postgres = Postgres::private(16, &[("wal_sender_timeout", "10s")]);
    let (kafka, registry) = (Kafka::shared(), Registry::shared());
    let proxy = Proxy::start(registry.port()).await;
    let database = postgres.database().await;
    create_tables(&database).await;
    let name = pipeline();
    let config = Config::new(&name, &database, &kafka).text("schema_registry.url", &registry.url_through(proxy.port));
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    let walsender = database.walsender(walferry.slot()).await.unwrap();

    proxy.set(Link::Refuse);
    let workload = Workload::endless(&database, 4, seed()).await;
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(60) {
        // Half the time it is closed, half the time silent.
        if begin.elapsed() > Duration::from_secs(30) {
            proxy.set(Link::BlackHole);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(walferry.is_running(), "{}", walferry.log());
    }
    assert_eq!(
        database.walsender(walferry.slot()).await,
        Some(walsender),
        "the same walsender"
    );
    proxy.cut();
    proxy.set(Link::Forward);
    let committed = workload.stop().await;
    database
        .confirmed(walferry.slot(), Duration::from_secs(240), || walferry.log())
        .await;
    let memory = walferry.peak_memory_mib();
    assert!(memory < MEMORY_MIB, "{memory} MiB");
    let reading = verify(&database, &kafka.address, &name, committed).await;
    assert_eq!(reading.duplicates, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_vanishes_without_a_word_is_noticed_within_about_wal_sender_timeout() {
    let postgres = Postgres::private(17, &[("wal_sender_timeout", "6s")]);
    let kafka = Kafka::shared();
    let proxy = Proxy::start(postgres.port).await;
    let database = postgres.database().await;
    create_tables(&database).await;
    let name = pipeline();
    let config = Config::new(&name, &database, &kafka)
        .set("postgres.port", &proxy.port.to_string())
        .text("postgres.connect_timeout", "2s");
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    let mut committed = Workload::start(&database, 2, 1_000, seed()).await.done().await;
    database.confirmed(walferry.slot(), SOON, || walferry.log()).await;

    proxy.set(Link::BlackHole);
    walferry.not_ready_because("", Duration::from_secs(12)).await;
    proxy.cut();
    proxy.set(Link::Forward);
    walferry.ready(Duration::from_secs(60)).await;
    database
        .execute("INSERT INTO events VALUES (99, 'after', NULL, NULL)")
        .await;
    committed += 1;
    database.confirmed(walferry.slot(), SOON, || walferry.log()).await;
    verify(&database, &kafka.address, &name, committed).await;
}
