//! One column's value, from the tuple's bytes to Avro.

use std::io::Write;

use crate::lsn::Lsn;
use crate::row::rule::Form;
use crate::row::{
    Ruled, ValueError, ValueKind, bytea, float, integer, interval, numeric, printed, temporal, text, uuid,
};

use super::binary::{put_bytes, put_framed, put_length, put_long};
use super::nested::{self, Buffers};

/// Appends a value in text.
#[inline]
pub(super) fn put_text(
    kind: &ValueKind,
    value: &[u8],
    buffers: &mut Buffers,
    out: &mut Vec<u8>,
) -> Result<(), ValueError> {
    match kind {
        ValueKind::Bool => out.push(u8::from(integer::bool_from_text(value)?)),
        ValueKind::Int2 | ValueKind::Int4 => put_long(integer::i32_from_text(value)?.into(), out),
        ValueKind::Int8 => put_long(integer::i64_from_text(value)?, out),
        ValueKind::Oid => put_long(integer::u32_from_text(value)?.into(), out),
        ValueKind::Xid8 => put_long(integer::xid8_from_text(value)?, out),
        ValueKind::Float4 => out.extend_from_slice(&float::f32_from_text(value)?.to_le_bytes()),
        ValueKind::Float8 => out.extend_from_slice(&float::f64_from_text(value)?.to_le_bytes()),
        ValueKind::Decimal { precision, scale } => {
            put_framed(out, |out| numeric::decimal_from_text(value, *precision, *scale, out))?;
        }
        ValueKind::Numeric => put_bytes(numeric::check_text(value)?, out),
        ValueKind::Text
        | ValueKind::Versioned
        | ValueKind::Printed(_)
        | ValueKind::Range(_)
        | ValueKind::Multirange(_)
        | ValueKind::TextOnly => put_bytes(text::checked(value)?, out),
        ValueKind::Char => put_bytes(text::char_from_text(value)?.as_bytes(), out),
        ValueKind::Bytea => {
            put_length(bytea::decoded_length(value)?, out);
            bytea::decode_into(value, out)?;
        }
        ValueKind::Uuid => put_bytes(uuid::check_text(value)?, out),
        ValueKind::Date => put_long(temporal::date_from_text(value)?.into(), out),
        ValueKind::Time => put_long(temporal::time_from_text(value)?, out),
        ValueKind::TimeTz => put_bytes(temporal::check_timetz(value)?, out),
        ValueKind::Timestamp => put_long(temporal::timestamp_from_text(value)?, out),
        ValueKind::TimestampTz => put_long(temporal::timestamptz_from_text(value)?, out),
        ValueKind::Interval => put_bytes(interval::check_text(value)?, out),
        ValueKind::Lsn => put_lsn(printed::lsn_from_text(value)?, out)?,
        ValueKind::Array(array) => nested::array_from_text(array, value, buffers, out)?,
        ValueKind::Composite(composite) => nested::composite_from_text(composite, value, buffers, out)?,
        ValueKind::Hstore => nested::hstore_from_text(value, buffers, out)?,
        ValueKind::Vector(_) => nested::vector_from_text(value, out)?,
        ValueKind::Ruled(ruled) => put_ruled(ruled, Form::Text(value), out)?,
    }
    Ok(())
}

/// Appends a value in its binary form.
#[inline]
pub(super) fn put_binary(kind: &ValueKind, value: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    match kind {
        ValueKind::Bool => out.push(u8::from(integer::bool_from_binary(value)?)),
        ValueKind::Int2 => put_long(integer::i16_from_binary(value)?.into(), out),
        ValueKind::Int4 => put_long(integer::i32_from_binary(value)?.into(), out),
        ValueKind::Int8 => put_long(integer::i64_from_binary(value)?, out),
        ValueKind::Oid => put_long(integer::u32_from_binary(value)?.into(), out),
        ValueKind::Xid8 => put_long(integer::xid8_from_binary(value)?, out),
        ValueKind::Float4 => out.extend_from_slice(&float::f32_from_binary(value)?.to_le_bytes()),
        ValueKind::Float8 => out.extend_from_slice(&float::f64_from_binary(value)?.to_le_bytes()),
        ValueKind::Decimal { precision, scale } => {
            put_framed(out, |out| numeric::decimal_from_binary(value, *precision, *scale, out))?;
        }
        ValueKind::Numeric => put_framed(out, |out| numeric::text_from_binary(value, out))?,
        ValueKind::Text => put_bytes(text::checked(value)?, out),
        ValueKind::Versioned => put_bytes(text::versioned_from_binary(value)?.as_bytes(), out),
        ValueKind::Char => put_bytes(text::char_from_binary(value)?.as_bytes(), out),
        ValueKind::Bytea => put_bytes(value, out),
        ValueKind::Uuid => put_bytes(&uuid::text_from_binary(value)?, out),
        ValueKind::Date => put_long(temporal::date_from_binary(value)?.into(), out),
        ValueKind::Time => put_long(temporal::time_from_binary(value)?, out),
        ValueKind::TimeTz => put_framed(out, |out| temporal::timetz_from_binary(value, out))?,
        ValueKind::Timestamp | ValueKind::TimestampTz => put_long(temporal::timestamp_from_binary(value)?, out),
        ValueKind::Interval
        | ValueKind::Lsn
        | ValueKind::Printed(_)
        | ValueKind::Range(_)
        | ValueKind::Multirange(_) => put_printed(kind, value, out)?,
        ValueKind::Array(array) => nested::array_from_binary(array, value, out)?,
        ValueKind::Composite(composite) => nested::composite_from_binary(composite, value, out)?,
        ValueKind::Hstore => nested::hstore_from_binary(value, out)?,
        ValueKind::Vector(width) => nested::vector_from_binary(value, *width, out)?,
        ValueKind::Ruled(ruled) => put_ruled(ruled, Form::Binary(value), out)?,
        ValueKind::TextOnly => return Err(ValueError::NoBinaryForm),
    }
    Ok(())
}

/// Appends the text that Postgres prints for a binary value. It may hold text of the row's.
#[inline(never)]
fn put_printed(kind: &ValueKind, value: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    put_framed(out, |out| {
        let start = out.len();
        printed::plain_text(kind, value, out)?;
        text::utf8(out.get(start..).unwrap_or_default()).map(|_| ())
    })
}

/// Appends what a rule makes of a value; of a column that it leaves out, nothing.
#[inline(never)]
fn put_ruled(ruled: &Ruled, value: Form<'_>, out: &mut Vec<u8>) -> Result<(), ValueError> {
    if ruled.is_excluded() {
        return Ok(());
    }
    put_framed(out, |out| ruled.put(value, out))
}

#[inline(never)]
fn put_lsn(lsn: Lsn, out: &mut Vec<u8>) -> Result<(), ValueError> {
    put_framed(out, |out| {
        let _infallible = write!(out, "{lsn}");
        Ok(())
    })
}
