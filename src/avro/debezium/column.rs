//! What Debezium makes of a column: the form of its values, and their schema.
//!
//! By default, that is with `decimal.handling.mode = precise`, `time.precision.mode = adaptive`, `interval.handling.mode = numeric`,
//! `hstore.handling.mode = json` and `binary.handling.mode = bytes` (Debezium's documentation, "PostgreSQL connector", "Data type
//! mappings").

use std::sync::Arc;

use crate::relation::{CatalogFacts, Column, PgType, TypeKind};
use crate::row::ValueKind;
use crate::row::numeric::precision_and_scale;

use super::super::schema::Types;
use super::connect::Connect;
use super::form::{ArrayForm, Form};

/// A column's form and schema.
pub(super) struct Mapped {
    pub(super) form: Form,
    pub(super) schema: Connect,
    /// Whether Debezium has this column, and as this type.
    pub(super) known: bool,
}

/// The type below all domains, and the modifier that counts.
pub(super) fn below_domains(ty: &PgType, typmod: i32) -> (&PgType, i32) {
    match &ty.kind {
        TypeKind::Domain {
            base,
            typmod: of_domain,
        } => below_domains(base, if *of_domain >= 0 { *of_domain } else { typmod }),
        _ => (ty, typmod),
    }
}

/// Maps a column. `kind`: what its bytes mean, under the rule that it stands under.
pub(super) fn map(column: &Column, kind: &ValueKind, facts: &CatalogFacts, types: &mut Types<'_>) -> Mapped {
    if let ValueKind::Ruled(_) = kind {
        // What a rule makes of a value is text.
        return Mapped {
            form: Form::Plain(kind.clone()),
            schema: Connect::STRING,
            known: false,
        };
    }
    let (ty, typmod) = below_domains(&column.ty, column.typmod);
    let plain = Form::Plain(ValueKind::of(ty, typmod));
    match known(ty, typmod, plain, facts) {
        Some((form, schema)) => Mapped {
            form,
            schema,
            known: true,
        },
        // Debezium leaves such columns out.
        None => {
            let kind = ValueKind::of(ty, typmod);
            Mapped {
                schema: Connect::avro(&types.of(&kind)),
                form: Form::Plain(kind),
                known: false,
            }
        }
    }
}

fn known(ty: &PgType, typmod: i32, plain: Form, facts: &CatalogFacts) -> Option<(Form, Connect)> {
    Some(match &ty.kind {
        TypeKind::Enum => {
            let labels = facts
                .labels
                .get(&ty.oid)
                .map(|labels| labels.join(","))
                .unwrap_or_default();
            let schema = Connect::STRING
                .named("io.debezium.data.Enum")
                .parameter("allowed", labels);
            (plain, schema)
        }
        TypeKind::Array { element, delimiter } => array(element, *delimiter, typmod, facts)?,
        TypeKind::Base => base(ty, typmod, plain, facts)?,
        // The built-in ranges.
        TypeKind::Range { .. } if matches!(ty.oid, 3904 | 3906 | 3908 | 3910 | 3912 | 3926) => (plain, Connect::STRING),
        _ => return None,
    })
}

