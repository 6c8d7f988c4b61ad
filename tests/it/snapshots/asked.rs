//! Tables that are read again while the stream runs, because somebody asks.

use super::{LATER, SOON, all_read, name, reading, rows_read};
use crate::harness::{Kafka, Postgres, Walferry, connect_to, eventually, heavy, read, read_events};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A table of so many rows.
pub(super) async fn read_again_under_updates(rows: u64, limit: Duration) {
    let (postgres, kafka) = (Postgres::shared(17), Kafka::shared());
    let database = postgres.database().await;
    database
        .execute(&format!(
            "CREATE TABLE t (id int PRIMARY KEY, n bigint NOT NULL); INSERT INTO t SELECT n, 0 FROM generate_series(1, {rows}) n"
        ))
        .await;
    let name = name();
    let config = reading(&name, &database, &kafka, "at-least-once")
        .text("snapshot.mode", "never")
        .set("snapshot.chunk_rows", &(rows / 20).min(10_000).to_string());
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    let stop = Arc::new(AtomicBool::new(false));
    let mut writers = Vec::new();
    for seed in 0..2 {
        let (client, stop) = (connect_to(postgres.port, &database.name).await.unwrap(), stop.clone());
        writers.push(tokio::spawn(async move {
            let mut rng = fastrand::Rng::with_seed(seed);
            while !stop.load(Ordering::Relaxed) {
                let from = rng.u64(1..rows - 100);
                let sql = format!(
                    "UPDATE t SET n = n + 1 WHERE id BETWEEN {from} AND {}",
                    from + rng.u64(1..40)
                );
                // Two that meet in another order end in a deadlock, and one of them goes on.
                let _ = client.batch_execute(&sql).await;
                // Paced: a stream that does not keep up is not read beside.
                tokio::time::sleep(Duration::from_millis(30)).await;
            }
        }));
    }
    let waiting = walferry.beside(&["snapshot", "public.t", "--wait"]);
    let exit = tokio::time::timeout(limit, waiting).await.unwrap();
    assert_eq!(exit.code, Some(0), "{}{}", exit.stdout, exit.stderr);
    stop.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.unwrap();
    }
    database.confirmed(walferry.slot(), LATER, || walferry.log()).await;
    let topic = format!("{name}.public.t");
    let mut found = read(&kafka.address, std::slice::from_ref(&topic)).await;
    found.faults.retain(|kind, _| kind != "updates_of_nothing");
    found.is_faultless();
    found.equals(&database, "t", &topic).await;
    let read_rows = rows_read(&found, &topic);
    eprintln!(
        "{read_rows} of {rows} rows read, {} updates",
        found.topics[&topic].counts["op_u"]
    );
    assert!((1..=rows).contains(&read_rows));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_read_again_under_updates_of_the_same_rows_and_nothing_goes_back() {
    let _alone = heavy().await;
    read_again_under_updates(20_000, LATER).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_without_a_key_and_one_that_is_not_there_are_refused() {
    let (postgres, kafka) = (Postgres::shared(17), Kafka::shared());
    let database = postgres.database().await;
    database
        .execute("CREATE TABLE bare (v int); ALTER TABLE bare REPLICA IDENTITY FULL; INSERT INTO bare VALUES (1)")
        .await;
    let config = reading(&name(), &database, &kafka, "at-least-once").text("snapshot.mode", "never");
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    let exit = walferry.beside(&["snapshot", "public.bare"]).await;
    assert_eq!(exit.code, Some(1));
    exit.says_on_both(&["public.bare", "no key"]);
    let exit = walferry.beside(&["snapshot", "public.nothing"]).await;
    assert_eq!(exit.code, Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_asked_for_can_be_narrowed_paused_over_a_restart_and_cancelled() {
    let (postgres, kafka) = (Postgres::shared(15), Kafka::shared());
    let database = postgres.database().await;
    database
        .execute(
            "CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t SELECT n, 'v' FROM generate_series(1, 3000) n",
        )
        .await;
    let name = name();
    let config = reading(&name, &database, &kafka, "exactly-once").text("snapshot.mode", "never");
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    let topic = format!("{name}.public.t");

    let exit = walferry
        .beside(&["snapshot", "public.t", "--where", "id % 1000 = 7", "--wait"])
        .await;
    assert_eq!(exit.code, Some(0), "{}{}", exit.stdout, exit.stderr);
    let found = read_events(&kafka.address, std::slice::from_ref(&topic)).await;
    let ids: Vec<_> = found
        .events
        .iter()
        .map(|event| event.after.as_ref().unwrap()["id"].clone().unwrap())
        .collect();
    assert_eq!(ids, ["7", "1007", "2007"]);

    let exit = walferry
        .beside(&["snapshot", "public.t", "--where", "no_column = 1"])
        .await;
    assert_eq!(exit.code, Some(1));
    exit.says_on_both(&["no_column"]);

    assert_eq!(walferry.beside(&["snapshot", "--pause"]).await.code, Some(0));
    assert_eq!(walferry.beside(&["snapshot", "public.t"]).await.code, Some(0));
    // The pause is recorded with it, within a moment.
    database.execute("INSERT INTO t VALUES (100000, 'later')").await;
    database.confirmed(walferry.slot(), LATER, || walferry.log()).await;
    let exit = walferry.terminate(SOON).await;
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    eventually("it is paused still", SOON, async || {
        let status = walferry.status().await;
        status["snapshot"]["paused"].is_string().then_some(())
    })
    .await;
    let before = read(&kafka.address, std::slice::from_ref(&topic)).await;
    assert_eq!(rows_read(&before, &topic), 3);
    assert_eq!(walferry.beside(&["snapshot", "--resume"]).await.code, Some(0));
    all_read(&walferry, LATER).await;
    database.execute("INSERT INTO t VALUES (100001, 'later')").await;
    database.confirmed(walferry.slot(), LATER, || walferry.log()).await;
    let after = read(&kafka.address, std::slice::from_ref(&topic)).await;
    assert_eq!(rows_read(&after, &topic), 3 + 3001);

    assert_eq!(walferry.beside(&["snapshot", "--pause"]).await.code, Some(0));
    assert_eq!(walferry.beside(&["snapshot", "public.t"]).await.code, Some(0));
    let exit = walferry.beside(&["snapshot", "--cancel", "public.t"]).await;
    assert_eq!(exit.code, Some(0), "{}{}", exit.stdout, exit.stderr);
    assert_eq!(walferry.beside(&["snapshot", "--resume"]).await.code, Some(0));
    tokio::time::sleep(Duration::from_millis(500)).await;
    let status = walferry.status().await;
    assert_eq!(status["snapshot"]["tables"][0]["state"], "cancelled", "{status}");
}
