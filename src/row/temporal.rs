//! Dates and times (manual, section 8.5), in the ISO style and UTC of our sessions; other offsets are read as well.
//!
//! Dates count days and timestamps microseconds since 1970-01-01, on the proleptic Gregorian calendar. Years before 1 AD
//! are marked `BC`: 1 BC is year 0. The infinities are the extremes of the integer: no finite value may land there.

use super::ValueError;
use super::digits::{POWERS, eight, four_pairs, number};
use super::integer::{exact, i32_from_binary, i64_from_binary};

/// From 1970-01-01 to 2000-01-01, Postgres's epoch.
pub const EPOCH_DAYS: i32 = 10_957;
const MICROS_PER_SECOND: i64 = 1_000_000;
const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;
/// From 1970-01-01 to 2000-01-01 in microseconds.
pub const EPOCH_MICROS: i64 = 10_957 * MICROS_PER_DAY;

/// Text being read from its front.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    #[inline]
    fn new(text: &'a [u8]) -> Self {
        Reader { rest: text }
    }

    #[inline]
    fn two_digits(&mut self) -> Result<i64, ValueError> {
        let (digits, rest) = self.rest.split_first_chunk::<2>().ok_or(ValueError::Malformed)?;
        self.rest = rest;
        let [a, b] = digits.map(|byte| byte.wrapping_sub(b'0'));
        if a <= 9 && b <= 9 {
            Ok(a.wrapping_mul(10).wrapping_add(b).into())
        } else {
            Err(ValueError::Malformed)
        }
    }

    #[inline]
    fn take(&mut self, byte: u8) -> bool {
        match self.rest.split_first() {
            Some((&first, rest)) if first == byte => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    #[inline]
    fn expect(&mut self, byte: u8) -> Result<(), ValueError> {
        if self.take(byte) {
            Ok(())
        } else {
            Err(ValueError::Malformed)
        }
    }

    /// `YYYY-MM-DD`, of four digits or more in the year.
    #[inline]
    fn date(&mut self) -> Result<(i64, i64, i64), ValueError> {
        // Of four digits nearly always.
        if let Some((&[a, b, c, d, b'-', e, f, b'-', g, h], rest)) = self.rest.split_first_chunk::<10>()
            && let Some([century, year, month, day]) = four_pairs([a, b, c, d, e, f, g, h])
        {
            self.rest = rest;
            return Ok((century.wrapping_mul(100).wrapping_add(year), month, day));
        }
        self.long_date()
    }

    #[inline(never)]
    fn long_date(&mut self) -> Result<(i64, i64, i64), ValueError> {
        let mut year = 0i64;
        let mut count = 0u32;
        while let Some((&byte, rest)) = self.rest.split_first() {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            year = year.wrapping_mul(10).wrapping_add(i64::from(digit));
            count = count.wrapping_add(1);
            if count > 7 {
                return Err(ValueError::Malformed);
            }
            self.rest = rest;
        }
        if count < 4 {
            return Err(ValueError::Malformed);
        }
        self.expect(b'-')?;
        let month = self.two_digits()?;
        self.expect(b'-')?;
        let day = self.two_digits()?;
        Ok((year, month, day))
    }

    /// `HH:MM:SS[.ffffff]` in microseconds, up to 24:00:00.
    #[inline]
    fn time(&mut self) -> Result<i64, ValueError> {
        let Some((&[a, b, b':', c, d, b':', e, f], rest)) = self.rest.split_first_chunk::<8>() else {
            return Err(ValueError::Malformed);
        };
        let [hour, minute, second, _] = four_pairs([a, b, c, d, e, f, b'0', b'0']).ok_or(ValueError::Malformed)?;
        self.rest = rest;
        let mut micros = 0i64;
        if let Some((&[b'.', a, b, c, d, e, f], rest)) = self.rest.split_first_chunk::<7>()
            && let Some(six) = eight([b'0', b'0', a, b, c, d, e, f])
        {
            micros = six.cast_signed();
            self.rest = rest;
            if rest.first().is_some_and(u8::is_ascii_digit) {
                return Err(ValueError::Malformed);
            }
        } else if self.take(b'.') {
            let mut unit = 100_000i64;
            while let Some((&byte, rest)) = self.rest.split_first() {
                let digit = byte.wrapping_sub(b'0');
                if digit > 9 {
                    break;
                }
                if unit == 0 {
                    return Err(ValueError::Malformed);
                }
                micros = micros.wrapping_add(unit.wrapping_mul(i64::from(digit)));
                unit = unit.wrapping_div(10);
                self.rest = rest;
            }
            if unit == 100_000 {
                return Err(ValueError::Malformed);
            }
        }
        // A leap second is printed as the next minute's start, but 60 is allowed in.
        if minute > 59 || second > 60 {
            return Err(ValueError::Malformed);
        }
        let total = hour
            .wrapping_mul(60)
            .wrapping_add(minute)
            .wrapping_mul(60)
            .wrapping_add(second)
            .wrapping_mul(MICROS_PER_SECOND)
            .wrapping_add(micros);
        if total > MICROS_PER_DAY {
            Err(ValueError::Malformed)
        } else {
            Ok(total)
        }
    }

    /// `±HH[:MM[:SS]]` in seconds east of UTC.
    #[inline]
    fn offset(&mut self) -> Result<i64, ValueError> {
        // Our sessions are in UTC.
        if let Some(rest) = self.rest.strip_prefix(b"+00")
            && rest.first() != Some(&b':')
        {
            self.rest = rest;
            return Ok(0);
        }
        let negative = match self.take(b'-') {
            true => true,
            false => {
                self.expect(b'+')?;
                false
            }
        };
        let mut seconds = self.two_digits()?.wrapping_mul(3600);
        if self.take(b':') {
            seconds = seconds.wrapping_add(self.two_digits()?.wrapping_mul(60));
            if self.take(b':') {
                seconds = seconds.wrapping_add(self.two_digits()?);
            }
        }
        Ok(if negative { seconds.wrapping_neg() } else { seconds })
    }

    /// ` BC` at the end of the text, or its end.
    #[inline]
    fn end(&self) -> Result<bool, ValueError> {
        match self.rest {
            [] => Ok(false),
            b" BC" => Ok(true),
            _ => Err(ValueError::Malformed),
        }
    }
}

/// Cycles of 400 years before the year 0, more than seven digits of years are.
const CYCLES_BEFORE: i64 = 25_000;

/// Days since 1970-01-01 of a day of the proleptic Gregorian calendar.
///
/// Years are counted from March, so that the leap day is the last of its year, and from the start of a cycle of 400 years of
/// 146 097 days before any year that is read, so that they are positive.
#[inline(always)]
fn days_from_civil(year: i64, month: i64, day: i64, bc: bool) -> Result<i64, ValueError> {
    if (bc && year == 0) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return Err(ValueError::Malformed);
    }
    let year = if bc { 1i64.wrapping_sub(year) } else { year };
    let (from_march, month_from_march) = if month > 2 {
        (year, month.wrapping_sub(3))
    } else {
        (year.wrapping_sub(1), month.wrapping_add(9))
    };
    let years = from_march.wrapping_add(CYCLES_BEFORE.wrapping_mul(400)).cast_unsigned();
    let centuries = years.wrapping_div(100);
    let leap_days = years
        .wrapping_div(4)
        .wrapping_sub(centuries)
        .wrapping_add(centuries.wrapping_div(4));
    let day_of_year = month_from_march
        .wrapping_mul(153)
        .wrapping_add(2)
        .wrapping_div(5)
        .wrapping_add(day)
        .wrapping_sub(1);
    // 719 468 days lie between 0000-03-01 and 1970-01-01.
    Ok(years
        .wrapping_mul(365)
        .wrapping_add(leap_days)
        .cast_signed()
        .wrapping_add(day_of_year)
        .wrapping_sub(CYCLES_BEFORE.wrapping_mul(146_097).wrapping_add(719_468)))
}

