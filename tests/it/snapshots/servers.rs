//! What the server is, and what it bears.

use super::initial::rows_under_a_workload;
use super::{LATER, SOON, after_kills, all_read, is_faultless_but_for, name, reading, rows_read, tables_with_rows};
use crate::harness::{Config, Kafka, Postgres, Walferry, eventually, heavy, read};
use crate::workload::{TABLES, topics};

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_were_there_come_from_the_oldest_servers_too() {
    let _alone = heavy().await;
    for version in [10, 11, 12, 13] {
        rows_under_a_workload("at-least-once", version, 3_000).await;
    }
}

/// A standby decodes from Postgres 16 on. Nobody can write there: neither the log's end nor a record between two sessions is had by it.
#[tokio::test(flavor = "multi_thread")]
async fn rows_that_were_there_come_from_a_standby_beside_its_stream() {
    let _alone = heavy().await;
    let kafka = Kafka::shared();
    for (version, guarantee) in [(16, "at-least-once"), (18, "exactly-once")] {
        let (primary, standby) = Postgres::with_standby(version, &[], &[]).await;
        let database = primary.database().await;
        let workload = tables_with_rows(&database, 5_000).await;
        let name = name();
        database
            .execute(&format!("CREATE PUBLICATION {name} FOR ALL TABLES"))
            .await;
        let copy = standby.copy_of(&database).await;
        let config = reading(&name, &copy, &kafka, guarantee).set("snapshot.chunk_rows", "500");
        let mut walferry = Walferry::start(&config);
        // A slot is made on a standby once the primary has told it what is running: every 15 seconds, or when asked.
        eventually("it streams from the standby", LATER, async || {
            database.execute("SELECT pg_log_standby_snapshot()").await;
            let ready = walferry.readiness().await;
            ready.is_some_and(|(status, _)| status == 200).then_some(())
        })
        .await;
        all_read(&walferry, LATER).await;
        // In the middle of the stream, and of nothing else.
        walferry.kill();
        let mut walferry = Walferry::start(&config);
        walferry.ready(SOON).await;
        workload.stop().await;
        let end = database.wal_end().await;
        copy.confirmed_to(walferry.slot(), &end, LATER, || walferry.log()).await;
        let topics = topics(&name);
        let mut found = read(&kafka.address, &topics).await;
        is_faultless_but_for(after_kills(guarantee), &mut found);
        for (table, topic) in TABLES.iter().zip(&topics) {
            found.equals(&database, table, topic).await;
        }
        if guarantee == "exactly-once" {
            assert_eq!(found.duplicates, 0);
        }
        let rows: u64 = topics.iter().map(|topic| rows_read(&found, topic)).sum();
        assert!(rows > 0, "everything was streamed, and nothing read");
        eprintln!("Postgres {version}, {guarantee}: {rows} rows read from the standby");
        let exit = walferry.terminate(SOON).await;
        assert_eq!(exit.code, Some(0), "{}", exit.stderr);
    }
}

/// Somebody's transaction stays open, so the slot retains more and more of the log: reading waits until it is less again.
#[tokio::test(flavor = "multi_thread")]
async fn reading_waits_while_the_slot_retains_too_much_of_the_log() {
    let _alone = heavy().await;
    let (postgres, kafka) = (Postgres::shared(17), Kafka::shared());
    let database = postgres.database().await;
    database
        .execute(
            "CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t SELECT n, 'v' FROM generate_series(1, 3000) n; \
             CREATE TABLE busy (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v text)",
        )
        .await;
    let name = name();
    let config: Config = reading(&name, &database, &kafka, "at-least-once")
        .set("snapshot.chunk_rows", "100")
        .set("snapshot.max_rows_per_second", "200")
        .text("snapshot.max_retained_wal", "32MiB");
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    let somebody = postgres.connect(&database.name).await;
    somebody.batch_execute("BEGIN; SELECT txid_current()").await.unwrap();
    database
        .execute("INSERT INTO busy (v) SELECT repeat(md5(n::text), 30) FROM generate_series(1, 60000) n")
        .await;
    let paused = eventually("reading waits", LATER, async || {
        let status = walferry.status().await;
        status["snapshot"]["paused"].as_str().map(str::to_owned)
    })
    .await;
    assert!(
        paused.contains("the slot retains") && paused.contains("snapshot.max_retained_wal is 33554432"),
        "{paused}"
    );
    let beside = walferry.beside(&["snapshot", "--status"]).await;
    assert!(beside.stdout.contains("snapshot.max_retained_wal"), "{}", beside.stdout);
    assert!(walferry.metrics().await.value("walferry_retained_wal_bytes") > 33_554_432.0);
    somebody.batch_execute("COMMIT").await.unwrap();
    eventually("it goes on", LATER, async || {
        // It records what is running, and from where a slot's reader would have to begin.
        database.execute("CHECKPOINT").await;
        walferry.status().await["snapshot"]["paused"].is_null().then_some(())
    })
    .await;
    all_read(&walferry, LATER).await;
    database.confirmed(walferry.slot(), LATER, || walferry.log()).await;
    let topic = format!("{name}.public.t");
    let found = read(&kafka.address, std::slice::from_ref(&topic)).await;
    found.equals(&database, "t", &topic).await;
    assert_eq!(rows_read(&found, &topic), 3_000);
}
