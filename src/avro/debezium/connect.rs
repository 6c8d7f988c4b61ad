//! Schemas of Kafka Connect, as Confluent's and Apicurio's converters write them in Avro: the Avro type that holds the values, and
//! what Avro has no word for in the properties `connect.name`, `connect.version`, `connect.parameters`, `connect.default` and
//! `connect.type`.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::header;

/// The schema of a value that is not null.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Connect {
    ty: Type,
    name: Option<&'static str>,
    version: Option<u32>,
    parameters: Vec<(&'static str, String)>,
}

/// What holds the values.
#[derive(Debug, Clone, PartialEq)]
enum Type {
    Boolean,
    Int16,
    Int32,
    Int64,
    Float32,
    Float64,
    String,
    Bytes,
    /// `Decimal`: the unscaled value, big-endian.
    Decimal {
        precision: u32,
        scale: u32,
    },
    Array(Box<Item>),
    /// Anything else, in Avro.
    Avro(Value),
    /// A record with a name of its own, and its fields.
    Struct {
        doc: Option<&'static str>,
        fields: Vec<(&'static str, Item)>,
    },
}

/// A schema, and whether its value may be null.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Item {
    pub(super) schema: Connect,
    pub(super) optional: bool,
}

impl Connect {
    const fn plain(ty: Type) -> Self {
        Connect {
            ty,
            name: None,
            version: None,
            parameters: Vec::new(),
        }
    }

    pub(super) const BOOLEAN: Self = Connect::plain(Type::Boolean);
    pub(super) const INT16: Self = Connect::plain(Type::Int16);
    pub(super) const INT32: Self = Connect::plain(Type::Int32);
    pub(super) const INT64: Self = Connect::plain(Type::Int64);
    pub(super) const FLOAT32: Self = Connect::plain(Type::Float32);
    pub(super) const FLOAT64: Self = Connect::plain(Type::Float64);
    pub(super) const STRING: Self = Connect::plain(Type::String);
    pub(super) const BYTES: Self = Connect::plain(Type::Bytes);

    /// A semantic type: the name says what the value means.
    pub(super) fn named(self, name: &'static str) -> Self {
        Connect {
            name: Some(name),
            version: Some(1),
            ..self
        }
    }

    pub(super) fn parameter(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.parameters.push((name, value.into()));
        self
    }

    /// `org.apache.kafka.connect.data.Decimal`. Without a precision of its own the converter says 64.
    pub(super) fn decimal(precision: Option<u32>, scale: u32) -> Self {
        let decimal = Connect::plain(Type::Decimal {
            precision: precision.unwrap_or(64),
            scale,
        })
        .named("org.apache.kafka.connect.data.Decimal")
        .parameter("scale", scale.to_string());
        match precision {
            Some(precision) => decimal.parameter("connect.decimal.precision", precision.to_string()),
            None => decimal,
        }
    }

    /// A type that Debezium does not have: an Avro schema.
    pub(super) fn avro(text: &str) -> Self {
        // What does not parse cannot be: it was written by ourselves.
        Connect::plain(Type::Avro(serde_json::from_str(text).unwrap_or_default()))
    }

    pub(super) fn array(schema: Connect, optional: bool) -> Self {
        Connect::plain(Type::Array(Box::new(Item { schema, optional })))
    }

    pub(super) fn record(
        name: &'static str,
        doc: Option<&'static str>,
        fields: Vec<(&'static str, Connect, bool)>,
    ) -> Self {
        let fields = fields
            .into_iter()
            .map(|(name, schema, optional)| (name, Item { schema, optional }))
            .collect();
        Connect::plain(Type::Struct { doc, fields }).named(name)
    }

    /// A value's JSON form, as defaults have it (Avro specification, "Complex Types", "Records"), from its binary one. `None`: a struct
    /// has none, since Kafka Connect cannot compare it.
    pub(super) fn json(&self, bytes: &[u8]) -> Option<Value> {
        Some(match &self.ty {
            Type::Boolean => json!(bytes == [1]),
            Type::Int16 | Type::Int32 | Type::Int64 => json!(read_long(bytes)?.0),
            Type::Float32 => finite(f32::from_le_bytes(*bytes.first_chunk()?).into())?,
            Type::Float64 => finite(f64::from_le_bytes(*bytes.first_chunk()?))?,
            Type::String => json!(std::str::from_utf8(read_bytes(bytes)?).ok()?),
            // Each byte as the character of that number.
            Type::Bytes | Type::Decimal { .. } => {
                json!(read_bytes(bytes)?.iter().copied().map(char::from).collect::<String>())
            }
            Type::Avro(_) | Type::Array(_) | Type::Struct { .. } => return None,
        })
    }

    /// Appends the text of the value at the front of `bytes`, and moves past it. `None`: there is none.
    pub(super) fn put_text(&self, bytes: &mut &[u8], out: &mut String) -> Option<()> {
        match &self.ty {
            Type::Boolean => {
                let (first, rest) = bytes.split_first()?;
                out.push_str(if *first == 1 { "true" } else { "false" });
                *bytes = rest;
            }
            Type::Int16 | Type::Int32 | Type::Int64 => {
                let (number, rest) = read_long(bytes)?;
                out.push_str(&number.to_string());
                *bytes = rest;
            }
            Type::Float32 => {
                let (number, rest) = bytes.split_first_chunk()?;
                let number = f32::from_le_bytes(*number);
                header::put_float(&format!("{number}"), &format!("{number:E}"), number.abs().into(), out);
                *bytes = rest;
            }
            Type::Float64 => {
                let (number, rest) = bytes.split_first_chunk()?;
                let number = f64::from_le_bytes(*number);
                header::put_float(&format!("{number}"), &format!("{number:E}"), number.abs(), out);
                *bytes = rest;
            }
            Type::String => header::put_string(std::str::from_utf8(take_bytes(bytes)?).ok()?, out),
            Type::Bytes => header::put_base64(take_bytes(bytes)?, out),
            Type::Decimal { scale, .. } => {
                header::put_decimal(take_bytes(bytes)?, usize::try_from(*scale).ok()?, out);
            }
            Type::Struct { fields, .. } => {
                out.push('{');
                for (at, (name, item)) in fields.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    header::put_string(name, out);
                    out.push(':');
                    if item.optional {
                        let (branch, rest) = bytes.split_first()?;
                        *bytes = rest;
                        if *branch == 0 {
                            out.push_str("null");
                            continue;
                        }
                    }
                    item.schema.put_text(bytes, out)?;
                }
                out.push('}');
            }
            Type::Avro(_) | Type::Array(_) => return None,
        }
        Some(())
    }
}