/// Reads the text of a `date`: days since 1970-01-01, `i32::MAX` and `i32::MIN` for the infinities.
#[inline]
pub fn date_from_text(text: &[u8]) -> Result<i32, ValueError> {
    match text {
        b"infinity" => return Ok(i32::MAX),
        b"-infinity" => return Ok(i32::MIN),
        _ => {}
    }
    let mut reader = Reader::new(text);
    let (year, month, day) = reader.date()?;
    let days = days_from_civil(year, month, day, reader.end()?)?;
    finite_date(i32::try_from(days).map_err(|_| ValueError::OutOfRange)?)
}

/// Reads the binary form of a `date`, in days since 2000-01-01.
#[inline]
pub fn date_from_binary(bytes: &[u8]) -> Result<i32, ValueError> {
    match i32_from_binary(bytes)? {
        infinity @ (i32::MAX | i32::MIN) => Ok(infinity),
        days => finite_date(days.checked_add(EPOCH_DAYS).ok_or(ValueError::OutOfRange)?),
    }
}

fn finite_date(days: i32) -> Result<i32, ValueError> {
    match days {
        i32::MAX | i32::MIN => Err(ValueError::OutOfRange),
        days => Ok(days),
    }
}

/// Reads the text of a `time`: microseconds since midnight, up to 24:00:00.
#[inline]
pub fn time_from_text(text: &[u8]) -> Result<i64, ValueError> {
    let mut reader = Reader::new(text);
    let time = reader.time()?;
    if reader.rest.is_empty() {
        Ok(time)
    } else {
        Err(ValueError::Malformed)
    }
}

