//! Records as a person reads them.

use std::collections::HashMap;
use std::fmt::Write;

use apache_avro::Schema;
use apache_avro::types::Value;
use serde_json::{Map, Number, Value as Json};

/// Schemas by their full names, for references from further down.
type Named<'a> = HashMap<String, &'a Schema>;

/// A datum as JSON, with decimals, dates and times as text.
pub(super) fn json<'a>(value: &Value, schema: &'a Schema, named: &Named<'a>) -> Json {
    match (value, schema) {
        (value, Schema::Ref { name }) => match named.get(&name.fullname(None)) {
            Some(schema) => json(value, schema, named),
            None => Json::Null,
        },
        (Value::Union(branch, inner), Schema::Union(union)) => {
            let branch = usize::try_from(*branch)
                .ok()
                .and_then(|branch| union.variants().get(branch));
            branch.map_or(Json::Null, |schema| json(inner, schema, named))
        }
        (Value::Record(fields), Schema::Record(record)) => {
            let mut named = named.clone();
            collect(schema, &mut named);
            let fields = fields.iter().zip(&record.fields);
            Json::Object(
                fields
                    .map(|((name, value), field)| (name.clone(), json(value, &field.schema, &named)))
                    .collect(),
            )
        }
        (Value::Array(items), Schema::Array(array)) => {
            Json::Array(items.iter().map(|item| json(item, &array.items, named)).collect())
        }
        (Value::Decimal(decimal), Schema::Decimal(schema)) => {
            let bytes = <Vec<u8>>::try_from(decimal).unwrap_or_default();
            Json::String(decimal_text(&bytes, schema.scale))
        }
        (value, _) => scalar(value),
    }
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
        _ => {}
    }
}

fn scalar(value: &Value) -> Json {
    match value {
        Value::Boolean(value) => Json::Bool(*value),
        Value::Int(value) => Json::from(*value),
        Value::Long(value) => Json::from(*value),
        Value::Float(value) => float(f64::from(*value)),
        Value::Double(value) => float(*value),
        Value::String(text) | Value::Enum(_, text) => Json::String(text.clone()),
        Value::Uuid(uuid) => Json::String(uuid.to_string()),
        Value::Bytes(bytes) | Value::Fixed(_, bytes) => {
            let hex = bytes.iter().fold("\\x".to_owned(), |mut text, byte| {
                let _ = write!(text, "{byte:02x}");
                text
            });
            Json::String(hex)
        }
        Value::Date(days) => Json::String(date(i64::from(*days))),
        Value::TimeMicros(us) => Json::String(time(*us)),
        Value::TimestampMicros(us) => Json::String(timestamp(*us) + "Z"),
        Value::LocalTimestampMicros(us) => Json::String(timestamp(*us)),
        Value::Map(entries) => Json::Object(
            entries
                .iter()
                .map(|(key, value)| (key.clone(), scalar(value)))
                .collect::<Map<_, _>>(),
        ),
        _ => Json::Null,
    }
}

fn float(value: f64) -> Json {
    Number::from_f64(value).map_or_else(|| Json::String(value.to_string()), Json::Number)
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

/// Days since 1970 as year, month and day (Hinnant, "chrono-Compatible Low-Level Date Algorithms").
fn date(days: i64) -> String {
    let shifted = days.saturating_add(719_468);
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Two's complement, big-endian, of at most 16 bytes; more digits than that no sample row has.
fn decimal_text(bytes: &[u8], scale: usize) -> String {
    let negative = bytes.first().is_some_and(|first| first & 0x80 != 0);
    let start: i128 = if negative { -1 } else { 0 };
    let unscaled = bytes.iter().fold(start, |value, byte| (value << 8) | i128::from(*byte));
    let digits = format!("{:0width$}", unscaled.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let sign = if negative { "-" } else { "" };
    if scale == 0 {
        format!("{sign}{whole}")
    } else {
        format!("{sign}{whole}.{fraction}")
    }
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
    }
}
