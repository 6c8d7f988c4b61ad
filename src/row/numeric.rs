//! `numeric` (manual, section 8.1.2).
//!
//! A column `numeric(p,s)` with 0 ≤ s ≤ p is a decimal of fixed scale: its unscaled value, as a big-endian two's
//! complement number of as few bytes as it takes (Avro specification, "Decimal"). Any other numeric is text, with exactly
//! the digits that Postgres prints.
//!
//! The binary form (`numeric_send`) is `ndigits, weight, sign, dscale` of 16 bits each, then `ndigits` digits to the
//! base of 10 000, of which the first stands for 10 000^weight.

use super::ValueError;
use super::digits::{self, POWERS};
use super::integer::digit;

/// Precision and scale of a column, from its `atttypmod`; `None`: unconstrained.
///
/// The modifier holds the precision above and the scale in the low 11 bits, as a signed number since Postgres 15.
pub fn precision_and_scale(typmod: i32) -> Option<(i32, i32)> {
    let packed = typmod.checked_sub(4).filter(|packed| *packed >= 0)?;
    let scale = ((packed & 0x7ff) ^ 1024).checked_sub(1024)?;
    Some((packed.wrapping_shr(16) & 0xffff, scale))
}

/// 64-bit limbs for the largest precision that Postgres allows, 1000 digits, and one over.
const LIMBS: usize = 54;

/// An unscaled value, and its sign.
///
/// Most values fit 64 bits and stay there; longer ones go on in limbs, on the stack too.
#[derive(Debug, Clone, Copy)]
#[allow(
    clippy::large_enum_variant,
    reason = "it lives on the stack, and a box would allocate"
)]
enum Magnitude {
    Small(u64),
    Large { limbs: [u64; LIMBS], used: usize },
}

impl Magnitude {
    /// `self * factor + add`.
    #[inline]
    fn push(&mut self, factor: u64, add: u64) -> Result<(), ValueError> {
        if let Magnitude::Small(value) = self {
            if let Some(value) = value.checked_mul(factor).and_then(|value| value.checked_add(add)) {
                *self = Magnitude::Small(value);
                return Ok(());
            }
            let mut limbs = [0; LIMBS];
            if let Some(first) = limbs.first_mut() {
                *first = *value;
            }
            *self = Magnitude::Large { limbs, used: 1 };
        }
        let Magnitude::Large { limbs, used } = self else {
            return Err(ValueError::OutOfRange);
        };
        let mut carry = add;
        for limb in limbs.iter_mut().take(*used) {
            (*limb, carry) = limb.carrying_product(factor, carry);
        }
        if carry != 0 {
            *limbs.get_mut(*used).ok_or(ValueError::OutOfRange)? = carry;
            *used = used.saturating_add(1);
        }
        Ok(())
    }

    /// Appends the two's complement of `self`, negated where `negative`, in as few bytes as hold its sign too.
    fn write(&self, negative: bool, out: &mut Vec<u8>) {
        match self {
            Magnitude::Small(value) => {
                let magnitude = i128::from(*value);
                put_unscaled(if negative { magnitude.wrapping_neg() } else { magnitude }, out);
            }
            Magnitude::Large { limbs, used } => write_limbs(limbs.get(..*used).unwrap_or_default(), negative, out),
        }
    }
}

/// Appends the two's complement of a number in as few bytes as hold its sign too.
#[inline]
pub fn put_unscaled(value: i128, out: &mut Vec<u8>) {
    let bytes = value.to_be_bytes();
    let redundant = (value ^ value.wrapping_shr(127))
        .leading_zeros()
        .saturating_sub(1)
        .wrapping_div(8);
    let shortest = usize::try_from(redundant)
        .ok()
        .and_then(|redundant| bytes.get(redundant..));
    out.extend_from_slice(shortest.unwrap_or(&bytes));
}