/// Reads the binary form of a `time`, microseconds since midnight.
#[inline]
pub fn time_from_binary(bytes: &[u8]) -> Result<i64, ValueError> {
    match i64_from_binary(bytes)? {
        micros @ 0..=MICROS_PER_DAY => Ok(micros),
        _ => Err(ValueError::Malformed),
    }
}

/// Reads the text of a `timestamp`: microseconds since 1970-01-01 00:00:00 of the same unnamed clock; `i64::MAX` and
/// `i64::MIN` for the infinities.
///
/// # Errors
/// [`ValueError::OutOfRange`] from 294247-01-10 04:00:54.775807 on, which Postgres can hold and a long cannot, since it
/// counts from 1970 and not from 2000.
#[inline]
pub fn timestamp_from_text(text: &[u8]) -> Result<i64, ValueError> {
    timestamp(text, false)
}

/// Reads the text of a `timestamptz`: microseconds since 1970-01-01 00:00:00 UTC. Otherwise as [`timestamp_from_text`].
#[inline]
pub fn timestamptz_from_text(text: &[u8]) -> Result<i64, ValueError> {
    timestamp(text, true)
}

fn timestamp(text: &[u8], zoned: bool) -> Result<i64, ValueError> {
    match short_timestamp(text, zoned) {
        Some(micros) => Ok(micros),
        None => timestamp_of_any_form(text, zoned),
    }
}

/// A timestamp from the year 0 to 9999, in UTC if it is `zoned`; `None`: it takes a closer look.
#[inline]
pub fn short_timestamp(text: &[u8], zoned: bool) -> Option<i64> {
    let text = if zoned { text.strip_suffix(b"+00")? } else { text };
    let (date, rest) = text.split_first_chunk::<10>()?;
    let days = short_date(date)?;
    let (&[b' ', a, b, b':', c, d, b':', e, f], fraction) = rest.split_first_chunk::<9>()? else {
        return None;
    };
    let [hour, minute, second, _] = four_pairs([a, b, c, d, e, f, b'0', b'0'])?;
    let micros = match fraction {
        [] => 0,
        [b'.', a, b, c, d, e, f] => eight([b'0', b'0', *a, *b, *c, *d, *e, *f])?,
        [b'.', digits @ ..] if digits.len() < 6 => {
            let missing = 6usize.wrapping_sub(digits.len());
            number(digits)?.wrapping_mul(*POWERS.get(missing)?)
        }
        _ => return None,
    };
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let seconds = days
        .wrapping_mul(86_400)
        .wrapping_add(hour.wrapping_mul(3_600))
        .wrapping_add(minute.wrapping_mul(60))
        .wrapping_add(second);
    Some(
        seconds
            .wrapping_mul(MICROS_PER_SECOND)
            .wrapping_add(micros.cast_signed()),
    )
}

/// The day of a date of a year from 0 to 9999; `None`: it takes a closer look.
#[inline]
pub fn short_date(text: &[u8; 10]) -> Option<i64> {
    let &[a, b, c, d, b'-', e, f, b'-', g, h] = text else {
        return None;
    };
    let [century, year, month, day] = four_pairs([a, b, c, d, e, f, g, h])?;
    days_from_civil(century.wrapping_mul(100).wrapping_add(year), month, day, false).ok()
}

#[inline(never)]
fn timestamp_of_any_form(text: &[u8], zoned: bool) -> Result<i64, ValueError> {
    match text {
        b"infinity" => return Ok(i64::MAX),
        b"-infinity" => return Ok(i64::MIN),
        _ => {}
    }
    let mut reader = Reader::new(text);
    let (year, month, day) = reader.date()?;
    reader.expect(b' ')?;
    let time = reader.time()?;
    let offset = if zoned { reader.offset()? } else { 0 };
    let days = days_from_civil(year, month, day, reader.end()?)?;
    let within = time.wrapping_sub(offset.wrapping_mul(MICROS_PER_SECOND));
    days.checked_mul(MICROS_PER_DAY)
        .and_then(|micros| micros.checked_add(within))
        .map_or(Err(ValueError::OutOfRange), finite)
}

