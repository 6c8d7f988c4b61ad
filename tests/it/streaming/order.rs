//! What is confirmed, and what is read, while transactions run.

use super::{LATER, SOON, came, database, insert, is_there, session, streamed};
use crate::harness::{Config, Kafka, Postgres, Walferry, eventually};
use crate::workload::pipeline;

#[tokio::test(flavor = "multi_thread")]
async fn what_is_confirmed_goes_past_a_running_transaction_and_after_a_kill_all_of_it_comes_again() {
    let (postgres, kafka) = (Postgres::shared(15), Kafka::shared());
    let database = database(&postgres).await;
    let config = Config::new(&pipeline(), &database, &kafka).text("replication.spool_memory", "64KiB");
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;

    let running = session(&database).await;
    running.batch_execute("BEGIN").await.unwrap();
    insert(&running, 1, 10_000).await;
    came(&walferry, 9_000.0).await;
    let metrics = walferry.metrics().await;
    assert_eq!(metrics.value("walferry_streamed_transactions"), 1.0);
    assert!(metrics.value("walferry_spooled_bytes") > 1e6);
    let status = walferry.status().await;
    assert!(
        status["streamed"]["spooled_bytes"].as_u64().unwrap() > 1_000_000,
        "{status}"
    );

    // By another transaction, and then by keepalives alone.
    insert(&database.client, 20_001, 20_010).await;
    database.confirmed(walferry.slot(), LATER, || walferry.log()).await;
    database
        .execute("CREATE TABLE unpublished (id int); INSERT INTO unpublished SELECT generate_series(1, 1000)")
        .await;
    database.confirmed(walferry.slot(), LATER, || walferry.log()).await;

    walferry.kill();
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    insert(&running, 10_001, 10_100).await;
    running.batch_execute("COMMIT").await.unwrap();
    is_there(&config, &database, &kafka, &walferry).await;
    assert_eq!(walferry.metrics().await.value("walferry_spooled_bytes"), 0.0);
    let exit = walferry.terminate(SOON).await;
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn while_a_transaction_is_published_others_are_taken_in_and_none_comes_out_of_its_order() {
    let (postgres, mut kafka) = (Postgres::shared(16), Kafka::private().await);
    let database = database(&postgres).await;
    let config = Config::new(&pipeline(), &database, &kafka)
        .text("replication.spool_memory", "64KiB")
        .text("delivery.max_in_flight", "1MiB");
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    insert(&database.client, 1, 10).await;
    database.confirmed(walferry.slot(), LATER, || walferry.log()).await;

    // It commits, and is published as far as may be in flight.
    kafka.freeze();
    insert(&database.client, 101, 10_000).await;
    eventually("the commit came", SOON, async || {
        (streamed(&walferry).await == 1).then_some(())
    })
    .await;
    let running = session(&database).await;
    running.batch_execute("BEGIN").await.unwrap();
    insert(&running, 20_001, 23_000).await;
    database.execute("UPDATE t SET v = 'small' WHERE id < 1000").await;
    kafka.thaw();
    came(&walferry, 12_500.0).await;
    running.batch_execute("COMMIT").await.unwrap();
    is_there(&config, &database, &kafka, &walferry).await;
    let exit = walferry.terminate(SOON).await;
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_while_a_streamed_transaction_is_published_publishes_it_to_its_end() {
    let (postgres, kafka) = (Postgres::shared(18), Kafka::shared());
    let database = database(&postgres).await;
    let config = Config::new(&pipeline(), &database, &kafka).text("replication.spool_memory", "64KiB");
    let mut walferry = Walferry::start_with_failpoint(&config, "enqueued:1000:terminate");
    walferry.ready(SOON).await;
    insert(&database.client, 1, 20_000).await;
    let exit = walferry.end(LATER).await;
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);
    exit.says(&["everything received is confirmed"]);
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    is_there(&config, &database, &kafka, &walferry).await;
    let repeated = walferry.metrics().await.value("walferry_repeated_transactions_total");
    assert_eq!((repeated, streamed(&walferry).await), (0.0, 0), "nothing comes again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_description_of_a_running_transaction_does_not_replace_a_newer_one() {
    let (postgres, kafka) = (Postgres::shared(16), Kafka::shared());
    let database = database(&postgres).await;
    database
        .execute("ALTER TABLE t ADD w text; CREATE TABLE u (id int PRIMARY KEY, v text)")
        .await;
    let name = pipeline();
    database
        .execute(&format!("CREATE PUBLICATION {name} FOR TABLE t (id, v), u"))
        .await;
    let config = Config::new(&name, &database, &kafka).text("avro.envelope", "row");
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;

    let running = session(&database).await;
    running.batch_execute("BEGIN").await.unwrap();
    insert(&running, 1, 1_000).await;
    // What is not sent when the publication changes is of another table.
    let other = "INSERT INTO u SELECT n, repeat('x', 1000) FROM generate_series(1, 1000) n";
    running.batch_execute(other).await.unwrap();
    came(&walferry, 1_500.0).await;
    // The publication does not wait for whoever writes to the table.
    database
        .execute(&format!("ALTER PUBLICATION {name} SET TABLE t (id, w), u"))
        .await;
    database.execute("INSERT INTO t VALUES (5001, 'v', 'w')").await;
    database.confirmed(walferry.slot(), LATER, || walferry.log()).await;
    running.batch_execute("COMMIT").await.unwrap();
    database.execute("INSERT INTO t VALUES (5002, 'v', 'w')").await;
    database.confirmed(walferry.slot(), LATER, || walferry.log()).await;

    let records = crate::harness::read_records(&kafka.address, &[format!("{name}.public.t")]).await;
    let fields = |id: &str| -> Vec<String> {
        let record = records.iter().find(|record| record.column("id") == Some(id)).unwrap();
        let fields = record.schema.as_ref().unwrap()["fields"].as_array().unwrap();
        fields
            .iter()
            .map(|field| field["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(records.len(), 1_002);
    assert_eq!(fields("1"), ["id", "v"]);
    assert_eq!(fields("5001"), ["id", "w"]);
    assert_eq!(fields("5002"), ["id", "w"]);
}
