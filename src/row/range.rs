//! Ranges and multiranges in their binary form, printed as Postgres prints them (manual, section 8.17; `range_out` and
//! `range_send` in `utils/adt/rangetypes.c`, `multirange_send` in `multirangetypes.c`).
//!
//! A range is one byte of flags, then each bound that there is with its length in four bytes before it. As text it is `empty` or
//! `[lower,upper)`; a bound is quoted that is empty or holds a quotation mark, a backslash, a bracket or parenthesis, a comma or
//! white space; quotation marks and backslashes are doubled. A multirange is the number of its ranges, then each with its
//! length before it, both in four bytes; as text it is `{[1,2),[3,4)}`.

use super::ValueError;
use super::kind::ValueKind;
use super::printed::plain_text;
use super::wire::Wire;

const EMPTY: u8 = 0x01;
const LOWER_INCLUSIVE: u8 = 0x02;
const UPPER_INCLUSIVE: u8 = 0x04;
const LOWER_INFINITE: u8 = 0x08;
const UPPER_INFINITE: u8 = 0x10;

/// Appends the text of a range over `subtype`.
pub fn range_text(subtype: &ValueKind, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    let mut wire = Wire::new(bytes);
    let flags = wire.u8()?;
    let is = |flag: u8| flags & flag != 0;
    if flags > 0x1f || (is(EMPTY) && flags != EMPTY) {
        return Err(ValueError::Malformed);
    }
    if is(EMPTY) {
        out.extend_from_slice(b"empty");
        return wire.end();
    }
    out.push(if is(LOWER_INCLUSIVE) { b'[' } else { b'(' });
    if !is(LOWER_INFINITE) {
        put_bound(subtype, &mut wire, out)?;
    }
    out.push(b',');
    if !is(UPPER_INFINITE) {
        put_bound(subtype, &mut wire, out)?;
    }
    out.push(if is(UPPER_INCLUSIVE) { b']' } else { b')' });
    wire.end()
}

/// Appends the text of a multirange over `subtype`.
pub fn multirange_text(subtype: &ValueKind, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    let mut wire = Wire::new(bytes);
    out.push(b'{');
    for at in 0..wire.count(5)? {
        if at > 0 {
            out.push(b',');
        }
        let range = wire.value()?.ok_or(ValueError::Malformed)?;
        range_text(subtype, range, out)?;
    }
    out.push(b'}');
    wire.end()
}

