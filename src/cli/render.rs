//! Records as a person reads them: JSON, with decimals, dates and times as text.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

use apache_avro::Schema;
use apache_avro::types::Value;
use serde_json::Value as Json;

use crate::row::calendar::civil_of_unix_days;

/// Schemas by their full names, for references from further down.
type Named<'a> = HashMap<String, &'a Schema>;

/// How JSON is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Paint {
    /// As it is.
    Plain,
    /// With the colours of a terminal (ECMA-48, "SGR").
    Colours,
}

impl Paint {
    fn with(self, colour: &str, text: &str, out: &mut String) {
        match self {
            Paint::Plain => out.push_str(text),
            Paint::Colours => out.extend(["\u{1b}[", colour, "m", text, "\u{1b}[0m"]),
        }
    }

    /// The name of a field, and the colon after it.
    pub(super) fn key(self, name: &str, out: &mut String) {
        self.with("34", &Json::from(name).to_string(), out);
        out.push(':');
    }

    pub(super) fn string(self, text: &str, out: &mut String) {
        self.with("32", &Json::from(text).to_string(), out);
    }

    /// A number, a boolean or null.
    pub(super) fn literal(self, text: &str, out: &mut String) {
        self.with(if text == "null" { "90" } else { "33" }, text, out);
    }

    fn json(self, value: &Json, out: &mut String) {
        match value {
            Json::String(text) => self.string(text, out),
            other => self.literal(&other.to_string(), out),
        }
    }
}

/// Appends a datum as JSON on one line, with the fields in the order of the schema.
pub(super) fn put<'a>(value: &Value, schema: &'a Schema, named: &Named<'a>, paint: Paint, out: &mut String) {
    match (value, schema) {
        (value, Schema::Ref { name }) => match named.get(&name.fullname(None)) {
            Some(schema) => put(value, schema, named, paint, out),
            None => paint.literal("null", out),
        },
        (Value::Union(branch, inner), Schema::Union(union)) => {
            let branch = usize::try_from(*branch)
                .ok()
                .and_then(|branch| union.variants().get(branch));
            match branch {
                Some(schema) => put(inner, schema, named, paint, out),
                None => paint.literal("null", out),
            }
        }
        (Value::Record(fields), Schema::Record(record)) => {
            let mut named = named.clone();
            collect(schema, &mut named);
            out.push('{');
            for (index, ((name, value), field)) in fields.iter().zip(&record.fields).enumerate() {
                if index > 0 {
                    out.push(',');
                }
                paint.key(name, out);
                put(value, &field.schema, &named, paint, out);
            }
            out.push('}');
        }
        (Value::Array(items), Schema::Array(array)) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                put(item, &array.items, named, paint, out);
            }
            out.push(']');
        }
        (Value::Map(entries), Schema::Map(map)) => {
            let sorted: BTreeMap<&String, &Value> = entries.iter().collect();
            out.push('{');
            for (index, (key, value)) in sorted.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                paint.key(key, out);
                put(value, &map.types, named, paint, out);
            }
            out.push('}');
        }
        (Value::Decimal(decimal), Schema::Decimal(schema)) => {
            let bytes = <Vec<u8>>::try_from(decimal).unwrap_or_default();
            paint.string(&decimal_text(&bytes, schema.scale), out);
        }
        (Value::Float(value), _) => put_float(value.is_finite(), &value.to_string(), paint, out),
        (Value::Double(value), _) => put_float(value.is_finite(), &value.to_string(), paint, out),
        (value, _) => paint.json(&scalar(value), out),
    }
}

/// The same, to be looked into.
pub(super) fn json(value: &Value, schema: &Schema) -> Json {
    let mut text = String::new();
    put(value, schema, &HashMap::new(), Paint::Plain, &mut text);
    serde_json::from_str(&text).unwrap_or(Json::Null)
}

/// All records below `schema`, by name.
fn collect<'a>(schema: &'a Schema, named: &mut Named<'a>) {
    match schema {
        Schema::Record(record) => {
            named.insert(record.name.fullname(None), schema);
            for field in &record.fields {
                collect(&field.schema, named);
            }
        }
        Schema::Union(union) => {
            for variant in union.variants() {
                collect(variant, named);
            }
        }
        Schema::Array(array) => collect(&array.items, named),
        Schema::Map(map) => collect(&map.types, named),
        _ => {}
    }
}

