//! One column's value, from the tuple's bytes to what Debezium writes for it.

use std::sync::Arc;

use crate::row::geometric::Shape;
use crate::row::interval::{self, Parts};
use crate::row::printed::Printed;
use crate::row::{ValueError, ValueKind, array, calendar, integer, numeric, printed, temporal};

use super::super::binary::{put_bytes, put_framed, put_length, put_long};
use super::super::field;
use super::super::nested::{Buffers, put_block};
use super::hstore;

/// What the values of a column become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Form {
    /// What `types = "avro"` makes of them.
    Plain(ValueKind),
    /// `date`: days since 1970.
    Date,
    /// `bit(1)`: a boolean.
    Bit,
    /// `bit(n)`, `varbit`: the bits as a little-endian number, in as few bytes as it takes.
    Bits,
    /// `numeric` without a scale: each value has its own.
    VariableScale,
    /// `money`: a decimal of two places. The server counts in units of which so many places are decimals.
    Money {
        /// By `lc_monetary`.
        places: u32,
    },
    /// `time` of up to three places: milliseconds since midnight.
    TimeMillis,
    /// `timestamp` of up to three places: milliseconds since 1970.
    TimestampMillis,
    /// `timestamp`: microseconds since 1970.
    TimestampMicros,
    /// `timestamptz`: ISO 8601 in UTC.
    ZonedTimestamp {
        /// As many as the column has, zeros too.
        decimals: u8,
    },
    /// `timetz`: ISO 8601 in UTC.
    ZonedTime,
    /// `interval`: microseconds, a month as 30.4375 days.
    MicroDuration,
    /// `point`: x, y, and both again as well-known binary.
    Point,
    /// `hstore`: JSON.
    Hstore,
    /// An array.
    Array(Arc<ArrayForm>),
}

/// An array's elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ArrayForm {
    pub(super) element: Form,
    /// Its type's oid.
    pub(super) oid: u32,
    /// What stands between two elements in text.
    pub(super) delimiter: u8,
}

/// A month in microseconds: a twelfth of 365.25 days.
const MICROS_PER_MONTH: i128 = 2_629_800_000_000;
const MICROS_PER_DAY: i64 = 86_400_000_000;
/// The decimals of `money` in a record.
const MONEY_PLACES: u32 = 2;

const POINT: ValueKind = ValueKind::Printed(Printed::Geometric(Shape::Point));
const BITS: ValueKind = ValueKind::Printed(Printed::Bits);

impl Form {
    /// Whether values can be read in their binary form.
    pub(super) fn reads_binary(&self) -> bool {
        match self {
            Form::Plain(kind) => kind.reads_binary(),
            Form::Array(array) => array.element.reads_binary(),
            _ => true,
        }
    }

    /// Appends a value in text.
    pub(super) fn put_text(&self, value: &[u8], buffers: &mut Buffers, out: &mut Vec<u8>) -> Result<(), ValueError> {
        match self {
            Form::Plain(kind) => return field::put_text(kind, value, buffers, out),
            Form::Bit => out.push(u8::from(bit(value)?)),
            Form::Bits => put_bits(value, out)?,
            Form::VariableScale => put_variable_scale(value, out)?,
            Form::Money { places } => put_money(money_from_text(value)?, *places, out)?,
            Form::TimeMillis => put_long(temporal::time_from_text(value)?.div_euclid(1000), out),
            Form::Date => put_long(days(temporal::date_from_text(value)?), out),
            Form::TimestampMillis => put_long(timestamp(temporal::timestamp_from_text(value)?).div_euclid(1000), out),
            Form::TimestampMicros => put_long(timestamp(temporal::timestamp_from_text(value)?), out),
            Form::ZonedTimestamp { decimals } => {
                put_zoned_timestamp(temporal::timestamptz_from_text(value)?, *decimals, out)?;
            }
            Form::ZonedTime => put_zoned_time(temporal::timetz_from_text(value)?, out)?,
            Form::MicroDuration => put_long(micros(interval::parts_from_text(value)?)?, out),
            Form::Point => put_point(value, out)?,
            Form::Hstore => put_framed(out, |out| hstore::json_from_text(value, buffers, out))?,
            Form::Array(array) => array_from_text(array, value, buffers, out)?,
        }
        Ok(())
    }