fn put_bound(subtype: &ValueKind, wire: &mut Wire<'_>, out: &mut Vec<u8>) -> Result<(), ValueError> {
    let bound = wire.value()?.ok_or(ValueError::Malformed)?;
    let quotation = out.len();
    out.push(b'"');
    let start = out.len();
    plain_text(subtype, bound, out)?;
    let printed = out.get(start..).unwrap_or_default();
    let is_doubled = |byte: &u8| matches!(byte, b'"' | b'\\');
    let is_quoted =
        |byte: &u8| is_doubled(byte) || matches!(byte, b'(' | b')' | b'[' | b']' | b',' | b' ' | 0x09..=0x0d);
    if printed.iter().any(is_doubled) {
        let printed = out.split_off(start);
        for byte in printed {
            if is_doubled(&byte) {
                out.push(byte);
            }
            out.push(byte);
        }
        out.push(b'"');
    } else if printed.is_empty() || printed.iter().any(is_quoted) {
        out.push(b'"');
    } else {
        out.remove(quotation);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::tests::bytes;
    use proptest::prelude::*;

    fn range(subtype: &ValueKind, hexadecimal: &str) -> Result<String, ValueError> {
        let mut out = Vec::new();
        range_text(subtype, &bytes(hexadecimal), &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    fn multirange(subtype: &ValueKind, hexadecimal: &str) -> Result<String, ValueError> {
        let mut out = Vec::new();
        multirange_text(subtype, &bytes(hexadecimal), &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn ranges_are_printed_as_postgres_does() {
        let decimal = ValueKind::Numeric;
        for (subtype, sent, text) in [
            (&ValueKind::Int4, "0200000004000000010000000400000005", "[1,5)"),
            (&ValueKind::Int4, "01", "empty"),
            (&ValueKind::Int4, "18", "(,)"),
            (&ValueKind::Int4, "120000000400000003", "[3,)"),
            (
                &decimal,
                "020000000c0002000000000002000113880000000800000000c0000000",
                "[1.50,NaN)",
            ),
            (
                &ValueKind::Timestamp,
                "06000000080002b0d5d4f0e120000000087fffffffffffffff",
                r#"["2024-01-01 00:00:00.5",infinity]"#,
            ),
            (
                &ValueKind::Timestamp,
                "1200000008ff1af9deec5b2000",
                r#"["0044-03-15 00:00:00 BC",)"#,
            ),
            (
                &ValueKind::Timestamp,
                "0c000000087fffff5bb3b29fff",
                r#"(,"294276-12-31 23:59:59.999999"]"#,
            ),
            (
                &ValueKind::TimestampTz,
                "06000000080002b0d5d4e94000000000087fffffffffffffff",
                r#"["2024-01-01 00:00:00+00",infinity]"#,
            ),
            (
                &ValueKind::Date,
                "06000000040000223e000000047fffffff",
                "[2024-01-01,infinity]",
            ),
            (
                &ValueKind::Date,
                "0200000004fff49d7b00000004002c95d4",
                r#"["0044-03-15 BC",10000-01-01)"#,
            ),
            (
                &ValueKind::Float8,
                "0600000008430c6bf5263400000000000844b52d02c7e14af6",
                "[1e+15,9.999999999999999e+22]",
            ),
            (
                &ValueKind::Float8,
                "0000000008fff0000000000000000000087ff8000000000000",
                "(-Infinity,NaN)",
            ),
            (
                &ValueKind::Text,
                "0200000005612022622200000003635c64",
                r#"["a ""b""","c\\d")"#,
            ),
            (&ValueKind::Text, "0200000000000000037a2829", r#"["","z()")"#),
            (&ValueKind::Text, "1200000003612c62", r#"["a,b",)"#),
            (&ValueKind::Text, "0200000005706c61696e0000000171", "[plain,q)"),
        ] {
            assert_eq!(range(subtype, sent).as_deref(), Ok(text));
        }
        let sent = "00000002000000110200000004000000010000000400000005000000110200000004000000070000000400000009";
        assert_eq!(multirange(&ValueKind::Int4, sent).as_deref(), Ok("{[1,5),[7,9)}"));
        assert_eq!(multirange(&ValueKind::Int4, "00000000").as_deref(), Ok("{}"));
        let sent = "000000010000001902000000080002b0d5d4e94000000000080002b0e9f2c0a000";
        assert_eq!(
            multirange(&ValueKind::Timestamp, sent).as_deref(),
            Ok(r#"{["2024-01-01 00:00:00","2024-01-02 00:00:00")}"#)
        );
    }

    #[test]
    fn anything_else_is_malformed() {
        for sent in [
            "",
            "03",
            "20",
            "1800",
            "02",
            "02000000040000000100000004000000",
            "02ffffffff",
            "0100",
        ] {
            assert_eq!(range(&ValueKind::Int4, sent), Err(ValueError::Malformed), "{sent}");
        }
        for sent in [
            "",
            "00000001",
            "0000000000",
            "00000001ffffffff",
            "ffffffff",
            "000000010000000218",
        ] {
            assert_eq!(multirange(&ValueKind::Int4, sent), Err(ValueError::Malformed), "{sent}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(noise: Vec<u8>) {
            let _ = range_text(&ValueKind::Text, &noise, &mut Vec::new());
            let _ = multirange_text(&ValueKind::Numeric, &noise, &mut Vec::new());
        }
    }
}
