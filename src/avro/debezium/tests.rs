//! Values with the bytes that stand for them, in both forms. What Debezium really writes is in tests/golden/debezium, and
//! tests/it/debezium.rs compares.

use super::super::nested::Buffers;
use super::form::Form;
use crate::row::tests::bytes;
use crate::row::{ValueError, ValueKind};

fn text(form: &Form, value: &str) -> Result<Vec<u8>, ValueError> {
    let mut out = Vec::new();
    form.put_text(value.as_bytes(), &mut Buffers::default(), &mut out)?;
    Ok(out)
}

fn binary(form: &Form, hexadecimal: &str) -> Result<Vec<u8>, ValueError> {
    let mut out = Vec::new();
    form.put_binary(&bytes(hexadecimal), &mut Buffers::default(), &mut out)?;
    Ok(out)
}

fn string(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    super::super::binary::put_bytes(text.as_bytes(), &mut out);
    out
}

fn long(value: i64) -> Vec<u8> {
    let mut out = Vec::new();
    super::super::binary::put_long(value, &mut out);
    out
}

#[test]
fn bits_are_a_little_endian_number_in_as_few_bytes_as_it_takes() {
    for (value, sent, expected) in [
        ("101000111", "00000009a380", &[4, 0x47, 1][..]),
        ("00000000", "0000000800", &[0]),
        ("1", "0000000180", &[2, 1]),
        ("1000000000000000", "000000108000", &[4, 0, 0x80]),
        ("", "00000000", &[0]),
    ] {
        assert_eq!(text(&Form::Bits, value).as_deref(), Ok(expected), "{value}");
        assert_eq!(binary(&Form::Bits, sent).as_deref(), Ok(expected), "{value}");
    }
    assert_eq!(text(&Form::Bits, "12"), Err(ValueError::Malformed));
    assert_eq!(text(&Form::Bit, "1"), Ok(vec![1]));
    assert_eq!(binary(&Form::Bit, "0000000100"), Ok(vec![0]));
}

#[test]
fn a_numeric_without_a_scale_has_that_of_its_digits() {
    for (value, scale, unscaled) in [
        ("0", 0, &[2u8, 0][..]),
        ("1.500", 1, &[2, 15]),
        ("100", 0, &[2, 100]),
        ("-1.00", 0, &[2, 0xff]),
        ("128", 0, &[4, 0, 0x80]),
        ("-0.001", 3, &[2, 0xff]),
    ] {
        let expected = [&long(scale)[..], unscaled].concat();
        assert_eq!(text(&Form::VariableScale, value), Ok(expected), "{value}");
    }
    // 12345.6789 and NaN.
    let sent = "0003000100000004000109291a85";
    assert_eq!(
        binary(&Form::VariableScale, sent),
        Ok([&long(4)[..], &[8, 0x07, 0x5b, 0xcd, 0x15]].concat())
    );
    assert_eq!(text(&Form::VariableScale, "NaN"), Err(ValueError::NotFinite));
    let long_number = "9".repeat(5000);
    let written = text(&Form::VariableScale, &long_number).unwrap();
    let magnitude = num_bytes(&written);
    assert_eq!(magnitude, 2077, "10^5000 - 1 has 16 610 bits, and one for the sign");
}

/// The length of the bytes after a scale of 0.
fn num_bytes(written: &[u8]) -> usize {
    assert_eq!(written[0], 0);
    written.len() - 3
}

#[test]
fn money_is_a_decimal_of_two_places_whatever_the_locale_prints() {
    let two = Form::Money { places: 2 };
    for (value, unscaled) in [
        ("$1,234.56", 123_456),
        ("-$1,234.56", -123_456),
        ("($0.05)", -5),
        ("1.234,56 €", 123_456),
        ("-$92,233,720,368,547,758.08", i64::MIN),
    ] {
        assert_eq!(text(&two, value), binary(&two, &format!("{unscaled:016x}")), "{value}");
    }
    assert_eq!(text(&two, "$1.28"), Ok(vec![4, 0, 0x80]));
    let none = Form::Money { places: 0 };
    assert_eq!(text(&none, "¥1"), Ok(vec![2, 100]));
    let three = Form::Money { places: 3 };
    assert_eq!(text(&three, "0.125"), Ok(vec![2, 13]), "halves go away from zero");
    assert_eq!(text(&three, "-0.125"), Ok(vec![2, 0xf3]));
    assert_eq!(text(&two, "$"), Err(ValueError::Malformed));
}

#[test]
fn an_interval_is_microseconds_and_a_month_a_twelfth_of_a_year() {
    for (value, micros) in [
        ("PT0S", 0),
        ("P1M", 2_629_800_000_000),
        ("P1D", 86_400_000_000),
        ("PT0.000001S", 1),
        ("P-1M1D", -2_629_800_000_000 + 86_400_000_000),
        (
            "P1Y2M3DT4H5M6.789012S",
            14 * 2_629_800_000_000 + 3 * 86_400_000_000 + 14_706_789_012,
        ),
    ] {
        assert_eq!(text(&Form::MicroDuration, value), Ok(long(micros)), "{value}");
    }
    assert_eq!(
        binary(&Form::MicroDuration, "000000000000000100000000ffffffff"),
        Ok(long(1 - 2_629_800_000_000))
    );
    assert_eq!(text(&Form::MicroDuration, "infinity"), Err(ValueError::OutOfRange));
    assert_eq!(text(&Form::MicroDuration, "P178956970Y"), Err(ValueError::OutOfRange));
}

#[test]
fn a_point_is_its_coordinates_and_their_well_known_binary() {
    let coordinates = "000000000000f83f00000000000000c0";
    let expected = bytes(&format!("{coordinates}022a0101000000{coordinates}00"));
    assert_eq!(text(&Form::Point, "(1.5,-2)"), Ok(expected.clone()));
    assert_eq!(binary(&Form::Point, "3ff8000000000000c000000000000000"), Ok(expected));
    assert_eq!(text(&Form::Point, "(1.5)"), Err(ValueError::Malformed));
}

#[test]
fn times_with_a_zone_are_utc() {
    assert_eq!(
        text(&Form::ZonedTime, "12:34:56.789012+05:30"),
        Ok(string("07:04:56.789012Z"))
    );
    assert_eq!(text(&Form::ZonedTime, "23:00:00-02"), Ok(string("01:00:00Z")));
    // 07:04:56.789012, 5½ hours east.
    assert_eq!(
        binary(&Form::ZonedTime, "00000005efba2014ffffb2a8"),
        Ok(string("01:34:56.789012Z"))
    );
}

#[test]
fn what_avro_writes_alike_is_left_to_it() {
    assert_eq!(text(&Form::Plain(ValueKind::Int4), "-1"), Ok(vec![1]));
    assert_eq!(binary(&Form::Plain(ValueKind::Int4), "ffffffff"), Ok(vec![1]));
}
