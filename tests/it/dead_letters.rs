//! Rows that cannot be published: the dead-letter topic, and what it leaves of the stream.

use crate::harness::{
    Config, Database, Kafka, Postgres, Record, Registry, Walferry, eventually, http, read_events, read_records,
};
use crate::workload::pipeline;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);

fn dead_letters(name: &str) -> Vec<String> {
    vec![format!("{name}.dead-letter")]
}

fn dead_lettering(config: Config) -> Config {
    config.text("delivery.on_bad_row", "dead-letter")
}

fn hex(text: &str) -> String {
    text.bytes()
        .fold("\\x".to_owned(), |hex, byte| format!("{hex}{byte:02x}"))
}

fn commit_lsn(text: &str) -> u64 {
    let (high, low) = text.split_once('/').expect("X/X");
    u64::from_str_radix(high, 16).unwrap() << 32 | u64::from_str_radix(low, 16).unwrap()
}

/// Commit LSN, ordinal and number of places of a letter.
fn place(letter: &Record) -> (u64, u64, u64) {
    let value = letter.value.as_ref().unwrap();
    let number = |field: &str| value[field].as_u64().unwrap();
    assert_eq!(commit_lsn(&letter.headers["walferry.commit_lsn"]), number("commit_lsn"));
    assert_eq!(letter.headers["walferry.ordinal"], number("ordinal").to_string());
    (number("commit_lsn"), number("ordinal"), number("changes"))
}

/// Every place from the first ordinal of each transaction on is taken exactly once, by a record or by a letter; repeats are
/// those of a position.
fn no_place_is_empty(events: &[(u64, u64)], letters: &[Record]) {
    let mut taken: BTreeMap<u64, BTreeMap<u64, &str>> = BTreeMap::new();
    for (commit, ordinal) in events {
        taken.entry(*commit).or_default().insert(*ordinal, "record");
    }
    for letter in letters {
        let (commit, ordinal, changes) = place(letter);
        for ordinal in ordinal..ordinal + changes {
            let before = taken.entry(commit).or_default().insert(ordinal, "letter");
            assert!(before != Some("record"), "{commit} {ordinal} is a record and a letter");
        }
    }
    for (commit, ordinals) in taken {
        let expected: Vec<u64> = (0..ordinals.len() as u64).collect();
        assert_eq!(ordinals.keys().copied().collect::<Vec<_>>(), expected, "{commit}");
    }
}

/// The places of a topic's changes.
async fn places(kafka: &Kafka, topic: &str) -> Vec<(u64, u64)> {
    let reading = read_events(&kafka.address, &[topic.to_owned()]).await;
    reading
        .events
        .iter()
        .map(|event| (commit_lsn(&event.commit_lsn), event.ordinal))
        .collect()
}

