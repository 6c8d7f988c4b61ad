//! Values: from the file or a string to what a key holds, and back to TOML.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use ::config::ValueKind;
use toml::de::DeValue;

use super::fault::redact;
use super::keys::Kind;
use super::properties::is_secret_property;
use super::secret::{REDACTED, Secret};

/// A value as it was written. It may hold a secret, so there is no `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Raw {
    String(String),
    Integer(String, Option<i64>),
    Float(String),
    Bool(bool),
    Datetime(String),
    Array(Vec<Raw>),
    Table(Vec<(String, Raw)>),
    /// An environment variable, or a default: a string that becomes whatever the key is.
    Loose(String),
}

impl Raw {
    pub(super) fn from_toml(value: &DeValue<'_>) -> Self {
        match value {
            DeValue::String(text) => Self::String(text.to_string()),
            DeValue::Integer(number) => {
                let parsed = i64::from_str_radix(number.as_str(), number.radix()).ok();
                Self::Integer(
                    parsed.map_or_else(|| number.as_str().to_owned(), |parsed| parsed.to_string()),
                    parsed,
                )
            }
            DeValue::Float(number) => Self::Float(number.as_str().to_owned()),
            DeValue::Boolean(value) => Self::Bool(*value),
            DeValue::Datetime(value) => Self::Datetime(value.to_string()),
            DeValue::Array(items) => Self::Array(items.iter().map(|item| Self::from_toml(item.get_ref())).collect()),
            DeValue::Table(table) => Self::Table(
                table
                    .iter()
                    .map(|(key, value)| (key.get_ref().to_string(), Self::from_toml(value.get_ref())))
                    .collect(),
            ),
        }
    }

    /// A value of the file, from the tree of the layers.
    pub(super) fn from_tree(value: &::config::Value) -> Self {
        match &value.kind {
            ValueKind::String(text) => Self::String(text.clone()),
            ValueKind::Boolean(value) => Self::Bool(*value),
            ValueKind::I64(number) => Self::Integer(number.to_string(), Some(*number)),
            ValueKind::U64(number) => Self::Integer(number.to_string(), i64::try_from(*number).ok()),
            ValueKind::I128(number) => Self::Integer(number.to_string(), i64::try_from(*number).ok()),
            ValueKind::U128(number) => Self::Integer(number.to_string(), i64::try_from(*number).ok()),
            ValueKind::Float(number) => Self::Float(format!("{number:?}")),
            ValueKind::Nil => Self::String(String::new()),
            ValueKind::Array(items) => Self::Array(items.iter().map(Self::from_tree).collect()),
            ValueKind::Table(table) => {
                let sorted: BTreeMap<&String, &::config::Value> = table.iter().collect();
                let entries = sorted.into_iter();
                Self::Table(
                    entries
                        .map(|(key, value)| (key.clone(), Self::from_tree(value)))
                        .collect(),
                )
            }
        }
    }

    /// A value of the environment, from the tree of the layers.
    pub(super) fn from_variable(value: &::config::Value) -> Self {
        match Self::from_tree(value) {
            Self::String(text) => Self::Loose(text),
            other => other,
        }
    }

    fn type_name(&self) -> &'static str {
        match self {
            Self::String(_) | Self::Loose(_) => "a string",
            Self::Integer(..) => "an integer",
            Self::Float(_) => "a float",
            Self::Bool(_) => "a boolean",
            Self::Datetime(_) => "a date or time",
            Self::Array(_) => "an array",
            Self::Table(_) => "a table",
        }
    }

    /// As TOML.
    fn to_toml(&self) -> String {
        match self {
            Self::String(text) | Self::Loose(text) => quote(text),
            Self::Integer(text, _) | Self::Float(text) | Self::Datetime(text) => text.clone(),
            Self::Bool(value) => value.to_string(),
            Self::Array(items) => {
                let items: Vec<String> = items.iter().map(Self::to_toml).collect();
                format!("[{}]", items.join(", "))
            }
            Self::Table(entries) => inline_table(entries.iter().map(|(key, value)| (key.as_str(), value.to_toml()))),
        }
    }

    /// How a fault shows it; `None` where it could hold a secret or says nothing.
    pub(super) fn show(&self, kind: Kind) -> Option<String> {
        match (kind, self) {
            (Kind::Secret, _) => Some(REDACTED.to_owned()),
            (Kind::Map | Kind::Rules, _) | (_, Self::Table(_)) => None,
            (_, Self::String(text) | Self::Loose(text)) => Some(quote(&redact(text))),
            (_, Self::Integer(text, _) | Self::Float(text) | Self::Datetime(text)) => Some(text.clone()),
            (_, Self::Bool(value)) => Some(value.to_string()),
            (_, Self::Array(items)) => {
                let items: Option<Vec<String>> = items.iter().map(|item| item.show(kind)).collect();
                items.map(|items| format!("[{}]", items.join(", ")))
            }
        }
    }
}

