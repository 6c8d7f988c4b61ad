//! walferry beside Debezium's Postgres connector, over one corpus: the same records and the same schemas, but for the differences that
//! docs/from-debezium.md lists. What Debezium wrote is in tests/golden/debezium (`scripts/record-debezium`).

use crate::harness::{Config, Database, Env, Kafka, Postgres, Registry, Walferry, fresh};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The files of the corpus in their order, each as its statements.
fn corpus() -> Vec<(String, Vec<String>)> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(repository().join("tests/debezium/corpus"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
        .iter()
        .map(|path| {
            let text = std::fs::read_to_string(path).unwrap();
            let code: Vec<&str> = text.lines().filter(|line| !line.starts_with("--")).collect();
            let statements = code.join("\n");
            let statements = statements.split(";\n").map(str::trim).filter(|s| !s.is_empty());
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, statements.map(str::to_owned).collect())
        })
        .collect()
}

async fn run(database: &Database<'_>, statements: &[String]) {
    for statement in statements {
        database.execute(statement).await;
    }
}

/// Topics in the form of the golden files, by `schema.table`.
async fn read(prefix: &str, database: &str) -> BTreeMap<String, Value> {
    let env = Env::get();
    let output = tokio::process::Command::new(&env.python)
        .arg(repository().join("tests/debezium/read.py"))
        .args(["--brokers", &env.kafka, "--registry", &env.registry])
        .args(["--prefix", prefix, "--database", database])
        .output()
        .await
        .unwrap();
    assert!(
        output.status.success(),
        "the reader failed:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

fn golden() -> BTreeMap<String, Value> {
    std::fs::read_dir(repository().join("tests/golden/debezium"))
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let topic = path.file_stem().unwrap().to_string_lossy().into_owned();
            (topic, serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap())
        })
        .collect()
}

/// A schema in which a difference has a place: names in full, fields by name.
fn canonical(schema: &Value, namespace: &str) -> Value {
    const PRIMITIVE: [&str; 8] = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"];
    let full = |name: &str, namespace: &str| match name.contains('.') || namespace.is_empty() {
        true => name.to_owned(),
        false => format!("{namespace}.{name}"),
    };
    match schema {
        Value::String(name) if PRIMITIVE.contains(&name.as_str()) => schema.clone(),
        Value::String(name) => json!(full(name, namespace)),
        Value::Array(branches) => branches.iter().map(|branch| canonical(branch, namespace)).collect(),
        Value::Object(object) => {
            let mut out = object.clone();
            let namespace = object.get("namespace").and_then(Value::as_str).unwrap_or(namespace);
            if let Some(name) = object.get("name").and_then(Value::as_str) {
                out.insert("name".into(), json!(full(name, namespace)));
                out.remove("namespace");
            }
            for part in ["items", "values"] {
                if let Some(part_schema) = object.get(part) {
                    out.insert(part.into(), canonical(part_schema, namespace));
                }
            }
            if let Some(Value::Array(fields)) = object.get("fields") {
                let mut by_name = Map::new();
                for field in fields {
                    let mut field = field.as_object().unwrap().clone();
                    field["type"] = canonical(&field["type"], namespace);
                    let name = field.remove("name").unwrap();
                    by_name.insert(name.as_str().unwrap().to_owned(), Value::Object(field));
                }
                out.insert(
                    "order".into(),
                    fields.iter().map(|field| field["name"].clone()).collect(),
                );
                out.insert("fields".into(), Value::Object(by_name));
            }
            match out.len() {
                1 => out["type"].clone(),
                _ => Value::Object(out),
            }
        }
        other => other.clone(),
    }
}

/// Differences by their place, with both sides. A place says so where only one of them has it, or walferry has a null there.
#[derive(Default)]
struct Comparison {
    differences: BTreeMap<String, (Value, Value)>,
    records: usize,
    fields: usize,
    schemas: usize,
}

