//! Defaults of columns, as schemas carry them.
//!
//! An expression is what `pg_get_expr` prints: a literal (`7`, `true`, `'abc'::text`, `'-5'::integer`, `B'101'::"bit"`), a function or
//! keyword whose value is not known beforehand (`now()`, `CURRENT_DATE`), or anything else. Of a literal the value is the default; what a
//! function will give has a value of the type that stands for it; anything else is no default.

use serde_json::Value;

use crate::relation::{PgType, TypeKind};

use super::super::nested::Buffers;
use super::connect::Connect;
use super::form::Form;

const BOOL: u32 = 16;

/// The default in JSON, as an Avro schema has it, and in Avro. `None`: none that can be said.
pub(super) fn parse(expression: &str, ty: &PgType, form: &Form, schema: &Connect) -> Option<(Value, Vec<u8>)> {
    let unknown = stand_in(ty)?;
    let text = match literal(expression) {
        Some(Literal::Null) => return None,
        Some(Literal::Value(value)) => value,
        None if is_generated(expression) => unknown?.to_owned(),
        None => return None,
    };
    // Postgres prints a boolean alone as one letter.
    let text = match (ty.oid, text.as_str()) {
        (BOOL, "true") => "t",
        (BOOL, "false") => "f",
        (_, text) => text,
    };
    let mut bytes = Vec::new();
    form.put_text(text.as_bytes(), &mut Buffers::default(), &mut bytes)
        .ok()?;
    Some((schema.json(&bytes)?, bytes))
}

/// What stands for the value of a function; the outer `None`: columns of this type have no default in a schema.
fn stand_in(ty: &PgType) -> Option<Option<&'static str>> {
    if ty.kind == TypeKind::Enum {
        return Some(None);
    }
    Some(Some(match ty.oid {
        BOOL => "false",
        // int2, int4, int8, varbit
        21 | 23 | 20 | 1562 => "0",
        1560 => "00",
        // text, varchar, bpchar, xml
        25 | 1043 | 1042 | 142 => "",
        // numeric, float4, float8
        1700 | 700 | 701 => "0.0",
        // json, jsonb
        114 | 3802 => "{}",
        2950 => "00000000-0000-0000-0000-000000000000",
        1082 => "1970-01-01",
        1083 => "00:00:00",
        1114 => "1970-01-01 00:00:00",
        1184 => "1970-01-01 00:00:00+00",
        1186 => "PT0S",
        _ => return None,
    }))
}

#[derive(Debug, PartialEq, Eq)]
enum Literal {
    Null,
    Value(String),
}

/// The value of a literal, alone or cast to a type.
fn literal(expression: &str) -> Option<Literal> {
    let expression = expression.trim();
    let (value, rest) = match expression.strip_prefix("B'").or_else(|| expression.strip_prefix('\'')) {
        Some(quoted) => {
            let mut value = String::new();
            let mut rest = quoted;
            loop {
                let (plain, after) = rest.split_once('\'')?;
                value.push_str(plain);
                match after.strip_prefix('\'') {
                    Some(more) => {
                        value.push('\'');
                        rest = more;
                    }
                    None => break (value, after),
                }
            }
        }
        None => {
            let end = expression.find("::").unwrap_or(expression.len());
            let (word, rest) = expression.split_at_checked(end)?;
            (word.to_owned(), rest)
        }
    };
    if !is_cast(rest) {
        return None;
    }
    let is_quoted = expression.starts_with('\'') || expression.starts_with("B'");
    if !is_quoted {
        if value.eq_ignore_ascii_case("null") {
            return Some(Literal::Null);
        }
        let is_number = value.parse::<f64>().is_ok() && value.bytes().any(|byte| byte.is_ascii_digit());
        if !is_number && !matches!(value.as_str(), "true" | "false") {
            return None;
        }
    }
    Some(Literal::Value(value))
}

/// Nothing, or casts: `::character varying(10)`, `::"bit"`, `::public.mood`.
fn is_cast(text: &str) -> bool {
    text.is_empty()
        || text.strip_prefix("::").is_some_and(|types| {
            types
                .chars()
                .all(|character| character.is_alphanumeric() || " _\".,()[]:".contains(character))
        })
}