/// A value that its key may hold. `Debug` shows no secret.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    Secret(Secret),
    Bool(bool),
    Integer(i64),
    Duration(Duration),
    Size(u64),
    List(Vec<String>),
    /// Written back as one string with commas.
    Texts(Vec<String>),
    Map(BTreeMap<String, String>),
    Rules(BTreeMap<String, Vec<(String, Raw)>>),
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_toml())
    }
}

impl Value {
    /// As TOML, secrets redacted.
    pub(super) fn to_toml(&self) -> String {
        match self {
            Self::Text(text) => quote(&redact(text)),
            Self::Secret(secret) if secret.expose().is_empty() => quote(""),
            Self::Secret(_) => quote(REDACTED),
            Self::Bool(value) => value.to_string(),
            Self::Integer(value) => value.to_string(),
            Self::Duration(value) => quote(&show_duration(*value)),
            Self::Size(value) => quote(&show_size(*value)),
            Self::List(items) => {
                let items: Vec<String> = items.iter().map(|item| quote(item)).collect();
                format!("[{}]", items.join(", "))
            }
            Self::Texts(items) => {
                let items: Vec<String> = items.iter().map(|item| redact(item)).collect();
                quote(&items.join(","))
            }
            Self::Map(entries) => inline_table(entries.iter().map(|(key, value)| {
                let shown = if is_secret_property(key) {
                    REDACTED.to_owned()
                } else {
                    redact(value)
                };
                (key.as_str(), quote(&shown))
            })),
            Self::Rules(rules) => inline_table(rules.iter().map(|(pattern, rule)| {
                let rule = inline_table(rule.iter().map(|(key, value)| {
                    let shown = match key.as_str() {
                        SALT => quote(REDACTED),
                        _ => value.to_toml(),
                    };
                    (key.as_str(), shown)
                }));
                (pattern.as_str(), rule)
            })),
        }
    }
}

/// The key of a rule that is never shown.
pub(super) const SALT: &str = "salt";

/// An inline table of values that are TOML already.
fn inline_table<'a>(entries: impl Iterator<Item = (&'a str, String)>) -> String {
    let entries: Vec<String> = entries
        .map(|(key, value)| format!("{} = {value}", quote(key)))
        .collect();
    match entries.is_empty() {
        true => "{ }".to_owned(),
        false => format!("{{ {} }}", entries.join(", ")),
    }
}

/// What is wrong with a value, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wrong {
    pub(super) problem: String,
    pub(super) remedy: String,
}

/// What a key of this kind may hold, in words.
pub(super) fn expected(kind: Kind) -> String {
    match kind {
        Kind::Text | Kind::Secret => "must be a string".to_owned(),
        Kind::Bool => "must be true or false".to_owned(),
        Kind::Integer(min, max) => format!("must be a whole number from {min} to {max}"),
        Kind::Duration(min, max) => format!(
            "must be a duration such as \"10s\", in ms, s, m or h, from {} to {}",
            show_duration(min),
            show_duration(max)
        ),
        Kind::Size(min, max) => format!(
            "must be a size such as \"64MiB\", in B, kB, MB, GB, KiB, MiB or GiB, from {} to {}",
            show_size(min),
            show_size(max)
        ),
        Kind::Choice(choices) => format!("must be one of {}", choices.join(", ")),
        Kind::List => "must be an array of strings".to_owned(),
        Kind::ListOrText => "must be a string or an array of strings".to_owned(),
        Kind::Map => "must be a table of strings, such as { \"linger.ms\" = \"5\" }".to_owned(),
        Kind::Rules => "must be a table of rules, such as { \"public.users.email\" = { exclude = true } }".to_owned(),
    }
}