/// Reads the binary form of a `timestamp` or `timestamptz`, in microseconds since 2000-01-01. Errors as in
/// [`timestamp_from_text`].
#[inline]
pub fn timestamp_from_binary(bytes: &[u8]) -> Result<i64, ValueError> {
    match i64_from_binary(bytes)? {
        infinity @ (i64::MAX | i64::MIN) => Ok(infinity),
        micros => micros
            .checked_add(EPOCH_MICROS)
            .map_or(Err(ValueError::OutOfRange), finite),
    }
}

fn finite(micros: i64) -> Result<i64, ValueError> {
    match micros {
        i64::MAX | i64::MIN => Err(ValueError::OutOfRange),
        micros => Ok(micros),
    }
}

/// Checks the text of a `timetz`, and passes it on as Postgres prints it.
pub fn check_timetz(text: &[u8]) -> Result<&[u8], ValueError> {
    timetz_from_text(text).map(|_| text)
}

/// Reads the text of a `timetz`: microseconds since midnight where it was taken, and that place's seconds east of UTC.
pub fn timetz_from_text(text: &[u8]) -> Result<(i64, i64), ValueError> {
    let mut reader = Reader::new(text);
    let parts = (reader.time()?, reader.offset()?);
    if reader.rest.is_empty() {
        Ok(parts)
    } else {
        Err(ValueError::Malformed)
    }
}

/// Reads the binary form of a `timetz`, as [`timetz_from_text`].
pub fn timetz_parts_from_binary(bytes: &[u8]) -> Result<(i64, i64), ValueError> {
    let (micros, zone) = bytes.split_first_chunk::<8>().ok_or(ValueError::Malformed)?;
    let west = i64::from(i32::from_be_bytes(exact(zone)?));
    Ok((time_from_binary(micros)?, west.wrapping_neg()))
}

/// Appends the text that Postgres prints for the binary form of a `timetz`: microseconds, then seconds west of UTC.
pub fn timetz_from_binary(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    let (micros, zone) = bytes.split_first_chunk::<8>().ok_or(ValueError::Malformed)?;
    let micros = time_from_binary(micros)?;
    let west = i32::from_be_bytes(exact(zone)?);
    push_time(micros, out);
    out.push(if west <= 0 { b'+' } else { b'-' });
    let offset = i64::from(west.unsigned_abs());
    if offset >= 360_000 {
        return Err(ValueError::Malformed);
    }
    let parts = if offset.wrapping_rem(60) != 0 {
        3
    } else if offset.wrapping_rem(3600) != 0 {
        2
    } else {
        1
    };
    push_clock(offset, parts, out);
    Ok(())
}

/// `HH:MM:SS[.ffffff]`, without zeros at the end of the fraction.
pub fn push_time(micros: i64, out: &mut Vec<u8>) {
    push_clock(micros.wrapping_div(MICROS_PER_SECOND), 3, out);
    let mut fraction = micros.wrapping_rem(MICROS_PER_SECOND);
    if fraction != 0 {
        out.push(b'.');
        let mut unit = 100_000i64;
        while fraction != 0 {
            push_digit(fraction.checked_div(unit).unwrap_or(0), out);
            fraction = fraction.checked_rem(unit).unwrap_or(0);
            unit = unit.wrapping_div(10);
        }
    }
}

/// `HH`, `HH:MM` or `HH:MM:SS`.
fn push_clock(seconds: i64, parts: usize, out: &mut Vec<u8>) {
    let fields = [
        seconds.wrapping_div(3600),
        seconds.wrapping_div(60).wrapping_rem(60),
        seconds.wrapping_rem(60),
    ];
    for (index, field) in fields.into_iter().take(parts).enumerate() {
        if index > 0 {
            out.push(b':');
        }
        push_digit(field.wrapping_div(10), out);
        push_digit(field.wrapping_rem(10), out);
    }
}

