//! Tables change while the pipeline lags behind: a record has the shape that was true at its commit.

use crate::harness::{Config, Kafka, Postgres, Registry, Walferry, read_events, read_records};
use crate::workload::pipeline;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn a_pipeline_that_lags_behind_ddl_writes_what_was_true_at_each_commit() {
    for version in [10, 14, 18] {
        let (postgres, kafka, registry) = (Postgres::shared(version), Kafka::shared(), Registry::shared());
        let database = postgres.database().await;
        database
            .execute("CREATE TABLE t (id int PRIMARY KEY, a text, b int)")
            .await;
        let name = pipeline();
        let config = Config::new(&name, &database, &kafka).text("avro.envelope", "row");
        let mut walferry = Walferry::start(&config);
        walferry.ready(SOON).await;
        assert_eq!(walferry.terminate(SOON).await.code, Some(0));
        for sql in [
            "INSERT INTO t VALUES (1, 'x', 1)",
            "ALTER TABLE t ADD COLUMN c text DEFAULT 'new'",
            "INSERT INTO t VALUES (2, 'x', 2, 'c')",
            "ALTER TABLE t DROP COLUMN a",
            "INSERT INTO t VALUES (3, 3, 'c')",
            "ALTER TABLE t RENAME COLUMN b TO d",
            "INSERT INTO t VALUES (4, 4, 'c')",
            "ALTER TABLE t ALTER d TYPE bigint",
            "INSERT INTO t VALUES (5, 9223372036854775807, 'c')",
            "BEGIN; INSERT INTO t VALUES (6, 6, 'c'); ALTER TABLE t ADD COLUMN e int; \
             INSERT INTO t VALUES (7, 7, 'c', 7); COMMIT",
            "ALTER TABLE t RENAME TO u",
            "INSERT INTO u VALUES (8, 8, 'c', 8)",
        ] {
            database.execute(sql).await;
        }
        let mut walferry = Walferry::start(&config);
        walferry.ready(SOON).await;
        database.confirmed(&name, SOON, || walferry.log()).await;
        let (topic, renamed) = (format!("{name}.public.t"), format!("{name}.public.u"));
        let rows: Vec<String> = read_records(&kafka.address, &[topic.clone(), renamed.clone()])
            .await
            .iter()
            .map(|record| format!("{} {}", &record.topic[name.len()..], record.value.as_ref().unwrap()))
            .collect();
        let mut sorted = rows.clone();
        sorted.sort();
        assert_eq!(
            sorted,
            [
                r#".public.t {"a":"x","b":"1","id":"1"}"#,
                r#".public.t {"a":"x","b":"2","c":"c","id":"2"}"#,
                r#".public.t {"b":"3","c":"c","id":"3"}"#,
                r#".public.t {"c":"c","d":"4","id":"4"}"#,
                r#".public.t {"c":"c","d":"6","id":"6"}"#,
                r#".public.t {"c":"c","d":"7","e":"7","id":"7"}"#,
                r#".public.t {"c":"c","d":"9223372036854775807","id":"5"}"#,
                r#".public.u {"c":"c","d":"8","e":"8","id":"8"}"#,
            ],
            "Postgres {version}"
        );
        assert_eq!(
            registry.versions(&format!("{topic}-key")).await,
            1,
            "the key has not changed"
        );
        assert_eq!(registry.versions(&format!("{topic}-value")).await, 6);
        assert_eq!(registry.versions(&format!("{renamed}-value")).await, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_a_table_and_a_type_that_are_gone_arrive_all_the_same() {
    for version in [10, 18] {
        let (postgres, kafka) = (Postgres::shared(version), Kafka::shared());
        let database = postgres.database().await;
        database
            .execute(
                "CREATE TYPE mood AS ENUM ('well', 'größer'); CREATE TABLE kept (id int PRIMARY KEY); \
                 CREATE TABLE gone (a int, b int, m mood, PRIMARY KEY (b, a))",
            )
            .await;
        let name = pipeline();
        let config = Config::new(&name, &database, &kafka);
        let mut walferry = Walferry::start(&config);
        walferry.ready(SOON).await;
        assert_eq!(walferry.terminate(SOON).await.code, Some(0));
        for sql in [
            "INSERT INTO gone VALUES (1, 2, 'größer'), (3, 4, NULL)",
            "UPDATE gone SET a = 5 WHERE a = 3",
            "DROP TABLE gone; DROP TYPE mood",
            "INSERT INTO kept VALUES (1)",
        ] {
            database.execute(sql).await;
        }
        let mut walferry = Walferry::start(&config);
        walferry.ready(SOON).await;
        database.confirmed(&name, SOON, || walferry.log()).await;
        let topic = format!("{name}.public.gone");
        let reading = read_events(&kafka.address, &[topic.clone(), format!("{name}.public.kept")]).await;
        reading.is_faultless();
        assert_eq!(reading.changes, 5);
        // The order of the key's columns is known to the catalog alone, and it has forgotten.
        assert_eq!(reading.topics[&topic].key, Some(vec!["a".to_owned(), "b".to_owned()]));
        let rows: Vec<Vec<Option<&str>>> = reading.topics[&topic]
            .rows
            .iter()
            .map(|row| ["a", "b", "m"].iter().map(|c| row[*c].as_deref()).collect())
            .collect();
        assert_eq!(
            rows,
            [[Some("1"), Some("2"), Some("größer")], [Some("5"), Some("4"), None]],
            "Postgres {version}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn column_lists_and_row_filters_of_the_publication_are_what_is_published() {
    for version in [15, 18] {
        let (postgres, kafka) = (Postgres::shared(version), Kafka::shared());
        let database = postgres.database().await;
        let name = pipeline();
        database
            .execute(&format!(
                "CREATE TABLE t (id int PRIMARY KEY, shown text, secret text); \
                 CREATE TABLE f (id int, n int, PRIMARY KEY (n, id)); \
                 CREATE PUBLICATION {name} FOR TABLE t (id, shown), f WHERE (n > 10)"
            ))
            .await;
        let mut walferry = Walferry::start(&Config::new(&name, &database, &kafka));
        walferry.ready(SOON).await;
        for sql in [
            "INSERT INTO t VALUES (1, 'a', 'b')",
            "UPDATE t SET secret = 'c'",
            "INSERT INTO f VALUES (1, 1), (2, 20), (3, 30)",
            // Out of what is published, and into it.
            "UPDATE f SET n = 2 WHERE id = 2",
            "UPDATE f SET n = 11 WHERE id = 1",
        ] {
            database.execute(sql).await;
        }
        database.confirmed(&name, SOON, || walferry.log()).await;
        let topics = [format!("{name}.public.t"), format!("{name}.public.f")];
        let reading = read_events(&kafka.address, &topics).await;
        reading.is_faultless();
        let row = &reading.topics[&topics[0]].rows[0];
        assert_eq!(row.keys().map(String::as_str).collect::<Vec<_>>(), ["id", "shown"]);
        let mut found: Vec<_> = reading.topics[&topics[1]]
            .rows
            .iter()
            .map(|row| (row["id"].as_deref().unwrap(), row["n"].as_deref().unwrap()))
            .collect();
        found.sort_unstable();
        assert_eq!(found, [("1", "11"), ("3", "30")], "Postgres {version}");
    }
}