/// The same of limbs, the least of them first.
fn write_limbs(limbs: &[u64], negative: bool, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; 8]);
    let mut borrow = negative;
    let words = limbs.iter().map(|limb| {
        if !negative {
            return *limb;
        }
        let (word, carried) = (!limb).overflowing_add(u64::from(borrow));
        borrow = carried;
        word
    });
    // Least limb first: written so, and turned round as a whole.
    let mut at = out.len();
    for word in words {
        out.extend_from_slice(&word.to_le_bytes());
        at = out.len();
    }
    out.truncate(at);
    if let Some(written) = out.get_mut(start..) {
        if negative && let Some(sign) = written.first_chunk_mut::<8>() {
            *sign = [0xff; 8];
        }
        written.rotate_left(8);
        written.reverse();
    }
    let excess = out.get(start..).map_or(0, |bytes| {
        bytes
            .windows(2)
            .take_while(|pair| matches!(pair, [0, 0..=0x7f] | [0xff, 0x80..=0xff]))
            .count()
    });
    if excess > 0 {
        out.drain(start..start.saturating_add(excess));
    }
}

trait CarryingProduct: Sized {
    fn carrying_product(self, factor: Self, carry: Self) -> (Self, Self);
}

impl CarryingProduct for u64 {
    /// Low and high half of `self * factor + carry`, which cannot overflow 128 bits.
    #[inline]
    fn carrying_product(self, factor: u64, carry: u64) -> (u64, u64) {
        let wide = u128::from(self)
            .wrapping_mul(u128::from(factor))
            .wrapping_add(u128::from(carry));
        let low = u64::try_from(wide & u128::from(u64::MAX)).unwrap_or_default();
        let high = u64::try_from(wide.wrapping_shr(64)).unwrap_or_default();
        (low, high)
    }
}

fn not_a_number(text: &[u8]) -> bool {
    matches!(text, b"NaN" | b"Infinity" | b"-Infinity")
}

/// Appends the unscaled value at this scale of a number in text.
///
/// # Errors
/// [`ValueError::NotFinite`] for NaN and infinities; [`ValueError::OutOfRange`] for digits beyond the precision or the
/// scale, which Postgres has rounded away from any value of the column.
pub fn decimal_from_text(text: &[u8], precision: u32, scale: u32, out: &mut Vec<u8>) -> Result<(), ValueError> {
    match short_from_text(text, precision, scale) {
        Some(unscaled) => {
            put_shortest(unscaled, out);
            Ok(())
        }
        None => decimal_of_any_length(text, precision, scale, out),
    }
}

#[inline(never)]
fn decimal_of_any_length(text: &[u8], precision: u32, scale: u32, out: &mut Vec<u8>) -> Result<(), ValueError> {
    let (negative, digits) = signed(text);
    let mut magnitude = Magnitude::Small(0);
    let mut pending = Pending::default();
    let mut significant = 0u32;
    let mut missing = scale;
    let mut seen = false;
    let mut fraction = false;
    for &byte in digits {
        if byte == b'.' && !fraction && seen {
            fraction = true;
            continue;
        }
        let digit = match digit(byte) {
            Ok(digit) => digit,
            Err(_) if not_a_number(text) => return Err(ValueError::NotFinite),
            Err(error) => return Err(error),
        };
        seen = true;
        if fraction {
            match missing.checked_sub(1) {
                Some(left) => missing = left,
                None if digit == 0 => continue,
                None => return Err(ValueError::OutOfRange),
            }
        }
        if digit != 0 || significant > 0 {
            significant = significant.saturating_add(1);
        }
        pending.push(digit, &mut magnitude)?;
    }
    if !seen {
        return Err(ValueError::Malformed);
    }
    for _ in 0..missing {
        if significant > 0 {
            significant = significant.saturating_add(1);
        }
        pending.push(0, &mut magnitude)?;
    }
    if significant > precision {
        return Err(ValueError::OutOfRange);
    }
    pending.flush(&mut magnitude)?;
    magnitude.write(negative, out);
    Ok(())
}

