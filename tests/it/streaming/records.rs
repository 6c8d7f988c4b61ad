//! Two pipelines on one database, one of which has running transactions streamed: their records are the same, byte for byte.

use super::{LATER, SOON, session, stream_early, streamed};
use crate::harness::{Config, Database, Kafka, Postgres, Record, Walferry, read_records};
use crate::workload::pipeline;

const TABLES: &str = r#"
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TYPE pair AS (x int, y text);
CREATE TABLE a (id int PRIMARY KEY, v text, m mood, p pair);
ALTER TABLE a ALTER v SET STORAGE EXTERNAL;
CREATE TABLE b (id int PRIMARY KEY, n numeric(10,2), at timestamptz);
ALTER TABLE b REPLICA IDENTITY FULL;
CREATE TABLE c (region text, id int, PRIMARY KEY (region, id));
"#;

/// Each of these is a transaction. Of some only a part is larger than 64 kB.
const TRANSACTIONS: &[&str] = &[
    // Small, then large.
    "INSERT INTO a VALUES (1, 'one', 'ok', (1, 'y'))",
    "INSERT INTO a SELECT n, repeat('a', 500), 'sad', (n, 'p')::pair FROM generate_series(10, 1000) n",
    // Savepoints: released, rolled back, nested, and the same again.
    "INSERT INTO b SELECT n, n / 3.0, now() FROM generate_series(1, 2000) n; \
     SAVEPOINT s; INSERT INTO b SELECT n, n, now() FROM generate_series(3001, 5000) n; ROLLBACK TO s; \
     INSERT INTO b SELECT n, -n, now() FROM generate_series(3001, 3010) n; \
     SAVEPOINT s; INSERT INTO b VALUES (4000, 1, now()); SAVEPOINT u; UPDATE b SET n = 7 WHERE id < 1500; RELEASE u; \
     SAVEPOINT w; DELETE FROM b WHERE id < 100; ROLLBACK TO w; ROLLBACK TO s; \
     SAVEPOINT s; UPDATE b SET n = 8 WHERE id BETWEEN 5 AND 900; RELEASE s; \
     DELETE FROM b WHERE id BETWEEN 1000 AND 1500",
    // A table that is described for the first time in a part that is void.
    "SAVEPOINT s; INSERT INTO c SELECT 'r', n FROM generate_series(1, 3000) n; ROLLBACK TO s; \
     INSERT INTO c SELECT 'q', n FROM generate_series(1, 3000) n",
    // Values that TOAST leaves alone, changed keys, the old rows.
    "UPDATE a SET v = repeat('long', 3000) WHERE id < 40; UPDATE a SET m = 'ok' WHERE id < 40; UPDATE a SET id = -id WHERE id < 60; \
     DELETE FROM a WHERE id BETWEEN 100 AND 300",
    // The table changes in the middle, back and forth.
    "INSERT INTO a SELECT n, repeat('b', 500), NULL, NULL FROM generate_series(2001, 2300) n; \
     ALTER TABLE a ADD extra int; INSERT INTO a SELECT n, repeat('c', 500), 'ok', NULL, n FROM generate_series(2301, 2600) n; \
     SAVEPOINT s; ALTER TABLE a ADD gone text DEFAULT 'g'; INSERT INTO a SELECT n, repeat('d', 500) FROM generate_series(2601, 3000) n; \
     ROLLBACK TO s; INSERT INTO a SELECT n, repeat('e', 500), 'sad', NULL, -n FROM generate_series(2601, 2700) n; \
     ALTER TABLE a DROP m; INSERT INTO a SELECT n, repeat('f', 500), NULL, n FROM generate_series(2701, 3000) n",
    "INSERT INTO a VALUES (5000, 'after', (3, 'z'), 4)",
    // All of a table, and what comes after.
    "INSERT INTO c SELECT 'x', n FROM generate_series(1, 2000) n; TRUNCATE c, b; INSERT INTO c SELECT 'y', n FROM generate_series(1, 2000) n",
    "INSERT INTO b SELECT n, 0, now() FROM generate_series(1, 3000) n; UPDATE b SET at = NULL; DELETE FROM b",
    "UPDATE a SET extra = id",
];

