//! The ISO text of dates and timestamps that came in their binary form: what Postgres prints for them under `DateStyle = ISO`
//! and `TimeZone = UTC`. It is needed inside of values that are text themselves, as ranges are.

use std::io::Write;

use super::ValueError;
use super::integer::{i32_from_binary, i64_from_binary};
use super::temporal::{push_time, time_from_binary};

const MICROS_PER_DAY: i64 = 86_400_000_000;
/// From 0000-03-01 to 2000-01-01, Postgres's epoch.
const EPOCH_DAYS: i64 = 730_425;
/// From 1970-01-01 to 2000-01-01.
const UNIX_EPOCH_DAYS: i64 = 10_957;

/// Appends the text of a binary `date`.
pub fn date_text(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    match i32_from_binary(bytes)? {
        i32::MAX => out.extend_from_slice(b"infinity"),
        i32::MIN => out.extend_from_slice(b"-infinity"),
        days => {
            let bc = push_date(days.into(), out);
            push_era(bc, out);
        }
    }
    Ok(())
}

/// Appends the text of a binary `time`.
pub fn time_text(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    push_time(time_from_binary(bytes)?, out);
    Ok(())
}

/// Appends the text of a binary `timestamp`, or, `zoned`, of a `timestamptz` in UTC.
pub fn timestamp_text(bytes: &[u8], zoned: bool, out: &mut Vec<u8>) -> Result<(), ValueError> {
    match i64_from_binary(bytes)? {
        i64::MAX => out.extend_from_slice(b"infinity"),
        i64::MIN => out.extend_from_slice(b"-infinity"),
        micros => {
            let bc = push_date(micros.div_euclid(MICROS_PER_DAY), out);
            out.push(b' ');
            push_time(micros.rem_euclid(MICROS_PER_DAY), out);
            if zoned {
                out.extend_from_slice(b"+00");
            }
            push_era(bc, out);
        }
    }
    Ok(())
}

/// Appends an instant, in microseconds since 1970-01-01 00:00:00 UTC, in the form of ISO 8601 that Java prints, with so many
/// decimals: `2024-02-29T12:34:56.789Z`. Years beyond 9999 have a plus sign before them, those before 1 are 0, -1 and so on.
pub fn instant_text(micros: i64, decimals: u8, out: &mut Vec<u8>) {
    let (year, month, day) = civil_of_unix_days(micros.div_euclid(MICROS_PER_DAY));
    let sign = match year {
        ..0 => "-",
        0..=9999 => "",
        _ => "+",
    };
    let _infallible = write!(out, "{sign}{:04}-{month:02}-{day:02}T", year.unsigned_abs());
    let within = micros.rem_euclid(MICROS_PER_DAY);
    push_time(within.saturating_sub(within.wrapping_rem(1_000_000)), out);
    if decimals > 0 {
        let missing = 6u8.saturating_sub(decimals).into();
        let _infallible = write!(out, ".{:06}", within.wrapping_rem(1_000_000));
        out.truncate(out.len().saturating_sub(missing));
    }
    out.push(b'Z');
}

fn push_era(bc: bool, out: &mut Vec<u8>) {
    if bc {
        out.extend_from_slice(b" BC");
    }
}

/// Appends the date of a day since 2000-01-01, and says whether its year is one before Christ.
fn push_date(days: i64, out: &mut Vec<u8>) -> bool {
    let (year, month, day) = civil(days);
    let bc = year <= 0;
    let year = if bc { 1i64.wrapping_sub(year) } else { year };
    let _infallible = write!(out, "{year:04}-{month:02}-{day:02}");
    bc
}

/// Year, month and day of a day since 1970-01-01. The year before 1 is 0.
pub fn civil_of_unix_days(days: i64) -> (i64, i64, i64) {
    civil(days.saturating_sub(UNIX_EPOCH_DAYS))
}

/// Year, month and day of a day since 2000-01-01. The year before 1 is 0.
///
/// Years are counted from March, so that the leap day is the last of its year, and in cycles of 400 years of 146 097
/// days.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days.wrapping_add(EPOCH_DAYS);
    let cycle = days.div_euclid(146_097);
    let day_of_cycle = days.rem_euclid(146_097);
    let leap_days = day_of_cycle
        .wrapping_div(1_460)
        .wrapping_sub(day_of_cycle.wrapping_div(36_524))
        .wrapping_add(day_of_cycle.wrapping_div(146_096));
    let year_of_cycle = day_of_cycle.wrapping_sub(leap_days).wrapping_div(365);
    let day_of_year = day_of_cycle
        .wrapping_sub(year_of_cycle.wrapping_mul(365))
        .wrapping_sub(year_of_cycle.wrapping_div(4))
        .wrapping_add(year_of_cycle.wrapping_div(100));
    let month_from_march = day_of_year.wrapping_mul(5).wrapping_add(2).wrapping_div(153);
    let day = day_of_year
        .wrapping_sub(month_from_march.wrapping_mul(153).wrapping_add(2).wrapping_div(5))
        .wrapping_add(1);
    let month = month_from_march.wrapping_add(2).wrapping_rem(12).wrapping_add(1);
    let year = cycle
        .wrapping_mul(400)
        .wrapping_add(year_of_cycle)
        .wrapping_add(i64::from(month <= 2));
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::temporal::{EPOCH_MICROS, date_from_text, timestamp_from_text, timestamptz_from_text};
    use crate::row::tests::bytes;
    use proptest::prelude::*;

    fn timestamp(hexadecimal: &str, zoned: bool) -> String {
        let mut out = Vec::new();
        timestamp_text(&bytes(hexadecimal), zoned, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn date(days: i32) -> String {
        let mut out = Vec::new();
        date_text(&days.to_be_bytes(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn binary_gives_the_text_that_postgres_prints() {
        assert_eq!(timestamp("0002b0d5d4f0e120", false), "2024-01-01 00:00:00.5");
        assert_eq!(timestamp("7fffffffffffffff", false), "infinity");
        assert_eq!(timestamp("8000000000000000", true), "-infinity");
        assert_eq!(timestamp("ff1af9deec5b2000", false), "0044-03-15 00:00:00 BC");
        assert_eq!(timestamp("ff1af9e8fb4aa090", true), "0044-03-15 12:00:00.25+00 BC");
        assert_eq!(timestamp("7fffff5bb3b29fff", false), "294276-12-31 23:59:59.999999");
        assert_eq!(timestamp("0380e70b913b8000", true), "10000-01-01 00:00:00+00");
        assert_eq!(date(0x223e), "2024-01-01");
        assert_eq!(date(0xfff4_9d7b_u32.cast_signed()), "0044-03-15 BC");
        assert_eq!(date(0x002c_95d4), "10000-01-01");
        assert_eq!(date(i32::MAX), "infinity");
        let mut out = Vec::new();
        time_text(&bytes("000000141dd76000"), &mut out).unwrap();
        time_text(&bytes("00000000ddef5690"), &mut out).unwrap();
        assert_eq!(out, b"24:00:0001:02:03.45");
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(days in -2_451_545i32..2_145_031_949, micros in -211_813_488_000_000_000i64..8_000_000_000_000_000_000) {
            prop_assert_eq!(date_from_text(date(days).as_bytes()), Ok(days + 10_957));
            let hexadecimal = format!("{micros:016x}");
            prop_assert_eq!(timestamp_from_text(timestamp(&hexadecimal, false).as_bytes()), Ok(micros + EPOCH_MICROS));
            prop_assert_eq!(timestamptz_from_text(timestamp(&hexadecimal, true).as_bytes()), Ok(micros + EPOCH_MICROS));
        }
    }
}