fn scalar(value: &Value) -> Json {
    match value {
        Value::Boolean(value) => Json::Bool(*value),
        Value::Int(value) => Json::from(*value),
        Value::Long(value) => Json::from(*value),
        Value::String(text) | Value::Enum(_, text) => Json::String(text.clone()),
        Value::Uuid(uuid) => Json::String(uuid.to_string()),
        Value::Bytes(bytes) | Value::Fixed(_, bytes) => {
            let hex = bytes.iter().fold("\\x".to_owned(), |mut text, byte| {
                let _ = write!(text, "{byte:02x}");
                text
            });
            Json::String(hex)
        }
        Value::Date(i32::MAX) | Value::TimestampMicros(i64::MAX) | Value::LocalTimestampMicros(i64::MAX) => {
            Json::from("infinity")
        }
        Value::Date(i32::MIN) | Value::TimestampMicros(i64::MIN) | Value::LocalTimestampMicros(i64::MIN) => {
            Json::from("-infinity")
        }
        Value::Date(days) => Json::String(date(i64::from(*days))),
        Value::TimeMicros(us) => Json::String(time(*us)),
        Value::TimestampMicros(us) => Json::String(timestamp(*us) + "Z"),
        Value::LocalTimestampMicros(us) => Json::String(timestamp(*us)),
        _ => Json::Null,
    }
}

/// JSON has no word for what is not finite.
fn put_float(finite: bool, text: &str, paint: Paint, out: &mut String) {
    match finite {
        true => paint.literal(text, out),
        false => paint.string(&text.replace("inf", "Infinity"), out),
    }
}

const DAY_US: i64 = 86_400_000_000;

fn timestamp(us: i64) -> String {
    format!("{}T{}", date(us.div_euclid(DAY_US)), time(us.rem_euclid(DAY_US)))
}