    /// Appends a value in its binary form.
    pub(super) fn put_binary(&self, value: &[u8], buffers: &mut Buffers, out: &mut Vec<u8>) -> Result<(), ValueError> {
        match self {
            Form::Plain(kind) => return field::put_binary(kind, value, out),
            Form::Bit | Form::Bits => return self.put_printed(&BITS, value, buffers, out),
            Form::VariableScale => return self.put_printed(&ValueKind::Numeric, value, buffers, out),
            Form::Point => return self.put_printed(&POINT, value, buffers, out),
            Form::Money { places } => put_money(integer::i64_from_binary(value)?, *places, out)?,
            Form::TimeMillis => put_long(temporal::time_from_binary(value)?.div_euclid(1000), out),
            Form::Date => put_long(days(temporal::date_from_binary(value)?), out),
            Form::TimestampMillis => put_long(timestamp(temporal::timestamp_from_binary(value)?).div_euclid(1000), out),
            Form::TimestampMicros => put_long(timestamp(temporal::timestamp_from_binary(value)?), out),
            Form::ZonedTimestamp { decimals } => {
                put_zoned_timestamp(temporal::timestamp_from_binary(value)?, *decimals, out)?;
            }
            Form::ZonedTime => put_zoned_time(temporal::timetz_parts_from_binary(value)?, out)?,
            Form::MicroDuration => put_long(micros(interval::parts_from_binary(value)?)?, out),
            Form::Hstore => put_framed(out, |out| hstore::json_from_binary(value, out))?,
            Form::Array(array) => array_from_binary(array, value, buffers, out)?,
        }
        Ok(())
    }

    /// By way of the text that Postgres prints.
    fn put_printed(
        &self,
        kind: &ValueKind,
        value: &[u8],
        buffers: &mut Buffers,
        out: &mut Vec<u8>,
    ) -> Result<(), ValueError> {
        let mut buffer = buffers.take();
        buffer.clear();
        let printed = printed::plain_text(kind, value, &mut buffer);
        let put = printed.and_then(|()| self.put_text(&buffer, buffers, out));
        buffers.put_back(buffer);
        put
    }
}

fn bit(text: &[u8]) -> Result<bool, ValueError> {
    match text {
        b"0" => Ok(false),
        b"1" => Ok(true),
        _ => Err(ValueError::Malformed),
    }
}

fn put_bits(text: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    if text.iter().any(|digit| !matches!(digit, b'0' | b'1')) {
        return Err(ValueError::Malformed);
    }
    let first = text.iter().position(|digit| *digit == b'1').unwrap_or(text.len());
    let digits = text.get(first..).unwrap_or_default();
    put_length(digits.len().div_ceil(8), out);
    for byte in digits.rchunks(8) {
        out.push(
            byte.iter()
                .fold(0, |byte: u8, digit| byte.wrapping_shl(1) | (digit & 1)),
        );
    }
    Ok(())
}

/// The number without zeros at the end of its fraction: its scale, and its digits as one number.
fn put_variable_scale(text: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    let text = numeric::check_text(text)?;
    let point = text.iter().position(|byte| *byte == b'.');
    let (number, scale) = match point {
        None => (text, 0),
        Some(point) => {
            let zeros = text.iter().rev().take_while(|byte| **byte == b'0').count();
            let end = text.len().saturating_sub(zeros);
            let scale = end.saturating_sub(point.saturating_add(1));
            let end = if scale == 0 { point } else { end };
            (text.get(..end).unwrap_or_default(), scale)
        }
    };
    put_length(scale, out);
    let scale = u32::try_from(scale).map_err(|_| ValueError::OutOfRange)?;
    put_framed(out, |out| numeric::unscaled_from_text(number, scale, out))
}

/// The digits of an amount of money as one number; what stands between them is the locale's.
fn money_from_text(text: &[u8]) -> Result<i64, ValueError> {
    let negative = text.iter().any(|byte| matches!(byte, b'-' | b'('));
    let mut amount = None::<i64>;
    for byte in text.iter().filter(|byte| byte.is_ascii_digit()) {
        let digit = i64::from(byte.wrapping_sub(b'0'));
        // Downwards, since the least amount has no opposite.
        let next = amount
            .unwrap_or(0)
            .checked_mul(10)
            .and_then(|amount| amount.checked_sub(digit));
        amount = Some(next.ok_or(ValueError::OutOfRange)?);
    }
    let amount = amount.ok_or(ValueError::Malformed)?;
    if negative {
        Ok(amount)
    } else {
        amount.checked_neg().ok_or(ValueError::OutOfRange)
    }
}

