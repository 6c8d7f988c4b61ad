//! Tables of every kind, and tables that change while the pipeline lags behind: a record has the shape that was true at its
//! commit.

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

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_published_is_left_out_of_the_publication() {
    for version in [10, 12, 13, 18] {
        let (postgres, kafka) = (Postgres::shared(version), Kafka::shared());
        let database = postgres.database().await;
        database
            .execute(
                "CREATE TABLE t (id int PRIMARY KEY); CREATE UNLOGGED TABLE unlogged (id int PRIMARY KEY); \
                 CREATE TEMPORARY TABLE temporary (id int PRIMARY KEY); CREATE VIEW v AS SELECT * FROM t; \
                 CREATE MATERIALIZED VIEW m AS SELECT * FROM t; CREATE SEQUENCE s; \
                 CREATE TABLE parted (id int NOT NULL) PARTITION BY LIST (id); \
                 CREATE TABLE part PARTITION OF parted (PRIMARY KEY (id)) FOR VALUES IN (1, 2); \
                 CREATE TABLE parent (id int PRIMARY KEY); CREATE TABLE child (PRIMARY KEY (id)) INHERITS (parent)",
            )
            .await;
        if version > 10 {
            database.execute("ALTER TABLE parted ADD PRIMARY KEY (id)").await;
        }
        let name = pipeline();
        let mut walferry = Walferry::start(&Config::new(&name, &database, &kafka));
        walferry.ready(SOON).await;
        for table in ["t", "unlogged", "temporary", "parted", "parent", "child"] {
            database.execute(&format!("INSERT INTO {table} VALUES (1)")).await;
        }
        database.confirmed(&name, SOON, || walferry.log()).await;
        let topics = ["child", "parent", "part", "t"].map(|t| format!("{name}.public.{t}"));
        assert_eq!(kafka.topics(&format!("{name}.")).await, topics, "Postgres {version}");
        let reading = read_events(&kafka.address, &topics).await;
        reading.is_faultless();
        assert_eq!(reading.changes, 4, "Postgres {version}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn generated_columns_are_published_where_the_publication_says_so() {
    for (version, with, columns) in [
        (12, "", vec!["a", "id"]),
        (18, "", vec!["a", "id"]),
        (
            18,
            "WITH (publish_generated_columns = stored)",
            vec!["a", "id", "twice"],
        ),
    ] {
        let (postgres, kafka) = (Postgres::shared(version), Kafka::shared());
        let database = postgres.database().await;
        let name = pipeline();
        database
            .execute(&format!(
                "CREATE TABLE t (twice int GENERATED ALWAYS AS (a * 2) STORED, id int PRIMARY KEY, a int); \
                 CREATE PUBLICATION {name} FOR TABLE t {with}"
            ))
            .await;
        let mut walferry = Walferry::start(&Config::new(&name, &database, &kafka));
        walferry.ready(SOON).await;
        database.execute("INSERT INTO t (id, a) VALUES (1, 21)").await;
        database.execute("UPDATE t SET a = 22").await;
        database.confirmed(&name, SOON, || walferry.log()).await;
        let topic = format!("{name}.public.t");
        let reading = read_events(&kafka.address, std::slice::from_ref(&topic)).await;
        reading.is_faultless();
        let row = &reading.topics[&topic].rows[0];
        assert_eq!(
            row.keys().map(String::as_str).collect::<Vec<_>>(),
            columns,
            "Postgres {version}"
        );
        assert_eq!(row["a"].as_deref(), Some("22"));
        assert!(row.get("twice").is_none_or(|twice| twice.as_deref() == Some("44")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_without_columns_has_records_without_fields() {
    for version in [10, 18] {
        let (postgres, kafka) = (Postgres::shared(version), Kafka::shared());
        let database = postgres.database().await;
        let name = pipeline();
        database
            .execute(&format!(
                "CREATE TABLE t (); CREATE PUBLICATION {name} FOR TABLE t WITH (publish = 'insert')"
            ))
            .await;
        let mut walferry = Walferry::start(&Config::new(&name, &database, &kafka));
        walferry.ready(SOON).await;
        database
            .execute("INSERT INTO t DEFAULT VALUES; INSERT INTO t DEFAULT VALUES")
            .await;
        database.confirmed(&name, SOON, || walferry.log()).await;
        let topic = format!("{name}.public.t");
        let reading = read_events(&kafka.address, std::slice::from_ref(&topic)).await;
        reading.is_faultless();
        assert_eq!(reading.events_of(&topic, "c").count(), 2, "Postgres {version}");
        assert!(
            reading.topics[&topic]
                .rows
                .iter()
                .all(std::collections::BTreeMap::is_empty)
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_too_long_for_a_topic_is_refused_by_name() {
    let (postgres, kafka) = (Postgres::shared(18), Kafka::shared());
    let database = postgres.database().await;
    let long = "ß".repeat(31);
    database
        .execute(&format!(
            "CREATE SCHEMA \"{long}\"; CREATE TABLE \"{long}\".\"{long}\" (id int PRIMARY KEY)"
        ))
        .await;
    let config = Config::new(&pipeline(), &database, &kafka).set("replication.tables", "[\"*.*\"]");
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    database
        .execute(&format!("INSERT INTO \"{long}\".\"{long}\" VALUES (1)"))
        .await;
    let exit = walferry.end(SOON).await;
    assert_eq!(exit.code, Some(1), "{}", exit.stderr);
    exit.says(&[&long, "249", "topic"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prepared_transaction_is_published_when_it_is_committed() {
    for version in [10, 18] {
        let postgres = Postgres::private(version, &[("max_prepared_transactions", "5")]);
        let kafka = Kafka::shared();
        let database = postgres.database().await;
        database.execute("CREATE TABLE t (id int PRIMARY KEY)").await;
        let name = pipeline();
        let config = Config::new(&name, &database, &kafka);
        let mut walferry = Walferry::start(&config);
        walferry.ready(SOON).await;
        for sql in [
            "BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION 'one'",
            "BEGIN; INSERT INTO t VALUES (2); PREPARE TRANSACTION 'two'",
            "INSERT INTO t VALUES (3)",
        ] {
            database.execute(sql).await;
        }
        database.confirmed(&name, SOON, || walferry.log()).await;
        // Begun before what is confirmed, and committed after a restart.
        assert_eq!(walferry.terminate(SOON).await.code, Some(0));
        let mut walferry = Walferry::start(&config);
        walferry.ready(SOON).await;
        database.execute("ROLLBACK PREPARED 'two'").await;
        database.execute("COMMIT PREPARED 'one'").await;
        database.confirmed(&name, SOON, || walferry.log()).await;
        let topic = format!("{name}.public.t");
        let reading = read_events(&kafka.address, std::slice::from_ref(&topic)).await;
        reading.is_faultless();
        assert_eq!((reading.changes, reading.duplicates), (2, 0), "Postgres {version}");
        reading.equals(&database, "t", &topic).await;
    }
}