fn finite(number: f64) -> Option<Value> {
    number.is_finite().then(|| json!(number))
}

/// A long, and what follows it.
fn read_long(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let mut value = 0u64;
    let mut shift = 0u32;
    let mut rest = bytes;
    loop {
        let (byte, after) = rest.split_first()?;
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        rest = after;
        if *byte < 0x80 {
            break;
        }
        shift = shift.checked_add(7)?;
    }
    let magnitude = value.wrapping_shr(1).cast_signed();
    Some((if value & 1 == 0 { magnitude } else { !magnitude }, rest))
}

fn take_bytes<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = read_long(bytes)?;
    let (taken, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    *bytes = rest;
    Some(taken)
}

fn read_bytes(mut bytes: &[u8]) -> Option<&[u8]> {
    take_bytes(&mut bytes)
}

/// Whether a default stands in Avro's own `default` too, beside `connect.default`. The string `{}` does not: Apicurio's Confluent API
/// takes no schema with such a default (3.0.9, "Failed to discover artifact type from content").
pub(super) fn is_avro_default(default: &Value) -> bool {
    default != "{}"
}

/// Schemas being written: a record is defined where it is first met, and named from there on.
#[derive(Default)]
pub(super) struct Writer {
    defined: BTreeSet<&'static str>,
}

impl Writer {
    /// The Avro schema of a value that is not null. `default` stands in the property `connect.default`.
    fn schema(&mut self, connect: &Connect, default: Option<&Value>) -> Value {
        let (simple, mut object) = match &connect.ty {
            Type::Boolean => ("boolean", Map::new()),
            Type::Int16 => ("int", properties([("connect.type", json!("int16"))])),
            Type::Int32 => ("int", Map::new()),
            Type::Int64 => ("long", Map::new()),
            Type::Float32 => ("float", Map::new()),
            Type::Float64 => ("double", Map::new()),
            Type::String => ("string", Map::new()),
            Type::Bytes => ("bytes", Map::new()),
            Type::Decimal { precision, scale } => (
                "bytes",
                properties([
                    ("logicalType", json!("decimal")),
                    ("precision", json!(precision)),
                    ("scale", json!(scale)),
                ]),
            ),
            Type::Avro(schema) => return schema.clone(),
            Type::Array(item) => ("array", properties([("items", self.item(item, None))])),
            Type::Struct { doc, fields } => {
                let full = connect.name.unwrap_or_default();
                if !self.defined.insert(full) {
                    return json!(full);
                }
                let (namespace, name) = full.rsplit_once('.').unwrap_or(("", full));
                let fields: Vec<Value> = fields
                    .iter()
                    .map(|(name, item)| Value::Object(self.field(name, item, None)))
                    .collect();
                let mut object = properties([
                    ("name", json!(name)),
                    ("namespace", json!(namespace)),
                    ("fields", Value::Array(fields)),
                ]);
                if let Some(doc) = doc {
                    object.insert("connect.doc".to_owned(), json!(doc));
                }
                ("record", object)
            }
        };
        if let Some(version) = connect.version {
            object.insert("connect.version".to_owned(), json!(version));
        }
        if let Some(name) = connect.name {
            object.insert("connect.name".to_owned(), json!(name));
        }
        if !connect.parameters.is_empty() {
            let parameters = connect
                .parameters
                .iter()
                .map(|(name, value)| ((*name).to_owned(), json!(value)));
            object.insert("connect.parameters".to_owned(), Value::Object(parameters.collect()));
        }
        if let Some(default) = default {
            object.insert("connect.default".to_owned(), default.clone());
        }
        if object.is_empty() {
            return json!(simple);
        }
        object.insert("type".to_owned(), json!(simple));
        Value::Object(object)
    }

    /// The Avro schema of an item. Null is the second branch where something else is the default.
    fn item(&mut self, item: &Item, default: Option<&Value>) -> Value {
        let schema = self.schema(&item.schema, default);
        match (item.optional, default.is_some_and(is_avro_default)) {
            (false, _) => schema,
            (true, false) => json!(["null", schema]),
            (true, true) => json!([schema, "null"]),
        }
    }

    /// A record's field.
    pub(super) fn field(&mut self, name: &str, item: &Item, default: Option<&Value>) -> Map<String, Value> {
        let mut field = properties([("name", json!(name)), ("type", self.item(item, default))]);
        match default.filter(|default| is_avro_default(default)) {
            Some(default) => field.insert("default".to_owned(), default.clone()),
            None if item.optional => field.insert("default".to_owned(), Value::Null),
            None => None,
        };
        field
    }
}

fn properties<const N: usize>(pairs: [(&str, Value); N]) -> Map<String, Value> {
    pairs
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}