fn put_money(amount: i64, places: u32, out: &mut Vec<u8>) -> Result<(), ValueError> {
    let amount = i128::from(amount);
    let scaled = match (places.checked_sub(MONEY_PLACES), MONEY_PLACES.checked_sub(places)) {
        (Some(0), _) => amount,
        // Halves are rounded away from zero.
        (Some(more), _) => {
            let unit = 10i128.checked_pow(more).ok_or(ValueError::OutOfRange)?;
            let half = unit.wrapping_div(2);
            let shifted = if amount < 0 {
                amount.saturating_sub(half)
            } else {
                amount.saturating_add(half)
            };
            shifted.checked_div(unit).ok_or(ValueError::OutOfRange)?
        }
        (None, less) => amount.saturating_mul(10i128.saturating_pow(less.unwrap_or(0))),
    };
    put_framed(out, |out| {
        numeric::put_unscaled(scaled, out);
        Ok(())
    })
}

/// The infinities are the extremes of an int that counts from 2000, and then wraps round as it is made to count from 1970. No
/// date of Postgres lies there.
fn days(days: i32) -> i64 {
    match days {
        i32::MAX | i32::MIN => days.wrapping_add(temporal::EPOCH_DAYS).into(),
        days => days.into(),
    }
}

/// The infinities are those of Postgres's JDBC driver, in microseconds.
fn timestamp(micros: i64) -> i64 {
    match micros {
        i64::MAX => 9_223_372_036_825_200_000,
        i64::MIN => -9_223_372_036_832_400_000,
        micros => micros,
    }
}

fn put_zoned_timestamp(micros: i64, decimals: u8, out: &mut Vec<u8>) -> Result<(), ValueError> {
    put_framed(out, |out| {
        match micros {
            i64::MAX => out.extend_from_slice(b"infinity"),
            i64::MIN => out.extend_from_slice(b"-infinity"),
            micros => calendar::instant_text(micros, decimals, out),
        }
        Ok(())
    })
}

fn put_zoned_time((micros, east): (i64, i64), out: &mut Vec<u8>) -> Result<(), ValueError> {
    let utc = micros
        .saturating_sub(east.saturating_mul(1_000_000))
        .rem_euclid(MICROS_PER_DAY);
    put_framed(out, |out| {
        temporal::push_time(utc, out);
        out.push(b'Z');
        Ok(())
    })
}

fn micros(parts: Parts) -> Result<i64, ValueError> {
    if !parts.is_finite() {
        return Err(ValueError::OutOfRange);
    }
    let months = i128::from(parts.months).saturating_mul(MICROS_PER_MONTH);
    let days = i128::from(parts.days).saturating_mul(MICROS_PER_DAY.into());
    i64::try_from(months.saturating_add(days).saturating_add(parts.micros.into())).map_err(|_| ValueError::OutOfRange)
}

/// A record of x, y, the well-known binary of both (little-endian, of type 1), and no reference system.
fn put_point(value: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    let inner = value
        .strip_prefix(b"(")
        .and_then(|inner| inner.strip_suffix(b")"))
        .ok_or(ValueError::Malformed)?;
    let mut parts = inner.split(|byte| *byte == b',');
    let mut coordinate = || crate::row::float::f64_from_text(parts.next().ok_or(ValueError::Malformed)?);
    let (x, y) = (coordinate()?, coordinate()?);
    if parts.next().is_some() {
        return Err(ValueError::Malformed);
    }
    let coordinates = [x.to_le_bytes(), y.to_le_bytes()].concat();
    out.extend_from_slice(&coordinates);
    out.push(2);
    put_bytes(&[&[1, 1, 0, 0, 0], coordinates.as_slice()].concat(), out);
    out.push(0);
    Ok(())
}

fn array_from_text(form: &ArrayForm, value: &[u8], buffers: &mut Buffers, out: &mut Vec<u8>) -> Result<(), ValueError> {
    let elements = array::elements_from_text(value, form.delimiter)?;
    put_block(elements.remaining()?, out, |out| {
        let mut buffer = buffers.take();
        for element in elements {
            match element?.value(&mut buffer) {
                None => out.push(0),
                Some(value) => {
                    out.push(2);
                    form.element.put_text(value, buffers, out)?;
                }
            }
        }
        buffers.put_back(buffer);
        Ok(())
    })
}

fn array_from_binary(
    form: &ArrayForm,
    value: &[u8],
    buffers: &mut Buffers,
    out: &mut Vec<u8>,
) -> Result<(), ValueError> {
    let elements = array::elements_from_binary(value, form.oid)?;
    put_block(elements.remaining(), out, |out| {
        for element in elements {
            match element? {
                None => out.push(0),
                Some(value) => {
                    out.push(2);
                    form.element.put_binary(value, buffers, out)?;
                }
            }
        }
        Ok(())
    })
}
