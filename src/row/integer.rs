//! Integers and booleans.

use super::ValueError;
use super::digits;

/// Reads decimal digits with an optional minus sign.
#[inline]
pub fn i64_from_text(text: &[u8]) -> Result<i64, ValueError> {
    match short_i64(text) {
        Some(value) => Ok(value),
        None => i64_of_any_length(text),
    }
}

/// The same of any but the least; `None`: it takes a closer look.
#[inline]
pub fn short_i64(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text.split_first() {
        Some((b'-', digits)) => (true, digits),
        _ => (false, text),
    };
    let value = i64::try_from(digits::number(digits)?).ok()?;
    Some(if negative { value.wrapping_neg() } else { value })
}

#[cold]
fn i64_of_any_length(text: &[u8]) -> Result<i64, ValueError> {
    let (negative, digits) = match text.split_first() {
        Some((b'-', digits)) => (true, digits),
        _ => (false, text),
    };
    let magnitude = u64_from_text(digits)?;
    let value = if negative {
        0i64.checked_sub_unsigned(magnitude)
    } else {
        i64::try_from(magnitude).ok()
    };
    value.ok_or(ValueError::OutOfRange)
}

/// Reads decimal digits.
#[inline]
pub fn u64_from_text(digits: &[u8]) -> Result<u64, ValueError> {
    match digits::number(digits) {
        Some(value) => Ok(value),
        None => number_of_any_length(digits),
    }
}

/// The same of digits whose number may not fit, or that are none.
#[cold]
fn number_of_any_length(digits: &[u8]) -> Result<u64, ValueError> {
    if digits.is_empty() {
        return Err(ValueError::Malformed);
    }
    let mut value = 0u64;
    for &byte in digits {
        let digit = u64::from(digit(byte)?);
        value = value
            .checked_mul(10)
            .and_then(|value| value.checked_add(digit))
            .ok_or(ValueError::OutOfRange)?;
    }
    Ok(value)
}

/// Reads an `int2` or `int4`.
#[inline]
pub fn i32_from_text(text: &[u8]) -> Result<i32, ValueError> {
    i32::try_from(i64_from_text(text)?).map_err(|_| ValueError::OutOfRange)
}

/// Reads an `oid`.
#[inline]
pub fn u32_from_text(text: &[u8]) -> Result<u32, ValueError> {
    u32::try_from(u64_from_text(text)?).map_err(|_| ValueError::OutOfRange)
}

/// Reads an `xid8`: unsigned; above `i64::MAX` a long cannot hold it.
#[inline]
pub fn xid8_from_text(text: &[u8]) -> Result<i64, ValueError> {
    i64::try_from(u64_from_text(text)?).map_err(|_| ValueError::OutOfRange)
}

/// Reads the binary form of an `xid8`.
#[inline]
pub fn xid8_from_binary(bytes: &[u8]) -> Result<i64, ValueError> {
    i64::try_from(u64::from_be_bytes(exact(bytes)?)).map_err(|_| ValueError::OutOfRange)
}

/// Reads the binary form of an `int2`.
#[inline]
pub fn i16_from_binary(bytes: &[u8]) -> Result<i16, ValueError> {
    Ok(i16::from_be_bytes(exact(bytes)?))
}

/// Reads the binary form of an `int4`.
#[inline]
pub fn i32_from_binary(bytes: &[u8]) -> Result<i32, ValueError> {
    Ok(i32::from_be_bytes(exact(bytes)?))
}

/// Reads the binary form of an `int8`.
#[inline]
pub fn i64_from_binary(bytes: &[u8]) -> Result<i64, ValueError> {
    Ok(i64::from_be_bytes(exact(bytes)?))
}

/// Reads the binary form of an `oid`.
#[inline]
pub fn u32_from_binary(bytes: &[u8]) -> Result<u32, ValueError> {
    Ok(u32::from_be_bytes(exact(bytes)?))
}

/// Reads `t` or `f`.
#[inline]
pub fn bool_from_text(text: &[u8]) -> Result<bool, ValueError> {
    match text {
        b"t" => Ok(true),
        b"f" => Ok(false),
        _ => Err(ValueError::Malformed),
    }
}

/// Reads one byte, 0 or 1.
#[inline]
pub fn bool_from_binary(bytes: &[u8]) -> Result<bool, ValueError> {
    match bytes {
        [0] => Ok(false),
        [1] => Ok(true),
        _ => Err(ValueError::Malformed),
    }
}

/// The value of an ASCII digit.
#[inline]
pub(super) fn digit(byte: u8) -> Result<u8, ValueError> {
    match byte.wrapping_sub(b'0') {
        value @ 0..=9 => Ok(value),
        _ => Err(ValueError::Malformed),
    }
}

/// Exactly `N` bytes.
#[inline]
pub(super) fn exact<const N: usize>(bytes: &[u8]) -> Result<[u8; N], ValueError> {
    bytes.try_into().map_err(|_| ValueError::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_ends_of_each_range_are_read() {
        assert_eq!(i64_from_text(b"-9223372036854775808"), Ok(i64::MIN));
        assert_eq!(i64_from_text(b"9223372036854775807"), Ok(i64::MAX));
        assert_eq!(i32_from_text(b"-2147483648"), Ok(i32::MIN));
        assert_eq!(u32_from_text(b"4294967295"), Ok(u32::MAX));
        assert_eq!(xid8_from_text(b"9223372036854775807"), Ok(i64::MAX));
    }

    #[test]
    fn what_lies_beyond_is_out_of_range() {
        assert_eq!(i64_from_text(b"9223372036854775808"), Err(ValueError::OutOfRange));
        assert_eq!(i64_from_text(b"-9223372036854775809"), Err(ValueError::OutOfRange));
        assert_eq!(i64_from_text(b"99999999999999999999999"), Err(ValueError::OutOfRange));
        assert_eq!(i32_from_text(b"2147483648"), Err(ValueError::OutOfRange));
        assert_eq!(u32_from_text(b"4294967296"), Err(ValueError::OutOfRange));
        assert_eq!(xid8_from_text(b"9223372036854775808"), Err(ValueError::OutOfRange));
        assert_eq!(
            xid8_from_binary(&[0x80, 0, 0, 0, 0, 0, 0, 0]),
            Err(ValueError::OutOfRange)
        );
    }

    #[test]
    fn anything_but_digits_is_malformed() {
        for text in [&b""[..], b"-", b"+1", b"1 ", b"0x1", b"1.0", b"--1", b"\xff"] {
            assert_eq!(i64_from_text(text), Err(ValueError::Malformed), "{text:?}");
        }
        assert_eq!(i32_from_binary(&[0, 0, 0]), Err(ValueError::Malformed));
        assert_eq!(i64_from_binary(&[0; 9]), Err(ValueError::Malformed));
        assert_eq!(bool_from_text(b"true"), Err(ValueError::Malformed));
        assert_eq!(bool_from_binary(&[2]), Err(ValueError::Malformed));
    }

    proptest! {
        #[test]
        fn text_and_binary_give_the_same_integer(value: i64) {
            prop_assert_eq!(i64_from_text(value.to_string().as_bytes()), Ok(value));
            prop_assert_eq!(i64_from_binary(&value.to_be_bytes()), Ok(value));
        }
    }
}
