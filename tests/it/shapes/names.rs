//! Names: none meets another, and the original stands in the schema.

use crate::harness::{Config, Kafka, Postgres, Registry, Walferry, read_records};
use crate::records::{SOON, faultless_events, publish};
use crate::workload::pipeline;
use serde_json::{Value, json};

/// The fields of the row's record: name, and the original where it had to be escaped.
fn fields(schema: &Value) -> Vec<(String, Option<String>)> {
    let fields = schema["fields"].as_array().unwrap();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    fields
        .iter()
        .map(|f| (text(&f["name"]).unwrap(), text(&f["walferry.name"])))
        .collect()
}

/// Columns, and the fields that they become.
const COLUMNS: &[(&str, &str)] = &[
    ("id", "id"),
    ("order-id", "order_u002Did"),
    ("order_u002Did", "order_u005Fu002Did"),
    ("order_id", "order_id"),
    ("1st", "_u0031st"),
    ("_u0031st", "_u005Fu0031st"),
    ("größe", "gr_u00F6_u00DFe"),
    ("gr_u00F6_u00DFe", "gr_u005Fu00F6_u005Fu00DFe"),
    ("a b", "a_u0020b"),
    ("a.b", "a_u002Eb"),
    ("a\\b", "a_u005Cb"),
    ("a'b", "a_u0027b"),
    ("a\"b", "a_u0022b"),
    ("Id", "Id"),
    ("ID", "ID"),
    (" ", "_u0020"),
    ("🚢", "_uD83D_uDEA2"),
    ("null", "null"),
    ("walferry.name", "walferry_u002Ename"),
    ("before", "before"),
    ("unchanged", "unchanged"),
    ("$1", "_u00241"),
    ("\t\n", "_u0009_u000A"),
];