async fn publish(database: &Database<'_>, walferry: &mut Walferry, statements: &[&str]) {
    walferry.ready(SOON).await;
    for sql in statements {
        database.execute(sql).await;
    }
    database.confirmed(walferry.slot(), SOON, || walferry.log()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_row_becomes_a_letter_and_the_stream_goes_on_in_both_envelopes_and_formats() {
    let (postgres, kafka) = (Postgres::shared(17), Kafka::shared());
    for (envelope, format) in [
        ("debezium", "text"),
        ("debezium", "binary"),
        ("row", "text"),
        ("row", "binary"),
    ] {
        let database = postgres.database().await;
        database
            .execute("CREATE TABLE t (id int PRIMARY KEY, v text, n numeric(5,2))")
            .await;
        let name = pipeline();
        let config = dead_lettering(Config::new(&name, &database, &kafka))
            .text("avro.envelope", envelope)
            .text("replication.format", format);
        let mut walferry = Walferry::start(&config);
        publish(
            &database,
            &mut walferry,
            &[
                "INSERT INTO t VALUES (1, 'a', 1.5), (2, 'secret', 'NaN'), (3, 'c', 2.5)",
                "UPDATE t SET n = 'NaN' WHERE id = 1",
                // A delete and a create as one: two places, one letter.
                "BEGIN; UPDATE t SET id = 4, n = 'NaN' WHERE id = 3; INSERT INTO t VALUES (5, 'e', 0); COMMIT",
                "DELETE FROM t WHERE id = 2",
            ],
        )
        .await;
        let metrics = walferry.metrics().await;
        assert_eq!(
            metrics.series("walferry_bad_rows_total{reason=\"not_finite\",table=\"public.t\"}"),
            3.0
        );
        let status = walferry.status().await;
        assert_eq!(status["tables"]["public.t"]["bad_rows"], json!({ "not_finite": 3 }));
        let last = status["last_bad_row"]["text"].as_str().unwrap();
        assert!(
            last.contains("table public.t") && last.contains("column \"n\""),
            "{last}"
        );
        assert_eq!(status["last_error"], Value::Null);
        let exit = walferry.terminate(SOON).await;
        assert_eq!(exit.code, Some(0), "{}", exit.stderr);
        assert!(!exit.stderr.contains("secret"), "{}", exit.stderr);
        let line = exit.stderr.lines().find(|line| line.contains("cannot be published"));
        let line = line.unwrap_or_else(|| panic!("no line in\n{}", exit.stderr));
        for word in [
            "public.t",
            "not_finite",
            "numeric",
            "ordinal=1",
            &format!("{name}.dead-letter"),
        ] {
            assert!(line.contains(word), "no {word} in {line}");
        }

        let letters = read_records(&kafka.address, &dead_letters(&name)).await;
        let value = |letter: &Record, field: &str| letter.value.as_ref().unwrap()[field].clone();
        let places_and_ops: Vec<_> = letters
            .iter()
            .map(|letter| {
                let (_, ordinal, changes) = place(letter);
                let key = letter.key.as_ref().map(|key| key["id"].clone().unwrap());
                (value(letter, "op"), key, ordinal, changes)
            })
            .collect();
        assert_eq!(
            places_and_ops,
            [
                (json!("c"), Some("2".to_owned()), 1, 1),
                (json!("u"), Some("1".to_owned()), 0, 1),
                (json!("u"), Some("4".to_owned()), 0, 2),
            ]
        );
        layout(&letters[0], &name, &database.name, format);
        assert_eq!(value(&letters[2], "old")["kind"], "key");
        assert_eq!(value(&letters[1], "old"), Value::Null);

        // What was published has the positions that it would have had.
        let topic = format!("{name}.public.t");
        let records = read_records(&kafka.address, std::slice::from_ref(&topic)).await;
        let ids: Vec<_> = records
            .iter()
            .map(|record| record.key.as_ref().unwrap()["id"].clone().unwrap())
            .collect();
        let published: &[&str] = match envelope {
            "debezium" => &["1", "3", "5", "2", "2"],
            _ => &["1", "3", "5", "2"],
        };
        assert_eq!(ids, published);
        if envelope == "debezium" {
            no_place_is_empty(&places(&kafka, &topic).await, &letters);
        }
    }
}

/// All of the letter for `INSERT INTO t VALUES (2, 'secret', 'NaN')`.
fn layout(letter: &Record, name: &str, database: &str, format: &str) {
    let mut value = letter.value.clone().unwrap();
    for field in [
        "commit_lsn",
        "lsn",
        "xid",
        "commit_time",
        "received_time",
        "version",
        "previous_commit_lsn",
    ] {
        assert!(value.as_object_mut().unwrap().remove(field).is_some(), "{field}");
    }
    assert!(value["relation"].as_object_mut().unwrap().remove("oid").is_some());
    let ty = |oid: u32, name: &str| {
        json!({ "oid": oid, "schema": "pg_catalog", "name": name, "kind": "base",
                "of": null, "typmod": null, "delimiter": null, "attributes": null })
    };
    let datum = |text: &str, binary: &str| {
        let value = if format == "text" {
            hex(text)
        } else {
            format!("\\x{binary}")
        };
        json!({ "kind": format, "value": value, "size": null })
    };
    assert_eq!(
        value,
        json!({
            "pipeline": name, "database": database, "schema": "public", "table": "t",
            "topic": format!("{name}.public.t"), "reason": "not_finite",
            "error": "a row of table public.t cannot be converted: column \"n\" of type numeric: \
                      NaN and infinity have no place in a decimal",
            "column": "n", "column_type": "numeric", "complete": true, "op": "c", "ordinal": 1, "changes": 1,
            "relation": {
                "version": 1, "replica_identity": "default",
                "columns": [
                    { "name": "id", "type": ty(23, "int4"), "typmod": -1, "identity": true, "key": 0 },
                    { "name": "v", "type": ty(25, "text"), "typmod": -1, "identity": false, "key": null },
                    { "name": "n", "type": ty(1700, "numeric"), "typmod": (5 << 16 | 2) + 4, "identity": false, "key": null },
                ],
            },
            "old": null,
            "new": [datum("2", "00000002"), datum("secret", "736563726574"), datum("NaN", "0000 0000 c000 0000".replace(' ', "").as_str())],
            "message": null,
        })
    );
    let mut headers = letter.headers.clone();
    headers.remove("walferry.commit_lsn");
    let expected = [
        ("walferry.column", "n"),
        ("walferry.complete", "true"),
        ("walferry.op", "c"),
        ("walferry.ordinal", "1"),
        ("walferry.reason", "not_finite"),
        ("walferry.table", "public.t"),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(headers, BTreeMap::from(expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_topic_of_dead_letters_is_made_to_keep_them_and_has_a_schema_of_its_own() {
    let (postgres, kafka) = (Postgres::shared(16), Kafka::shared());
    let database = postgres.database().await;
    database
        .execute("CREATE TABLE t (id numeric(5,2) PRIMARY KEY); CREATE TABLE u (a int[]); ALTER TABLE u REPLICA IDENTITY FULL")
        .await;
    let name = pipeline();
    let topic = format!("lost.{name}");
    let config = dead_lettering(Config::new(&name, &database, &kafka))
        .text("delivery.dead_letter_topic", "lost.{name}")
        .set(
            "kafka.topic_config",
            "{ \"cleanup.policy\" = \"compact\", \"retention.ms\" = \"1000\" }",
        );
    let mut walferry = Walferry::start(&config);
    publish(
        &database,
        &mut walferry,
        &["INSERT INTO t VALUES ('NaN')", "INSERT INTO u VALUES ('[0:1]={1,2}')"],
    )
    .await;
    let found = kafka.topic_config(&topic).await;
    for (key, value) in [
        ("cleanup.policy", "delete"),
        ("retention.ms", "-1"),
        ("max.message.bytes", "100000000"),
    ] {
        assert_eq!(found[key], value, "{key}");
    }
    let letters = read_records(&kafka.address, std::slice::from_ref(&topic)).await;
    let found: Vec<_> = letters
        .iter()
        .map(|letter| (letter.headers["walferry.reason"].as_str(), letter.key.is_some()))
        .collect();
    assert_eq!(found, [("not_finite", false), ("array_shape", false)]);
    let subject = format!("{}/subjects/{topic}-value/versions", Registry::shared().url);
    let (status, versions) = http("GET", &subject, None).await.unwrap();
    assert_eq!((status, versions.as_str()), (200, "[1]"), "one schema for all tables");
    // It is the one that `schema` prints, for whoever registers beforehand.
    let exit = Walferry::to_end(&config, "schema --json", SOON).await;
    let printed: Vec<Value> = serde_json::from_str(&exit.stdout).unwrap();
    let last = printed.last().unwrap();
    assert_eq!((&last["table"], &last["topic"]), (&Value::Null, &json!(topic)));
    assert_eq!(last["value"]["registry"]["state"], "registered", "{last}");
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_in_a_stream_with_bad_rows_lose_neither_rows_nor_letters() {
    let (postgres, kafka) = (Postgres::shared(18), Kafka::shared());
    let database = postgres.database().await;
    database
        .execute("CREATE TABLE t (id int PRIMARY KEY, n numeric(9,2))")
        .await;
    let name = pipeline();
    let config = dead_lettering(Config::new(&name, &database, &kafka));
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    // Transactions of nine rows, of which each seventh is bad.
    const TRANSACTIONS: u32 = 600;
    let writer = postgres.connect(&database.name).await;
    let writing = tokio::spawn(async move {
        for transaction in 0..TRANSACTIONS {
            let first = transaction * 9;
            writer
                .batch_execute(&format!(
                    "INSERT INTO t SELECT id, CASE WHEN id % 7 = 0 THEN numeric 'NaN' ELSE id END FROM generate_series({first}, {first} + 8) id"
                ))
                .await
                .unwrap();
        }
    });
    let mut pause = fastrand::Rng::with_seed(crate::workload::seed());
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_millis(pause.u64(50..600))).await;
        walferry.kill();
        walferry = Walferry::start(&config);
        walferry.ready(Duration::from_secs(60)).await;
    }
    writing.await.unwrap();
    database
        .confirmed(walferry.slot(), Duration::from_secs(120), || walferry.log())
        .await;
    let topic = format!("{name}.public.t");
    let letters = read_records(&kafka.address, &dead_letters(&name)).await;
    let mut bad: Vec<u32> = letters
        .iter()
        .map(|letter| letter.key.as_ref().unwrap()["id"].as_deref().unwrap().parse().unwrap())
        .collect();
    bad.sort_unstable();
    bad.dedup();
    let expected: Vec<u32> = (0..TRANSACTIONS * 9).filter(|id| id % 7 == 0).collect();
    assert_eq!(bad, expected);
    let reading = read_events(&kafka.address, std::slice::from_ref(&topic)).await;
    let mut good: Vec<u32> = reading
        .events
        .iter()
        .map(|event| event.key.as_ref().unwrap()["id"].as_deref().unwrap().parse().unwrap())
        .collect();
    good.sort_unstable();
    let expected: Vec<u32> = (0..TRANSACTIONS * 9).filter(|id| id % 7 != 0).collect();
    assert_eq!(good, expected);
    assert!(
        !reading.faults.contains_key("repeats_that_differ"),
        "{:?}",
        reading.samples
    );
    no_place_is_empty(&places(&kafka, &topic).await, &letters);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_topic_that_is_missing_and_not_to_be_made_stops_the_pipeline() {
    let (postgres, kafka) = (Postgres::shared(15), Kafka::shared());
    let database = postgres.database().await;
    database.execute("CREATE TABLE t (n numeric(5,2) PRIMARY KEY)").await;
    let name = pipeline();
    kafka.create_topic(&format!("{name}.public.t"), 1).await;
    let config = dead_lettering(Config::new(&name, &database, &kafka)).set("kafka.create_topics", "false");
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    database.execute("INSERT INTO t VALUES ('NaN')").await;
    let exit = walferry.end(SOON).await;
    assert_eq!(exit.code, Some(1), "{}", exit.stderr);
    exit.says(&[
        &format!("topic {name}.dead-letter does not exist"),
        "kafka.create_topics",
    ]);

    kafka.create_topic(&format!("{name}.dead-letter"), 1).await;
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    database.confirmed(walferry.slot(), SOON, || walferry.log()).await;
    assert_eq!(read_records(&kafka.address, &dead_letters(&name)).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_on_the_topic_of_dead_letters_is_refused() {
    let (postgres, kafka) = (Postgres::shared(15), Kafka::shared());
    let database = postgres.database().await;
    let name = pipeline();
    database
        .execute(&format!(
            "CREATE SCHEMA {name}; CREATE TABLE {name}.\"dead-letter\" (id int PRIMARY KEY)"
        ))
        .await;
    let config = dead_lettering(Config::new(&name, &database, &kafka))
        .text("kafka.topic", "{schema}.{table}")
        .set("replication.tables", &format!("[\"{name}.*\"]"));
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    database
        .execute(&format!("INSERT INTO {name}.\"dead-letter\" VALUES (1)"))
        .await;
    let exit = walferry.end(SOON).await;
    assert_eq!(exit.code, Some(1), "{}", exit.stderr);
    exit.says(&[&format!("{name}.dead-letter"), "delivery.dead_letter_topic"]);
    eventually("nothing was published", SOON, async || {
        kafka.topics(&name).await.is_empty().then_some(())
    })
    .await;
}
