//! An Avro schema's JSON, looked at: its kinds, fields and names (Avro specification 1.12, "Schema Declaration" and "Names").

use std::collections::BTreeMap;

use serde_json::Value;

/// Definitions by full name.
pub(super) type Names<'a> = BTreeMap<String, &'a Value>;

/// Name and definition of each field of a record.
pub(super) fn fields(record: &Value) -> Vec<(&str, &Value)> {
    let fields = record
        .get("fields")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    fields
        .iter()
        .filter_map(|field| Some((field.get("name")?.as_str()?, field)))
        .collect()
}

/// The types that have no definition.
pub(super) const PRIMITIVES: [&str; 8] = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"];

/// The definition behind a name.
pub(super) fn resolve<'a>(schema: &'a Value, space: &str, names: &Names<'a>) -> &'a Value {
    match schema {
        Value::String(name) if !PRIMITIVES.contains(&name.as_str()) => names
            .get(&qualify(name, space))
            .or_else(|| names.get(name))
            .copied()
            .unwrap_or(schema),
        // {"type": {…}}: a type wrapped once more than needed.
        Value::Object(object)
            if object
                .get("type")
                .is_some_and(|inner| inner.is_object() || inner.is_array()) =>
        {
            object.get("type").map_or(schema, |inner| resolve(inner, space, names))
        }
        _ => schema,
    }
}

pub(super) fn kind(schema: &Value) -> Option<&str> {
    schema.as_str().or_else(|| schema.get("type")?.as_str())
}

pub(super) fn qualify(name: &str, space: &str) -> String {
    match name.contains('.') || space.is_empty() {
        true => name.to_owned(),
        false => format!("{space}.{name}"),
    }
}

pub(super) fn full_name(definition: &Value, space: &str) -> String {
    let name = definition.get("name").and_then(Value::as_str).unwrap_or_default();
    qualify(
        name,
        definition.get("namespace").and_then(Value::as_str).unwrap_or(space),
    )
}

pub(super) fn space_of(full_name: &str) -> &str {
    full_name.rsplit_once('.').map_or("", |(space, _)| space)
}

pub(super) fn collect_names<'a>(schema: &'a Value, space: &str, names: &mut Names<'a>) {
    match schema {
        Value::Array(branches) => branches.iter().for_each(|branch| collect_names(branch, space, names)),
        Value::Object(object) => {
            let name = full_name(schema, space);
            let named = matches!(kind(schema), Some("record" | "error" | "enum" | "fixed"));
            let space = if named {
                space_of(&name).to_owned()
            } else {
                space.to_owned()
            };
            if named {
                names.insert(name, schema);
            }
            for key in ["type", "items", "values"] {
                if let Some(inner @ (Value::Object(_) | Value::Array(_))) = object.get(key) {
                    collect_names(inner, &space, names);
                }
            }
            for (_, field) in fields(schema) {
                if let Some(kind) = field.get("type") {
                    collect_names(kind, &space, names);
                }
            }
        }
        _ => (),
    }
}

/// What the values of a type stand for, beyond the primitive that they are written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Meaning<'a> {
    /// The logical type (specification, "Logical Types"), or Kafka Connect's name for one.
    pub(super) name: Option<&'a str>,
    precision: Option<u64>,
    scale: u64,
}

impl Meaning<'_> {
    /// Nothing but the primitive.
    pub(super) fn is_plain(&self) -> bool {
        self.name.is_none()
    }
}

/// The meaning of a type's values. A record's name is no meaning of its own.
pub(super) fn meaning(schema: &Value) -> Meaning<'_> {
    let text = |key: &str| schema.get(key).and_then(Value::as_str);
    let number = |key: &str| schema.get(key).and_then(Value::as_u64);
    let of_connect = || text("connect.name").filter(|_| kind(schema) != Some("record"));
    Meaning {
        name: text("logicalType").or_else(of_connect),
        precision: number("precision"),
        scale: number("scale").unwrap_or_default(),
    }
}

/// A type in a few words: `["null", long (timestamp-micros)]`, `bytes (decimal 10,2)`, `record shop.Value`.
pub(super) fn describe(schema: &Value) -> String {
    match schema {
        Value::String(name) => name.clone(),
        Value::Array(branches) => format!("[{}]", branches.iter().map(describe).collect::<Vec<_>>().join(", ")),
        Value::Object(object) => {
            let text = |key: &str| object.get(key).and_then(Value::as_str);
            let base = match (text("type"), text("name")) {
                (Some(kind @ "array"), _) => {
                    format!("{kind} of {}", object.get("items").map_or(String::new(), describe))
                }
                (Some(kind @ "map"), _) => {
                    format!("{kind} of {}", object.get("values").map_or(String::new(), describe))
                }
                (Some(kind), Some(name)) => format!("{kind} {name}"),
                (Some(kind), None) => kind.to_owned(),
                (None, _) => object.get("type").map_or(String::new(), describe),
            };
            match (meaning(schema).name, object.get("precision"), object.get("scale")) {
                (Some(logical), Some(precision), scale) => {
                    format!("{base} ({logical} {precision},{})", scale.unwrap_or(&Value::from(0)))
                }
                (Some(logical), None, _) => format!("{base} ({logical})"),
                (None, ..) => base,
            }
        }
        _ => String::new(),
    }
}