/// Reads a value as its key's kind.
pub(super) fn read(kind: Kind, raw: &Raw) -> Result<Value, Wrong> {
    let wrong = |problem: &str| Wrong {
        problem: problem.to_owned(),
        remedy: expected(kind),
    };
    let mistyped = || wrong(&format!("is {}", raw.type_name()));
    match (kind, raw) {
        (Kind::Text, Raw::String(text) | Raw::Loose(text)) => Ok(Value::Text(text.clone())),
        (Kind::Secret, Raw::String(text) | Raw::Loose(text)) => Ok(Value::Secret(Secret::new(text.clone()))),
        (Kind::Bool, Raw::Bool(value)) => Ok(Value::Bool(*value)),
        (Kind::Bool, Raw::Loose(text)) => match text.trim() {
            "true" => Ok(Value::Bool(true)),
            "false" => Ok(Value::Bool(false)),
            _ => Err(wrong("is neither")),
        },
        (Kind::Integer(min, max), Raw::Integer(_, value)) => match value {
            Some(value) if (min..=max).contains(value) => Ok(Value::Integer(*value)),
            _ => Err(wrong("is out of range")),
        },
        (Kind::Integer(min, max), Raw::Loose(text)) => match text.trim().parse::<i64>() {
            Ok(value) if (min..=max).contains(&value) => Ok(Value::Integer(value)),
            Ok(_) => Err(wrong("is out of range")),
            Err(_) => Err(wrong("is not a whole number")),
        },
        (Kind::Duration(min, max), Raw::String(text) | Raw::Loose(text)) => match parse_duration(text) {
            Some(value) if (min..=max).contains(&value) => Ok(Value::Duration(value)),
            Some(_) => Err(wrong("is out of range")),
            None => Err(wrong("is not a duration")),
        },
        (Kind::Duration(..), Raw::Integer(..)) => Err(wrong("has no unit")),
        (Kind::Size(min, max), Raw::String(text) | Raw::Loose(text)) => match parse_size(text) {
            Some(value) if (min..=max).contains(&value) => Ok(Value::Size(value)),
            Some(_) => Err(wrong("is out of range")),
            None => Err(wrong("is not a size")),
        },
        (Kind::Size(..), Raw::Integer(..)) => Err(wrong("has no unit")),
        (Kind::Choice(choices), Raw::String(text) | Raw::Loose(text)) => {
            match choices.iter().find(|choice| **choice == text.as_str()) {
                Some(choice) => Ok(Value::Text((*choice).to_owned())),
                None => Err(wrong("is not known")),
            }
        }
        (Kind::List, Raw::Array(items)) => strings(items)
            .map(Value::List)
            .ok_or_else(|| wrong("has an item of another type")),
        (Kind::ListOrText, Raw::Array(items)) => strings(items)
            .map(Value::Texts)
            .ok_or_else(|| wrong("has an item of another type")),
        (Kind::ListOrText, Raw::String(text)) => Ok(Value::Texts(split(text))),
        (Kind::List | Kind::ListOrText, Raw::Loose(text)) => {
            let items = if text.trim_start().starts_with('[') {
                let parsed = DeValue::parse(text.trim()).map_err(|_| wrong("is not an array in TOML"))?;
                match Raw::from_toml(parsed.get_ref()) {
                    Raw::Array(items) => strings(&items).ok_or_else(|| wrong("has an item of another type"))?,
                    _ => return Err(wrong("is not an array in TOML")),
                }
            } else {
                split(text)
            };
            Ok(if kind == Kind::List {
                Value::List(items)
            } else {
                Value::Texts(items)
            })
        }
        (Kind::Map, Raw::Table(entries)) => map(entries).map(Value::Map),
        (Kind::Rules, Raw::Table(entries)) => rules(entries).map(Value::Rules),
        (Kind::Map | Kind::Rules, Raw::Loose(text)) => {
            let text = text.trim();
            let text = if text.is_empty() { "{ }" } else { text };
            let parsed = DeValue::parse(text).map_err(|_| wrong("is not an inline table in TOML"))?;
            match Raw::from_toml(parsed.get_ref()) {
                Raw::Table(entries) if kind == Kind::Map => map(&entries).map(Value::Map),
                Raw::Table(entries) => rules(&entries).map(Value::Rules),
                _ => Err(wrong("is not an inline table in TOML")),
            }
        }
        _ => Err(mistyped()),
    }
}

fn strings(items: &[Raw]) -> Option<Vec<String>> {
    items
        .iter()
        .map(|item| match item {
            Raw::String(text) => Some(text.clone()),
            _ => None,
        })
        .collect()
}

