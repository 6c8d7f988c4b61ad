//! Keys in headers: `__debezium.newkey` and `__debezium.oldkey`, by which the delete and the create of a changed key name each other.
//!
//! The text is that of Kafka Connect's default header converter (`SimpleHeaderConverter`): JSON in all that matters, with bytes in base 64 and
//! numbers as Java prints them.

use super::connect::Connect;

/// The text of a key in Avro.
pub(super) fn text(columns: &[(String, Connect)], avro: &[u8]) -> Vec<u8> {
    let mut out = String::from("{");
    let mut rest = avro;
    for (at, (name, schema)) in columns.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        put_string(name, &mut out);
        out.push(':');
        if schema.put_text(&mut rest, &mut out).is_none() {
            // A type of walferry's own, which is in no key of Debezium's.
            out.push_str("null");
            break;
        }
    }
    out.push('}');
    out.into_bytes()
}

/// A string in quotation marks.
pub(super) fn put_string(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        if matches!(character, '"' | '\\') {
            out.push('\\');
        }
        out.push(character);
    }
    out.push('"');
}

/// A number as `Double.toString` prints it: plain from a thousandth to ten million, else with an exponent.
pub(super) fn put_float(plain: &str, scientific: &str, magnitude: f64, out: &mut String) {
    let is_plain = magnitude == 0.0 || (1e-3..1e7).contains(&magnitude);
    let (digits, exponent) = match scientific.split_once('E') {
        Some((digits, exponent)) if !is_plain => (digits, Some(exponent)),
        _ => (plain, None),
    };
    out.push_str(digits);
    if !digits.contains('.') {
        out.push_str(".0");
    }
    if let Some(exponent) = exponent {
        out.push('E');
        out.push_str(exponent);
    }
}

/// An unscaled big-endian two's complement number with so many decimals, as `BigDecimal.toString` prints it for a scale of up to 6.
pub(super) fn put_decimal(bytes: &[u8], scale: usize, out: &mut String) {
    let negative = bytes.first().is_some_and(|first| *first >= 0x80);
    let mut magnitude: Vec<u8> = bytes.to_vec();
    if negative {
        let mut carry = true;
        for byte in magnitude.iter_mut().rev() {
            let (sum, carried) = (!*byte).overflowing_add(u8::from(carry));
            (*byte, carry) = (sum, carried);
        }
    }
    // Long division by ten, digit by digit from the last.
    let mut digits = Vec::new();
    while magnitude.iter().any(|byte| *byte != 0) {
        let mut remainder = 0u16;
        for byte in &mut magnitude {
            let value = remainder.wrapping_mul(256).wrapping_add(u16::from(*byte));
            *byte = u8::try_from(value.wrapping_div(10)).unwrap_or_default();
            remainder = value.wrapping_rem(10);
        }
        digits.push(b'0'.wrapping_add(u8::try_from(remainder).unwrap_or_default()));
    }
    while digits.len() <= scale {
        digits.push(b'0');
    }
    if negative {
        out.push('-');
    }
    for (at, digit) in digits.iter().enumerate().rev() {
        out.push(char::from(*digit));
        if at == scale && scale > 0 {
            out.push('.');
        }
    }
}

/// Bytes in base 64.
pub(super) fn put_base64(bytes: &[u8], out: &mut String) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    out.push('"');
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or_default());
        let group = byte(0).wrapping_shl(16) | byte(1).wrapping_shl(8) | byte(2);
        for (at, shift) in [18u32, 12, 6, 0].into_iter().enumerate() {
            let digit = usize::try_from(group.wrapping_shr(shift) & 63).unwrap_or_default();
            out.push(match DIGITS.get(digit) {
                Some(digit) if at <= chunk.len() => char::from(*digit),
                _ => '=',
            });
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(columns: &[(&str, Connect)], avro: &[u8]) -> String {
        let columns: Vec<_> = columns
            .iter()
            .map(|(name, schema)| ((*name).to_owned(), schema.clone()))
            .collect();
        String::from_utf8(text(&columns, avro)).unwrap()
    }

    #[test]
    fn a_key_is_printed_as_the_default_header_converter_does() {
        assert_eq!(printed(&[("id", Connect::INT32)], &[0xc8, 1]), r#"{"id":100}"#);
        assert_eq!(
            printed(
                &[
                    ("a", Connect::STRING),
                    ("b", Connect::BOOLEAN),
                    ("n", Connect::decimal(Some(10), 2)),
                    ("y", Connect::BYTES)
                ],
                b"\x06q\"\\\x01\x02\xff\x02\xff"
            ),
            r#"{"a":"q\"\\","b":true,"n":-0.01,"y":"/w=="}"#
        );
        assert_eq!(
            printed(
                &[("n", Connect::decimal(Some(40), 0))],
                b"\x22\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
            ),
            r#"{"n":340282366920938463463374607431768211456}"#
        );
        let doubles = [1.5f64, 1e22, 1e-5, -0.0].map(f64::to_le_bytes).concat();
        let columns = ["a", "b", "c", "d"].map(|name| (name, Connect::FLOAT64));
        assert_eq!(
            printed(&columns, &doubles),
            r#"{"a":1.5,"b":1.0E22,"c":1.0E-5,"d":-0.0}"#
        );
    }
}