impl Comparison {
    fn differ(&mut self, place: &str, theirs: Value, ours: Value) {
        self.differences.entry(place.to_owned()).or_insert((theirs, ours));
    }

    fn compare(&mut self, place: &str, theirs: &Value, ours: &Value) {
        match (theirs, ours) {
            (Value::Object(theirs), Value::Object(ours)) => {
                let names: BTreeSet<&String> = theirs.keys().chain(ours.keys()).collect();
                for name in names {
                    let place = format!("{place}.{name}");
                    match (theirs.get(name), ours.get(name)) {
                        (Some(theirs), Some(ours)) if name == "order" => self.order(&place, theirs, ours),
                        (Some(theirs), Some(ours)) => self.compare(&place, theirs, ours),
                        (None, Some(ours)) => {
                            self.differ(&format!("{place} (only walferry)"), Value::Null, ours.clone());
                        }
                        (theirs, _) => {
                            let theirs = theirs.cloned().unwrap_or_default();
                            self.differ(&format!("{place} (only Debezium)"), theirs, Value::Null);
                        }
                    }
                }
            }
            (Value::Array(theirs), Value::Array(ours)) if theirs.len() == ours.len() => {
                for (theirs, ours) in theirs.iter().zip(ours) {
                    self.compare(&format!("{place}[]"), theirs, ours);
                }
            }
            _ => {
                self.fields += 1;
                match ours {
                    ours if theirs == ours => {}
                    Value::Null => self.differ(&format!("{place} (null)"), theirs.clone(), ours.clone()),
                    ours => self.differ(place, theirs.clone(), ours.clone()),
                }
            }
        }
    }

    /// The fields that both have stand in the same order.
    fn order(&mut self, place: &str, theirs: &Value, ours: &Value) {
        let (theirs, ours) = (theirs.as_array().unwrap(), ours.as_array().unwrap());
        let common = |of: &[Value], other: &[Value]| -> Value {
            of.iter().filter(|name| other.contains(name)).cloned().collect()
        };
        self.compare(place, &common(theirs, ours), &common(ours, theirs));
    }

    fn topic(&mut self, topic: &str, theirs: &Value, ours: &Value) {
        let records = |of: &Value| of["records"].as_array().unwrap().clone();
        let (their_records, our_records) = (records(theirs), records(ours));
        let mut schemas = BTreeSet::new();
        if their_records.len() != our_records.len() {
            let place = format!("{topic} records");
            self.differ(&place, json!(their_records.len()), json!(our_records.len()));
        }
        for (their, our) in their_records.iter().zip(&our_records) {
            self.records += 1;
            for part in ["key", "value", "headers"] {
                self.compare(&format!("{topic} {part}"), &their[part], &our[part]);
            }
            for part in ["key", "value"] {
                let index = |of: &Value| of[format!("{part}_schema")].as_u64();
                let (their, our) = (index(their), index(our));
                if let (Some(their), Some(our)) = (their, our)
                    && schemas.insert((part, their, our))
                {
                    self.schemas += 1;
                    let schema = |of: &Value, at: u64| canonical(&of["schemas"][usize::try_from(at).unwrap()], "");
                    self.compare(
                        &format!("{topic} {part} schema"),
                        &schema(theirs, their),
                        &schema(ours, our),
                    );
                }
            }
        }
    }
}

/// Places of differences that stay, as docs/from-debezium.md lists them: what stands in backquotes in the first column.
fn documented() -> Vec<String> {
    let text = std::fs::read_to_string(repository().join("docs/from-debezium.md")).unwrap();
    let (_, list) = text.split_once("## Differences").expect("a list of differences");
    let list = list.split("\n## ").next().unwrap();
    let rows = list.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.flat_map(|row| {
        let (places, _) = row.split_once("` |").expect("a place");
        places.split("`, `").map(str::to_owned).collect::<Vec<_>>()
    })
    .collect()
}

