//! Tables that change while they are published: each record is what was true at its commit, whether the pipeline is there or
//! ten thousand transactions behind.

mod churn;
mod composites;
mod ddl;
mod faults;
mod levels;
mod policy;

use crate::harness::{Config, Database, Record, Walferry};
use serde_json::Value;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);
const LATER: Duration = Duration::from_secs(120);

/// Whether the pipeline runs while the statements do, or starts after them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    Live,
    Behind,
}

/// Instead of a statement: a pipeline that runs has read all that came before.
const SETTLED: &str = "-- settled";

/// Runs the statements, each its own transaction unless it says otherwise, and the pipeline until all is confirmed. Behind, it has
/// made its slot before, and has `between` transactions of another table to read after each statement.
async fn publish(database: &Database<'_>, config: &Config, pace: Pace, between: u32, statements: &[&str]) {
    let mut walferry = Walferry::start(config);
    walferry.ready(SOON).await;
    if pace == Pace::Behind {
        assert_eq!(walferry.terminate(SOON).await.code, Some(0));
    }
    for sql in statements {
        if *sql == SETTLED {
            if pace == Pace::Live {
                database.confirmed(&config.slot(), LATER, || walferry.log()).await;
            }
            continue;
        }
        database.execute(sql).await;
        if pace == Pace::Behind && between > 0 {
            let transaction = "BEGIN; INSERT INTO noise DEFAULT VALUES; COMMIT;";
            database.execute(&transaction.repeat(between as usize)).await;
        }
    }
    if pace == Pace::Behind {
        walferry = Walferry::start(config);
        walferry.ready(SOON).await;
    }
    database.confirmed(&config.slot(), LATER, || walferry.log()).await;
    let exit = walferry.terminate(SOON).await;
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);
}

/// A record of the `row` envelope on a line: operation, key, and each field of the row with the type that its own schema gives it,
/// in the schema's order.
fn line(record: &Record) -> String {
    let key = record.key.as_ref().map_or("-".to_owned(), |key| {
        let columns = key
            .iter()
            .map(|(name, value)| format!("{name}={}", text(value.as_deref())));
        columns.collect::<Vec<_>>().join(",")
    });
    let row = match (&record.schema, &record.value) {
        (Some(schema), Some(row)) => {
            let fields = schema["fields"].as_array().unwrap().iter().map(|field| {
                let name = field["name"].as_str().unwrap();
                format!("{name}:{}={}", type_name(&field["type"]), text(row[name].as_str()))
            });
            fields.collect::<Vec<_>>().join(" ")
        }
        _ => "-".to_owned(),
    };
    format!("{} {key} | {row}", record.headers["walferry.op"])
}

fn text(value: Option<&str>) -> &str {
    value.unwrap_or("NULL")
}

/// `long`, `int?` for a nullable one, `decimal(10,2)`, `[string]`, `{a,b}`.
fn type_name(kind: &Value) -> String {
    match kind {
        Value::Array(branches) => format!("{}?", type_name(&branches[1])),
        Value::Object(object) => match (object.get("logicalType"), object["type"].as_str().unwrap()) {
            (Some(logical), _) if logical == "decimal" => {
                format!("decimal({},{})", object["precision"], object["scale"])
            }
            (Some(logical), _) => logical.as_str().unwrap().to_owned(),
            (None, "array") => format!("[{}]", type_name(&object["items"]).trim_end_matches('?')),
            (None, "record") => {
                let fields = object["fields"].as_array().unwrap().iter();
                let names = fields.map(|field| field["name"].as_str().unwrap());
                format!("{{{}}}", names.collect::<Vec<_>>().join(","))
            }
            (None, other) => other.to_owned(),
        },
        // A record that was defined before goes by its full name.
        other => other.as_str().unwrap().rsplit('.').next().unwrap().to_owned(),
    }
}
