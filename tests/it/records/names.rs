//! Names that Kafka or Avro forbid, and partitions.

use super::{SOON, faultless_events, publish};
use crate::harness::{Config, Kafka, Postgres, Walferry};
use crate::workload::pipeline;

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
