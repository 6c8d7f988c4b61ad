//! Publications of more than a list of tables, and tables that enter them while running.

use crate::harness::{Config, Kafka, Postgres, Walferry};
use crate::records::{SOON, faultless_events, lines};
use crate::workload::pipeline;

/// Runs over these statements with a publication that was made before; the topics without the pipeline's name, and their lines.
async fn published(version: u32, setup: &str, publication: &str, statements: &[&str]) -> Vec<(String, Vec<String>)> {
    let (postgres, kafka) = (Postgres::shared(version), Kafka::shared());
    let database = postgres.database().await;
    let name = pipeline();
    database.execute(setup).await;
    database
        .execute(&format!("CREATE PUBLICATION {name} {publication}"))
        .await;
    let mut walferry = Walferry::start(&Config::new(&name, &database, &kafka));
    walferry.ready(SOON).await;
    for sql in statements {
        database
            .execute(&sql.replace("PUBLICATION p", &format!("PUBLICATION {name}")))
            .await;
    }
    database.confirmed(&name, SOON, || walferry.log()).await;
    let topics = kafka.topics(&format!("{name}.")).await;
    let reading = faultless_events(&kafka, &topics).await;
    topics
        .iter()
        .map(|topic| (topic[name.len() + 1..].to_owned(), lines(&reading, topic)))
        .collect()
}

fn expected(topics: &[(&str, &[&str])]) -> Vec<(String, Vec<String>)> {
    let owned = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
    topics
        .iter()
        .map(|(topic, lines)| ((*topic).to_owned(), owned(lines)))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_publication_of_all_tables_publishes_those_made_while_running_and_none_that_cannot_be() {
    for version in [10, 18] {
        let found = published(
            version,
            "CREATE SCHEMA s; CREATE TABLE s.old (id int PRIMARY KEY); CREATE UNLOGGED TABLE quick (id int PRIMARY KEY)",
            "FOR ALL TABLES",
            &[
                "INSERT INTO s.old VALUES (1)",
                "INSERT INTO quick VALUES (1); UPDATE quick SET id = 2; TRUNCATE quick",
                "CREATE TEMPORARY TABLE passing (id int); INSERT INTO passing VALUES (1); UPDATE passing SET id = 2; DROP TABLE passing",
                "CREATE TABLE young (id int PRIMARY KEY, v text); INSERT INTO young VALUES (1, 'a')",
                "UPDATE young SET v = 'b'",
                "CREATE MATERIALIZED VIEW seen AS SELECT * FROM young; REFRESH MATERIALIZED VIEW seen",
                "ALTER TABLE quick SET LOGGED; INSERT INTO quick VALUES (3)",
                "INSERT INTO s.old VALUES (2)",
            ],
        )
        .await;
        assert_eq!(
            found,
            expected(&[
                ("public.quick", &["c | id=3 | - | id=3 | "]),
                (
                    "public.young",
                    &["c | id=1 | - | id=1 v=a | ", "u | id=1 | - | id=1 v=b | "]
                ),
                ("s.old", &["c | id=1 | - | id=1 | ", "c | id=2 | - | id=2 | "]),
            ]),
            "Postgres {version}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_publication_of_a_schema_publishes_what_is_in_it_at_each_commit() {
    for version in [15, 18] {
        let found = published(
            version,
            "CREATE SCHEMA s; CREATE TABLE s.a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY)",
            "FOR TABLES IN SCHEMA s",
            &[
                "INSERT INTO s.a VALUES (1); INSERT INTO b VALUES (1)",
                "CREATE TABLE s.c (id int PRIMARY KEY); INSERT INTO s.c VALUES (1)",
                "ALTER TABLE b SET SCHEMA s",
                "INSERT INTO s.b VALUES (2)",
                "ALTER TABLE s.a SET SCHEMA public",
                "INSERT INTO a VALUES (2)",
            ],
        )
        .await;
        assert_eq!(
            found,
            expected(&[
                ("s.a", &["c | id=1 | - | id=1 | "]),
                ("s.b", &["c | id=2 | - | id=2 | "]),
                ("s.c", &["c | id=1 | - | id=1 | "]),
            ]),
            "Postgres {version}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_added_to_the_publication_while_running_is_published_from_then_on() {
    for version in [10, 18] {
        let found = published(
            version,
            "CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY)",
            "FOR TABLE a",
            &[
                "INSERT INTO a VALUES (1); INSERT INTO b VALUES (1)",
                "ALTER PUBLICATION p ADD TABLE b",
                "INSERT INTO a VALUES (2); INSERT INTO b VALUES (2)",
                "ALTER PUBLICATION p DROP TABLE a",
                "INSERT INTO a VALUES (3); INSERT INTO b VALUES (3)",
            ],
        )
        .await;
        assert_eq!(
            found,
            expected(&[
                ("public.a", &["c | id=1 | - | id=1 | ", "c | id=2 | - | id=2 | "]),
                ("public.b", &["c | id=2 | - | id=2 | ", "c | id=3 | - | id=3 | "]),
            ]),
            "Postgres {version}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_truncate_that_cascades_and_restarts_identities_is_one_event_for_each_published_table() {
    for version in [11, 18] {
        let found = published(
            version,
            "CREATE TABLE a (id serial PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY REFERENCES a); \
             CREATE TABLE hidden (id int REFERENCES a)",
            "FOR TABLE a, b",
            &[
                "INSERT INTO a DEFAULT VALUES",
                "TRUNCATE a RESTART IDENTITY CASCADE",
                "INSERT INTO a DEFAULT VALUES",
            ],
        )
        .await;
        assert_eq!(
            found,
            expected(&[
                (
                    "public.a",
                    &["c | id=1 | - | id=1 | ", "t | - | - | - | ", "c | id=1 | - | id=1 | "]
                ),
                ("public.b", &["t | - | - | - | "]),
            ]),
            "Postgres {version}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_generated_columns_are_published_by_18_and_virtual_ones_never() {
    for (with, row) in [
        ("WITH (publish_generated_columns = stored)", "a=21 id=1 stored=42"),
        ("WITH (publish_generated_columns = none)", "a=21 id=1"),
    ] {
        let found = published(
            18,
            "CREATE TABLE t (id int PRIMARY KEY, virtual int GENERATED ALWAYS AS (a * 3) VIRTUAL, \
             stored int GENERATED ALWAYS AS (a * 2) STORED, a int)",
            &format!("FOR TABLE t {with}"),
            &["INSERT INTO t (id, a) VALUES (1, 21)"],
        )
        .await;
        let line = format!("c | id=1 | - | {row} | ");
        assert_eq!(found, expected(&[("public.t", &[line.as_str()])]), "{with}");
    }
}