fn split(text: &str) -> Vec<String> {
    text.split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Numbers and booleans are taken as well: what they are for is written as a string in the end.
fn map(entries: &[(String, Raw)]) -> Result<BTreeMap<String, String>, Wrong> {
    let mut flat = BTreeMap::new();
    for (key, value) in entries {
        let text = match value {
            Raw::String(text) | Raw::Integer(text, _) | Raw::Float(text) => text.clone(),
            Raw::Bool(value) => value.to_string(),
            // A dotted key without quotes is a table in a table.
            Raw::Table(inner) => {
                let inner_keys = inner.first().map_or("", |(inner, _)| inner.as_str());
                return Err(Wrong {
                    problem: format!("has a table in it at {}", quote(key)),
                    remedy: format!("put the whole name in quotes, such as \"{key}.{inner_keys}\" = \"…\""),
                });
            }
            other => {
                return Err(Wrong {
                    problem: format!("has {} at {}", other.type_name(), quote(key)),
                    remedy: "every value must be a string".to_owned(),
                });
            }
        };
        flat.insert(key.clone(), text);
    }
    Ok(flat)
}

/// A table of tables of anything else; what each of these may hold is judged rule by rule.
fn rules(entries: &[(String, Raw)]) -> Result<BTreeMap<String, Vec<(String, Raw)>>, Wrong> {
    let mut rules = BTreeMap::new();
    for (pattern, rule) in entries {
        let Raw::Table(rule) = rule else {
            return Err(Wrong {
                problem: format!("has {} at {}", rule.type_name(), quote(pattern)),
                remedy: expected(Kind::Rules),
            });
        };
        // A dotted key without quotes is a table in a table.
        if rule.iter().any(|(_, value)| matches!(value, Raw::Table(_))) {
            return Err(Wrong {
                problem: format!("has a table in the table at {}", quote(pattern)),
                remedy: "put the whole pattern in quotes, such as \"public.users.email\" = { … }".to_owned(),
            });
        }
        rules.insert(pattern.clone(), rule.clone());
    }
    Ok(rules)
}

fn number_and_unit(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at_checked(digits)?;
    Some((number.parse().ok()?, unit.trim_start()))
}

/// Reads `200ms`, `10s`, `5m` or `1h`.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let (number, unit) = number_and_unit(text)?;
    match unit {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "m" => number.checked_mul(60).map(Duration::from_secs),
        "h" => number.checked_mul(3600).map(Duration::from_secs),
        _ => None,
    }
}

fn show_duration(value: Duration) -> String {
    let (seconds, millis) = (value.as_secs(), value.as_millis());
    match seconds {
        _ if value.subsec_nanos() != 0 => format!("{millis}ms"),
        0 => "0s".to_owned(),
        _ if seconds % 3600 == 0 => format!("{}h", seconds / 3600),
        _ if seconds % 60 == 0 => format!("{}m", seconds / 60),
        _ => format!("{seconds}s"),
    }
}

const SIZES: &[(&str, u64)] = &[
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

fn parse_size(text: &str) -> Option<u64> {
    let (number, unit) = number_and_unit(text)?;
    let (_, factor) = SIZES.iter().find(|(name, _)| *name == unit)?;
    number.checked_mul(*factor)
}

fn show_size(value: u64) -> String {
    let fits = SIZES
        .iter()
        .find(|(_, factor)| value >= *factor && value.is_multiple_of(*factor));
    let (unit, factor) = fits.copied().unwrap_or(("B", 1));
    format!("{}{unit}", value / factor)
}

/// A basic string (TOML v1.0.0, "String").
pub(super) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written_in_their_units() {
        for (text, millis, written) in [
            ("200ms", 200, "200ms"),
            ("10s", 10_000, "10s"),
            ("90 s", 90_000, "90s"),
            ("5m", 300_000, "5m"),
            ("1h", 3_600_000, "1h"),
            ("0s", 0, "0s"),
            ("1500ms", 1_500, "1500ms"),
        ] {
            let value = parse_duration(text).unwrap();
            assert_eq!(value, Duration::from_millis(millis), "{text}");
            assert_eq!(show_duration(value), written);
        }
        for text in [
            "",
            "10",
            "s",
            "10x",
            "-1s",
            "1.5s",
            "99999999999999999999s",
            "18446744073709551615h",
        ] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }

    #[test]
    fn sizes_are_read_and_written_in_their_units() {
        for (text, bytes, written) in [
            ("64MiB", 67_108_864, "64MiB"),
            ("1GiB", 1_073_741_824, "1GiB"),
            ("512kB", 512_000, "500KiB"),
            ("3MB", 3_000_000, "3MB"),
            ("100B", 100, "100B"),
        ] {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
            assert_eq!(parse_size(written), Some(bytes), "{written}");
            assert_eq!(show_size(bytes), written);
        }
        for text in ["", "64", "64Mb", "MiB", "-1B", "18446744073709551615GiB"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn a_quoted_string_reads_as_itself(text in "\\PC*|[\\x00-\\x7f]*") {
            let quoted = quote(&text);
            let parsed = DeValue::parse(&quoted).unwrap();
            proptest::prop_assert_eq!(parsed.get_ref().as_str(), Some(text.as_str()));
        }

        #[test]
        fn a_size_is_written_as_it_is_read(bytes in 0_u64..) {
            proptest::prop_assert_eq!(parse_size(&show_size(bytes)), Some(bytes));
        }
    }
}
