//! The row envelope, truncates, logical messages.

use super::{faultless_events, lines, publish};
use crate::harness::{Config, Kafka, Postgres, Record, read_records};
use crate::workload::pipeline;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn the_row_envelope_is_the_row_alone_and_all_else_is_in_headers() {
    let (postgres, kafka) = (Postgres::shared(17), Kafka::shared());
    let database = postgres.database().await;
    database
        .execute(
            "CREATE TABLE t (id int PRIMARY KEY, \"grö\" text, big text); ALTER TABLE t ALTER big SET STORAGE EXTERNAL",
        )
        .await;
    let name = pipeline();
    let config = Config::new(&name, &database, &kafka).text("avro.envelope", "row");
    let clock = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
    let before: i64 = database.value(clock).await.unwrap().parse().unwrap();
    publish(
        &database,
        &config,
        &[
            "INSERT INTO t VALUES (1, 'ä', repeat('x', 10000)), (2, NULL, '')",
            "UPDATE t SET \"grö\" = 'ö' WHERE id = 1",
            "UPDATE t SET id = 3 WHERE id = 1",
            "DELETE FROM t WHERE id = 2",
            "TRUNCATE t",
        ],
    )
    .await;
    let after: i64 = database.value(clock).await.unwrap().parse().unwrap();

    let records = read_records(&kafka.address, &[format!("{name}.public.t")]).await;
    let row = |id: &str, name: Option<&str>, big: Option<&str>| json!({ "id": id, "grö": name, "big": big });
    let xs = "x".repeat(10_000);
    let expected = [
        ("c", "0", Some("1"), Some(row("1", Some("ä"), Some(&xs))), "[]"),
        ("c", "1", Some("2"), Some(row("2", None, Some(""))), "[]"),
        ("u", "0", Some("1"), Some(row("1", Some("ö"), None)), "[\"big\"]"),
        ("d", "0", Some("1"), None, "[]"),
        ("c", "1", Some("3"), Some(row("3", Some("ö"), None)), "[\"big\"]"),
        ("d", "0", Some("2"), None, "[]"),
        ("t", "0", None, None, "[]"),
    ];
    assert_eq!(records.len(), expected.len(), "{records:#?}");
    let number = |record: &Record, header: &str| -> u64 { record.headers[header].parse().unwrap() };
    let mut highest = (0, 0);
    for (record, (op, ordinal, key, value, unchanged)) in records.iter().zip(expected) {
        assert_eq!(record.headers["walferry.op"], op);
        assert_eq!(record.headers["walferry.ordinal"], ordinal);
        assert_eq!(record.headers["walferry.unchanged"], unchanged);
        let id = record.key.as_ref().map(|key| key["id"].as_deref().unwrap());
        assert_eq!(id, key);
        assert_eq!(record.value, value, "{op} of {key:?}");
        let names: Vec<&str> = record.headers.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            [
                "walferry.commit_lsn",
                "walferry.lsn",
                "walferry.op",
                "walferry.ordinal",
                "walferry.ts_us",
                "walferry.unchanged",
                "walferry.xid"
            ]
        );
        let committed: i64 = record.headers["walferry.ts_us"].parse().unwrap();
        assert!((before..=after).contains(&committed), "{before} {committed} {after}");
        assert!(number(record, "walferry.xid") > 0);
        let commit_lsn = &record.headers["walferry.commit_lsn"];
        let (high, low) = commit_lsn.split_once('/').expect("X/X");
        let commit_lsn = u64::from_str_radix(high, 16).unwrap() << 32 | u64::from_str_radix(low, 16).unwrap();
        assert!(record.headers["walferry.lsn"].contains('/'), "{:?}", record.headers);
        let position = (commit_lsn, number(record, "walferry.ordinal") + 1);
        assert!(position > highest, "{position:?} after {highest:?}");
        highest = position;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delete_without_a_key_carries_the_old_row_in_the_row_envelope() {
    let (postgres, kafka) = (Postgres::shared(13), Kafka::shared());
    let database = postgres.database().await;
    database
        .execute("CREATE TABLE t (a int, b text); ALTER TABLE t REPLICA IDENTITY FULL")
        .await;
    let name = pipeline();
    let config = Config::new(&name, &database, &kafka).text("avro.envelope", "row");
    publish(
        &database,
        &config,
        &[
            "INSERT INTO t VALUES (1, 'one'), (1, NULL)",
            "DELETE FROM t WHERE b IS NULL",
        ],
    )
    .await;
    let records = read_records(&kafka.address, &[format!("{name}.public.t")]).await;
    let found: Vec<_> = records
        .iter()
        .map(|r| {
            (
                r.headers["walferry.op"].as_str(),
                r.key.is_some(),
                r.column("a"),
                r.column("b"),
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            ("c", false, Some("1"), Some("one")),
            ("c", false, Some("1"), None),
            ("d", false, Some("1"), None),
        ]
    );
}

// --- truncates and messages ----------------------------------------------------------------------------------------------

#[tokio::test(flavor = "multi_thread")]
async fn one_truncate_of_several_tables_is_one_event_for_each() {
    for version in [11, 18] {
        let (postgres, kafka) = (Postgres::shared(version), Kafka::shared());
        let database = postgres.database().await;
        database
            .execute(
                "CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY REFERENCES a); \
                 CREATE TABLE c (id int PRIMARY KEY)",
            )
            .await;
        let name = pipeline();
        publish(
            &database,
            &Config::new(&name, &database, &kafka),
            &[
                "INSERT INTO a VALUES (1); INSERT INTO b VALUES (1); INSERT INTO c VALUES (1)",
                "BEGIN; TRUNCATE a, c CASCADE; INSERT INTO a VALUES (2); COMMIT",
            ],
        )
        .await;
        let topics = ["a", "b", "c"].map(|t| format!("{name}.public.{t}"));
        let reading = faultless_events(&kafka, &topics).await;
        let truncates: Vec<_> = reading.events.iter().filter(|e| e.op == "t").collect();
        let mut ordinals: Vec<u64> = truncates.iter().map(|e| e.ordinal).collect();
        ordinals.sort_unstable();
        assert_eq!(ordinals, [0, 1, 2], "Postgres {version}");
        let commits: std::collections::BTreeSet<&str> = truncates.iter().map(|e| e.commit_lsn.as_str()).collect();
        assert_eq!(commits.len(), 1);
        assert!(
            truncates
                .iter()
                .all(|e| e.key.is_none() && e.before.is_none() && e.after.is_none())
        );
        for (table, topic) in ["a", "b", "c"].iter().zip(&topics) {
            reading.equals(&database, table, topic).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_truncate_that_is_skipped_takes_no_place() {
    let (postgres, kafka) = (Postgres::shared(16), Kafka::shared());
    let database = postgres.database().await;
    database.execute("CREATE TABLE a (id int PRIMARY KEY)").await;
    let name = pipeline();
    let config = Config::new(&name, &database, &kafka).text("kafka.truncate", "skip");
    publish(
        &database,
        &config,
        &["BEGIN; TRUNCATE a; INSERT INTO a VALUES (1); COMMIT", "TRUNCATE a"],
    )
    .await;
    let topic = format!("{name}.public.a");
    let reading = faultless_events(&kafka, std::slice::from_ref(&topic)).await;
    assert_eq!(lines(&reading, &topic), ["c | id=1 | - | id=1 | "]);
    assert_eq!(reading.events[0].ordinal, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn logical_messages_arrive_with_their_transaction_or_for_themselves() {
    for version in [14, 18] {
        let (postgres, kafka) = (Postgres::shared(version), Kafka::shared());
        let database = postgres.database().await;
        database.execute("CREATE TABLE t (id int PRIMARY KEY)").await;
        let name = pipeline();
        publish(
            &database,
            &Config::new(&name, &database, &kafka),
            &[
                "BEGIN; INSERT INTO t VALUES (1); SELECT pg_logical_emit_message(true, 'größe', 'within'); \
                 INSERT INTO t VALUES (2); COMMIT",
                "SELECT pg_logical_emit_message(false, 'alone', '\\x00ff'::bytea)",
                "BEGIN; SELECT pg_logical_emit_message(true, 'never', 'seen'); \
                 SELECT pg_logical_emit_message(false, 'anyway', ''); ROLLBACK",
                "INSERT INTO t VALUES (3)",
            ],
        )
        .await;
        let (messages, rows) = (format!("{name}.message"), format!("{name}.public.t"));
        let records = read_records(&kafka.address, std::slice::from_ref(&messages)).await;
        let found: Vec<_> = records
            .iter()
            .map(|record| {
                let value = record.value.as_ref().unwrap();
                (
                    record.key.as_ref().unwrap()["prefix"].clone().unwrap(),
                    value["op"].clone(),
                    value["message"]["prefix"].clone(),
                    value["message"]["content"].clone(),
                    value["source"]["ordinal"].clone(),
                    value["source"]["txId"].is_null(),
                )
            })
            .collect();
        let message = |prefix: &str, content: &str, ordinal: u64, alone: bool| {
            (
                prefix.to_owned(),
                json!("m"),
                json!(prefix),
                json!(content),
                json!(ordinal),
                alone,
            )
        };
        assert_eq!(
            found,
            [
                message("größe", "\\x77697468696e", 1, false),
                message("alone", "\\x00ff", 0, true),
                message("anyway", "\\x", 0, true),
            ],
            "Postgres {version}"
        );
        // Rows and messages of a transaction share its places: no gap, no position twice.
        let reading = faultless_events(&kafka, &[messages, rows.clone()]).await;
        let places: Vec<(&str, u64)> = reading.events.iter().map(|e| (e.op.as_str(), e.ordinal)).collect();
        assert_eq!(
            places,
            [("c", 0), ("m", 1), ("c", 2), ("m", 0), ("m", 0), ("c", 0)],
            "Postgres {version}"
        );
        reading.equals(&database, "t", &rows).await;
    }
}
