//! `interval` (manual, section 8.5.4): months, days and microseconds, which are never added up.
//!
//! The text is that of `IntervalStyle = iso_8601`, ISO 8601's format with designators, in which each unit has a sign of its own:
//!
//! ```text
//! interval = "P" [years "Y"] [months "M"] [days "D"] ["T" [hours "H"] [minutes "M"] [seconds ["." fraction] "S"]]
//! ```
//!
//! Years and months are the months divided by 12 and the remainder; hours, minutes and seconds are the microseconds divided in
//! the same way, all of them truncated towards zero, so that all units of one part have its sign. Units of 0 are left out,
//! as are the zeros at the end of the fraction; nothing at all is `PT0S`. So the three parts can be read back exactly, and one
//! value has one text. From Postgres 17 on there are also `infinity` and `-infinity`.

use std::io::Write;

use super::ValueError;
use super::wire::Wire;

const MICROS_PER_SECOND: i64 = 1_000_000;

/// The three parts of an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts {
    /// Months.
    pub months: i32,
    /// Days.
    pub days: i32,
    /// Microseconds.
    pub micros: i64,
}

impl Parts {
    /// The infinities are the extremes of all three.
    pub const fn is_finite(self) -> bool {
        !matches!(
            self,
            Parts {
                months: i32::MAX,
                days: i32::MAX,
                micros: i64::MAX
            } | Parts {
                months: i32::MIN,
                days: i32::MIN,
                micros: i64::MIN
            }
        )
    }
}

/// Reads the parts from the text.
///
/// # Errors
/// [`ValueError::OutOfRange`] for numbers that no interval has.
pub fn parts_from_text(text: &[u8]) -> Result<Parts, ValueError> {
    match check_text(text)? {
        b"infinity" => {
            return Ok(Parts {
                months: i32::MAX,
                days: i32::MAX,
                micros: i64::MAX,
            });
        }
        b"-infinity" => {
            return Ok(Parts {
                months: i32::MIN,
                days: i32::MIN,
                micros: i64::MIN,
            });
        }
        _ => {}
    }
    let (mut months, mut days, mut micros) = (0i128, 0i128, 0i128);
    let mut number = 0i128;
    let mut digits = 0u32;
    let mut negative = false;
    let mut time = false;
    let mut fraction = false;
    for &byte in text.iter().skip(1) {
        match byte {
            b'T' => time = true,
            b'-' => negative = true,
            b'.' => {
                fraction = true;
                digits = 0;
            }
            b'0'..=b'9' => {
                number = number
                    .saturating_mul(10)
                    .saturating_add(i128::from(byte.wrapping_sub(b'0')));
                digits = digits.saturating_add(1);
            }
            designator => {
                if fraction {
                    // What is said in seconds and six decimals at most.
                    let missing = 6u32.checked_sub(digits).ok_or(ValueError::OutOfRange)?;
                    number = number.saturating_mul(10i128.saturating_pow(missing));
                }
                let signed = if negative { number.saturating_neg() } else { number };
                let (sum, unit) = match (designator, time) {
                    (b'Y', _) => (&mut months, 12),
                    (b'M', false) => (&mut months, 1),
                    (b'D', _) => (&mut days, 1),
                    (b'H', _) => (&mut micros, 3_600_000_000),
                    (b'M', true) => (&mut micros, 60_000_000),
                    _ if fraction => (&mut micros, 1),
                    _ => (&mut micros, 1_000_000),
                };
                *sum = sum.saturating_add(signed.saturating_mul(unit));
                (number, digits, negative, fraction) = (0, 0, false, false);
            }
        }
    }
    Ok(Parts {
        months: i32::try_from(months).map_err(|_| ValueError::OutOfRange)?,
        days: i32::try_from(days).map_err(|_| ValueError::OutOfRange)?,
        micros: i64::try_from(micros).map_err(|_| ValueError::OutOfRange)?,
    })
}

/// Reads the parts from the binary form: microseconds in eight bytes, days and months in four each.
pub fn parts_from_binary(bytes: &[u8]) -> Result<Parts, ValueError> {
    let mut wire = Wire::new(bytes);
    let (micros, days, months) = (wire.i64()?, wire.i32()?, wire.i32()?);
    wire.end()?;
    Ok(Parts { months, days, micros })
}

