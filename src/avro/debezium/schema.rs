//! The records around a row's columns: `Key`, `Value`, `Envelope`; and those of logical messages.
//!
//! `source` has walferry's own fields at its end, and the envelope has `unchanged`. They have defaults, so that a subject which holds
//! Debezium's schema takes this one at any level of compatibility.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::relation::Relation;

use super::super::name::field_name;
use super::super::schema::full_name;
use super::super::source;
use super::connect::{Item, Writer};

/// A column in a schema.
pub(super) struct Column<'a> {
    /// Its name in Postgres.
    pub(super) original: &'a str,
    /// Its name here.
    pub(super) name: String,
    /// Whether a rule leaves it out.
    pub(super) excluded: bool,
    pub(super) item: Item,
    pub(super) default: Option<Value>,
}

/// A name as Debezium adjusts it to Avro (`field.name.adjustment.mode = avro`): an underscore in the place of what Avro forbids, and before
/// a digit at the beginning.
pub(in crate::avro) fn adjusted(name: &str) -> String {
    let mut adjusted = String::with_capacity(name.len());
    if name.starts_with(|first: char| first.is_ascii_digit()) {
        adjusted.push('_');
    }
    adjusted.extend(name.chars().map(|character| match character {
        'A'..='Z' | 'a'..='z' | '0'..='9' | '_' => character,
        _ => '_',
    }));
    adjusted
}

/// Names the columns. Where two would meet, all of these have walferry's own escape, which keeps names apart.
pub(super) fn name(columns: &mut [Column<'_>]) {
    let mut seen = BTreeSet::new();
    let met: BTreeSet<String> = columns
        .iter()
        .filter(|column| !column.excluded)
        .map(|column| adjusted(column.original))
        .filter(|name| !seen.insert(name.clone()))
        .collect();
    for column in columns {
        let adjusted = adjusted(column.original);
        column.name = match met.contains(&adjusted) {
            true => field_name(column.original).into_owned(),
            false => adjusted,
        };
    }
}

/// The record of a key.
pub(super) fn key(namespace: &str, relation: &Relation, columns: &[Column<'_>]) -> String {
    let fields = relation.key.iter().filter_map(|index| columns.get(*index));
    record(namespace, "Key", fields).to_string()
}

/// The record of a row.
pub(super) fn value(namespace: &str, columns: &[Column<'_>]) -> Value {
    record(namespace, "Value", columns.iter())
}

fn record<'a>(namespace: &str, name: &str, columns: impl Iterator<Item = &'a Column<'a>>) -> Value {
    let mut writer = Writer::default();
    let fields: Vec<Value> = columns
        .filter(|column| !column.excluded)
        .map(|column| {
            let mut field = writer.field(&column.name, &column.item, column.default.as_ref());
            if column.name != column.original {
                field.insert("walferry.name".to_owned(), json!(column.original));
            }
            Value::Object(field)
        })
        .collect();
    json!({
        "type": "record",
        "name": name,
        "namespace": namespace,
        "fields": fields,
        "connect.name": full_name(namespace, name),
    })
}

/// The envelope around a row's record.
pub(super) fn envelope(namespace: &str, columns: &[Column<'_>]) -> String {
    json!({
        "type": "record",
        "name": "Envelope",
        "namespace": namespace,
        "fields": [
            {"name": "before", "type": ["null", value(namespace, columns)], "default": null},
            {"name": "after", "type": ["null", full_name(namespace, "Value")], "default": null},
            {"name": "source", "type": source()},
            transaction(),
            {"name": "op", "type": "string"},
            time("ts_ms"),
            time("ts_us"),
            time("ts_ns"),
            {"name": "unchanged", "type": {"type": "array", "items": "string"}, "default": []},
        ],
        "connect.version": 2,
        "connect.name": full_name(namespace, "Envelope"),
    })
    .to_string()
}

fn time(name: &str) -> Value {
    json!({"name": name, "type": ["null", "long"], "default": null})
}

fn transaction() -> Value {
    json!({"name": "transaction", "type": ["null", {
        "type": "record",
        "name": "block",
        "namespace": "event",
        "fields": [
            {"name": "id", "type": "string"},
            {"name": "total_order", "type": "long"},
            {"name": "data_collection_order", "type": "long"},
        ],
        "connect.version": 1,
        "connect.name": "event.block",
    }], "default": null})
}

/// The same bytes as with Avro's own types.
fn source() -> Value {
    let mut source: Map<String, Value> = serde_json::from_str(source::SCHEMA).unwrap_or_default();
    let fields = source.get_mut("fields").and_then(Value::as_array_mut);
    for field in fields.into_iter().flatten().filter_map(Value::as_object_mut) {
        match field.get("name").and_then(Value::as_str) {
            Some("snapshot") => field.insert("type".to_owned(), snapshot()),
            Some("commit_lsn" | "ordinal") => field.insert("default".to_owned(), json!(0)),
            _ => None,
        };
    }
    source.insert("connect.version".to_owned(), json!(1));
    source.insert("connect.name".to_owned(), json!(full_name(CONNECTOR, "Source")));
    Value::Object(source)
}

fn snapshot() -> Value {
    json!([{
        "type": "string",
        "connect.version": 1,
        "connect.parameters": {
            "allowed": "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental",
        },
        "connect.default": "false",
        "connect.name": "io.debezium.data.Enum",
    }, "null"])
}

/// The namespace of the records that do not depend on a table.
const CONNECTOR: &str = "io.debezium.connector.postgresql";

/// The key of a logical message.
pub(in crate::avro) fn message_key() -> String {
    json!({
        "type": "record",
        "name": "MessageKey",
        "namespace": CONNECTOR,
        "fields": [{"name": "prefix", "type": ["null", "string"], "default": null}],
        "connect.version": 1,
        "connect.name": full_name(CONNECTOR, "MessageKey"),
    })
    .to_string()
}

/// The value of a logical message.
pub(in crate::avro) fn message_value() -> String {
    json!({
        "type": "record",
        "name": "MessageValue",
        "namespace": CONNECTOR,
        "fields": [
            {"name": "op", "type": "string"},
            time("ts_ms"),
            {"name": "source", "type": source()},
            transaction(),
            {"name": "message", "type": {
                "type": "record",
                "name": "Message",
                "namespace": CONNECTOR,
                "fields": [
                    {"name": "prefix", "type": ["null", "string"], "default": null},
                    {"name": "content", "type": ["null", "bytes"], "default": null},
                ],
                "connect.version": 1,
                "connect.name": full_name(CONNECTOR, "Message"),
            }},
        ],
        "connect.version": 1,
        "connect.name": full_name(CONNECTOR, "MessageValue"),
    })
    .to_string()
}