fn push_digit(digit: i64, out: &mut Vec<u8>) {
    out.push(u8::try_from(digit).unwrap_or(0).wrapping_add(b'0'));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn dates_of_every_era_are_days_since_1970() {
        for (text, days) in [
            ("1970-01-01", 0),
            ("1969-12-31", -1),
            ("2000-01-01", 10_957),
            ("2000-02-29", 11_016),
            ("1582-10-15", -141_427),
            ("1582-10-04", -141_438),
            ("0001-01-01", -719_162),
            ("0001-12-31 BC", -719_163),
            ("4713-01-01 BC", -2_440_550),
            ("10000-01-01", 2_932_897),
            ("5874897-12-31", 2_145_042_905),
            ("infinity", i32::MAX),
            ("-infinity", i32::MIN),
        ] {
            assert_eq!(date_from_text(text.as_bytes()), Ok(days), "{text}");
            let since_2000 = if days == i32::MAX || days == i32::MIN {
                days
            } else {
                days - 10_957
            };
            assert_eq!(date_from_binary(&since_2000.to_be_bytes()), Ok(days), "{text}");
        }
    }

    #[test]
    fn timestamps_of_every_era_are_microseconds_since_1970() {
        for (text, micros) in [
            ("1970-01-01 00:00:00", 0),
            ("1969-12-31 23:59:59.999999", -1),
            ("2000-01-01 00:00:00", 946_684_800_000_000),
            ("2024-02-29 12:34:56.789", 1_709_210_096_789_000),
            ("0044-03-15 12:00:00 BC", -63_517_780_800_000_000),
            ("10000-01-01 00:00:00", 253_402_300_800_000_000),
            ("294247-01-10 04:00:54.775806", i64::MAX - 1),
            ("infinity", i64::MAX),
            ("-infinity", i64::MIN),
        ] {
            assert_eq!(timestamp_from_text(text.as_bytes()), Ok(micros), "{text}");
            let since_2000 = if micros == i64::MAX || micros == i64::MIN {
                micros
            } else {
                micros - 946_684_800_000_000
            };
            assert_eq!(timestamp_from_binary(&since_2000.to_be_bytes()), Ok(micros), "{text}");
        }
    }

    #[test]
    fn a_timestamp_that_only_postgres_can_hold_is_out_of_range() {
        for text in [
            "294247-01-10 04:00:54.775807",
            "294247-01-10 04:00:54.775808",
            "294276-12-31 23:59:59.999999",
        ] {
            assert_eq!(
                timestamp_from_text(text.as_bytes()),
                Err(ValueError::OutOfRange),
                "{text}"
            );
        }
        let last: i64 = 9_223_371_331_199_999_999;
        assert_eq!(timestamp_from_binary(&last.to_be_bytes()), Err(ValueError::OutOfRange));
        let at_max = i64::MAX - 946_684_800_000_000;
        assert_eq!(
            timestamp_from_binary(&at_max.to_be_bytes()),
            Err(ValueError::OutOfRange)
        );
    }

    #[test]
    fn any_offset_gives_the_same_instant() {
        let noon = Ok(1_709_208_000_000_000);
        for text in [
            "2024-02-29 12:00:00+00",
            "2024-02-29 17:45:00+05:45",
            "2024-02-29 04:00:00-08",
            "2024-02-29 12:19:32+00:19:32",
            "2024-03-01 00:00:00+12",
        ] {
            assert_eq!(timestamptz_from_text(text.as_bytes()), noon, "{text}");
        }
        assert_eq!(
            timestamptz_from_text(b"0044-03-15 12:00:00+00 BC"),
            timestamp_from_text(b"0044-03-15 12:00:00 BC")
        );
        assert_eq!(timestamptz_from_text(b"infinity"), Ok(i64::MAX));
    }

    #[test]
    fn the_end_of_the_day_is_kept() {
        assert_eq!(time_from_text(b"00:00:00"), Ok(0));
        assert_eq!(time_from_text(b"12:34:56.5"), Ok(45_296_500_000));
        assert_eq!(time_from_text(b"23:59:59.999999"), Ok(86_399_999_999));
        assert_eq!(time_from_text(b"24:00:00"), Ok(86_400_000_000));
        assert_eq!(time_from_binary(&86_400_000_000i64.to_be_bytes()), Ok(86_400_000_000));
        assert_eq!(time_from_text(b"24:00:00.000001"), Err(ValueError::Malformed));
        assert_eq!(
            time_from_binary(&86_400_000_001i64.to_be_bytes()),
            Err(ValueError::Malformed)
        );
        assert_eq!(time_from_binary(&(-1i64).to_be_bytes()), Err(ValueError::Malformed));
    }

    #[test]
    fn timetz_has_the_same_text_in_both_forms() {
        for (text, micros, west) in [
            ("12:34:56.5+02", 45_296_500_000i64, -7200i32),
            ("12:34:56.000001-08", 45_296_000_001, 28_800),
            ("00:00:00+00", 0, 0),
            ("24:00:00+05:45", 86_400_000_000, -20_700),
            ("01:02:03-00:19:32", 3_723_000_000, 1172),
            ("01:02:03+15:59:59", 3_723_000_000, -57_599),
        ] {
            let mut binary = micros.to_be_bytes().to_vec();
            binary.extend(west.to_be_bytes());
            let mut out = Vec::new();
            timetz_from_binary(&binary, &mut out).unwrap();
            assert_eq!(std::str::from_utf8(&out).unwrap(), text);
            assert_eq!(check_timetz(text.as_bytes()), Ok(text.as_bytes()));
        }
        for text in ["12:34:56", "12:34+02", "12:34:56+02 ", "12:34:56+2"] {
            assert_eq!(check_timetz(text.as_bytes()), Err(ValueError::Malformed), "{text}");
        }
    }

    #[test]
    fn other_styles_are_malformed() {
        for text in [
            "02/29/2024",
            "29.02.2024",
            "2024-2-29",
            "2024-02-29 AD",
            "2024-13-01",
            "0000-01-01 BC",
            "024-01-01",
            "",
        ] {
            assert_eq!(date_from_text(text.as_bytes()), Err(ValueError::Malformed), "{text}");
        }
        for text in [
            "2024-02-29T12:00:00",
            "2024-02-29 12:00",
            "2024-02-29 12:00:00+00",
            "2024-02-29 12:00:00.",
        ] {
            assert_eq!(
                timestamp_from_text(text.as_bytes()),
                Err(ValueError::Malformed),
                "{text}"
            );
        }
        assert_eq!(
            timestamptz_from_text(b"2024-02-29 12:00:00"),
            Err(ValueError::Malformed)
        );
    }

    fn is_leap(year: i64) -> bool {
        year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
    }

    /// The next day by the calendar's rules alone.
    fn tomorrow((year, month, day): (i64, i64, i64)) -> (i64, i64, i64) {
        let length = match month {
            2 => 28 + i64::from(is_leap(year)),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        if day < length {
            (year, month, day + 1)
        } else if month < 12 {
            (year, month + 1, 1)
        } else {
            (year + 1, 1, 1)
        }
    }

    #[test]
    fn every_day_of_1_200_years_follows_the_one_before() {
        let mut date = (-200, 1, 1);
        let mut expected = None;
        while date.0 < 1000 {
            let (year, month, day) = date;
            let (shown, bc) = if year > 0 { (year, false) } else { (1 - year, true) };
            let days = days_from_civil(shown, month, day, bc).unwrap();
            assert_eq!(*expected.get_or_insert(days), days, "{date:?}");
            expected = Some(days + 1);
            date = tomorrow(date);
        }
        assert_eq!(expected, Some(-354_285));
    }

    proptest! {
        #[test]
        fn days_agree_with_counting_years(year in 1i64..5_874_897, month in 1i64..=12, day in 1i64..=28) {
            let years = year - 1;
            let mut days = years * 365 + years / 4 - years / 100 + years / 400 - 719_162;
            for (earlier, length) in (1..month).zip([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]) {
                days += length + i64::from(earlier == 2 && is_leap(year));
            }
            days += day - 1;
            let text = format!("{year:04}-{month:02}-{day:02}");
            prop_assert_eq!(date_from_text(text.as_bytes()).map(i64::from), Ok(days));
        }

        #[test]
        fn an_ordinary_timestamp_is_read_as_one_of_any_form_is(
            text in "[0-9]{4}-[01][0-9]-[0-3][0-9] [0-2][0-9]:[0-6][0-9]:[0-6][0-9](\\.[0-9]{0,7})?(\\+00)?( BC)?",
            place in 0usize..40,
            byte in 0x20u8..0x7f,
        ) {
            let mut broken = text.clone().into_bytes();
            if let Some(place) = broken.get_mut(place) {
                *place = byte;
            }
            for text in [text.as_bytes(), &broken] {
                prop_assert_eq!(timestamptz_from_text(text), timestamp_of_any_form(text, true));
                prop_assert_eq!(timestamp_from_text(text), timestamp_of_any_form(text, false));
            }
        }

        #[test]
        fn any_bytes_are_a_time_or_an_error(bytes: Vec<u8>) {
            let _ = date_from_text(&bytes);
            let _ = timestamptz_from_text(&bytes);
            let _ = check_timetz(&bytes);
            let _ = timetz_from_binary(&bytes, &mut Vec::new());
        }
    }
}
