//! Floating-point numbers.
//!
//! With `extra_float_digits = 3` Postgres prints as many digits as it takes to read the same number back (manual,
//! section 8.1.3), and Rust's parser rounds correctly, so the text form is exact: also for `-0`, `NaN`, `Infinity`
//! and `-Infinity`.

use std::io::Write;

use super::ValueError;
use super::digits::{self, POWERS};
use super::integer::exact;

/// Reads the text of a `float4`.
#[inline]
pub fn f32_from_text(text: &[u8]) -> Result<f32, ValueError> {
    std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or(ValueError::Malformed)
}

/// Reads the text of a `float8`.
#[inline]
pub fn f64_from_text(text: &[u8]) -> Result<f64, ValueError> {
    match short_f64(text) {
        Some(value) => Ok(value),
        None => f64_of_any_length(text),
    }
}

#[inline(never)]
fn f64_of_any_length(text: &[u8]) -> Result<f64, ValueError> {
    std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or(ValueError::Malformed)
}

/// The most digits whose number is a `float8` whatever they are.
const SHORT: usize = 15;

/// The powers of ten up to that many digits.
const EXACT_POWERS: [f64; SHORT + 1] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
];

/// The number of few digits, with a point among them or without. Digits and power of ten are exact, so the one division rounds
/// correctly. `None`: it takes a closer look.
#[inline]
pub fn short_f64(text: &[u8]) -> Option<f64> {
    let (negative, digits) = match text.split_first() {
        Some((b'-', digits)) => (true, digits),
        _ => (false, text),
    };
    if digits.len() > SHORT.saturating_add(1) {
        return None;
    }
    let value = match digits.iter().position(|byte| *byte == b'.') {
        None if digits.len() > SHORT => return None,
        None => exact_f64(digits::number(digits)?),
        Some(point) => {
            let (whole, fraction) = digits.split_at_checked(point)?;
            let fraction = fraction.get(1..)?;
            let (power, divisor) = (*POWERS.get(fraction.len())?, *EXACT_POWERS.get(fraction.len())?);
            let unscaled = digits::number(whole)?
                .wrapping_mul(power)
                .wrapping_add(digits::number(fraction)?);
            exact_f64(unscaled) / divisor
        }
    };
    Some(if negative { -value } else { value })
}

/// A number below 2^53 as a `float8`, which holds it exactly.
#[inline]
fn exact_f64(number: u64) -> f64 {
    let half = |bits: u64| f64::from(u32::try_from(bits & 0xffff_ffff).unwrap_or_default());
    half(number.wrapping_shr(32)) * 4_294_967_296.0 + half(number)
}

/// Reads the binary form of a `float4`. Any NaN becomes the one that the text form gives.
#[inline]
pub fn f32_from_binary(bytes: &[u8]) -> Result<f32, ValueError> {
    let value = f32::from_be_bytes(exact(bytes)?);
    Ok(if value.is_nan() { f32::NAN } else { value })
}

/// Reads the binary form of a `float8`. Any NaN becomes the one that the text form gives.
#[inline]
pub fn f64_from_binary(bytes: &[u8]) -> Result<f64, ValueError> {
    let value = f64::from_be_bytes(exact(bytes)?);
    Ok(if value.is_nan() { f64::NAN } else { value })
}

/// Appends the text that Postgres prints for a `float8`: as many digits as it takes to read the same number back, whichever way
/// ties go then; of these numbers the nearest, of two the even one.
pub fn put_f64_text(value: f64, out: &mut Vec<u8>) {
    let start = out.len();
    if put_special(
        value.is_nan(),
        value.is_infinite(),
        value == 0.0,
        value.is_sign_negative(),
        out,
    ) {
        return;
    }
    let _infallible = write!(out, "{value:e}");
    let shortest = significant_digits(out.get(start..).unwrap_or_default());
    let is_good = |text: &[u8]| !is_halfway_f64(value, text) && f64_from_text(text) == Ok(value);
    for digits in shortest..=17 {
        out.truncate(start);
        let _infallible = write!(out, "{value:.*e}", digits.saturating_sub(1));
        if is_good(out.get(start..).unwrap_or_default()) {
            break;
        }
        // Beside a power of two, the nearest number of so many digits may be too far, and one on the other side not.
        out.truncate(start);
        let _infallible = write!(out, "{value:e}");
        if digits == shortest && is_good(out.get(start..).unwrap_or_default()) {
            break;
        }
    }
    put_as_printed(start, 15, out);
}