fn base(ty: &PgType, typmod: i32, plain: Form, facts: &CatalogFacts) -> Option<(Form, Connect)> {
    Some(match ty.oid {
        16 => (plain, Connect::BOOLEAN),
        17 => (plain, Connect::BYTES),
        21 => (plain, Connect::INT16),
        23 => (plain, Connect::INT32),
        // int8, oid
        20 | 26 => (plain, Connect::INT64),
        700 => (plain, Connect::FLOAT32),
        701 => (plain, Connect::FLOAT64),
        // text, bpchar, varchar, inet, cidr, macaddr, macaddr8
        25 | 1042 | 1043 | 869 | 650 | 829 | 774 => (plain, Connect::STRING),
        // json, jsonb
        114 | 3802 => (plain, Connect::STRING.named("io.debezium.data.Json")),
        142 => (plain, Connect::STRING.named("io.debezium.data.Xml")),
        2950 => (plain, Connect::STRING.named("io.debezium.data.Uuid")),
        3614 => (plain, Connect::STRING.named("io.debezium.data.Tsvector")),
        600 => (Form::Point, point()),
        790 => {
            let places = facts.money_places;
            (Form::Money { places }, Connect::decimal(None, 2))
        }
        1700 => numeric(typmod),
        1082 => (Form::Date, Connect::INT32.named("io.debezium.time.Date")),
        1083 if is_coarse(typmod) => (Form::TimeMillis, Connect::INT32.named("io.debezium.time.Time")),
        1083 => (plain, Connect::INT64.named("io.debezium.time.MicroTime")),
        1114 if is_coarse(typmod) => (
            Form::TimestampMillis,
            Connect::INT64.named("io.debezium.time.Timestamp"),
        ),
        1114 => (
            Form::TimestampMicros,
            Connect::INT64.named("io.debezium.time.MicroTimestamp"),
        ),
        1184 => (
            Form::ZonedTimestamp {
                decimals: u8::try_from(typmod).unwrap_or(6),
            },
            Connect::STRING.named("io.debezium.time.ZonedTimestamp"),
        ),
        1266 => (Form::ZonedTime, Connect::STRING.named("io.debezium.time.ZonedTime")),
        1186 => (
            Form::MicroDuration,
            Connect::INT64.named("io.debezium.time.MicroDuration"),
        ),
        // bit, varbit
        1560 | 1562 => bits(ty.oid, typmod),
        _ => match ty.name.as_str() {
            "citext" => (plain, Connect::STRING),
            "ltree" => (plain, Connect::STRING.named("io.debezium.data.Ltree")),
            "hstore" => (Form::Hstore, Connect::STRING.named("io.debezium.data.Json")),
            _ => return None,
        },
    })
}

/// Whether a time has three places at most.
fn is_coarse(typmod: i32) -> bool {
    (0..=3).contains(&typmod)
}

fn numeric(typmod: i32) -> (Form, Connect) {
    match (ValueKind::of_numeric(typmod), precision_and_scale(typmod)) {
        (kind @ ValueKind::Decimal { precision, scale }, Some(_)) => {
            (Form::Plain(kind), Connect::decimal(Some(precision), scale))
        }
        _ => (
            Form::VariableScale,
            Connect::record(
                "io.debezium.data.VariableScaleDecimal",
                Some("Variable scaled decimal"),
                vec![("scale", Connect::INT32, false), ("value", Connect::BYTES, false)],
            ),
        ),
    }
}

fn bits(oid: u32, typmod: i32) -> (Form, Connect) {
    // Without a length, bit is bit(1), and varbit has no bound.
    let length = match (oid, typmod) {
        (1560, ..=0) => 1,
        (_, ..=0) => i32::MAX,
        (_, length) => length,
    };
    if length == 1 {
        return (Form::Bit, Connect::BOOLEAN);
    }
    let schema = Connect::BYTES
        .named("io.debezium.data.Bits")
        .parameter("length", length.to_string());
    (Form::Bits, schema)
}

fn point() -> Connect {
    Connect::record(
        "io.debezium.data.geometry.Point",
        Some("Geometry (POINT)"),
        vec![
            ("x", Connect::FLOAT64, false),
            ("y", Connect::FLOAT64, false),
            ("wkb", Connect::BYTES, true),
            ("srid", Connect::INT32, true),
        ],
    )
}

fn array(element: &Arc<PgType>, delimiter: u8, typmod: i32, facts: &CatalogFacts) -> Option<(Form, Connect)> {
    let plain = Form::Plain(ValueKind::of(element, typmod));
    let (form, schema) = known(element, typmod, plain, facts)?;
    let array = ArrayForm {
        element: form,
        oid: element.oid,
        delimiter,
    };
    Some((Form::Array(Arc::new(array)), Connect::array(schema, true)))
}
