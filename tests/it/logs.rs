//! The log as JSON: what a collector of logs goes by.

use crate::harness::{Config, Kafka, Postgres, Walferry};
use crate::workload::pipeline;
use serde_json::{Map, Value};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);

/// The line of this message.
#[track_caller]
fn line<'a>(lines: &'a [Map<String, Value>], message: &str) -> &'a Map<String, Value> {
    let found = lines.iter().find(|line| line["message"] == message);
    found.unwrap_or_else(|| panic!("no {message:?} in {lines:#?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn each_line_is_an_object_with_the_documented_fields() {
    let (postgres, kafka) = (Postgres::shared(17), Kafka::shared());
    let database = postgres.database().await;
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v text)").await;
    let name = pipeline();
    let config = Config::new(&name, &database, &kafka).text("log.format", "json");
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    database
        .execute("INSERT INTO t VALUES (1, 'a secret of the row')")
        .await;
    database.confirmed(walferry.slot(), SOON, || walferry.log()).await;
    let exit = walferry.terminate(SOON).await;
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);
    assert!(!exit.stderr.contains("a secret of the row"), "{}", exit.stderr);

    let mut lines = Vec::new();
    for text in exit.stderr.lines() {
        let object: Map<String, Value> = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
        for field in ["timestamp", "level", "target", "message"] {
            assert!(object.get(field).is_some_and(Value::is_string), "{field}: {text}");
        }
        // A name that stands there twice is lost in a parser.
        for field in object.keys() {
            assert_eq!(text.matches(&format!("\"{field}\":")).count(), 1, "{field}: {text}");
        }
        assert!(object["timestamp"].as_str().unwrap().ends_with('Z'), "{text}");
        lines.push(object);
    }
    let starts = line(&lines, "walferry starts");
    assert_eq!(starts["name"], name.as_str());
    assert_eq!(starts["level"], "INFO");
    assert_eq!(starts["target"], "walferry::cli::run");
    for field in ["version", "revision", "configuration", "http"] {
        assert!(starts[field].is_string(), "{field}: {starts:?}");
    }
    let streaming = line(&lines, "streaming");
    assert_eq!(streaming["slot"], walferry.slot());
    for field in ["publication", "start", "published"] {
        assert!(streaming[field].is_string(), "{field}: {streaming:?}");
    }
    for field in ["server_version", "protocol_version"] {
        assert!(streaming[field].is_u64(), "{field}: {streaming:?}");
    }
    let stopped = line(&lines, "stopped as asked; everything received is confirmed");
    assert!(stopped["confirmed"].is_string(), "{stopped:?}");
}