fn time(us: i64) -> String {
    let (seconds, fraction) = (us / 1_000_000, us % 1_000_000);
    let text = format!(
        "{:02}:{:02}:{:02}.{fraction:06}",
        seconds / 3_600,
        seconds / 60 % 60,
        seconds % 60
    );
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Days since 1970 as year, month and day.
fn date(days: i64) -> String {
    let (year, month, day) = civil_of_unix_days(days);
    format!("{year:04}-{month:02}-{day:02}")
}

/// The number of these bytes (two's complement, big-endian), with `scale` of its digits after the point.
fn decimal_text(bytes: &[u8], scale: usize) -> String {
    let negative = bytes.first().is_some_and(|first| first & 0x80 != 0);
    let mut magnitude = bytes.to_vec();
    if negative {
        let mut carry = true;
        for byte in magnitude.iter_mut().rev() {
            let (negated, carried) = (!*byte).overflowing_add(u8::from(carry));
            (*byte, carry) = (negated, carried);
        }
    }
    // The lowest first.
    let mut digits = Vec::new();
    while digits.len() <= scale || magnitude.iter().any(|byte| *byte != 0) {
        let remainder = magnitude.iter_mut().fold(0u16, |remainder, byte| {
            let rest = remainder << 8 | u16::from(*byte);
            *byte = u8::try_from(rest / 10).unwrap_or(u8::MAX);
            rest % 10
        });
        digits.push(char::from(b'0' + u8::try_from(remainder).unwrap_or_default()));
    }
    let whole: String = digits.iter().skip(scale).rev().collect();
    let fraction: String = digits.iter().take(scale).rev().collect();
    let sign = if negative { "-" } else { "" };
    let point = if scale == 0 { "" } else { "." };
    format!("{sign}{whole}{point}{fraction}")
}

/// One record on one line: topic and offset, operation, key, row, position.
pub(super) fn line(topic: &str, offset: i64, key: Option<&Json>, value: Option<&Json>) -> String {
    let key = key.map_or_else(|| "-".to_owned(), Json::to_string);
    let Some(value) = value else {
        return format!("{topic}@{offset}  tombstone  {key}");
    };
    let field = |name: &str| value.get(name).filter(|value| !value.is_null());
    let op = match field("op").and_then(Json::as_str) {
        Some("c") => "create",
        Some("u") => "update",
        Some("d") => "delete",
        Some("t") => "truncate",
        _ => "other",
    };
    // Of a deleted row only what identifies it is known.
    let row = field("after").cloned().or_else(|| field("before").map(without_nulls));
    let row = row.map_or_else(String::new, |row| row.to_string());
    let source = field("source");
    let number = |name: &str| {
        source
            .and_then(|source| source.get(name))
            .and_then(Json::as_i64)
            .unwrap_or_default()
    };
    let lsn = crate::lsn::Lsn::new(number("commit_lsn").cast_unsigned());
    format!(
        "{topic}@{offset}  {op}  {key}  {row}  commit {lsn} #{}",
        number("ordinal")
    )
}

fn without_nulls(row: &Json) -> Json {
    let fields = row
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(_, value)| !value.is_null());
    Json::Object(fields.map(|(name, value)| (name.clone(), value.clone())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_times_read_as_they_are_written() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(19_782), "2024-02-29");
        assert_eq!(date(-1), "1969-12-31");
        assert_eq!(time(0), "00:00:00");
        assert_eq!(timestamp(-1), "1969-12-31T23:59:59.999999");
    }

    #[test]
    fn decimals_have_their_point_and_sign() {
        assert_eq!(decimal_text(&[0x03, 0x16], 2), "7.90");
        assert_eq!(decimal_text(&[0xFF], 2), "-0.01");
        assert_eq!(decimal_text(&[0x80], 0), "-128");
        assert_eq!(decimal_text(&[0], 0), "0");
        assert_eq!(decimal_text(&[0], 3), "0.000");
        assert_eq!(decimal_text(&[0xFF, 0x00], 1), "-25.6");
        let mut long = vec![0x01];
        long.extend([0; 16]);
        assert_eq!(decimal_text(&long, 0), "340282366920938463463374607431768211456");
    }

    fn shown(schema: &str, value: &Value, paint: Paint) -> String {
        let schema = Schema::parse_str(schema).unwrap();
        let mut text = String::new();
        put(value, &schema, &HashMap::new(), paint, &mut text);
        text
    }

    #[test]
    fn a_datum_is_json_with_its_fields_in_their_order() {
        let schema = r#"{"type":"record","name":"R","fields":[
            {"name":"z","type":"int"},
            {"name":"a","type":["null",{"type":"record","name":"In","fields":[{"name":"f","type":"float"}]}]},
            {"name":"b","type":["null","In"]},
            {"name":"m","type":{"type":"map","values":["null","string"]}},
            {"name":"l","type":{"type":"array","items":["null","double"]}},
            {"name":"d","type":{"type":"bytes","logicalType":"decimal","precision":4,"scale":2}},
            {"name":"t","type":{"type":"long","logicalType":"timestamp-micros"}}]}"#;
        let some = |value| Value::Union(1, Box::new(value));
        let inner = Value::Record(vec![("f".to_owned(), Value::Float(0.1))]);
        let value = Value::Record(vec![
            ("z".to_owned(), Value::Int(1)),
            ("a".to_owned(), some(inner.clone())),
            ("b".to_owned(), some(inner)),
            (
                "m".to_owned(),
                Value::Map(HashMap::from([
                    ("y".to_owned(), some(Value::String("\"q\"".to_owned()))),
                    ("x".to_owned(), Value::Union(0, Box::new(Value::Null))),
                ])),
            ),
            (
                "l".to_owned(),
                Value::Array(vec![
                    some(Value::Double(f64::NEG_INFINITY)),
                    some(Value::Double(f64::NAN)),
                ]),
            ),
            ("d".to_owned(), Value::Decimal(vec![0x03, 0x16].into())),
            ("t".to_owned(), Value::TimestampMicros(i64::MAX)),
        ]);
        assert_eq!(
            shown(schema, &value, Paint::Plain),
            r#"{"z":1,"a":{"f":0.1},"b":{"f":0.1},"m":{"x":null,"y":"\"q\""},"l":["-Infinity","NaN"],"d":"7.90","t":"infinity"}"#
        );
    }

    #[test]
    fn colours_stand_around_values_and_change_none() {
        let coloured = shown("\"string\"", &Value::String("a".to_owned()), Paint::Colours);
        assert_eq!(coloured, "\u{1b}[32m\"a\"\u{1b}[0m");
        assert_eq!(shown("\"int\"", &Value::Int(1), Paint::Colours), "\u{1b}[33m1\u{1b}[0m");
    }
}