/// Checks the text, which is passed on as it is.
pub fn check_text(text: &[u8]) -> Result<&[u8], ValueError> {
    let is_interval = match text {
        b"infinity" | b"-infinity" | b"PT0S" => true,
        [b'P', rest @ ..] => {
            let (rest, dates) = units(rest, b"YMD", false);
            match rest {
                [] => dates,
                [b'T', rest @ ..] => units(rest, b"HMS", true) == (&[], true),
                _ => false,
            }
        }
        _ => false,
    };
    if is_interval {
        Ok(text)
    } else {
        Err(ValueError::Malformed)
    }
}

/// Reads numbers with these designators, in this order; gives what follows, and whether there was any. `fraction`: the last
/// may have one.
fn units<'a>(mut text: &'a [u8], designators: &[u8], fraction: bool) -> (&'a [u8], bool) {
    let mut any = false;
    for (index, designator) in designators.iter().enumerate() {
        let last = index.saturating_add(1) == designators.len();
        let number = text.strip_prefix(b"-").unwrap_or(text);
        let Some(mut after) = digits(number) else { continue };
        if fraction
            && last
            && let [b'.', decimals @ ..] = after
        {
            match digits(decimals) {
                Some(rest) => after = rest,
                None => continue,
            }
        }
        if let [first, rest @ ..] = after
            && first == designator
        {
            text = rest;
            any = true;
        }
    }
    (text, any)
}

/// What follows one digit or more.
fn digits(text: &[u8]) -> Option<&[u8]> {
    match text.iter().position(|byte| !byte.is_ascii_digit()) {
        Some(0) => None,
        Some(end) => text.get(end..),
        None if text.is_empty() => None,
        None => Some(&[]),
    }
}

/// Appends the text of the binary form.
///
/// The extremes of all three are Postgres 17's infinities. Of an older server they are finite values, about 178 956 970 years
/// long, and this is the only case where the two forms differ: their text has the numbers.
pub fn text_from_binary(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    let Parts { months, days, micros } = parts_from_binary(bytes)?;
    match (months, days, micros) {
        (i32::MAX, i32::MAX, i64::MAX) => out.extend_from_slice(b"infinity"),
        (i32::MIN, i32::MIN, i64::MIN) => out.extend_from_slice(b"-infinity"),
        (0, 0, 0) => out.extend_from_slice(b"PT0S"),
        _ => {
            out.push(b'P');
            put_unit(months.wrapping_div(12).into(), 'Y', out);
            put_unit(months.wrapping_rem(12).into(), 'M', out);
            put_unit(days.into(), 'D', out);
            if micros != 0 {
                out.push(b'T');
                put_time(micros, out);
            }
        }
    }
    Ok(())
}

fn put_time(micros: i64, out: &mut Vec<u8>) {
    let seconds = micros.wrapping_div(MICROS_PER_SECOND);
    put_unit(seconds.wrapping_div(3600), 'H', out);
    put_unit(seconds.wrapping_div(60).wrapping_rem(60), 'M', out);
    let whole = seconds.wrapping_rem(60);
    let fraction = micros.wrapping_rem(MICROS_PER_SECOND).unsigned_abs();
    match (whole, fraction) {
        (0, 0) => {}
        (_, 0) => put_unit(whole, 'S', out),
        _ => {
            if micros < 0 {
                out.push(b'-');
            }
            let _infallible = write!(out, "{}.{fraction:06}", whole.unsigned_abs());
            while out.last() == Some(&b'0') {
                out.pop();
            }
            out.push(b'S');
        }
    }
}