/// Whether there is a minus sign, and what comes after it.
#[inline]
fn signed(text: &[u8]) -> (bool, &[u8]) {
    match text.split_first() {
        Some((b'-', digits)) => (true, digits),
        _ => (false, text),
    }
}

/// The most digits that fit an `i64` whatever they are.
const SHORT: usize = 18;

/// The unscaled value of a short number as Postgres prints those of such a column: with all digits of the scale, and no more.
/// `None`: it takes the closer look of [`decimal_from_text`].
#[inline]
pub fn short_from_text(text: &[u8], precision: u32, scale: u32) -> Option<i64> {
    let (negative, digits) = signed(text);
    let scale = usize::try_from(scale).ok()?;
    let (whole, fraction) = match scale {
        0 => (digits, &[][..]),
        _ => {
            let (whole, fraction) = digits.split_at_checked(digits.len().checked_sub(scale.checked_add(1)?)?)?;
            (whole, fraction.strip_prefix(b".")?)
        }
    };
    let count = whole.len().checked_add(scale)?;
    // A zero before the point is a digit of the text and not of the number.
    let significant = if whole == b"0" { scale } else { count };
    if whole.is_empty() || count > SHORT || u32::try_from(significant).ok()? > precision {
        return None;
    }
    let mut value = digits::number(whole)?;
    if scale > 0 {
        value = value
            .wrapping_mul(*POWERS.get(scale)?)
            .wrapping_add(digits::number(fraction)?);
    }
    Some(with_sign(value, negative))
}

/// Appends the two's complement in as few bytes as hold it.
#[inline]
fn put_shortest(value: i64, out: &mut Vec<u8>) {
    let (bytes, length) = shortest(value);
    let end = out.len().saturating_add(length.into());
    out.extend_from_slice(&bytes);
    out.truncate(end);
}

/// The two's complement in as few bytes as hold it, and how many these are; what stands after them is nothing.
#[inline]
pub fn shortest(value: i64) -> ([u8; 8], u8) {
    // Leading bits that say no more than the sign.
    let redundant = (value ^ value.wrapping_shr(63)).leading_zeros().saturating_sub(1) & !7;
    let length = 8u32.wrapping_sub(redundant.wrapping_shr(3));
    (
        value.wrapping_shl(redundant).to_be_bytes(),
        u8::try_from(length).unwrap_or_default(),
    )
}

/// A number of at most [`SHORT`] digits, or its negative.
#[inline]
fn with_sign(magnitude: u64, negative: bool) -> i64 {
    let value = magnitude.cast_signed();
    if negative { value.wrapping_neg() } else { value }
}

/// Appends the unscaled value at this scale of a number of any length in text, as Postgres prints it.
///
/// # Errors
/// As [`decimal_from_text`].
pub fn unscaled_from_text(text: &[u8], scale: u32, out: &mut Vec<u8>) -> Result<(), ValueError> {
    match decimal_from_text(text, u32::MAX, scale, out) {
        // More digits than a column with a precision can have.
        Err(ValueError::OutOfRange) => unscaled_of_many_digits(text, scale, out),
        done => done,
    }
}

#[cold]
fn unscaled_of_many_digits(text: &[u8], scale: u32, out: &mut Vec<u8>) -> Result<(), ValueError> {
    let fraction = text
        .iter()
        .position(|byte| *byte == b'.')
        .map_or(0, |point| text.len().saturating_sub(point.saturating_add(1)));
    if Ok(scale) != u32::try_from(fraction) {
        return Err(ValueError::OutOfRange);
    }
    let mut limbs: Vec<u64> = Vec::new();
    let digits: Vec<u8> = text.iter().copied().filter(u8::is_ascii_digit).collect();
    for group in digits.chunks(19) {
        let (mut factor, mut carry) = (1u64, 0u64);
        for byte in group {
            factor = factor.wrapping_mul(10);
            carry = carry.wrapping_mul(10).wrapping_add(digit(*byte)?.into());
        }
        for limb in &mut limbs {
            (*limb, carry) = limb.carrying_product(factor, carry);
        }
        if carry != 0 {
            limbs.push(carry);
        }
    }
    write_limbs(&limbs, text.first() == Some(&b'-'), out);
    Ok(())
}

