//! Each replica identity under each kind of change.

use crate::harness::{Config, Kafka, Postgres};
use crate::records::{faultless_events, lines, publish};
use crate::workload::pipeline;

/// A table with two unique columns and a value that TOAST keeps out of line; the change is in the name.
const CHANGES: [&str; 6] = [
    "INSERT INTO t VALUES (1, 'one', 1, repeat('x', 3000))",
    "UPDATE t SET id = 2",
    "UPDATE t SET code = 'two'",
    "UPDATE t SET big = repeat('y', 3000)",
    "UPDATE t SET v = v",
    "DELETE FROM t",
];

/// What the changes publish; `xx` and `yy` stand for the large values.
async fn changes_under(version: u32, format: &str, identity: &str, publication: &str) -> Vec<String> {
    let (postgres, kafka) = (Postgres::shared(version), Kafka::shared());
    let database = postgres.database().await;
    let name = pipeline();
    database
        .execute(&format!(
            "CREATE TABLE t (id int PRIMARY KEY, code text NOT NULL CONSTRAINT t_code UNIQUE, v int, big text); \
             ALTER TABLE t ALTER big SET STORAGE EXTERNAL; ALTER TABLE t REPLICA IDENTITY {identity}; \
             CREATE PUBLICATION {name} FOR TABLE t {publication}"
        ))
        .await;
    let config = Config::new(&name, &database, &kafka).text("replication.format", format);
    publish(&database, &config, &CHANGES).await;
    let topic = format!("{name}.public.t");
    let reading = faultless_events(&kafka, std::slice::from_ref(&topic)).await;
    let (xs, ys) = ("x".repeat(3000), "y".repeat(3000));
    lines(&reading, &topic)
        .iter()
        .map(|line| line.replace(&xs, "xx").replace(&ys, "yy"))
        .collect()
}

const VERSIONS: [(u32, &str); 3] = [(10, "text"), (14, "binary"), (18, "binary")];

#[tokio::test(flavor = "multi_thread")]
async fn under_the_default_identity_each_change_has_the_old_primary_key() {
    for (version, format) in VERSIONS {
        assert_eq!(
            changes_under(version, format, "DEFAULT", "").await,
            [
                "c | id=1 | - | big=xx code=one id=1 v=1 | ",
                "d | id=1 | big=NULL code=NULL id=1 v=NULL | - | ",
                "c | id=2 | - | big=NULL code=one id=2 v=1 | big",
                "u | id=2 | - | big=NULL code=two id=2 v=1 | big",
                "u | id=2 | - | big=yy code=two id=2 v=1 | ",
                "u | id=2 | - | big=NULL code=two id=2 v=1 | big",
                "d | id=2 | big=NULL code=NULL id=2 v=NULL | - | ",
            ],
            "Postgres {version}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn under_the_full_identity_each_change_has_the_old_row_and_lacks_nothing() {
    for (version, format) in VERSIONS {
        assert_eq!(
            changes_under(version, format, "FULL", "").await,
            [
                "c | id=1 | - | big=xx code=one id=1 v=1 | ",
                "d | id=1 | big=xx code=one id=1 v=1 | - | ",
                "c | id=2 | - | big=xx code=one id=2 v=1 | ",
                "u | id=2 | big=xx code=one id=2 v=1 | big=xx code=two id=2 v=1 | ",
                "u | id=2 | big=xx code=two id=2 v=1 | big=yy code=two id=2 v=1 | ",
                "u | id=2 | big=yy code=two id=2 v=1 | big=yy code=two id=2 v=1 | ",
                "d | id=2 | big=yy code=two id=2 v=1 | - | ",
            ],
            "Postgres {version}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn under_an_index_as_identity_each_change_has_the_old_columns_of_the_index() {
    for (version, format) in VERSIONS {
        assert_eq!(
            changes_under(version, format, "USING INDEX t_code", "").await,
            [
                "c | code=one | - | big=xx code=one id=1 v=1 | ",
                "u | code=one | - | big=NULL code=one id=2 v=1 | big",
                "d | code=one | big=NULL code=one id=NULL v=NULL | - | ",
                "c | code=two | - | big=NULL code=two id=2 v=1 | big",
                "u | code=two | - | big=yy code=two id=2 v=1 | ",
                "u | code=two | - | big=NULL code=two id=2 v=1 | big",
                "d | code=two | big=NULL code=two id=NULL v=NULL | - | ",
            ],
            "Postgres {version}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_identity_inserts_arrive_and_nothing_else_may_be_published() {
    for (version, format) in VERSIONS {
        assert_eq!(
            changes_under(version, format, "NOTHING", "WITH (publish = 'insert')").await,
            ["c | id=1 | - | big=xx code=one id=1 v=1 | "],
            "Postgres {version}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_without_any_key_has_records_without_keys_in_the_order_of_the_changes() {
    for (version, format) in VERSIONS {
        let (postgres, kafka) = (Postgres::shared(version), Kafka::shared());
        let database = postgres.database().await;
        database
            .execute(
                "CREATE TABLE t (a int, big text); ALTER TABLE t ALTER big SET STORAGE EXTERNAL; \
                 ALTER TABLE t REPLICA IDENTITY FULL",
            )
            .await;
        let name = pipeline();
        let config = Config::new(&name, &database, &kafka)
            .set("kafka.partitions", "3")
            .text("replication.format", format);
        publish(
            &database,
            &config,
            &[
                "INSERT INTO t VALUES (1, 'x'), (1, 'x'), (NULL, NULL)",
                "UPDATE t SET a = 2 WHERE ctid = '(0,1)'",
                "UPDATE t SET big = repeat('z', 3000) WHERE a IS NULL",
                "UPDATE t SET a = 3 WHERE a IS NULL",
                "DELETE FROM t WHERE a = 1",
                "TRUNCATE t",
            ],
        )
        .await;
        let topic = format!("{name}.public.t");
        let reading = faultless_events(&kafka, std::slice::from_ref(&topic)).await;
        let zs = "z".repeat(3000);
        let found: Vec<String> = lines(&reading, &topic)
            .iter()
            .map(|line| line.replace(&zs, "zz"))
            .collect();
        let mut expected = vec![
            "c | - | - | a=1 big=x | ",
            "c | - | - | a=1 big=x | ",
            "c | - | - | a=NULL big=NULL | ",
            "u | - | a=1 big=x | a=2 big=x | ",
            "u | - | a=NULL big=NULL | a=NULL big=zz | ",
            "u | - | a=NULL big=zz | a=3 big=zz | ",
            "d | - | a=1 big=x | - | ",
            "t | - | - | - | ",
        ];
        // Postgres 10 does not replicate a truncate.
        if version == 10 {
            expected.pop();
        }
        assert_eq!(found, expected, "Postgres {version}");
    }
}
