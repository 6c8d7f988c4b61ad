//! The schemas' JSON. The same Relation message gives the same text, byte for byte.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::relation::{Column, Relation, ReplicaIdentity};
use crate::row::{CompositeKind, ValueKind};

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

/// Types while a schema is being written: a record is defined where it is first met, and named from there on.
pub(super) struct Types<'a> {
    /// The namespace of the topic's records.
    namespace: &'a str,
    defined: BTreeSet<String>,
}

impl<'a> Types<'a> {
    pub(super) fn new(namespace: &'a str) -> Self {
        Types {
            namespace,
            defined: BTreeSet::new(),
        }
    }

    /// The Avro type of a kind of value.
    pub(super) fn of(&mut self, kind: &ValueKind) -> String {
        let simple = match kind {
            ValueKind::Bool => r#""boolean""#,
            ValueKind::Int2 | ValueKind::Int4 => r#""int""#,
            ValueKind::Int8 | ValueKind::Oid | ValueKind::Xid8 => r#""long""#,
            ValueKind::Float4 => r#""float""#,
            ValueKind::Float8 => r#""double""#,
            ValueKind::Decimal { precision, scale } => {
                return format!(
                    r#"{{"type":"bytes","logicalType":"decimal","precision":{precision},"scale":{scale}}}"#
                );
            }
            ValueKind::Numeric
            | ValueKind::Text
            | ValueKind::Versioned
            | ValueKind::Char
            | ValueKind::TimeTz
            | ValueKind::Interval
            | ValueKind::Lsn
            | ValueKind::Printed(_)
            | ValueKind::Range(_)
            | ValueKind::Multirange(_)
            | ValueKind::Ruled(_)
            | ValueKind::TextOnly => r#""string""#,
            ValueKind::Bytea => r#""bytes""#,
            ValueKind::Uuid => r#"{"type":"string","logicalType":"uuid"}"#,
            ValueKind::Date => r#"{"type":"int","logicalType":"date"}"#,
            ValueKind::Time => r#"{"type":"long","logicalType":"time-micros"}"#,
            ValueKind::Timestamp => r#"{"type":"long","logicalType":"local-timestamp-micros"}"#,
            ValueKind::TimestampTz => r#"{"type":"long","logicalType":"timestamp-micros"}"#,
            ValueKind::Hstore => r#"{"type":"map","values":["null","string"]}"#,
            ValueKind::Vector(_) => r#"{"type":"array","items":"float"}"#,
            ValueKind::Array(array) => {
                return format!(r#"{{"type":"array","items":["null",{}]}}"#, self.of(&array.element));
            }
            ValueKind::Composite(composite) => return self.record(composite),
        };
        simple.to_owned()
    }

    /// The record of a row type. Its namespace is that of the topic and the type's schema, so that two types of the same
    /// name stay apart, and no type meets `Key`, `Value` or `Envelope`.
    fn record(&mut self, composite: &CompositeKind) -> String {
        let namespace = full_name(self.namespace, &field_name(&composite.schema));
        let name = field_name(&composite.name);
        let full = full_name(&namespace, &name);
        if !self.defined.insert(full.clone()) {
            return quoted(&full);
        }
        let mut out = format!(
            r#"{{"type":"record","name":{},"namespace":{},"fields":["#,
            quoted(&name),
            quoted(&namespace)
        );
        for (index, attribute) in composite.attributes.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            self.put_field(&attribute.name, &attribute.kind, true, &mut out);
            out.push('}');
        }
        let _infallible = write!(
            out,
            r#"],"walferry.schema":{},"walferry.type":{}}}"#,
            quoted(&composite.schema),
            quoted(&composite.name)
        );
        out
    }

    /// Appends a field's name, and its type with a default of null if it is nullable.
    fn put_field(&mut self, original: &str, kind: &ValueKind, nullable: bool, out: &mut String) {
        let name = field_name(original);
        let ty = self.of(kind);
        let _infallible = if nullable {
            write!(out, r#"{{"name":{},"type":["null",{ty}],"default":null"#, quoted(&name))
        } else {
            write!(out, r#"{{"name":{},"type":{ty}"#, quoted(&name))
        };
        if name != original {
            let _infallible = write!(out, r#","walferry.name":{}"#, quoted(original));
        }
    }
}

pub(super) fn identity_name(identity: ReplicaIdentity) -> &'static str {
    match identity {
        ReplicaIdentity::Default => "default",
        ReplicaIdentity::Nothing => "nothing",
        ReplicaIdentity::Full => "full",
        ReplicaIdentity::Index => "index",
    }
}

/// The record of a key. `columns`: in key order.
pub(super) fn key<'a>(namespace: &str, columns: impl Iterator<Item = (&'a Column, &'a ValueKind)>) -> String {
    let mut types = Types::new(namespace);
    let mut out = format!(
        r#"{{"type":"record","name":"Key","namespace":{},"fields":["#,
        quoted(namespace)
    );
    for (index, (column, kind)) in columns.enumerate() {
        if index > 0 {
            out.push(',');
        }
        types.put_field(&column.name, kind, false, &mut out);
        out.push('}');
    }
    out.push_str("]}");
    out
}

/// The record of a row. `columns`: with whether each is nullable.
pub(super) fn value<'a>(
    namespace: &str,
    relation: &Relation,
    columns: impl Iterator<Item = (&'a Column, &'a ValueKind, bool)>,
) -> String {
    let mut types = Types::new(namespace);
    let mut out = format!(
        r#"{{"type":"record","name":"Value","namespace":{},"fields":["#,
        quoted(namespace)
    );
    for (index, (column, kind, nullable)) in columns.enumerate() {
        if index > 0 {
            out.push(',');
        }
        types.put_field(&column.name, kind, nullable, &mut out);
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