#[tokio::test(flavor = "multi_thread")]
async fn columns_whose_names_avro_forbids_never_meet_and_keep_their_names_in_the_schema() {
    for version in [10, 18] {
        for envelope in ["row", "debezium"] {
            let (postgres, kafka) = (Postgres::shared(version), Kafka::shared());
            let database = postgres.database().await;
            let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
            let columns: Vec<String> = COLUMNS
                .iter()
                .map(|(column, _)| format!("{} text", quoted(column)))
                .collect();
            database
                .execute(&format!(
                    "CREATE TABLE t ({}, PRIMARY KEY (\"größe\", \"1st\"))",
                    columns.join(", ")
                ))
                .await;
            let name = pipeline();
            let config = Config::new(&name, &database, &kafka).text("avro.envelope", envelope);
            let values: Vec<String> = (0..COLUMNS.len()).map(|n| format!("'value {n}'")).collect();
            publish(
                &database,
                &config,
                &[&format!("INSERT INTO t VALUES ({})", values.join(", "))],
            )
            .await;
            let topic = format!("{name}.public.t");
            let records = read_records(&kafka.address, std::slice::from_ref(&topic)).await;
            let mut schema = records[0].schema.clone().unwrap();
            if envelope == "debezium" {
                schema = schema["fields"][0]["type"][1].clone();
            }
            let expected: Vec<(String, Option<String>)> = COLUMNS
                .iter()
                .map(|(column, field)| ((*field).to_owned(), (column != field).then(|| (*column).to_owned())))
                .collect();
            assert_eq!(fields(&schema), expected, "Postgres {version}");
            let key = records[0].key.as_ref().unwrap();
            assert_eq!(key["größe"].as_deref(), Some("value 6"));
            assert_eq!(key["1st"].as_deref(), Some("value 4"));
            if envelope == "row" {
                for (n, (column, _)) in COLUMNS.iter().enumerate() {
                    assert_eq!(
                        records[0].column(column),
                        Some(format!("value {n}").as_str()),
                        "{column}"
                    );
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_types_and_enums_of_one_name_in_two_schemas_stay_apart() {
    for version in [10, 18] {
        let (postgres, kafka, registry) = (Postgres::shared(version), Kafka::shared(), Registry::shared());
        let database = postgres.database().await;
        for (schema, labels, attribute) in [("one", "'a', 'b'", "x int"), ("two", "'c', 'd'", "y text")] {
            database
                .execute(&format!(
                    "CREATE SCHEMA {schema}; CREATE TYPE {schema}.mood AS ENUM ({labels}); \
                     CREATE TYPE {schema}.part AS ({attribute})"
                ))
                .await;
        }
        // Each table has the types of both schemas.
        database
            .execute(
                "CREATE TABLE one.t (id int PRIMARY KEY, m one.mood, n two.mood, p one.part, q two.part); \
                 CREATE TABLE two.t (id text PRIMARY KEY, m two.mood, n one.mood, p two.part, q one.part)",
            )
            .await;
        let name = pipeline();
        let config = Config::new(&name, &database, &kafka)
            .text("avro.envelope", "row")
            .text("schema_registry.subject", "topic-record-name")
            .set("replication.tables", "[\"*.*\"]");
        publish(
            &database,
            &config,
            &[
                "INSERT INTO one.t VALUES (1, 'a', 'c', ROW(7), ROW('u'))",
                "INSERT INTO two.t VALUES ('k', 'd', 'b', ROW('v'), ROW(8))",
            ],
        )
        .await;
        let topics = ["one", "two"].map(|schema| format!("{name}.{schema}.t"));
        assert_eq!(kafka.topics(&format!("{name}.")).await, topics, "Postgres {version}");
        let records = read_records(&kafka.address, &topics).await;
        let value = |topic: &str| {
            records
                .iter()
                .find(|r| r.topic == *topic)
                .unwrap()
                .value
                .clone()
                .unwrap()
        };
        assert_eq!(
            value(&topics[0]),
            json!({ "id": "1", "m": "a", "n": "c", "p": "{\"x\": 7}", "q": "{\"y\": \"u\"}" })
        );
        assert_eq!(
            value(&topics[1]),
            json!({ "id": "k", "m": "d", "n": "b", "p": "{\"y\": \"v\"}", "q": "{\"x\": 8}" })
        );
        for (topic, [first, second]) in topics.iter().zip([["one", "two"], ["two", "one"]]) {
            let schema = records
                .iter()
                .find(|r| r.topic == *topic)
                .unwrap()
                .schema
                .as_ref()
                .unwrap();
            let of = |field: usize| schema["fields"][field]["type"][1].clone();
            for (field, of_schema) in [(3, first), (4, second)] {
                assert_eq!(of(field)["name"], "part");
                assert_eq!(of(field)["namespace"], format!("{topic}.{of_schema}"));
                assert_eq!(of(field)["walferry.schema"], of_schema);
            }
            assert_eq!(registry.versions(&format!("{topic}-{topic}.Value")).await, 1);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn topics_that_kafka_takes_for_one_are_refused_with_what_keeps_them_apart() {
    let (postgres, kafka) = (Postgres::shared(18), Kafka::shared());
    let database = postgres.database().await;
    database
        .execute(
            "CREATE SCHEMA a; CREATE SCHEMA a_b; CREATE TABLE a.b_c (id int PRIMARY KEY); CREATE TABLE a_b.c (id int PRIMARY KEY)",
        )
        .await;
    let inserts = ["INSERT INTO a.b_c VALUES (1)", "INSERT INTO a_b.c VALUES (2)"];
    let name = pipeline();
    let config = Config::new(&name, &database, &kafka).set("replication.tables", "[\"*.*\"]");
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    for sql in inserts {
        database.execute(sql).await;
    }
    let exit = walferry.end(SOON).await;
    assert_eq!(exit.code, Some(1), "{}", exit.stderr);
    exit.says(&[&format!("{name}.a_b.c"), "kafka.topic", "{name}.{schema}-.{table}"]);

    let name = pipeline();
    let config = Config::new(&name, &database, &kafka)
        .set("replication.tables", "[\"*.*\"]")
        .text("kafka.topic", "{name}.{schema}-.{table}");
    publish(
        &database,
        &config,
        &["INSERT INTO a.b_c VALUES (3)", "INSERT INTO a_b.c VALUES (4)"],
    )
    .await;
    let topics = [format!("{name}.a-.b_c"), format!("{name}.a_b-.c")];
    assert_eq!(kafka.topics(&format!("{name}.")).await, topics);
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_whose_names_are_made_equal_by_a_careless_escape_have_topics_of_their_own() {
    let tables = [
        ("a_b", "a_b"),
        ("a b", "a_u0020b"),
        ("a-b", "a-b"),
        ("a.b", "a_u002Eb"),
        ("a_u0020b", "a_u005Fu0020b"),
        ("A_B", "A_B"),
        ("ab", "ab"),
        ("a/b", "a_u002Fb"),
        ("a%b", "a_u0025b"),
        ("..", "_u002E_u002E"),
        ("-", "-"),
        ("a\u{0301}", "a_u0301"),
        ("á", "_u00E1"),
    ];
    for version in [10, 18] {
        let (postgres, kafka) = (Postgres::shared(version), Kafka::shared());
        let database = postgres.database().await;
        let name = pipeline();
        let mut inserts = Vec::new();
        for (table, escaped) in tables {
            database
                .execute(&format!("CREATE TABLE \"{table}\" (id int PRIMARY KEY, v text)"))
                .await;
            inserts.push(format!("INSERT INTO \"{table}\" VALUES (1, '{escaped}')"));
        }
        let inserts: Vec<&str> = inserts.iter().map(String::as_str).collect();
        publish(&database, &Config::new(&name, &database, &kafka), &inserts).await;
        let mut topics: Vec<String> = tables
            .iter()
            .map(|(_, escaped)| format!("{name}.public.{escaped}"))
            .collect();
        let reading = faultless_events(&kafka, &topics).await;
        for ((table, escaped), topic) in tables.iter().zip(&topics) {
            assert_eq!(reading.topics[topic].rows[0]["v"].as_deref(), Some(*escaped), "{table}");
        }
        topics.sort();
        assert_eq!(kafka.topics(&format!("{name}.")).await, topics, "Postgres {version}");
    }
}