/// Runs each transaction, those in between that are rolled back, and some that run side by side.
async fn run(database: &Database<'_>) {
    for (number, transaction) in TRANSACTIONS.iter().enumerate() {
        let row = 10_000 + number;
        database
            .execute(&format!(
                "BEGIN; INSERT INTO c SELECT 'void', n FROM generate_series(1, 3000) n; ROLLBACK; \
                 INSERT INTO c VALUES ('z', {row})"
            ))
            .await;
        if database.postgres.version >= 14 {
            let message = format!("SELECT pg_logical_emit_message(true, 'test', 'message {number}')");
            database
                .execute(&format!("BEGIN; {transaction}; {message}; COMMIT"))
                .await;
        } else {
            database.execute(&format!("BEGIN; {transaction}; COMMIT")).await;
        }
    }
    // Three that grow in turns and commit in another order, one of which is void; and a small one in their midst.
    let sessions = [
        session(database).await,
        session(database).await,
        session(database).await,
    ];
    for client in &sessions {
        client.batch_execute("BEGIN").await.unwrap();
    }
    for round in 0..5 {
        for (number, client) in sessions.iter().enumerate() {
            let from = 100_000 * (number + 1) + 1000 * round;
            let rows = format!(
                "INSERT INTO a SELECT n, repeat('i', 300), NULL, n FROM generate_series({from}, {from} + 300) n; \
                 SAVEPOINT s{round}; UPDATE a SET extra = 0 WHERE id BETWEEN {from} AND {from} + 250"
            );
            client.batch_execute(&rows).await.unwrap();
            if round % 2 == 0 {
                let undo = format!("ROLLBACK TO SAVEPOINT s{round}");
                client.batch_execute(&undo).await.unwrap();
            }
        }
        database
            .execute(&format!("INSERT INTO c VALUES ('small', {round})"))
            .await;
    }
    for (client, end) in sessions.iter().zip(["COMMIT", "ROLLBACK", "COMMIT"]).rev() {
        client.batch_execute(end).await.unwrap();
    }
}

/// What two pipelines have in common of a record.
fn essence(record: &Record) -> String {
    format!(
        "{:?} {:?} {:?} {:?}",
        record.key, record.avro, record.schema, record.headers
    )
}

/// Of the envelope around a logical message what comes behind the clock and the pipeline's name: position, prefix and content.
fn essence_of_message(record: &Record) -> String {
    let avro = record.avro.as_ref().unwrap();
    avro[avro.len() - 40..].to_owned()
}

/// The records of a topic, by partition and in order.
async fn records(kafka: &Kafka, name: &str, table: &str) -> Vec<String> {
    let mut records = read_records(&kafka.address, &[format!("{name}.{table}")]).await;
    records.sort_by_key(|record| (record.partition, record.offset));
    let essence = |record: &Record| match table {
        "message" => essence_of_message(record),
        _ => essence(record).replace(name, "NAME"),
    };
    records.iter().map(essence).collect()
}

async fn same_records(version: u32, guarantee: &str, format: &str) {
    let (postgres, kafka) = (Postgres::shared(version), Kafka::shared());
    let database = postgres.database().await;
    database.execute(TABLES).await;
    stream_early(&database).await;
    let names = [pipeline(), pipeline()];
    let mut walferries = Vec::new();
    for (name, streaming) in names.iter().zip(["on", "off"]) {
        let config = Config::new(name, &database, &kafka)
            .text("avro.envelope", "row")
            .text("delivery.guarantee", guarantee)
            .text("delivery.state_topic", &format!("{name}.state"))
            .text("replication.streaming", streaming)
            .text("replication.spool_memory", "64KiB")
            .text("replication.format", format);
        let mut walferry = Walferry::start(&config);
        walferry.ready(SOON).await;
        walferries.push(walferry);
    }
    run(&database).await;
    for walferry in &walferries {
        database.confirmed(walferry.slot(), LATER, || walferry.log()).await;
    }
    assert!(streamed(&walferries[0]).await >= 8, "{}", walferries[0].log());
    assert_eq!(streamed(&walferries[1]).await, 0);
    let mut tables = vec!["public.a", "public.b", "public.c"];
    if version >= 14 {
        tables.push("message");
    }
    for table in tables {
        let (found, expected) = (
            records(&kafka, &names[0], table).await,
            records(&kafka, &names[1], table).await,
        );
        assert!(found.len() >= TRANSACTIONS.len(), "{table}: {}", found.len());
        let differs = found
            .iter()
            .zip(&expected)
            .position(|(found, expected)| found != expected);
        if let Some(at) = differs {
            panic!(
                "record {at} of {table} is\n{}\nand was to be\n{}",
                found[at], expected[at]
            );
        }
        assert_eq!(found.len(), expected.len(), "{table}");
    }
    for walferry in &mut walferries {
        let exit = walferry.terminate(SOON).await;
        assert_eq!(exit.code, Some(0), "{}", exit.stderr);
    }
}

macro_rules! versions {
    ($($name:ident: $version:literal, $guarantee:literal, $format:literal;)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            same_records($version, $guarantee, $format).await;
        }
    )*};
}

versions! {
    postgres_14_has_the_same_records_streamed_or_not: 14, "at-least-once", "text";
    postgres_15_has_the_same_records_streamed_or_not: 15, "exactly-once", "text";
    postgres_16_has_the_same_records_streamed_or_not: 16, "exactly-once", "text";
    postgres_18_has_the_same_records_streamed_or_not: 18, "at-least-once", "text";
}