/// `*` stands for anything.
fn matches(pattern: &str, place: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap();
    let Some(mut rest) = place.strip_prefix(first) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else {
        return rest.is_empty();
    };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// Runs the corpus through walferry and compares. `format`: of `replication.format`; without the tables that have no binary form.
async fn compare(format: &str, without: &[&str]) {
    let postgres = Postgres::shared(17);
    let database = postgres.database().await;
    let name = fresh("corpus");
    let mut files = corpus();
    let (_, tables) = files.remove(0);
    run(&database, &tables).await;
    // They get inserts alone, which do not depend on it; walferry does not start where an update would be refused.
    for table in ["id_nothing", "no_key"] {
        database
            .execute(&format!("ALTER TABLE {table} REPLICA IDENTITY FULL"))
            .await;
    }
    let mut publication = "corpus".to_owned();
    if !without.is_empty() {
        publication = "fewer".to_owned();
        let list = database
            .value(&format!(
                "SELECT string_agg(format('%I.%I', schemaname, tablename), ', ') FROM pg_publication_tables WHERE pubname = 'corpus' \
                 AND NOT tablename = ANY ('{{{}}}')",
                without.join(",")
            ))
            .await
            .unwrap();
        database
            .execute(&format!(
                "CREATE PUBLICATION fewer FOR TABLE {list} WITH (publish_via_partition_root = true)"
            ))
            .await;
    }
    let config = Config::new(&name, &database, &Kafka::shared())
        .text("replication.publication", &publication)
        .text("replication.format", format)
        .text("avro.types", "debezium");
    let mut walferry = Walferry::start(&config);
    walferry.ready(LIMIT).await;
    for (_, statements) in &files {
        run(&database, statements).await;
        database.confirmed(walferry.slot(), LIMIT, || walferry.log()).await;
    }
    let ours = read(&name, &database.name).await;

    let mut comparison = Comparison::default();
    let golden = golden();
    let compared = golden.keys().filter(|topic| {
        let table = topic.split_once('.').map_or("", |(_, table)| table);
        !without.contains(&table) && (without.is_empty() || !table.starts_with("limit_"))
    });
    let mut topics = 0;
    for topic in compared {
        topics += 1;
        match ours.get(topic) {
            Some(ours) => comparison.topic(topic, &golden[topic], ours),
            None => comparison.differ(&format!("{topic} topic"), json!("there"), json!("not there")),
        }
    }
    for topic in ours.keys().filter(|topic| !golden.contains_key(*topic)) {
        comparison.differ(&format!("{topic} topic"), json!("not there"), json!("there"));
    }
    eprintln!(
        "compared with Debezium ({format}): {topics} topics, {} records, {} schemas, {} fields and properties; {} places differ",
        comparison.records,
        comparison.schemas,
        comparison.fields,
        comparison.differences.len()
    );
    let documented = documented();
    let unlisted: Vec<_> = comparison
        .differences
        .iter()
        .filter(|(place, _)| !documented.iter().any(|pattern| matches(pattern, place)))
        .map(|(place, (theirs, ours))| format!("{place}\n    Debezium: {theirs}\n    walferry: {ours}"))
        .collect();
    let gone: Vec<_> = documented
        .iter()
        .filter(|pattern| !comparison.differences.keys().any(|place| matches(pattern, place)))
        .collect();
    assert!(
        unlisted.is_empty(),
        "{} differences are not in docs/from-debezium.md:\n{}",
        unlisted.len(),
        unlisted.join("\n")
    );
    if without.is_empty() {
        assert!(
            gone.is_empty(),
            "docs/from-debezium.md lists differences that are not there: {gone:#?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn records_and_schemas_are_debeziums_but_for_the_differences_that_are_documented() {
    compare("text", &[]).await;
}

/// Of the tables whose types all have a binary form.
#[tokio::test(flavor = "multi_thread")]
async fn they_are_in_the_binary_format_too() {
    compare("binary", &["unhandled", "arrays_unhandled", "isbns"]).await;
}

/// The catalog says NOT NULL, and the row that is being read is older than that.
#[tokio::test(flavor = "multi_thread")]
async fn a_null_from_before_a_not_null_stays_null() {
    let postgres = Postgres::shared(17);
    let database = postgres.database().await;
    let name = fresh("older");
    database
        .execute("CREATE TABLE t (id int PRIMARY KEY, v int, w int NOT NULL)")
        .await;
    let config = Config::new(&name, &database, &Kafka::shared()).text("avro.types", "debezium");
    let mut walferry = Walferry::start(&config);
    walferry.ready(LIMIT).await;
    assert_eq!(walferry.terminate(LIMIT).await.code, Some(0));
    for sql in [
        "INSERT INTO t VALUES (1, NULL, 1)",
        "UPDATE t SET v = 10",
        "ALTER TABLE t ALTER v SET NOT NULL",
        "INSERT INTO t VALUES (2, 20, 2)",
    ] {
        database.execute(sql).await;
    }
    let mut walferry = Walferry::start(&config);
    walferry.ready(LIMIT).await;
    database.confirmed(walferry.slot(), LIMIT, || walferry.log()).await;

    let topics = read(&name, &database.name).await;
    let topic = &topics["public.t"];
    let records = topic["records"].as_array().unwrap();
    let after: Vec<&Value> = records.iter().map(|record| &record["value"]["after"]).collect();
    assert_eq!(
        after,
        [
            &json!({"id": 1, "v": null, "w": 1}),
            &json!({"id": 1, "v": 10, "w": 1}),
            &json!({"id": 2, "v": 20, "w": 2}),
        ]
    );
    for record in records {
        let schema = &topic["schemas"][usize::try_from(record["value_schema"].as_u64().unwrap()).unwrap()];
        let fields = &schema["fields"][0]["type"][1]["fields"];
        assert_eq!(fields[1]["type"], json!(["null", "int"]), "v, which was null once");
        assert_eq!(fields[2]["type"], json!("int"), "w, which never was");
    }
}

/// A subject that holds Debezium's schema takes walferry's as its next version.
#[tokio::test(flavor = "multi_thread")]
async fn a_subject_of_debeziums_takes_the_schemas_at_full_compatibility() {
    let postgres = Postgres::shared(17);
    let database = postgres.database().await;
    let registry = Registry::shared();
    let name = fresh("takeover");
    let golden = golden();
    let tables = [
        "numbers",
        "numbers_nn",
        "texts",
        "times",
        "times_nn",
        "others",
        "arrays",
        "defaults",
        "id_full",
    ];
    for table in tables {
        let golden = &golden[&format!("public.{table}")];
        let record = &golden["records"][0];
        for part in ["key", "value"] {
            let at = usize::try_from(record[format!("{part}_schema")].as_u64().unwrap()).unwrap();
            let schema = golden["schemas"][at]
                .to_string()
                .replace("corpus.", &format!("{name}."));
            let subject = format!("{name}.public.{table}-{part}");
            registry
                .register(&subject, &serde_json::from_str(&schema).unwrap())
                .await;
            registry.compatibility(&subject, "FULL").await;
        }
    }
    let mut files = corpus().into_iter();
    run(&database, &files.next().unwrap().1).await;
    let list: Vec<String> = tables.iter().map(|table| format!("public.{table}")).collect();
    database
        .execute(&format!("CREATE PUBLICATION few FOR TABLE {}", list.join(", ")))
        .await;
    let config = Config::new(&name, &database, &Kafka::shared())
        .text("replication.publication", "few")
        .text("avro.types", "debezium");
    let mut walferry = Walferry::start(&config);
    walferry.ready(LIMIT).await;
    run(&database, &files.next().unwrap().1).await;
    database.execute("INSERT INTO id_full VALUES (1, 'one', 1)").await;
    database.confirmed(walferry.slot(), LIMIT, || walferry.log()).await;
    for table in tables {
        assert_eq!(
            registry.versions(&format!("{name}.public.{table}-value")).await,
            2,
            "{table}"
        );
    }
}
