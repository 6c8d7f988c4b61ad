//! Floating-point numbers.
//!
//! With `extra_float_digits = 3` Postgres prints as many digits as it takes to read the same number back (manual,
//! section 8.1.3), and Rust's parser rounds correctly, so the text form is exact: also for `-0`, `NaN`, `Infinity`
//! and `-Infinity`.

use super::ValueError;
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
    std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or(ValueError::Malformed)
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
        fn text_and_binary_give_the_same_bits(value: f64) {
            prop_assert_eq!(f64_from_text(format!("{value:e}").as_bytes()).map(f64::to_bits), Ok(value.to_bits()));
            prop_assert_eq!(f64_from_binary(&value.to_be_bytes()).map(f64::to_bits), Ok(value.to_bits()));
        }
    }
}