fn put_unit(value: i64, designator: char, out: &mut Vec<u8>) {
    if value != 0 {
        let _infallible = write!(out, "{value}{designator}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn printed(months: i32, days: i32, micros: i64) -> String {
        let sent = [&micros.to_be_bytes()[..], &days.to_be_bytes(), &months.to_be_bytes()].concat();
        let mut out = Vec::new();
        text_from_binary(&sent, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn binary_gives_the_text_that_postgres_prints() {
        for (months, days, micros, text) in [
            (14, 3, 14_706_700_000, "P1Y2M3DT4H5M6.7S"),
            (-1, 3, -14_706_000_001, "P-1M3DT-4H-5M-6.000001S"),
            (0, 0, 0, "PT0S"),
            (0, 0, -500_000, "PT-0.5S"),
            (11, 0, -90_000_000_000, "P11MT-25H"),
            (-13, 0, 0, "P-1Y-1M"),
            (0, 0, 60_000_000, "PT1M"),
            (0, 0, 10, "PT0.00001S"),
            (0, 3, 0, "P3D"),
            (1, -1, 0, "P1M-1D"),
            (i32::MAX, i32::MIN, 0, "P178956970Y7M-2147483648D"),
            (i32::MIN, 0, 0, "P-178956970Y-8M"),
            (0, 0, i64::MAX, "PT2562047788H54.775807S"),
            (0, 0, i64::MIN, "PT-2562047788H-54.775808S"),
            (i32::MAX, i32::MAX, i64::MAX, "infinity"),
            (i32::MIN, i32::MIN, i64::MIN, "-infinity"),
        ] {
            assert_eq!(printed(months, days, micros), text);
            assert_eq!(parts_from_text(text.as_bytes()), Ok(Parts { months, days, micros }));
            assert_eq!(check_text(text.as_bytes()), Ok(text.as_bytes()));
        }
    }

    #[test]
    fn other_styles_are_malformed() {
        for text in [
            "",
            "P",
            "PT",
            "P1YT",
            "1 mon",
            "1 year 2 mons",
            "00:00:01",
            "1-2",
            "@ 1 min",
            "P1D2M",
            "P1.5D",
            "PT1.S",
            "PT.5S",
            "PT1S2",
            "P1Y ",
            "P--1Y",
            "P1",
            "+infinity",
            "PT1M2H",
        ] {
            assert_eq!(check_text(text.as_bytes()), Err(ValueError::Malformed), "{text}");
        }
        assert_eq!(text_from_binary(&[0; 15], &mut Vec::new()), Err(ValueError::Malformed));
        assert_eq!(text_from_binary(&[0; 17], &mut Vec::new()), Err(ValueError::Malformed));
    }

    /// The three parts, by an independent reading.
    fn parts(text: &str) -> (i64, i64, i128) {
        let (dates, times) = text
            .strip_prefix('P')
            .unwrap()
            .split_once('T')
            .unwrap_or((&text[1..], ""));
        let (mut months, mut days, mut micros) = (0, 0, 0i128);
        let mut number = String::new();
        for character in dates.chars() {
            match character {
                'Y' => months += 12 * std::mem::take(&mut number).parse::<i64>().unwrap(),
                'M' => months += std::mem::take(&mut number).parse::<i64>().unwrap(),
                'D' => days += std::mem::take(&mut number).parse::<i64>().unwrap(),
                _ => number.push(character),
            }
        }
        for character in times.chars() {
            let unit = match character {
                'H' => 3_600_000_000,
                'M' => 60_000_000,
                'S' => 1_000_000,
                _ => {
                    number.push(character);
                    continue;
                }
            };
            let text = std::mem::take(&mut number);
            let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
            let digits: i128 = format!("{}{fraction:0<6}", whole.trim_start_matches('-'))
                .parse()
                .unwrap();
            let value = digits * unit / 1_000_000;
            micros += if whole.starts_with('-') { -value } else { value };
        }
        (months, days, micros)
    }

    proptest! {
        #[test]
        fn the_three_parts_can_be_read_back(months: i32, days: i32, micros: i64) {
            let text = printed(months, days, micros);
            prop_assert_eq!(check_text(text.as_bytes()), Ok(text.as_bytes()));
            prop_assert_eq!(parts(&text), (months.into(), days.into(), micros.into()));
        }

        #[test]
        fn no_bytes_make_it_panic(noise: Vec<u8>, text in "[PTYMDHS0-9.-]{0,12}") {
            let _ = check_text(&noise);
            let _ = check_text(text.as_bytes());
            let _ = text_from_binary(&noise, &mut Vec::new());
        }
    }
}
