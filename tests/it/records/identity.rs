//! Keys, replica identities, and what was not sent.

use super::{faultless_events, lines, publish};
use crate::harness::{Config, Kafka, Postgres, read_records};
use crate::workload::pipeline;

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