/// Appends the text that Postgres prints for a `float4`.
pub fn put_f32_text(value: f32, out: &mut Vec<u8>) {
    let start = out.len();
    if put_special(
        value.is_nan(),
        value.is_infinite(),
        value == 0.0,
        value.is_sign_negative(),
        out,
    ) {
        return;
    }
    let _infallible = write!(out, "{value:e}");
    let shortest = significant_digits(out.get(start..).unwrap_or_default());
    let is_good = |text: &[u8]| !is_halfway_f32(value, text) && f32_from_text(text) == Ok(value);
    for digits in shortest..=9 {
        out.truncate(start);
        let _infallible = write!(out, "{value:.*e}", digits.saturating_sub(1));
        if is_good(out.get(start..).unwrap_or_default()) {
            break;
        }
        // Beside a power of two, the nearest number of so many digits may be too far, and one on the other side not.
        out.truncate(start);
        let _infallible = write!(out, "{value:e}");
        if digits == shortest && is_good(out.get(start..).unwrap_or_default()) {
            break;
        }
    }
    put_as_printed(start, 6, out);
}

/// Appends NaN, an infinity or a zero; false: the value is none of these.
fn put_special(nan: bool, infinite: bool, zero: bool, negative: bool, out: &mut Vec<u8>) -> bool {
    let text: &[u8] = match (nan, infinite, zero, negative) {
        (true, ..) => b"NaN",
        (_, true, _, false) => b"Infinity",
        (_, true, _, true) => b"-Infinity",
        (_, _, true, false) => b"0",
        (_, _, true, true) => b"-0",
        _ => return false,
    };
    out.extend_from_slice(text);
    true
}

/// How many digits the mantissa of `d.ddde±x` has.
fn significant_digits(scientific: &[u8]) -> usize {
    scientific
        .iter()
        .take_while(|byte| **byte != b'e')
        .filter(|byte| byte.is_ascii_digit())
        .count()
}

/// Whether the text lies halfway to a neighbour of the value. It reads back as the value then, since ties go to the even
/// mantissa, but Postgres does not count on that and prints more digits.
fn is_halfway_f64(value: f64, scientific: &[u8]) -> bool {
    let bits = value.to_bits();
    let fraction = bits & 0x000f_ffff_ffff_ffff;
    let exponent = i32::try_from(bits.wrapping_shr(52) & 0x7ff).unwrap_or_default();
    is_halfway(fraction, exponent, 52, 1075, scientific)
}

/// As [`is_halfway_f64`].
fn is_halfway_f32(value: f32, scientific: &[u8]) -> bool {
    let bits = value.to_bits();
    let fraction = u64::from(bits & 0x007f_ffff);
    let exponent = i32::try_from(bits.wrapping_shr(23) & 0xff).unwrap_or_default();
    is_halfway(fraction, exponent, 23, 150, scientific)
}

fn is_halfway(fraction: u64, exponent: i32, bits: u32, bias: i32, scientific: &[u8]) -> bool {
    // The value is mantissa × 2^power.
    let hidden = 1u64.wrapping_shl(bits);
    let (mantissa, power) = match exponent {
        0 => (fraction, 1i32.wrapping_sub(bias)),
        _ => (fraction | hidden, exponent.wrapping_sub(bias)),
    };
    // Halfway up and down, in quarters of the last place: below a power of two the neighbour is half as far.
    let quarters = mantissa.wrapping_mul(4);
    let below = if fraction == 0 && exponent > 1 { 1 } else { 2 };
    let Some((digits, tens)) = decimal(scientific) else {
        return false;
    };
    [quarters.wrapping_add(2), quarters.wrapping_sub(below)]
        .iter()
        .any(|halfway| is_same(digits, tens, *halfway, power.wrapping_sub(2)))
}

/// The digits of `d.ddde±x` as an integer, and the power of ten that they stand in.
fn decimal(scientific: &[u8]) -> Option<(u64, i32)> {
    let text = std::str::from_utf8(scientific).ok()?;
    let (mantissa, exponent) = text.split_once('e')?;
    let mut digits = 0u64;
    let mut after_point = 0i32;
    let mut point = false;
    for byte in mantissa.bytes() {
        match byte {
            b'.' => point = true,
            b'0'..=b'9' => {
                digits = digits.checked_mul(10)?.checked_add(byte.wrapping_sub(b'0').into())?;
                after_point = after_point.wrapping_add(point.into());
            }
            _ => {}
        }
    }
    Some((digits, exponent.parse::<i32>().ok()?.wrapping_sub(after_point)))
}

