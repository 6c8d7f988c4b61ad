//! What stands in the records: keys, rows, what was not sent, names, types; read by the independent reader.

use crate::harness::{Config, Database, Kafka, Postgres, Reading, Record, Walferry, fresh, read_events, read_records};
use crate::workload::pipeline;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);

/// Runs the pipeline over these statements, each its own transaction unless it says otherwise, until all is confirmed.
async fn publish(database: &Database<'_>, config: &Config, statements: &[&str]) {
    let mut walferry = Walferry::start(config);
    walferry.ready(SOON).await;
    for sql in statements {
        database.execute(sql).await;
    }
    database.confirmed(walferry.slot(), SOON, || walferry.log()).await;
    let exit = walferry.terminate(SOON).await;
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);
}

type Row = BTreeMap<String, Option<String>>;

fn one_line(row: Option<&Row>) -> String {
    let Some(row) = row else { return "-".to_owned() };
    let columns: Vec<String> = row
        .iter()
        .map(|(name, value)| format!("{name}={}", value.as_deref().unwrap_or("NULL")))
        .collect();
    columns.join(" ")
}

/// Each event of a topic on a line: operation, key, before, after, unchanged.
fn lines(reading: &Reading, topic: &str) -> Vec<String> {
    reading
        .events
        .iter()
        .filter(|e| e.topic == topic)
        .map(|e| {
            format!(
                "{} | {} | {} | {} | {}",
                e.op,
                one_line(e.key.as_ref()),
                one_line(e.before.as_ref()),
                one_line(e.after.as_ref()),
                e.unchanged.join(",")
            )
        })
        .collect()
}

async fn faultless_events(kafka: &Kafka, topics: &[String]) -> Reading {
    let reading = read_events(&kafka.address, topics).await;
    reading.is_faultless();
    assert_eq!(reading.duplicates, 0);
    reading
}

// --- the row envelope ---------------------------------------------------------------------------------------------------

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

// --- keys and replica identities -----------------------------------------------------------------------------------------

#[tokio::test(flavor = "multi_thread")]
async fn a_composite_key_has_its_own_order_under_every_identity() {
    for version in [10, 18] {
        let (postgres, kafka) = (Postgres::shared(version), Kafka::shared());
        let database = postgres.database().await;
        database
            .execute(
                "CREATE TABLE by_default (a int, v text, b text, PRIMARY KEY (b, a)); \
                 CREATE TABLE by_full (a int, v text, b text, PRIMARY KEY (b, a)); \
                 ALTER TABLE by_full REPLICA IDENTITY FULL; \
                 CREATE TABLE by_index (a int NOT NULL, v text, b text NOT NULL); \
                 CREATE UNIQUE INDEX by_index_key ON by_index (b, a); \
                 ALTER TABLE by_index REPLICA IDENTITY USING INDEX by_index_key",
            )
            .await;
        let name = pipeline();
        let tables = ["by_default", "by_full", "by_index"];
        let statements: Vec<String> = tables
            .iter()
            .flat_map(|t| {
                [
                    format!("INSERT INTO {t} VALUES (1, 'v', 'x'), (2, 'v', 'x')"),
                    format!("UPDATE {t} SET v = 'w' WHERE a = 1"),
                    format!("UPDATE {t} SET b = 'y' WHERE a = 2"),
                ]
            })
            .collect();
        let statements: Vec<&str> = statements.iter().map(String::as_str).collect();
        publish(&database, &Config::new(&name, &database, &kafka), &statements).await;
        let topics: Vec<String> = tables.iter().map(|t| format!("{name}.public.{t}")).collect();
        let reading = faultless_events(&kafka, &topics).await;
        for (table, topic) in tables.iter().zip(&topics) {
            assert_eq!(
                reading.topics[topic].key,
                Some(vec!["b".to_owned(), "a".to_owned()]),
                "{table}"
            );
            assert_eq!(reading.topics[topic].counts["tombstones"], 1, "{table}");
            reading.equals(&database, table, topic).await;
        }
    }
}

