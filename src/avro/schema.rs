//! The schemas' JSON. The same Relation message gives the same text, byte for byte.

use std::fmt::Write;

use crate::relation::{Column, Relation, ReplicaIdentity};
use crate::row::ValueKind;

use super::name::field_name;
use super::source;

/// A record of a topic's namespace by its full name.
pub(super) fn full_name(namespace: &str, record: &str) -> String {
    format!("{namespace}.{record}")
}

/// A string in JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The Avro type of a kind of value.
fn avro_type(kind: ValueKind) -> String {
    let simple = match kind {
        ValueKind::Bool => r#""boolean""#,
        ValueKind::Int2 | ValueKind::Int4 => r#""int""#,
        ValueKind::Int8 | ValueKind::Oid | ValueKind::Xid8 => r#""long""#,
        ValueKind::Float4 => r#""float""#,
        ValueKind::Float8 => r#""double""#,
        ValueKind::Decimal { precision, scale } => {
            return format!(r#"{{"type":"bytes","logicalType":"decimal","precision":{precision},"scale":{scale}}}"#);
        }
        ValueKind::Numeric
        | ValueKind::Text
        | ValueKind::Jsonb
        | ValueKind::Char
        | ValueKind::TimeTz
        | ValueKind::TextOnly => r#""string""#,
        ValueKind::Bytea => r#""bytes""#,
        ValueKind::Uuid => r#"{"type":"string","logicalType":"uuid"}"#,
        ValueKind::Date => r#"{"type":"int","logicalType":"date"}"#,
        ValueKind::Time => r#"{"type":"long","logicalType":"time-micros"}"#,
        ValueKind::Timestamp => r#"{"type":"long","logicalType":"local-timestamp-micros"}"#,
        ValueKind::TimestampTz => r#"{"type":"long","logicalType":"timestamp-micros"}"#,
    };
    simple.to_owned()
}

/// Appends a field's name, and its type with a default of null if it is nullable.
fn put_field(column: &Column, kind: ValueKind, nullable: bool, out: &mut String) {
    let name = field_name(&column.name);
    let ty = avro_type(kind);
    let _infallible = if nullable {
        write!(out, r#"{{"name":{},"type":["null",{ty}],"default":null"#, quoted(&name))
    } else {
        write!(out, r#"{{"name":{},"type":{ty}"#, quoted(&name))
    };
    if name != column.name {
        let _infallible = write!(out, r#","walferry.name":{}"#, quoted(&column.name));
    }
}

fn identity_name(identity: ReplicaIdentity) -> &'static str {
    match identity {
        ReplicaIdentity::Default => "default",
        ReplicaIdentity::Nothing => "nothing",
        ReplicaIdentity::Full => "full",
        ReplicaIdentity::Index => "index",
    }
}

/// The record of a key. `columns`: in key order.
pub(super) fn key<'a>(namespace: &str, columns: impl Iterator<Item = (&'a Column, ValueKind)>) -> String {
    let mut out = format!(
        r#"{{"type":"record","name":"Key","namespace":{},"fields":["#,
        quoted(namespace)
    );
    for (index, (column, kind)) in columns.enumerate() {
        if index > 0 {
            out.push(',');
        }
        put_field(column, kind, false, &mut out);
        out.push('}');
    }
    out.push_str("]}");
    out
}

/// The record of a row. `columns`: with whether each is nullable.
pub(super) fn value<'a>(
    namespace: &str,
    relation: &Relation,
    columns: impl Iterator<Item = (&'a Column, ValueKind, bool)>,
) -> String {
    let mut out = format!(
        r#"{{"type":"record","name":"Value","namespace":{},"fields":["#,
        quoted(namespace)
    );
    for (index, (column, kind, nullable)) in columns.enumerate() {
        if index > 0 {
            out.push(',');
        }
        put_field(column, kind, nullable, &mut out);
        let _infallible = write!(out, r#","walferry.identity":{}}}"#, column.identity);
    }
    let _infallible = write!(
        out,
        r#"],"walferry.schema":{},"walferry.table":{},"walferry.replica_identity":"{}"}}"#,
        quoted(&relation.schema),
        quoted(&relation.name),
        identity_name(relation.replica_identity),
    );
    out
}

/// The envelope in Debezium's shape around a row's record.
pub(super) fn envelope(namespace: &str, value: &str) -> String {
    let name = quoted(&full_name(namespace, "Value"));
    let namespace = quoted(namespace);
    let source = source::SCHEMA;
    let block = concat!(
        r#"{"type":"record","name":"block","namespace":"event","fields":["#,
        r#"{"name":"id","type":"string"},"#,
        r#"{"name":"total_order","type":"long"},"#,
        r#"{"name":"data_collection_order","type":"long"}]}"#,
    );
    [
        format!(r#"{{"type":"record","name":"Envelope","namespace":{namespace},"fields":["#),
        format!(r#"{{"name":"before","type":["null",{value}],"default":null}},"#),
        format!(r#"{{"name":"after","type":["null",{name}],"default":null}},"#),
        format!(r#"{{"name":"source","type":{source}}},"#),
        format!(r#"{{"name":"transaction","type":["null",{block}],"default":null}},"#),
        r#"{"name":"op","type":"string"},"#.to_owned(),
        r#"{"name":"ts_ms","type":["null","long"],"default":null},"#.to_owned(),
        r#"{"name":"ts_us","type":["null","long"],"default":null},"#.to_owned(),
        r#"{"name":"ts_ns","type":["null","long"],"default":null},"#.to_owned(),
        r#"{"name":"unchanged","type":{"type":"array","items":"string"},"default":[]}]}"#.to_owned(),
    ]
    .concat()
}

/// The key of a logical message.
pub(super) const MESSAGE_KEY: &str = concat!(
    r#"{"type":"record","name":"MessageKey","namespace":"io.debezium.connector.postgresql","fields":["#,
    r#"{"name":"prefix","type":["null","string"],"default":null}]}"#,
);

/// The value of a logical message.
pub(super) fn message_value() -> String {
    let source = source::SCHEMA;
    [
        r#"{"type":"record","name":"MessageValue","namespace":"io.debezium.connector.postgresql","fields":["#,
        r#"{"name":"op","type":"string"},"#,
        r#"{"name":"ts_ms","type":["null","long"],"default":null},"#,
        r#"{"name":"source","type":"#,
        source,
        r#"},"#,
        r#"{"name":"message","type":{"type":"record","name":"Message","fields":["#,
        r#"{"name":"prefix","type":["null","string"],"default":null},"#,
        r#"{"name":"content","type":["null","bytes"],"default":null}]}}]}"#,
    ]
    .concat()
}