/// Decimal digits gathered up to 19 at a time, which is as many as always fit 64 bits.
struct Pending {
    value: u64,
    factor: u64,
    count: u32,
}

impl Default for Pending {
    fn default() -> Self {
        Pending {
            value: 0,
            factor: 1,
            count: 0,
        }
    }
}

impl Pending {
    #[inline]
    fn push(&mut self, digit: u8, magnitude: &mut Magnitude) -> Result<(), ValueError> {
        if self.count == 19 {
            self.flush(magnitude)?;
        }
        self.value = self.value.wrapping_mul(10).wrapping_add(u64::from(digit));
        self.factor = self.factor.wrapping_mul(10);
        self.count = self.count.saturating_add(1);
        Ok(())
    }

    #[inline]
    fn flush(&mut self, magnitude: &mut Magnitude) -> Result<(), ValueError> {
        magnitude.push(self.factor, self.value)?;
        *self = Pending::default();
        Ok(())
    }
}

/// Checks that text is a number as Postgres prints one: digits, with a sign and a point, or a special value.
pub fn check_text(text: &[u8]) -> Result<&[u8], ValueError> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let well_formed = digits.first().is_some_and(u8::is_ascii_digit)
        && digits.last().is_some_and(u8::is_ascii_digit)
        && digits.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.')
        && digits.iter().filter(|byte| **byte == b'.').count() <= 1;
    if well_formed || not_a_number(text) {
        Ok(text)
    } else {
        Err(ValueError::Malformed)
    }
}

/// A numeric's binary form, its header read.
struct Binary<'a> {
    negative: bool,
    weight: i16,
    scale: u16,
    digits: &'a [[u8; 2]],
}

enum Special {
    NaN,
    Infinity,
    NegativeInfinity,
}

impl<'a> Binary<'a> {
    fn read(bytes: &'a [u8]) -> Result<Result<Self, Special>, ValueError> {
        let (words, []) = bytes.as_chunks::<2>() else {
            return Err(ValueError::Malformed);
        };
        let [count, weight, sign, scale, digits @ ..] = words else {
            return Err(ValueError::Malformed);
        };
        let negative = match u16::from_be_bytes(*sign) {
            0x0000 => false,
            0x4000 => true,
            0xC000 => return Ok(Err(Special::NaN)),
            0xD000 => return Ok(Err(Special::Infinity)),
            0xF000 => return Ok(Err(Special::NegativeInfinity)),
            _ => return Err(ValueError::Malformed),
        };
        let scale = u16::from_be_bytes(*scale);
        let whole = usize::from(u16::from_be_bytes(*count)) == digits.len()
            && scale <= 0x3fff
            && digits.iter().all(|digit| u16::from_be_bytes(*digit) < 10_000);
        if !whole {
            return Err(ValueError::Malformed);
        }
        Ok(Ok(Binary {
            negative,
            weight: i16::from_be_bytes(*weight),
            scale,
            digits,
        }))
    }

    /// The digit that stands for 10 000^place.
    fn digit(&self, place: i32) -> u16 {
        i32::from(self.weight)
            .checked_sub(place)
            .and_then(|at| usize::try_from(at).ok())
            .and_then(|at| self.digits.get(at))
            .map_or(0, |digit| u16::from_be_bytes(*digit))
    }

    /// Calls `each` with every decimal digit that Postgres prints, the first of them significant or right before the
    /// point, and with `None` for the point.
    fn for_each_digit<E>(&self, mut each: impl FnMut(Option<u8>) -> Result<(), E>) -> Result<(), E> {
        let top = i32::from(self.weight).max(0);
        let mut started = false;
        for place in (0..=top).rev() {
            for (index, digit) in decimal_digits(self.digit(place)).into_iter().enumerate() {
                started = started || digit != 0 || (place == 0 && index == 3);
                if started {
                    each(Some(digit))?;
                }
            }
        }
        let mut left = self.scale;
        if left == 0 {
            return Ok(());
        }
        each(None)?;
        let mut place = -1i32;
        loop {
            for digit in decimal_digits(self.digit(place)) {
                match left.checked_sub(1) {
                    Some(fewer) => left = fewer,
                    None => return Ok(()),
                }
                each(Some(digit))?;
            }
            if left == 0 {
                return Ok(());
            }
            place = place.saturating_sub(1);
        }
    }
}