/// Insert, update, change of the primary key, change of the other unique column, delete.
const CHANGES: [&str; 5] = [
    "INSERT INTO t VALUES (1, 'one', 'x')",
    "UPDATE t SET v = NULL",
    "UPDATE t SET id = 2",
    "UPDATE t SET code = 'two'",
    "DELETE FROM t",
];

async fn changes_under(version: u32, identity: &str) -> Vec<String> {
    let (postgres, kafka) = (Postgres::shared(version), Kafka::shared());
    let database = postgres.database().await;
    database
        .execute(&format!(
            "CREATE TABLE t (id int PRIMARY KEY, code text NOT NULL CONSTRAINT t_code UNIQUE, v text); \
             ALTER TABLE t REPLICA IDENTITY {identity}"
        ))
        .await;
    let name = pipeline();
    publish(&database, &Config::new(&name, &database, &kafka), &CHANGES).await;
    let topic = format!("{name}.public.t");
    let reading = faultless_events(&kafka, std::slice::from_ref(&topic)).await;
    reading.equals(&database, "t", &topic).await;
    lines(&reading, &topic)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_default_identity_sends_the_primary_key_of_the_old_row() {
    for version in [10, 18] {
        assert_eq!(
            changes_under(version, "DEFAULT").await,
            [
                "c | id=1 | - | code=one id=1 v=x | ",
                "u | id=1 | - | code=one id=1 v=NULL | ",
                "d | id=1 | code=NULL id=1 v=NULL | - | ",
                "c | id=2 | - | code=one id=2 v=NULL | ",
                "u | id=2 | - | code=two id=2 v=NULL | ",
                "d | id=2 | code=NULL id=2 v=NULL | - | ",
            ],
            "Postgres {version}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_full_identity_sends_the_whole_old_row() {
    for version in [10, 18] {
        assert_eq!(
            changes_under(version, "FULL").await,
            [
                "c | id=1 | - | code=one id=1 v=x | ",
                "u | id=1 | code=one id=1 v=x | code=one id=1 v=NULL | ",
                "d | id=1 | code=one id=1 v=NULL | - | ",
                "c | id=2 | - | code=one id=2 v=NULL | ",
                "u | id=2 | code=one id=2 v=NULL | code=two id=2 v=NULL | ",
                "d | id=2 | code=two id=2 v=NULL | - | ",
            ],
            "Postgres {version}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_as_identity_is_the_key_where_it_lacks_the_primary_key() {
    for version in [10, 18] {
        assert_eq!(
            changes_under(version, "USING INDEX t_code").await,
            [
                "c | code=one | - | code=one id=1 v=x | ",
                "u | code=one | - | code=one id=1 v=NULL | ",
                "u | code=one | - | code=one id=2 v=NULL | ",
                "d | code=one | code=one id=NULL v=NULL | - | ",
                "c | code=two | - | code=two id=2 v=NULL | ",
                "d | code=two | code=two id=NULL v=NULL | - | ",
            ],
            "Postgres {version}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_without_identity_publishes_inserts_where_only_those_are_published() {
    for version in [10, 18] {
        let (postgres, kafka) = (Postgres::shared(version), Kafka::shared());
        let database = postgres.database().await;
        let name = pipeline();
        database
            .execute(&format!(
                "CREATE TABLE t (id int PRIMARY KEY, v text); ALTER TABLE t REPLICA IDENTITY NOTHING; \
                 CREATE TABLE bag (v text); CREATE PUBLICATION {name} FOR TABLE t, bag WITH (publish = 'insert')"
            ))
            .await;
        publish(
            &database,
            &Config::new(&name, &database, &kafka),
            &[
                "INSERT INTO t VALUES (1, 'x')",
                "INSERT INTO bag VALUES (NULL), ('x'), ('x')",
                "UPDATE t SET v = 'not published'; DELETE FROM t; DELETE FROM bag",
            ],
        )
        .await;
        let topics = [format!("{name}.public.t"), format!("{name}.public.bag")];
        let reading = faultless_events(&kafka, &topics).await;
        assert_eq!(lines(&reading, &topics[0]), ["c | id=1 | - | id=1 v=x | "]);
        assert_eq!(
            lines(&reading, &topics[1]),
            ["c | - | - | v=NULL | ", "c | - | - | v=x | ", "c | - | - | v=x | "]
        );
    }
}

// --- absences ----------------------------------------------------------------------------------------------------------

#[tokio::test(flavor = "multi_thread")]
async fn unchanged_null_and_outside_the_identity_are_three_things() {
    for version in [10, 14, 18] {
        let (postgres, kafka) = (Postgres::shared(version), Kafka::shared());
        let database = postgres.database().await;
        database
            .execute(
                "CREATE TABLE t (id int PRIMARY KEY, v int, big text); ALTER TABLE t ALTER big SET STORAGE EXTERNAL; \
                 CREATE TABLE f (id int PRIMARY KEY, v int, big text); ALTER TABLE f ALTER big SET STORAGE EXTERNAL; \
                 ALTER TABLE f REPLICA IDENTITY FULL",
            )
            .await;
        let name = pipeline();
        let statements: Vec<String> = ["t", "f"]
            .iter()
            .flat_map(|table| {
                [
                    format!("INSERT INTO {table} VALUES (1, 1, repeat('x', 5000))"),
                    format!("UPDATE {table} SET v = NULL"),
                    format!("UPDATE {table} SET id = 2"),
                    format!("UPDATE {table} SET big = NULL"),
                    format!("DELETE FROM {table}"),
                ]
            })
            .collect();
        let statements: Vec<&str> = statements.iter().map(String::as_str).collect();
        publish(&database, &Config::new(&name, &database, &kafka), &statements).await;
        let topics = [format!("{name}.public.t"), format!("{name}.public.f")];
        let reading = faultless_events(&kafka, &topics).await;
        let short = |topic: &str| -> Vec<String> {
            let xs = "x".repeat(5000);
            lines(&reading, topic)
                .iter()
                .map(|line| line.replace(&xs, "xx"))
                .collect()
        };
        assert_eq!(
            short(&topics[0]),
            [
                "c | id=1 | - | big=xx id=1 v=1 | ",
                "u | id=1 | - | big=NULL id=1 v=NULL | big",
                "d | id=1 | big=NULL id=1 v=NULL | - | ",
                "c | id=2 | - | big=NULL id=2 v=NULL | big",
                "u | id=2 | - | big=NULL id=2 v=NULL | ",
                "d | id=2 | big=NULL id=2 v=NULL | - | ",
            ],
            "Postgres {version}"
        );
        assert_eq!(
            short(&topics[1]),
            [
                "c | id=1 | - | big=xx id=1 v=1 | ",
                "u | id=1 | big=xx id=1 v=1 | big=xx id=1 v=NULL | ",
                "d | id=1 | big=xx id=1 v=NULL | - | ",
                "c | id=2 | - | big=xx id=2 v=NULL | ",
                "u | id=2 | big=xx id=2 v=NULL | big=NULL id=2 v=NULL | ",
                "d | id=2 | big=NULL id=2 v=NULL | - | ",
            ],
            "Postgres {version}"
        );
        // What a null in `before` means, the schema says.
        let records = read_records(&kafka.address, &topics).await;
        for (topic, identity) in topics.iter().zip(["default", "full"]) {
            let record = records.iter().find(|r| r.topic == *topic && r.value.is_some()).unwrap();
            let schema = record.schema.as_ref().unwrap().to_string();
            assert!(
                schema.contains(&format!("\"walferry.replica_identity\":\"{identity}\"")),
                "Postgres {version}: {schema}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_toast_left_out_is_taken_from_the_old_row() {
    for version in [10, 18] {
        let (postgres, kafka) = (Postgres::shared(version), Kafka::shared());
        let database = postgres.database().await;
        database
            .execute(
                "CREATE TABLE t (id text PRIMARY KEY, v int, w text); ALTER TABLE t ALTER id SET STORAGE EXTERNAL; \
                 ALTER TABLE t ALTER w SET STORAGE EXTERNAL",
            )
            .await;
        let name = pipeline();
        publish(
            &database,
            &Config::new(&name, &database, &kafka),
            &[
                "INSERT INTO t VALUES (repeat('k', 2100), 1, repeat('w', 2100))",
                "UPDATE t SET v = 2",
                "UPDATE t SET id = 'k'",
            ],
        )
        .await;
        let topic = format!("{name}.public.t");
        let reading = faultless_events(&kafka, std::slice::from_ref(&topic)).await;
        let (ks, ws) = ("k".repeat(2100), "w".repeat(2100));
        let found: Vec<String> = lines(&reading, &topic)
            .iter()
            .map(|line| line.replace(&ks, "kk").replace(&ws, "ww"))
            .collect();
        assert_eq!(
            found,
            [
                "c | id=kk | - | id=kk v=1 w=ww | ",
                "u | id=kk | id=kk v=NULL w=NULL | id=kk v=2 w=NULL | w",
                "d | id=kk | id=kk v=NULL w=NULL | - | ",
                "c | id=k | - | id=k v=2 w=NULL | w",
            ],
            "Postgres {version}"
        );
        reading.equals(&database, "t", &topic).await;
    }
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

// --- names and partitions ------------------------------------------------------------------------------------------------

#[tokio::test(flavor = "multi_thread")]
async fn names_that_kafka_or_avro_forbid_are_escaped_and_never_meet() {
    for version in [10, 18] {
        let (postgres, kafka) = (Postgres::shared(version), Kafka::shared());
        let database = postgres.database().await;
        database
            .execute(
                r#"CREATE SCHEMA "a.b"; CREATE SCHEMA a; CREATE SCHEMA "größe"; CREATE SCHEMA "q""uote";
                   CREATE TABLE "a.b"."c" (id int PRIMARY KEY, "größe" text);
                   CREATE TABLE a."b.c" (id int PRIMARY KEY, "größe" text);
                   CREATE TABLE a."b_u002Ec" (id int PRIMARY KEY, "größe" text);
                   CREATE TABLE "größe"."Größe 🚢" ("1st-key" int PRIMARY KEY, "größe" text);
                   CREATE TABLE "q""uote"."it's" (id int PRIMARY KEY, "größe" text, "gr_u00F6_u00DFe" text)"#,
            )
            .await;
        let name = pipeline();
        let config = Config::new(&name, &database, &kafka).set("replication.tables", "[\"*.*\"]");
        let tables = [
            (r#""a.b"."c""#, "a_u002Eb.c"),
            (r#"a."b.c""#, "a.b_u002Ec"),
            (r#"a."b_u002Ec""#, "a.b_u005Fu002Ec"),
            (
                r#""größe"."Größe 🚢""#,
                "gr_u00F6_u00DFe.Gr_u00F6_u00DFe_u0020_uD83D_uDEA2",
            ),
            (r#""q""uote"."it's""#, "q_u0022uote.it_u0027s"),
        ];
        let statements: Vec<String> = tables
            .iter()
            .map(|(table, topic)| format!("INSERT INTO {table} VALUES (1, 'of {}')", topic.replace('\'', "''")))
            .collect();
        let statements: Vec<&str> = statements.iter().map(String::as_str).collect();
        publish(&database, &config, &statements).await;

        let mut expected: Vec<String> = tables.iter().map(|(_, topic)| format!("{name}.{topic}")).collect();
        let reading = faultless_events(&kafka, &expected).await;
        for ((table, of), topic) in tables.iter().zip(&expected) {
            reading.equals(&database, table, topic).await;
            let row = &reading.topics[topic].rows[0];
            assert_eq!(row["größe"].as_deref(), Some(format!("of {of}").as_str()), "{table}");
        }
        expected.sort();
        assert_eq!(kafka.topics(&format!("{name}.")).await, expected, "Postgres {version}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_are_published_as_themselves_or_as_their_root() {
    for version in [13, 18] {
        let (postgres, kafka) = (Postgres::shared(version), Kafka::shared());
        let database = postgres.database().await;
        // The second partition has its columns in another order.
        database
            .execute(
                "CREATE TABLE root (region text, v text, id int, PRIMARY KEY (id, region)) PARTITION BY LIST (region); \
                 CREATE TABLE north PARTITION OF root FOR VALUES IN ('n'); \
                 CREATE TABLE south (id int NOT NULL, region text NOT NULL, v text, PRIMARY KEY (id, region)); \
                 ALTER TABLE root ATTACH PARTITION south FOR VALUES IN ('s')",
            )
            .await;
        let (as_root, as_parts) = (pipeline(), pipeline());
        database
            .execute(&format!(
                "CREATE PUBLICATION {as_root} FOR TABLE root WITH (publish_via_partition_root = true); \
                 CREATE PUBLICATION {as_parts} FOR TABLE root"
            ))
            .await;
        let mut other = Walferry::start(&Config::new(&as_parts, &database, &kafka));
        other.ready(SOON).await;
        publish(
            &database,
            &Config::new(&as_root, &database, &kafka),
            &[
                "INSERT INTO root VALUES ('n', 'a', 1), ('s', 'b', 2), ('n', 'c', 3)",
                "UPDATE root SET v = 'd' WHERE id = 2",
                // Into the other partition: Postgres deletes there and inserts here.
                "UPDATE root SET region = 's' WHERE id = 1",
                "DELETE FROM root WHERE id = 3",
            ],
        )
        .await;
        database.confirmed(&as_parts, SOON, || other.log()).await;

        let topic = format!("{as_root}.public.root");
        assert_eq!(kafka.topics(&format!("{as_root}.")).await, [topic.as_str()]);
        let reading = faultless_events(&kafka, std::slice::from_ref(&topic)).await;
        assert_eq!(
            reading.topics[&topic].key,
            Some(vec!["id".to_owned(), "region".to_owned()])
        );
        reading.equals(&database, "root", &topic).await;

        let topics = ["north", "south"].map(|t| format!("{as_parts}.public.{t}"));
        assert_eq!(kafka.topics(&format!("{as_parts}.")).await, topics);
        let reading = faultless_events(&kafka, &topics).await;
        for (table, topic) in ["north", "south"].iter().zip(&topics) {
            reading.equals(&database, table, topic).await;
        }
    }
}

// --- types -------------------------------------------------------------------------------------------------------------

/// Column and type, then values as they are put in and as they must come out.
type Column = (&'static str, &'static [(&'static str, &'static str)]);

/// Every type that is read in both forms, on every server.
const NATIVE: &[Column] = &[
    ("boolean", &[("true", "t"), ("false", "f")]),
    ("smallint", &[("-32768", "-32768"), ("32767", "32767")]),
    (
        "integer",
        &[("-2147483648", "-2147483648"), ("2147483647", "2147483647")],
    ),
    (
        "bigint",
        &[
            ("-9223372036854775808", "-9223372036854775808"),
            ("9223372036854775807", "9223372036854775807"),
        ],
    ),
    ("oid", &[("0", "0"), ("4294967295", "4294967295")]),
    (
        "real",
        &[
            ("0.1", "0.1"),
            ("'NaN'", "NaN"),
            ("'-Infinity'", "-Infinity"),
            ("'-0'", "-0"),
            ("3.4028235e38", "3.4028235e+38"),
        ],
    ),
    (
        "double precision",
        &[
            ("0.1", "0.1"),
            ("0.30000000000000004", "0.30000000000000004"),
            ("'Infinity'", "Infinity"),
            ("5e-324", "5e-324"),
            ("1.7976931348623157e308", "1.7976931348623157e+308"),
        ],
    ),
    (
        "numeric(12,2)",
        &[("-1234567890.12", "-1234567890.12"), ("0", "0.00"), ("0.005", "0.01")],
    ),
    ("numeric(5,5)", &[("0.00001", "0.00001"), ("-0.99999", "-0.99999")]),
    (
        "numeric",
        &[
            ("12345678901234567890.1234567890", "12345678901234567890.1234567890"),
            ("'NaN'", "NaN"),
            ("1e30", "1000000000000000000000000000000"),
            ("0.000", "0.000"),
            ("1e-20", "0.00000000000000000001"),
        ],
    ),
    (
        "text",
        &[("''", ""), ("'渡し船 🚢'", "渡し船 🚢"), ("E'a\\tb\\\\'", "a\tb\\")],
    ),
    ("varchar(5)", &[("'a  '", "a  ")]),
    ("char(5)", &[("'a'", "a    ")]),
    ("name", &[("'größe'", "größe")]),
    ("\"char\"", &[("'x'", "x"), ("''", "")]),
    ("json", &[("'{\"a\":1,  \"a\":2}'", "{\"a\":1,  \"a\":2}")]),
    (
        "jsonb",
        &[("'{\"b\":1e2,\"a\":[null,\"ü\"]}'", "{\"a\": [null, \"ü\"], \"b\": 100}")],
    ),
    ("state", &[("'new'", "new"), ("'größer'", "größer")]),
    ("price", &[("12.5", "12.50")]),
    ("bytea", &[("''", "\\x"), ("'\\x00ff5c'", "\\x00ff5c")]),
    (
        "uuid",
        &[(
            "'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        )],
    ),
    (
        "date",
        &[
            ("'2024-02-29'", "2024-02-29"),
            ("'0001-01-01'", "0001-01-01"),
            ("'infinity'", "infinity"),
            ("'-infinity'", "-infinity"),
            // 366 days before 0001-01-01, which is 719162 days before 1970.
            ("'0001-01-01 BC'", "days:-719528"),
        ],
    ),
    (
        "time",
        &[
            ("'00:00'", "00:00:00"),
            ("'24:00'", "24:00:00"),
            ("'23:59:59.999999'", "23:59:59.999999"),
        ],
    ),
    (
        "timetz",
        &[
            ("'12:34:56.7+05:30'", "12:34:56.7+05:30"),
            ("'01:02:03-08'", "01:02:03-08"),
        ],
    ),
    (
        "timestamp",
        &[
            ("'2024-02-29 12:34:56.789012'", "2024-02-29 12:34:56.789012"),
            ("'1969-12-31 23:59:59.999999'", "1969-12-31 23:59:59.999999"),
            ("'infinity'", "infinity"),
            ("'-infinity'", "-infinity"),
        ],
    ),
    (
        "timestamptz",
        &[
            ("'2024-02-29 12:34:56+05:30'", "2024-02-29 07:04:56+00"),
            ("'1900-01-01 00:00:00+00'", "1900-01-01 00:00:00+00"),
            ("'infinity'", "infinity"),
        ],
    ),
];

/// Known by Postgres's text, which has settings to depend on.
const TEXT_ONLY: &[Column] = &[
    ("money", &[("'1234.5'", "$1,234.50")]),
    (
        "interval",
        &[
            ("'1 year 2 months -3 days 04:05:06.7'", "P1Y2M-3DT4H5M6.7S"),
            ("'0'", "PT0S"),
        ],
    ),
    ("inet", &[("'192.168.0.1/24'", "192.168.0.1/24"), ("'::1'", "::1")]),
    ("cidr", &[("'10.0.0.0/8'", "10.0.0.0/8")]),
    ("macaddr", &[("'08:00:2B:01:02:03'", "08:00:2b:01:02:03")]),
    ("bit(3)", &[("B'101'", "101")]),
    ("varbit", &[("B'01'", "01")]),
    ("int4range", &[("'[1,3]'", "[1,4)"), ("'empty'", "empty")]),
    (
        "tstzrange",
        &[("'[2024-01-01 00:00+00,)'", "[\"2024-01-01 00:00:00+00\",)")],
    ),
    ("tsvector", &[("'a:1 b'", "'a':1 'b'")]),
    ("point", &[("'(0.1,2)'", "(0.1,2)")]),
    ("pg_lsn", &[("'16/B374D848'", "16/B374D848")]),
];

const TYPES: &str = "CREATE TYPE state AS ENUM ('new', 'größer'); CREATE DOMAIN price AS numeric(8,2)";

fn table(columns: &[Column]) -> String {
    let columns: Vec<String> = columns
        .iter()
        .enumerate()
        .map(|(n, (ty, _))| format!("c{n} {ty}"))
        .collect();
    format!("CREATE TABLE t (id int PRIMARY KEY, {})", columns.join(", "))
}

/// Row `r` has each column's value number `r`, from the first again where a column has fewer; the last is all NULL.
fn rows(columns: &[Column]) -> usize {
    columns.iter().map(|(_, values)| values.len()).max().unwrap()
}

fn inserts(columns: &[Column]) -> Vec<String> {
    let count = rows(columns);
    let mut statements: Vec<String> = (0..count)
        .map(|r| {
            let values: Vec<&str> = columns.iter().map(|(_, values)| values[r % values.len()].0).collect();
            format!("INSERT INTO t VALUES ({r}, {})", values.join(", "))
        })
        .collect();
    statements.push(format!("INSERT INTO t (id) VALUES ({count})"));
    statements
}

#[track_caller]
fn have_come_out(columns: &[Column], records: &[Record], version: u32) {
    let count = rows(columns);
    assert_eq!(records.len(), count + 1);
    for (r, record) in records.iter().enumerate() {
        for (n, (ty, values)) in columns.iter().enumerate() {
            let expected = (r < count).then(|| values[r % values.len()].1);
            assert_eq!(
                record.column(&format!("c{n}")),
                expected,
                "{ty}, row {r}, Postgres {version}"
            );
        }
    }
}

/// A database whose own settings are foreign too.
async fn foreign_database(postgres: &Postgres) -> Database<'_> {
    let database = postgres.database().await;
    for setting in [
        "TimeZone = 'America/New_York'",
        "DateStyle = 'SQL, DMY'",
        "IntervalStyle = 'postgres_verbose'",
        "bytea_output = 'escape'",
        "extra_float_digits = -10",
    ] {
        database
            .execute(&format!("ALTER DATABASE {} SET {setting}", database.name))
            .await;
    }
    database.execute(TYPES).await;
    database
}

#[tokio::test(flavor = "multi_thread")]
async fn values_do_not_depend_on_settings_of_the_server_or_the_database() {
    for version in [10, 12, 18] {
        let (postgres, kafka) = (Postgres::shared(version), Kafka::shared());
        let database = foreign_database(&postgres).await;
        // Before 12 a float is printed with 17 digits, which are the same number.
        let columns: Vec<Column> = NATIVE.iter().chain(TEXT_ONLY).copied().collect();
        let columns: Vec<Column> = columns
            .into_iter()
            .filter(|(ty, _)| version >= 12 || *ty != "point")
            .collect();
        database.execute(&table(&columns)).await;
        let name = pipeline();
        let config = Config::new(&name, &database, &kafka)
            .text("avro.envelope", "row")
            .text("replication.format", "text");
        let statements = inserts(&columns);
        let statements: Vec<&str> = statements.iter().map(String::as_str).collect();
        publish(&database, &config, &statements).await;
        let records = read_records(&kafka.address, &[format!("{name}.public.t")]).await;
        have_come_out(&columns, &records, version);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn binary_and_text_give_the_same_bytes() {
    for version in [14, 16, 18] {
        let (postgres, kafka) = (Postgres::shared(version), Kafka::shared());
        let database = foreign_database(&postgres).await;
        let mut columns: Vec<Column> = NATIVE.to_vec();
        columns.push((
            "xid8",
            &[("'9223372036854775807'", "9223372036854775807"), ("'42'", "42")],
        ));
        columns.push(("numeric", &[("'Infinity'", "Infinity"), ("'-Infinity'", "-Infinity")]));
        if version >= 15 {
            columns.push(("numeric(5,-2)", &[("123456", "123500")]));
            columns.push(("numeric(3,5)", &[("0.00123", "0.00123")]));
        }
        database.execute(&table(&columns)).await;
        let (text, binary) = (pipeline(), pipeline());
        let config = |name: &str, format: &str| {
            Config::new(name, &database, &kafka)
                .text("avro.envelope", "row")
                .text("replication.format", format)
        };
        let mut other = Walferry::start(&config(&binary, "binary"));
        other.ready(SOON).await;
        let mut statements = inserts(&columns);
        statements.push("UPDATE t SET id = -1 WHERE id = 0".to_owned());
        statements.push("ALTER TABLE t REPLICA IDENTITY FULL".to_owned());
        statements.push("DELETE FROM t WHERE id = 1".to_owned());
        let refs: Vec<&str> = statements.iter().map(String::as_str).collect();
        publish(&database, &config(&text, "text"), &refs).await;
        database.confirmed(&binary, SOON, || other.log()).await;

        let texts = read_records(&kafka.address, &[format!("{text}.public.t")]).await;
        let binaries = read_records(&kafka.address, &[format!("{binary}.public.t")]).await;
        let count = rows(&columns) + 1;
        have_come_out(&columns, &texts[..count], version);
        assert_eq!(texts.len(), count + 3, "a changed key is two records");
        assert_eq!(binaries.len(), texts.len());
        for (one, other) in texts.iter().zip(&binaries) {
            assert_eq!(one.value, other.value, "Postgres {version}");
            assert_eq!(one.avro, other.avro, "Postgres {version}");
            assert_eq!(one.key, other.key, "Postgres {version}");
            assert_eq!(one.headers, other.headers, "Postgres {version}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_without_a_binary_reader_is_named_when_binary_is_insisted_on() {
    let (postgres, kafka) = (Postgres::shared(18), Kafka::shared());
    let database = postgres.database().await;
    database
        .execute("CREATE TABLE t (id int PRIMARY KEY, amount money)")
        .await;
    let config = Config::new(&fresh("wf"), &database, &kafka).text("replication.format", "binary");
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    database.execute("INSERT INTO t VALUES (1, '10.25')").await;
    let exit = walferry.end(SOON).await;
    assert_eq!(exit.code, Some(1), "{}", exit.stderr);
    exit.says(&["public.t", "amount", "money", "replication.format"]);
    assert!(!exit.stderr.contains("10.25"), "{}", exit.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_without_an_avro_form_stops_with_its_column_and_is_never_printed() {
    let (postgres, kafka) = (Postgres::shared(16), Kafka::shared());
    for (ty, value, format) in [
        ("numeric(5,2)", "'NaN'", "text"),
        ("numeric(5,2)", "'NaN'", "binary"),
        ("timestamp without time zone", "'294276-12-31 23:59:59'", "text"),
        ("timestamp with time zone", "'294276-12-31 23:59:59+00'", "binary"),
        ("xid8", "'18446744073709551615'", "text"),
        ("xid8", "'18446744073709551615'", "binary"),
    ] {
        let database = postgres.database().await;
        database
            .execute(&format!("CREATE TABLE t (id int PRIMARY KEY, \"größe\" {ty})"))
            .await;
        let name = pipeline();
        let config = Config::new(&name, &database, &kafka).text("replication.format", format);
        let mut walferry = Walferry::start(&config);
        walferry.ready(SOON).await;
        database.execute("INSERT INTO t VALUES (1, NULL)").await;
        database.confirmed(&name, SOON, || walferry.log()).await;
        database.execute(&format!("INSERT INTO t VALUES (2, {value})")).await;
        let exit = walferry.end(SOON).await;
        assert_eq!(exit.code, Some(1), "{ty}, {format}: {}", exit.stderr);
        let type_name = ty.split(['(', ' ']).next().unwrap();
        exit.says(&["public.t", "größe", type_name]);
        // That there is such a thing as NaN, the reason may say.
        let value = value.trim_matches('\'');
        assert!(value == "NaN" || !exit.stderr.contains(value), "{}", exit.stderr);
        let (_, rest) = exit.stderr.split_once("commit LSN ").expect("the change's position");
        let commit = rest.split_whitespace().next().unwrap();
        // Neither published nor confirmed: mended at the source, nothing is missing.
        assert!(
            database
                .is(&format!(
                    "(SELECT confirmed_flush_lsn <= '{commit}' FROM pg_replication_slots WHERE slot_name = '{name}')"
                ))
                .await,
            "{ty}, {format}"
        );
    }
}