/// A call of a function, or a keyword that stands for one.
fn is_generated(expression: &str) -> bool {
    let expression = expression.trim_start_matches('(');
    let name = expression
        .find(|character: char| !character.is_ascii_alphanumeric() && character != '_' && character != '.')
        .unwrap_or(expression.len());
    let (name, rest) = expression.split_at_checked(name).unwrap_or((expression, ""));
    let is_keyword = [
        "current_timestamp",
        "current_time",
        "current_date",
        "localtime",
        "localtimestamp",
    ]
    .iter()
    .any(|keyword| name.eq_ignore_ascii_case(keyword));
    is_keyword || (!name.is_empty() && rest.starts_with('(') && rest.contains(')'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::ValueKind;
    use serde_json::json;

    fn value(text: &str) -> Option<Literal> {
        Some(Literal::Value(text.into()))
    }

    #[test]
    fn literals_are_read_as_postgres_prints_them() {
        for (expression, text) in [
            ("7", "7"),
            ("1.50", "1.50"),
            ("true", "true"),
            ("'-5'::integer", "-5"),
            ("'it''s \"q\"'::text", "it's \"q\""),
            ("'abc'::character varying", "abc"),
            ("'{\"a\": 1}'::json", "{\"a\": 1}"),
            ("B'101'::\"bit\"", "101"),
            ("'so, so'::other.mood", "so, so"),
            ("'1.25'::numeric::money", "1.25"),
            ("''::text", ""),
        ] {
            assert_eq!(literal(expression), value(text), "{expression}");
        }
        assert_eq!(literal("NULL::character varying"), Some(Literal::Null));
        for expression in [
            "now()",
            "CURRENT_DATE",
            "(1 + 2)",
            "'a'::text || 'b'::text",
            "upper('x'::text)",
            "x",
        ] {
            assert_eq!(literal(expression), None, "{expression}");
        }
    }

    #[test]
    fn a_default_is_the_value_in_avros_json() {
        let of = |expression: &str, oid: u32, name: &str, form: Form, schema: Connect| {
            let ty = PgType {
                oid,
                schema: "pg_catalog".into(),
                name: name.into(),
                kind: TypeKind::Base,
            };
            parse(expression, &ty, &form, &schema).map(|(json, _)| json)
        };
        let plain = |kind| Form::Plain(kind);
        assert_eq!(
            of("true", 16, "bool", plain(ValueKind::Bool), Connect::BOOLEAN),
            Some(json!(true))
        );
        assert_eq!(of("now()", 1082, "date", Form::Date, Connect::INT32), Some(json!(0)));
        assert_eq!(
            of("'-5'::integer", 23, "int4", plain(ValueKind::Int4), Connect::INT32),
            Some(json!(-5))
        );
        assert_eq!(
            of("0.1", 701, "float8", plain(ValueKind::Float8), Connect::FLOAT64),
            Some(json!(0.1))
        );
        let decimal = ValueKind::Decimal {
            precision: 10,
            scale: 2,
        };
        assert_eq!(
            of("1.5", 1700, "numeric", plain(decimal), Connect::decimal(Some(10), 2)),
            Some(json!("\u{0}\u{96}"))
        );
        assert_eq!(of("(1 + 2)", 23, "int4", plain(ValueKind::Int4), Connect::INT32), None);
        assert_eq!(
            of("NULL::text", 25, "text", plain(ValueKind::Text), Connect::STRING),
            None
        );
        assert_eq!(
            of("'a'::bytea", 17, "bytea", plain(ValueKind::Bytea), Connect::BYTES),
            None
        );
    }

    #[test]
    fn functions_are_told_from_other_expressions() {
        for expression in [
            "now()",
            "nextval('s'::regclass)",
            "CURRENT_TIMESTAMP",
            "LOCALTIME(3)",
            "(now())::date",
            "pg_catalog.upper('x'::text)",
        ] {
            assert!(is_generated(expression), "{expression}");
        }
        for expression in ["(1 + 2)", "'a'::text || 'b'::text", "ARRAY[1, 2]"] {
            assert!(!is_generated(expression), "{expression}");
        }
    }
}