fn decimal_digits(digit: u16) -> [u8; 4] {
    let at = |divisor: u16| u8::try_from(digit.checked_div(divisor).unwrap_or(0).wrapping_rem(10)).unwrap_or(0);
    [at(1000), at(100), at(10), at(1)]
}

/// Appends the text that Postgres prints for a binary numeric.
pub fn text_from_binary(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    let number = match Binary::read(bytes)? {
        Ok(number) => number,
        Err(special) => {
            out.extend_from_slice(match special {
                Special::NaN => b"NaN",
                Special::Infinity => b"Infinity",
                Special::NegativeInfinity => b"-Infinity",
            });
            return Ok(());
        }
    };
    if number.negative {
        out.push(b'-');
    }
    number.for_each_digit(|digit| {
        out.push(digit.map_or(b'.', |digit| digit.wrapping_add(b'0')));
        Ok(())
    })
}

/// The unscaled value of a short number as Postgres sends those of such a column: with the column's scale. `None`: it takes the
/// closer look of [`decimal_from_binary`].
#[inline]
pub fn short_from_binary(bytes: &[u8], precision: u32, scale: u32) -> Option<i64> {
    let (words, []) = bytes.as_chunks::<2>() else {
        return None;
    };
    let [count, weight, sign, own_scale, groups @ ..] = words else {
        return None;
    };
    let negative = match u16::from_be_bytes(*sign) {
        0x0000 => false,
        0x4000 => true,
        _ => return None,
    };
    // Four groups of four digits fit.
    if groups.len() > 4
        || usize::from(u16::from_be_bytes(*count)) != groups.len()
        || u32::from(u16::from_be_bytes(*own_scale)) != scale
    {
        return None;
    }
    let mut value = 0u64;
    for group in groups {
        let group = u16::from_be_bytes(*group);
        if group >= 10_000 {
            return None;
        }
        value = value.wrapping_mul(10_000).wrapping_add(group.into());
    }
    // The power of ten that the last group stands for, and with the scale, that which the whole is to be multiplied with.
    let after_first = i32::try_from(groups.len()).ok()?.wrapping_sub(1);
    let power = i32::from(i16::from_be_bytes(*weight))
        .wrapping_sub(after_first)
        .wrapping_mul(4)
        .wrapping_add(i32::try_from(scale).ok()?);
    let factor = *POWERS.get(usize::try_from(power.unsigned_abs()).ok()?)?;
    let value = if power >= 0 {
        value.checked_mul(factor)?
    } else if value.checked_rem(factor)? == 0 {
        value.checked_div(factor)?
    } else {
        return None;
    };
    let bound = usize::try_from(precision).ok()?.min(SHORT);
    (value < *POWERS.get(bound)?).then_some(with_sign(value, negative))
}

/// Appends the unscaled value at this scale of a binary numeric.
///
/// # Errors
/// Those of [`decimal_from_text`].
pub fn decimal_from_binary(bytes: &[u8], precision: u32, scale: u32, out: &mut Vec<u8>) -> Result<(), ValueError> {
    match short_from_binary(bytes, precision, scale) {
        Some(unscaled) => {
            put_shortest(unscaled, out);
            Ok(())
        }
        None => binary_decimal_of_any_length(bytes, precision, scale, out),
    }
}