/// Whether digits × 10^tens is number × 2^power.
fn is_same(digits: u64, tens: i32, number: u64, power: i32) -> bool {
    // 10^tens is 5^tens × 2^tens. The fives go to the side where their exponent is positive; what is left is compared as an odd
    // number and a power of two. A side that does not fit has too many fives to be the other.
    let fives = |count: u32| 5u128.checked_pow(count);
    let (left, right) = match u32::try_from(tens) {
        Ok(tens) => (fives(tens), Some(1)),
        Err(_) => (Some(1), fives(tens.unsigned_abs())),
    };
    let left = left.and_then(|fives| fives.checked_mul(digits.into()));
    let right = right.and_then(|fives| fives.checked_mul(number.into()));
    let (Some(left @ 1..), Some(right @ 1..)) = (left, right) else {
        return false;
    };
    let twos = |value: u128| i32::try_from(value.trailing_zeros()).unwrap_or_default();
    let odd = |value: u128| value.wrapping_shr(value.trailing_zeros());
    odd(left) == odd(right) && twos(left).wrapping_add(tens) == twos(right).wrapping_add(power)
}

/// Rewrites `d.ddde±x`, which begins at `start`, as Postgres has it: fixed from 0.0001 on and with fewer than `digits` digits before
/// the point, else with a sign and two digits or more in the exponent.
fn put_as_printed(start: usize, digits: i32, out: &mut Vec<u8>) {
    let written = out.get(start..).unwrap_or_default();
    let negative = written.first() == Some(&b'-');
    let Some((mantissa, tens)) = decimal(written) else {
        return;
    };
    let count = significant_digits(written);
    let exponent = tens
        .wrapping_add(i32::try_from(count).unwrap_or_default())
        .wrapping_sub(1);
    out.truncate(start);
    if negative {
        out.push(b'-');
    }
    let mut buffer = [0u8; 20];
    let mut place = buffer.as_mut_slice();
    let _fits = write!(place, "{mantissa}");
    let mantissa = buffer.get(..count).unwrap_or_default();
    let padding = |zeros: i32, out: &mut Vec<u8>| {
        for _ in 0..zeros {
            out.push(b'0');
        }
    };
    if !(-4..digits).contains(&exponent) {
        let (first, rest) = mantissa.split_at_checked(1).unwrap_or((mantissa, &[]));
        out.extend_from_slice(first);
        if !rest.is_empty() {
            out.push(b'.');
            out.extend_from_slice(rest);
        }
        let sign = if exponent < 0 { '-' } else { '+' };
        let _infallible = write!(out, "e{sign}{:02}", exponent.unsigned_abs());
    } else if exponent < 0 {
        out.extend_from_slice(b"0.");
        padding(exponent.wrapping_neg().wrapping_sub(1), out);
        out.extend_from_slice(mantissa);
    } else {
        let whole = usize::try_from(exponent).unwrap_or_default().saturating_add(1);
        let (before, after) = mantissa.split_at_checked(whole).unwrap_or((mantissa, &[]));
        out.extend_from_slice(before);
        padding(tens, out);
        if !after.is_empty() {
            out.push(b'.');
            out.extend_from_slice(after);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn printed(value: f64) -> String {
        let mut out = Vec::new();
        put_f64_text(value, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn printed_single(value: f32) -> String {
        let mut out = Vec::new();
        put_f32_text(value, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn doubles_are_printed_as_postgres_does() {
        for (bits, text) in [
            (0x44b5_2d02_c7e1_4af6, "9.999999999999999e+22"),
            (0x3d30_0000_0000_0000, "5.684341886080802e-14"),
            (0x4340_0000_0000_0000, "9.007199254740992e+15"),
            (0x430c_6bf5_2634_0000, "1e+15"),
            (0x430c_6bf5_2633_fff8, "999999999999999"),
            (0x42d6_bcc4_1e90_0000, "100000000000000"),
            (0x437b_69b4_ba63_0f35, "1.2345678901234568e+17"),
            (0x3f1a_36e2_eb1c_432d, "0.0001"),
            (0x3ee4_f8b5_88e3_68f1, "1e-05"),
            (0x0000_0000_0000_0001, "5e-324"),
            (0x3eb0_0000_0000_0000, "9.5367431640625e-07"),
            (0x43e0_0000_0000_0000, "9.223372036854776e+18"),
            (0x43b0_0000_0000_0000, "1.152921504606847e+18"),
            (0x0010_0000_0000_0000, "2.2250738585072014e-308"),
            (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
            (0xbff8_0000_0000_0000, "-1.5"),
            (0x4059_0000_0000_0000, "100"),
            (0x3e60_0000_0000_0000, "2.9802322387695312e-08"),
            (0x42a1_183b_e046_a2a0, "9397890720593.312"),
            (0x0060_0000_0000_0000, "7.120236347223045e-307"),
            (0x5580_0000_0000_0000, "7.167183174968974e+103"),
            (0x8000_0000_0000_0000, "-0"),
            (0x7ff8_0000_0000_0000, "NaN"),
            (0xfff0_0000_0000_0000, "-Infinity"),
        ] {
            assert_eq!(printed(f64::from_bits(bits)), text, "{bits:x}");
        }
    }

    #[test]
    fn singles_are_printed_as_postgres_does() {
        for (bits, text) in [
            (0x4974_2400, "1e+06"),
            (0x4974_23f0, "999999"),
            (0x4ceb_79a3, "1.2345679e+08"),
            (0x4b80_0000, "1.6777216e+07"),
            (0x38d1_b717, "0.0001"),
            (0x3727_c5ac, "1e-05"),
            (0x4b00_0000, "8.388608e+06"),
            (0x7f7f_ffff, "3.4028235e+38"),
            (0x0000_0001, "1e-45"),
            (0x4c00_0000, "3.3554432e+07"),
            (0x3380_0000, "5.9604645e-08"),
            (0x5000_0000, "8.589935e+09"),
            (0x3980_0000, "0.00024414062"),
            (0xc874_ce08, "-250680.12"),
            (0x7f80_0000, "Infinity"),
        ] {
            assert_eq!(printed_single(f32::from_bits(bits)), text, "{bits:x}");
        }
    }

    #[test]
    fn the_special_values_are_kept() {
        assert_eq!(f64_from_text(b"NaN").map(f64::to_bits), Ok(f64::NAN.to_bits()));
        assert_eq!(f64_from_text(b"Infinity"), Ok(f64::INFINITY));
        assert_eq!(f64_from_text(b"-Infinity"), Ok(f64::NEG_INFINITY));
        assert_eq!(f64_from_text(b"-0").map(f64::to_bits), Ok(0x8000_0000_0000_0000));
        assert_eq!(f32_from_text(b"-0").map(f32::to_bits), Ok(0x8000_0000));
        assert_eq!(f32_from_text(b"NaN").map(f32::to_bits), Ok(f32::NAN.to_bits()));
        assert_eq!(
            f64_from_binary(&[0xff, 0xf8, 0, 0, 0, 0, 0, 1]).map(f64::to_bits),
            Ok(f64::NAN.to_bits())
        );
    }

    #[test]
    fn shortest_and_longest_digits_read_exactly() {
        assert_eq!(f64_from_text(b"0.1"), Ok(0.1));
        assert_eq!(f64_from_text(b"0.10000000000000001"), Ok(0.1));
        assert_eq!(f64_from_text(b"5e-324"), Ok(5e-324));
        assert_eq!(f64_from_text(b"1.7976931348623157e+308"), Ok(f64::MAX));
        assert_eq!(f32_from_text(b"3.4028235e+38"), Ok(f32::MAX));
        assert_eq!(f32_from_text(b"0.100000001"), Ok(0.1));
    }

    #[test]
    fn anything_else_is_malformed() {
        assert_eq!(f64_from_text(b""), Err(ValueError::Malformed));
        assert_eq!(f64_from_text(b"1,5"), Err(ValueError::Malformed));
        assert_eq!(f64_from_binary(&[0; 4]), Err(ValueError::Malformed));
        assert_eq!(f32_from_binary(&[0; 8]), Err(ValueError::Malformed));
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back_as_the_same_bits(bits: u64, narrow: u32) {
            let value = f64::from_bits(bits);
            prop_assume!(!value.is_nan());
            prop_assert_eq!(f64_from_text(printed(value).as_bytes()).map(f64::to_bits), Ok(bits));
            let single = f32::from_bits(narrow);
            prop_assume!(!single.is_nan());
            prop_assert_eq!(f32_from_text(printed_single(single).as_bytes()).map(f32::to_bits), Ok(narrow));
        }

        #[test]
        fn few_digits_read_as_the_standard_library_reads_them(text in "-?[0-9]{1,15}|-?[0-9]{1,8}\\.[0-9]{1,8}|-?\\.?[0-9]{0,3}\\.?") {
            let expected = text.parse::<f64>().map(f64::to_bits).map_err(|_| ValueError::Malformed);
            prop_assert_eq!(f64_from_text(text.as_bytes()).map(f64::to_bits), expected);
        }

        #[test]
        fn text_and_binary_give_the_same_bits(value: f64) {
            prop_assert_eq!(f64_from_text(format!("{value:e}").as_bytes()).map(f64::to_bits), Ok(value.to_bits()));
            prop_assert_eq!(f64_from_binary(&value.to_be_bytes()).map(f64::to_bits), Ok(value.to_bits()));
        }
    }
}
