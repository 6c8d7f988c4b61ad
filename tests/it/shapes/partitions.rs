//! Partitions that come and go, and tables that inherit.

use crate::harness::{Config, Database, Kafka, Postgres, Walferry};
use crate::records::{SOON, faultless_events, lines};
use crate::workload::pipeline;

/// Two pipelines over one partitioned table: as its root, and as its partitions.
async fn both(database: &Database<'_>, kafka: &Kafka) -> [(String, Walferry); 2] {
    let names = [pipeline(), pipeline()];
    database
        .execute(&format!(
            "CREATE PUBLICATION {} FOR TABLE root WITH (publish_via_partition_root = true); \
             CREATE PUBLICATION {} FOR TABLE root",
            names[0], names[1]
        ))
        .await;
    let mut both = Vec::new();
    for name in names {
        let mut walferry = Walferry::start(&Config::new(&name, database, kafka));
        walferry.ready(SOON).await;
        both.push((name, walferry));
    }
    both.try_into().ok().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_attached_and_detached_while_running_follow_their_publication() {
    for version in [13, 15, 18] {
        let (postgres, kafka) = (Postgres::shared(version), Kafka::shared());
        let database = postgres.database().await;
        database
            .execute(
                "CREATE TABLE root (region text, v text, id int, PRIMARY KEY (id, region)) PARTITION BY LIST (region); \
                 CREATE TABLE north PARTITION OF root FOR VALUES IN ('n')",
            )
            .await;
        let [(as_root, root), (as_parts, parts)] = both(&database, &kafka).await;
        // A walsender before 15 keeps to what the table was when it first met a change of it.
        let (before_it_is_attached, after_it_was_detached) = match version {
            13 => ("SELECT 1", "SELECT 1"),
            _ => (
                "INSERT INTO south VALUES (2, 's', 'not published')",
                "INSERT INTO south VALUES (5, 's', 'not published'); DELETE FROM south WHERE id = 3",
            ),
        };
        for sql in [
            "INSERT INTO root VALUES ('n', 'a', 1)",
            // Its columns stand in another order, and one was dropped on the way.
            "CREATE TABLE south (id int NOT NULL, gone int, region text NOT NULL, v text); ALTER TABLE south DROP COLUMN gone",
            before_it_is_attached,
            "ALTER TABLE root ATTACH PARTITION south FOR VALUES IN ('s')",
            "INSERT INTO root VALUES ('s', 'c', 3), ('n', 'd', 4)",
            "UPDATE root SET v = 'e' WHERE region = 's' AND id = 3",
            "ALTER TABLE root DETACH PARTITION south",
            after_it_was_detached,
            "INSERT INTO root VALUES ('n', 'f', 6)",
        ] {
            database.execute(sql).await;
        }
        for (name, walferry) in [(&as_root, &root), (&as_parts, &parts)] {
            database.confirmed(name, SOON, || walferry.log()).await;
        }
        let topic = format!("{as_root}.public.root");
        assert_eq!(kafka.topics(&format!("{as_root}.")).await, [topic.as_str()]);
        let reading = faultless_events(&kafka, std::slice::from_ref(&topic)).await;
        assert_eq!(
            lines(&reading, &topic),
            [
                "c | id=1 region=n | - | id=1 region=n v=a | ",
                "c | id=3 region=s | - | id=3 region=s v=c | ",
                "c | id=4 region=n | - | id=4 region=n v=d | ",
                "u | id=3 region=s | - | id=3 region=s v=e | ",
                "c | id=6 region=n | - | id=6 region=n v=f | ",
            ],
            "Postgres {version}"
        );

        let topics = ["north", "south"].map(|t| format!("{as_parts}.public.{t}"));
        assert_eq!(kafka.topics(&format!("{as_parts}.")).await, topics);
        let reading = faultless_events(&kafka, &topics).await;
        assert_eq!(
            lines(&reading, &topics[1]),
            [
                "c | id=3 region=s | - | id=3 region=s v=c | ",
                "u | id=3 region=s | - | id=3 region=s v=e | ",
            ],
            "Postgres {version}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_of_partitions_are_published_as_the_root_of_all() {
    for version in [13, 18] {
        let (postgres, kafka) = (Postgres::shared(version), Kafka::shared());
        let database = postgres.database().await;
        database
            .execute(
                "CREATE TABLE root (a int, b int, v text, PRIMARY KEY (b, a)) PARTITION BY RANGE (a); \
                 CREATE TABLE middle (v text, b int NOT NULL, a int NOT NULL) PARTITION BY HASH (b); \
                 CREATE TABLE leaf (b int NOT NULL, v text, a int NOT NULL); \
                 ALTER TABLE middle ATTACH PARTITION leaf FOR VALUES WITH (MODULUS 1, REMAINDER 0); \
                 ALTER TABLE root ATTACH PARTITION middle FOR VALUES FROM (0) TO (10); \
                 CREATE TABLE rest PARTITION OF root DEFAULT",
            )
            .await;
        let [(as_root, root), (as_parts, parts)] = both(&database, &kafka).await;
        for sql in [
            "INSERT INTO root VALUES (1, 100, 'x'), (50, 200, 'y')",
            "UPDATE root SET v = 'z'",
            "UPDATE root SET a = 51 WHERE a = 1",
            "DELETE FROM root WHERE a = 50",
        ] {
            database.execute(sql).await;
        }
        for (name, walferry) in [(&as_root, &root), (&as_parts, &parts)] {
            database.confirmed(name, SOON, || walferry.log()).await;
        }
        let topic = format!("{as_root}.public.root");
        assert_eq!(kafka.topics(&format!("{as_root}.")).await, [topic.as_str()]);
        let reading = faultless_events(&kafka, std::slice::from_ref(&topic)).await;
        assert_eq!(reading.topics[&topic].key, Some(vec!["b".to_owned(), "a".to_owned()]));
        reading.equals(&database, "root", &topic).await;
        let topics = ["leaf", "rest"].map(|t| format!("{as_parts}.public.{t}"));
        assert_eq!(kafka.topics(&format!("{as_parts}.")).await, topics);
        let reading = faultless_events(&kafka, &topics).await;
        for (table, topic) in ["leaf", "rest"].iter().zip(&topics) {
            reading.equals(&database, table, topic).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_inherits_has_its_own_topic_and_columns() {
    for version in [10, 18] {
        let (postgres, kafka) = (Postgres::shared(version), Kafka::shared());
        let database = postgres.database().await;
        let name = pipeline();
        database
            .execute(&format!(
                "CREATE TABLE parent (id int PRIMARY KEY, v text); \
                 CREATE TABLE child (more int, PRIMARY KEY (id)) INHERITS (parent); \
                 CREATE PUBLICATION {name} FOR TABLE parent"
            ))
            .await;
        let mut walferry = Walferry::start(&Config::new(&name, &database, &kafka));
        walferry.ready(SOON).await;
        for sql in [
            "INSERT INTO parent VALUES (1, 'p'); INSERT INTO child VALUES (2, 'c', 7)",
            // Rows of both tables, by one statement.
            "UPDATE parent SET v = 'both'",
            "DELETE FROM parent WHERE id = 2",
        ] {
            database.execute(sql).await;
        }
        database.confirmed(&name, SOON, || walferry.log()).await;
        let topics = ["child", "parent"].map(|t| format!("{name}.public.{t}"));
        assert_eq!(kafka.topics(&format!("{name}.")).await, topics, "Postgres {version}");
        let reading = faultless_events(&kafka, &topics).await;
        assert_eq!(
            lines(&reading, &topics[0]),
            [
                "c | id=2 | - | id=2 more=7 v=c | ",
                "u | id=2 | - | id=2 more=7 v=both | ",
                "d | id=2 | id=2 more=NULL v=NULL | - | ",
            ],
            "Postgres {version}"
        );
        assert_eq!(
            lines(&reading, &topics[1]),
            ["c | id=1 | - | id=1 v=p | ", "u | id=1 | - | id=1 v=both | "],
            "Postgres {version}"
        );
    }
}