#[inline(never)]
fn binary_decimal_of_any_length(bytes: &[u8], precision: u32, scale: u32, out: &mut Vec<u8>) -> Result<(), ValueError> {
    let number = Binary::read(bytes)?.map_err(|_| ValueError::NotFinite)?;
    let mut magnitude = Magnitude::Small(0);
    let mut pending = Pending::default();
    let mut significant = 0u32;
    let mut missing = scale;
    let mut fraction = false;
    let mut push = |digit: u8, pending: &mut Pending, magnitude: &mut Magnitude| {
        if digit != 0 || significant > 0 {
            significant = significant.saturating_add(1);
            if significant > precision {
                return Err(ValueError::OutOfRange);
            }
        }
        pending.push(digit, magnitude)
    };
    number.for_each_digit(|digit| {
        let Some(digit) = digit else {
            fraction = true;
            return Ok(());
        };
        if fraction {
            match missing.checked_sub(1) {
                Some(left) => missing = left,
                None if digit == 0 => return Ok(()),
                None => return Err(ValueError::OutOfRange),
            }
        }
        push(digit, &mut pending, &mut magnitude)
    })?;
    for _ in 0..missing {
        push(0, &mut pending, &mut magnitude)?;
    }
    pending.flush(&mut magnitude)?;
    magnitude.write(number.negative, out);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn from_text(text: &str, precision: u32, scale: u32) -> Result<Vec<u8>, ValueError> {
        let mut out = Vec::new();
        decimal_from_text(text.as_bytes(), precision, scale, &mut out).map(|()| out)
    }

    fn from_binary(bytes: &[u8], precision: u32, scale: u32) -> Result<Vec<u8>, ValueError> {
        let mut out = Vec::new();
        decimal_from_binary(bytes, precision, scale, &mut out).map(|()| out)
    }

    fn binary_text(bytes: &[u8]) -> Result<String, ValueError> {
        let mut out = Vec::new();
        text_from_binary(bytes, &mut out).map(|()| String::from_utf8(out).unwrap())
    }

    /// What numeric_send gives for this text.
    fn send(text: &str) -> Vec<u8> {
        let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let mut padded = "0".repeat((4 - whole.len() % 4) % 4) + whole;
        let mut weight = (padded.len() / 4) as i16 - 1;
        padded += fraction;
        padded += &"0".repeat((4 - fraction.len() % 4) % 4);
        let mut groups: Vec<u16> = padded
            .as_bytes()
            .chunks(4)
            .map(|group| std::str::from_utf8(group).unwrap().parse().unwrap())
            .collect();
        while groups.first() == Some(&0) {
            groups.remove(0);
            weight -= 1;
        }
        while groups.last() == Some(&0) {
            groups.pop();
        }
        if groups.is_empty() {
            weight = 0;
        }
        let mut out = (groups.len() as u16).to_be_bytes().to_vec();
        out.extend(weight.to_be_bytes());
        out.extend(if negative { 0x4000u16 } else { 0 }.to_be_bytes());
        out.extend((fraction.len() as u16).to_be_bytes());
        out.extend(groups.iter().flat_map(|group| group.to_be_bytes()));
        out
    }

    #[test]
    fn the_type_modifier_holds_precision_and_a_signed_scale() {
        assert_eq!(precision_and_scale(-1), None);
        assert_eq!(precision_and_scale(((12 << 16) | 2) + 4), Some((12, 2)));
        assert_eq!(precision_and_scale((1000 << 16 | 1000) + 4), Some((1000, 1000)));
        assert_eq!(precision_and_scale((5 << 16 | (-2 & 0x7ff)) + 4), Some((5, -2)));
        assert_eq!(precision_and_scale((3 << 16 | 5) + 4), Some((3, 5)));
    }

    #[test]
    fn a_decimal_takes_as_few_bytes_as_its_sign_allows() {
        for (text, expected) in [
            ("0.00", &[0u8][..]),
            ("0.01", &[1]),
            ("-0.01", &[0xff]),
            ("1.27", &[0x7f]),
            ("1.28", &[0x00, 0x80]),
            ("-1.28", &[0x80]),
            ("-1.29", &[0xff, 0x7f]),
            ("123456.78", &[0x00, 0xbc, 0x61, 0x4e]),
            ("-123456.78", &[0xff, 0x43, 0x9e, 0xb2]),
        ] {
            assert_eq!(from_text(text, 12, 2).unwrap(), expected, "{text}");
            assert_eq!(from_binary(&send(text), 12, 2).unwrap(), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_short_decimal_is_read_as_one_of_any_length_is(
            text in "-?[0-9]{0,20}(\\.[0-9]{0,8})?|-?0\\.[0-9]{1,6}|[-0-9.x]{0,8}",
            precision in 1u32..25,
            scale in 0u32..8,
        ) {
            let mut expected = Vec::new();
            let result = decimal_of_any_length(text.as_bytes(), precision, scale, &mut expected).map(|()| expected);
            prop_assert_eq!(from_text(&text, precision, scale), result);
        }

        #[test]
        fn a_short_binary_decimal_is_read_as_one_of_any_length_is(
            groups in proptest::collection::vec(0u16..10_010, 0..6),
            weight in -6i16..6,
            sign in proptest::sample::select(vec![0u16, 0x4000, 0xC000, 1]),
            own_scale in 0u16..12,
            precision in 1u32..25,
            scale in 0u32..12,
            zeros in 0usize..3,
        ) {
            let mut groups = groups;
            let kept = groups.len().saturating_sub(zeros);
            groups.iter_mut().skip(kept).for_each(|group| *group -= *group % 100);
            let head = [groups.len() as u16, weight.cast_unsigned(), sign, own_scale];
            let bytes: Vec<u8> = head.iter().chain(&groups).flat_map(|word| word.to_be_bytes()).collect();
            for scale in [scale, own_scale.into()] {
                let mut expected = Vec::new();
                let result = binary_decimal_of_any_length(&bytes, precision, scale, &mut expected).map(|()| expected);
                prop_assert_eq!(from_binary(&bytes, precision, scale), result);
            }
        }
    }

    #[test]
    fn decimals_of_more_than_64_bits_are_exact() {
        for (text, expected) in [
            (
                "18446744073709551615",
                &[0u8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff][..],
            ),
            ("18446744073709551616", &[1, 0, 0, 0, 0, 0, 0, 0, 0]),
            ("-18446744073709551616", &[0xff, 0, 0, 0, 0, 0, 0, 0, 0]),
            (
                "-18446744073709551617",
                &[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            ),
            (
                "170141183460469231731687303715884105728",
                &[0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            ),
            (
                "-170141183460469231731687303715884105728",
                &[0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            ),
        ] {
            assert_eq!(from_text(text, 39, 0).unwrap(), expected, "{text}");
            assert_eq!(from_binary(&send(text), 39, 0).unwrap(), expected, "{text}");
        }
        let nines = "9".repeat(1000);
        assert_eq!(from_text(&nines, 1000, 0).unwrap().len(), 416);
        assert_eq!(from_text(&nines, 1000, 0), from_binary(&send(&nines), 1000, 0));
    }

    #[test]
    fn what_a_decimal_cannot_hold_is_refused() {
        assert_eq!(from_text("NaN", 12, 2), Err(ValueError::NotFinite));
        assert_eq!(from_text("Infinity", 12, 2), Err(ValueError::NotFinite));
        assert_eq!(from_text("-Infinity", 12, 2), Err(ValueError::NotFinite));
        assert_eq!(
            from_binary(&[0, 0, 0, 0, 0xc0, 0, 0, 0], 12, 2),
            Err(ValueError::NotFinite)
        );
        assert_eq!(from_text("1.001", 12, 2), Err(ValueError::OutOfRange));
        assert_eq!(from_binary(&send("1.001"), 12, 2), Err(ValueError::OutOfRange));
        assert_eq!(from_text("1000.00", 5, 2), Err(ValueError::OutOfRange));
        assert_eq!(from_binary(&send("1000.00"), 5, 2), Err(ValueError::OutOfRange));
        assert_eq!(from_text(&"9".repeat(2000), 1000, 0), Err(ValueError::OutOfRange));
        for text in ["", "-", ".5", "1.2.3", "1e5", "+1", " 1"] {
            assert_eq!(from_text(text, 12, 2), Err(ValueError::Malformed), "{text:?}");
        }
    }

    #[test]
    fn fewer_digits_than_the_scale_are_filled_with_zeros() {
        assert_eq!(from_text("1", 12, 2).unwrap(), [100]);
        assert_eq!(from_text("1.5", 12, 2).unwrap(), [0x00, 150]);
        assert_eq!(from_text("1.500", 12, 2).unwrap(), [0x00, 150]);
    }

    #[test]
    fn binary_prints_the_digits_of_the_text_form() {
        for text in [
            "0",
            "0.000",
            "1",
            "-1",
            "10000",
            "0.0001",
            "-0.00001000",
            "123456789.123456789",
            "100000000",
        ] {
            assert_eq!(binary_text(&send(text)).unwrap(), text);
        }
        let long = format!("{}.{}", "123456789".repeat(100), "0".repeat(99) + "7");
        assert_eq!(binary_text(&send(&long)).unwrap(), long);
        assert_eq!(binary_text(&[0, 0, 0, 0, 0xc0, 0, 0, 0]).unwrap(), "NaN");
        assert_eq!(binary_text(&[0, 0, 0, 0, 0xd0, 0, 0, 0]).unwrap(), "Infinity");
        assert_eq!(binary_text(&[0, 0, 0, 0, 0xf0, 0, 0, 0]).unwrap(), "-Infinity");
    }

    #[test]
    fn a_broken_binary_form_is_malformed() {
        for bytes in [
            &[][..],
            &[0, 0, 0, 0, 0, 0, 0],
            &[0, 1, 0, 0, 0, 0, 0, 0],
            &[0, 1, 0, 0, 0, 0, 0, 0, 0x27, 0x10],
            &[0, 0, 0, 0, 0x12, 0x34, 0, 0],
            &[0, 0, 0, 0, 0, 0, 0x40, 0],
        ] {
            assert_eq!(binary_text(bytes), Err(ValueError::Malformed), "{bytes:?}");
        }
    }

    #[test]
    fn text_is_checked_before_it_is_passed_on() {
        for text in ["0", "-12.50", "NaN", "-Infinity"] {
            assert_eq!(check_text(text.as_bytes()), Ok(text.as_bytes()));
        }
        for text in ["", "-", "1.", ".1", "1e5", "1.2.3", "nan"] {
            assert_eq!(check_text(text.as_bytes()), Err(ValueError::Malformed), "{text}");
        }
    }

    proptest! {
        #[test]
        fn text_and_binary_agree_with_128_bit_arithmetic(value: i128, scale in 0u32..30) {
            let digits = format!("{:0>width$}", value.unsigned_abs(), width = scale as usize + 1);
            let (whole, fraction) = digits.split_at(digits.len() - scale as usize);
            let sign = if value < 0 { "-" } else { "" };
            let point = if scale > 0 { "." } else { "" };
            let text = format!("{sign}{whole}{point}{fraction}");
            let full = value.to_be_bytes();
            let skip = full.windows(2).take_while(|w| (w[0] == 0 && w[1] < 0x80) || (w[0] == 0xff && w[1] >= 0x80)).count();
            prop_assert_eq!(&from_text(&text, 60, scale).unwrap(), &full[skip..]);
            prop_assert_eq!(&from_binary(&send(&text), 60, scale).unwrap(), &full[skip..]);
            prop_assert_eq!(binary_text(&send(&text)).unwrap(), text);
        }

        #[test]
        fn any_bytes_are_a_number_or_an_error(bytes: Vec<u8>) {
            let _ = binary_text(&bytes);
            let _ = from_binary(&bytes, 1000, 10);
            let _ = decimal_from_text(&bytes, 1000, 10, &mut Vec::new());
        }
    }
}
