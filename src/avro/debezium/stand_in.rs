//! What Debezium writes where there is no value.
//!
//! A column that cannot be null and that the old row does not have gets its type's empty value; one that TOAST left unchanged gets
//! `unavailable.value.placeholder`, in the column's own type, where Debezium has a form of it for that type.

use crate::relation::{PgType, TypeKind};
use crate::row::ValueKind;

use super::super::binary::{put_bytes, put_length, put_long};
use super::form::Form;

/// `unavailable.value.placeholder`.
const PLACEHOLDER: &str = "__debezium_unavailable_value";
/// The UUID of that name (version 3 without a namespace).
const PLACEHOLDER_UUID: &str = "b68a35a7-17ad-35b3-af2a-ae46edb4545a";

impl Form {
    /// The empty value.
    pub(super) fn absent(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Form::Plain(kind) => match kind {
                ValueKind::Float4 => out.extend_from_slice(&0f32.to_le_bytes()),
                ValueKind::Float8 => out.extend_from_slice(&0f64.to_le_bytes()),
                ValueKind::Decimal { .. } => put_bytes(&[0], &mut out),
                // Zero, false, an empty string or bytes: one byte for all of them.
                _ => out.push(0),
            },
            Form::Money { .. } => put_bytes(&[0], &mut out),
            Form::VariableScale => {
                put_long(0, &mut out);
                put_bytes(&[0], &mut out);
            }
            Form::ZonedTimestamp { .. } => put_bytes(b"1970-01-01T00:00:00Z", &mut out),
            Form::ZonedTime => put_bytes(b"00:00:00Z", &mut out),
            Form::Hstore => put_bytes(b"{}", &mut out),
            Form::Point => {
                // Text that is well-formed has no fault.
                let _infallible = self.put_text(b"(0,0)", &mut Default::default(), &mut out);
            }
            Form::Date
            | Form::Bit
            | Form::Bits
            | Form::TimeMillis
            | Form::TimestampMillis
            | Form::TimestampMicros
            | Form::MicroDuration
            | Form::Array(_) => out.push(0),
        }
        out
    }

    /// The placeholder.
    pub(super) fn unavailable(&self, ty: &PgType) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        match self {
            Form::Hstore => put_bytes(format!("{{\"{PLACEHOLDER}\":\"{PLACEHOLDER}\"}}").as_bytes(), &mut out),
            Form::Array(_) => {
                let TypeKind::Array { element, .. } = &ty.kind else {
                    return None;
                };
                match element.oid {
                    // text, varchar, bpchar, json, jsonb, bytea
                    25 | 1043 | 1042 | 114 | 3802 | 17 => one_element(PLACEHOLDER.as_bytes(), &mut out),
                    2950 => one_element(PLACEHOLDER_UUID.as_bytes(), &mut out),
                    // int4, int8, date: the characters' numbers
                    23 | 20 | 1082 => {
                        put_length(PLACEHOLDER.len(), &mut out);
                        for byte in PLACEHOLDER.bytes() {
                            out.push(2);
                            put_long(byte.into(), &mut out);
                        }
                        out.push(0);
                    }
                    _ => return None,
                }
            }
            Form::Plain(kind) if *kind == ValueKind::Bytea || is_string(kind) => {
                put_bytes(PLACEHOLDER.as_bytes(), &mut out)
            }
            _ => return None,
        }
        Some(out)
    }
}

fn one_element(value: &[u8], out: &mut Vec<u8>) {
    put_length(1, out);
    out.push(2);
    put_bytes(value, out);
    out.push(0);
}

fn is_string(kind: &ValueKind) -> bool {
    matches!(
        kind,
        ValueKind::Text
            | ValueKind::Versioned
            | ValueKind::Char
            | ValueKind::Printed(_)
            | ValueKind::Range(_)
            | ValueKind::Multirange(_)
            | ValueKind::Ruled(_)
            | ValueKind::TextOnly
    )
}
