//! One table, from the first record to the last acknowledgement.

use crate::harness::{Config, Kafka, Postgres, Walferry, eventually, read_events};
use crate::workload::pipeline;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn a_committed_change_reaches_kafka_and_is_confirmed_to_postgres() {
    let (postgres, kafka) = (Postgres::shared(16), Kafka::shared());
    let database = postgres.database().await;
    database
        .execute("CREATE TABLE person (id int PRIMARY KEY, name text, big text)")
        .await;
    database
        .execute("ALTER TABLE person ALTER big SET STORAGE EXTERNAL")
        .await;
    let name = pipeline();
    let config = Config::new(&name, &database, &kafka);
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;

    for sql in [
        "INSERT INTO person VALUES (1, 'Ada', repeat('x', 10000)), (2, NULL, '')",
        "UPDATE person SET name = 'Ada L.' WHERE id = 1",
        "UPDATE person SET id = 3 WHERE id = 2",
        "DELETE FROM person WHERE id = 3",
    ] {
        database.execute(sql).await;
    }
    database.confirmed(walferry.slot(), SOON, || walferry.log()).await;

    let topic = format!("{name}.public.person");
    let reading = read_events(&kafka.address, std::slice::from_ref(&topic)).await;
    reading.is_faultless();
    assert_eq!(reading.duplicates, 0);
    assert_eq!(reading.topics[&topic].key.as_deref(), Some(&["id".to_owned()][..]));
    assert_eq!(reading.topics[&topic].counts["tombstones"], 2);
    let happened: Vec<_> = reading
        .events
        .iter()
        .map(|e| {
            let column = |row: &Option<std::collections::BTreeMap<String, Option<String>>>, name: &str| {
                row.as_ref().and_then(|row| row[name].clone())
            };
            (
                e.op.as_str(),
                e.ordinal,
                column(&e.key, "id").unwrap(),
                column(&e.after, "name"),
                e.unchanged.join(","),
            )
        })
        .collect();
    let event = |op, ordinal, id: &str, name: Option<&str>, unchanged: &str| {
        (
            op,
            ordinal,
            id.to_owned(),
            name.map(str::to_owned),
            unchanged.to_owned(),
        )
    };
    assert_eq!(
        happened,
        [
            event("c", 0, "1", Some("Ada"), ""),
            event("c", 1, "2", None, ""),
            event("u", 0, "1", Some("Ada L."), "big"),
            event("d", 0, "2", None, ""),
            event("c", 1, "3", None, ""),
            event("d", 0, "3", None, ""),
        ]
    );
    reading.equals(&database, "person", &topic).await;

    let metrics = walferry.metrics().await;
    assert_eq!(metrics.value("walferry_transactions_total"), 4.0);
    // An idle pipeline looks every few seconds.
    eventually("nothing is in flight", SOON, async || {
        (walferry.metrics().await.value("walferry_in_flight_records") == 0.0).then_some(())
    })
    .await;
    let exit = walferry.terminate(SOON).await;
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);
    assert_eq!(exit.stdout, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_truncate_empties_the_table_that_a_reader_keeps() {
    let (postgres, kafka) = (Postgres::shared(17), Kafka::shared());
    let database = postgres.database().await;
    database
        .execute("CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY)")
        .await;
    let name = pipeline();
    let mut walferry = Walferry::start(&Config::new(&name, &database, &kafka));
    walferry.ready(SOON).await;
    database.execute("INSERT INTO a VALUES (1), (2)").await;
    database.execute("INSERT INTO b VALUES (1)").await;
    database.execute("TRUNCATE a, b RESTART IDENTITY").await;
    database.execute("INSERT INTO a VALUES (7)").await;
    database.confirmed(walferry.slot(), SOON, || walferry.log()).await;

    let topics = [format!("{name}.public.a"), format!("{name}.public.b")];
    let reading = read_events(&kafka.address, &topics).await;
    reading.is_faultless();
    for (table, topic) in ["a", "b"].iter().zip(&topics) {
        reading.equals(&database, table, topic).await;
        assert_eq!(reading.events_of(topic, "t").count(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_a_transaction_that_was_rolled_back_are_never_published() {
    let (postgres, kafka) = (Postgres::shared(15), Kafka::shared());
    let database = postgres.database().await;
    database.execute("CREATE TABLE t (id int PRIMARY KEY)").await;
    let name = pipeline();
    let mut walferry = Walferry::start(&Config::new(&name, &database, &kafka));
    walferry.ready(SOON).await;
    database.execute("BEGIN; INSERT INTO t VALUES (1); ROLLBACK").await;
    database
        .execute("BEGIN; INSERT INTO t VALUES (2); SAVEPOINT s; INSERT INTO t VALUES (3); ROLLBACK TO s; COMMIT")
        .await;
    database.confirmed(walferry.slot(), SOON, || walferry.log()).await;
    let topic = format!("{name}.public.t");
    let reading = read_events(&kafka.address, std::slice::from_ref(&topic)).await;
    reading.is_faultless();
    assert_eq!(reading.changes, 1);
    assert_eq!(reading.events[0].key.as_ref().unwrap()["id"].as_deref(), Some("2"));
}
