//! What the encoder writes is read back by apache-avro, by the schemas that it gives.

use std::sync::Arc;

use apache_avro::Schema;
use apache_avro::reader::datum::GenericDatumReader;
use apache_avro::types::Value;
use serde_json::{Value as Json, json};

use super::*;
use crate::envelope::Transaction;
use crate::lsn::Lsn;
use crate::pgoutput::{Datum, TupleBuf};
use crate::relation::{CatalogFacts, Column, ColumnFacts, PgType, Relation, ReplicaIdentity, TypeKind};

/// Rows that could not be published.
mod dead_letter;
/// Debezium's types.
mod debezium;
/// Operations, keys, absences, headers.
mod events;
/// Arrays, records, maps.
mod nested;
/// Columns under rules.
mod rules;
/// The schemas themselves.
mod schemas;
/// Every type, in both forms.
mod types;

fn base(oid: u32, name: &str) -> Arc<PgType> {
    Arc::new(PgType {
        oid,
        schema: "pg_catalog".into(),
        name: name.into(),
        kind: TypeKind::Base,
    })
}

fn int4() -> Arc<PgType> {
    base(23, "int4")
}

fn text() -> Arc<PgType> {
    base(25, "text")
}

fn column(name: &str, ty: Arc<PgType>, identity: bool) -> Column {
    Column {
        name: name.into(),
        ty,
        typmod: -1,
        identity,
    }
}

fn relation(columns: Vec<Column>, key: &[usize], replica_identity: ReplicaIdentity) -> Relation {
    Relation {
        oid: 16_400,
        version: 1,
        schema: "public".into(),
        name: "orders".into(),
        replica_identity,
        columns,
        key: key.to_vec(),
    }
}

/// `orders(id int4 primary key, note text, body text)`.
fn orders() -> Relation {
    relation(
        vec![
            column("id", int4(), true),
            column("note", text(), false),
            column("body", text(), false),
        ],
        &[0],
        ReplicaIdentity::Default,
    )
}

fn settings(envelope: EnvelopeKind) -> EncoderSettings {
    EncoderSettings {
        envelope,
        types: TypeDialect::Avro,
        nullability: Nullability::Optional,
        pipeline: "shop".into(),
        database: "shopdb".into(),
        tombstones: true,
        version: "0.1.0".into(),
    }
}

const TOPIC: &str = "shop.public.orders";

fn compile(relation: &Relation, envelope: EnvelopeKind) -> TableEncoder {
    let mut encoder = TableEncoder::compile(relation, TOPIC, &settings(envelope)).unwrap();
    encoder.set_ids(encoder.key_schema().is_some().then_some(7), 0x0102_0304);
    encoder
}

fn transaction() -> Transaction {
    Transaction {
        xid: 731,
        commit_lsn: Lsn::new(0x16_B374_D848),
        commit_time_us: 1_709_208_000_123_456,
        now_us: 1_709_208_000_200_001,
        previous_commit_lsn: Some(Lsn::new(0x16_0000_0010)),
    }
}

const LSN: Lsn = Lsn::new(0x16_B374_D000);

fn tuple(datums: &[Datum<'_>]) -> TupleBuf {
    let mut tuple = TupleBuf::new();
    for datum in datums {
        tuple.push(*datum).unwrap();
    }
    tuple
}

fn t(text: &str) -> Datum<'_> {
    Datum::Text(text.as_bytes())
}

/// Reads Confluent's wire format by a schema, to the last byte.
fn read(schema: &str, id: u32, bytes: &[u8]) -> Json {
    let (header, mut body) = bytes.split_at(5);
    assert_eq!(header[0], 0);
    assert_eq!(header[1..], id.to_be_bytes());
    let schema = Schema::parse_str(schema).unwrap();
    let reader = GenericDatumReader::builder(&schema).build().unwrap();
    let value = reader.read_value(&mut body).unwrap();
    assert_eq!(body, b"", "bytes are left over");
    as_json(&value)
}

fn as_json(value: &Value) -> Json {
    let hexadecimal = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    match value {
        Value::Null => Json::Null,
        Value::Boolean(value) => json!(value),
        Value::Int(value) | Value::Date(value) => json!(value),
        Value::Long(value)
        | Value::TimeMicros(value)
        | Value::TimestampMicros(value)
        | Value::LocalTimestampMicros(value) => json!(value),
        Value::Float(value) if value.is_finite() => json!(format!("{value:?}f")),
        Value::Float(value) => json!(format!("{value}f")),
        Value::Double(value) => json!(format!("{value:?}")),
        Value::String(value) => json!(value),
        Value::Uuid(value) => json!(format!("uuid {value}")),
        Value::Bytes(value) => json!(format!("0x{}", hexadecimal(value))),
        Value::Decimal(value) => {
            let bytes = Vec::<u8>::try_from(value).unwrap();
            let negative = bytes.first().is_some_and(|first| *first >= 0x80);
            let mut full = [if negative { 0xff } else { 0 }; 16];
            full[16 - bytes.len()..].copy_from_slice(&bytes);
            json!(format!("decimal {}", i128::from_be_bytes(full)))
        }
        Value::Union(_, value) => as_json(value),
        Value::Array(values) => values.iter().map(as_json).collect(),
        Value::Map(pairs) => Json::Object(pairs.iter().map(|(key, value)| (key.clone(), as_json(value))).collect()),
        Value::Record(fields) => Json::Object(
            fields
                .iter()
                .map(|(name, value)| (name.clone(), as_json(value)))
                .collect(),
        ),
        other => panic!("no field has {other:?}"),
    }
}
