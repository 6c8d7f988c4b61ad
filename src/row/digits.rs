//! Decimal digits in ASCII, eight at a time: a 64-bit word holds one in each byte, the first of them in the lowest.

/// Eight times the digit 0.
const ZEROS: u64 = 0x3030_3030_3030_3030;

const EIGHT_DIGITS: u64 = 100_000_000;

/// The powers of ten that fit an `i64`.
pub(super) const POWERS: [u64; 19] = powers();

const fn powers() -> [u64; 19] {
    let mut powers = [1; 19];
    let mut rest: &mut [u64] = &mut powers;
    let mut power = 1u64;
    while let Some((first, tail)) = rest.split_first_mut() {
        *first = power;
        power = power.wrapping_mul(10);
        rest = tail;
    }
    powers
}

/// Whether each byte is a digit's value, 0 to 9.
#[inline]
fn are_digits(values: u64) -> bool {
    // Adding 0x76 sets the highest bit of a byte from 10 on. One that has it already may carry, but is seen itself.
    (values | values.wrapping_add(0x7676_7676_7676_7676)) & 0x8080_8080_8080_8080 == 0
}

/// The numbers of two digits each, in 16 bits.
#[inline]
fn paired(values: u64) -> u64 {
    values.wrapping_mul(10).wrapping_add(values.wrapping_shr(8)) & 0x00ff_00ff_00ff_00ff
}

/// The number of eight digits' values.
#[inline]
fn number_of(values: u64) -> Option<u64> {
    let pairs = paired(values);
    let fours = pairs.wrapping_mul(100).wrapping_add(pairs.wrapping_shr(16)) & 0x0000_ffff_0000_ffff;
    let number = fours.wrapping_mul(10_000).wrapping_add(fours.wrapping_shr(32)) & 0xffff_ffff;
    are_digits(values).then_some(number)
}

/// The number of eight digits; `None`: not all are digits.
#[inline]
pub(super) fn eight(text: [u8; 8]) -> Option<u64> {
    number_of(u64::from_le_bytes(text) ^ ZEROS)
}

/// The four numbers of two digits each; `None`: not all are digits.
#[inline]
pub(super) fn four_pairs(text: [u8; 8]) -> Option<[i64; 4]> {
    let values = u64::from_le_bytes(text) ^ ZEROS;
    let pairs = paired(values).cast_signed();
    let pair = |shift: u32| pairs.wrapping_shr(shift) & 0xff;
    are_digits(values).then_some([pair(0), pair(16), pair(32), pair(48)])
}

/// The number of 1 to 19 digits, which fit 64 bits whatever they are; `None`: there are fewer or more, or not all are digits.
#[inline]
pub(super) fn number(text: &[u8]) -> Option<u64> {
    let Some((head, last)) = text.split_last_chunk::<8>() else {
        return fewer_than_eight(text);
    };
    let low = eight(*last)?;
    let high = match head.len() {
        0 => 0,
        1..8 => fewer_than_eight(head)?,
        8..12 => {
            let (head, middle) = head.split_last_chunk::<8>()?;
            let high = if head.is_empty() { 0 } else { fewer_than_eight(head)? };
            high.wrapping_mul(EIGHT_DIGITS).wrapping_add(eight(*middle)?)
        }
        _ => return None,
    };
    Some(high.wrapping_mul(EIGHT_DIGITS).wrapping_add(low))
}

/// The number of one to seven digits; `None`: there are none, or not all are digits.
#[inline]
fn fewer_than_eight(text: &[u8]) -> Option<u64> {
    match text {
        [a] => one(*a),
        [a, b] => Some(one(*a)?.wrapping_mul(10).wrapping_add(one(*b)?)),
        [a, b, c] => {
            let front = one(*a)?.wrapping_mul(10).wrapping_add(one(*b)?);
            Some(front.wrapping_mul(10).wrapping_add(one(*c)?))
        }
        _ => {
            // Where the first four and the last four overlap, they are the same.
            let four = |text: &[u8; 4]| u64::from(u32::from_le_bytes(*text) ^ 0x3030_3030);
            let zeros = 8u32.wrapping_sub(u32::try_from(text.len()).ok()?);
            let first = four(text.first_chunk()?).wrapping_shl(zeros.wrapping_mul(8));
            number_of(four(text.last_chunk()?).wrapping_shl(32) | first)
        }
    }
}

/// The number of one digit.
#[inline]
fn one(byte: u8) -> Option<u64> {
    let value = byte.wrapping_sub(b'0');
    (value <= 9).then_some(value.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MOST: usize = 19;

    #[test]
    fn numbers_of_every_length_are_read() {
        let digits = b"1234567890123456789";
        for length in 1..=MOST {
            let text = &digits[..length];
            let expected: u64 = std::str::from_utf8(text).unwrap().parse().unwrap();
            assert_eq!(number(text), Some(expected), "{length}");
            assert_eq!(
                number(&vec![b'9'; length]),
                Some(10u64.wrapping_pow(length as u32).wrapping_sub(1))
            );
            assert_eq!(number(&vec![b'0'; length]), Some(0));
        }
        assert_eq!(number(b""), None);
        assert_eq!(number(&[b'0'; MOST + 1]), None);
    }

    #[test]
    fn one_byte_that_is_no_digit_is_seen_at_every_place() {
        for length in 1..=MOST {
            for place in 0..length {
                for byte in (0..=u8::MAX).filter(|byte| !byte.is_ascii_digit()) {
                    let mut text = vec![b'9'; length];
                    text[place] = byte;
                    assert_eq!(number(&text), None, "{text:?}");
                }
            }
        }
    }

    #[test]
    fn pairs_are_read_side_by_side() {
        assert_eq!(four_pairs(*b"20240229"), Some([20, 24, 2, 29]));
        assert_eq!(four_pairs(*b"99000099"), Some([99, 0, 0, 99]));
        for place in 0..8 {
            let mut text = *b"99999999";
            text[place] = b':';
            assert_eq!(four_pairs(text), None);
        }
    }

    #[test]
    fn the_last_power_is_the_last_that_fits() {
        assert_eq!(POWERS[0], 1);
        assert_eq!(POWERS[18], 1_000_000_000_000_000_000);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_as_digit_by_digit(text in proptest::collection::vec(0x2fu8..0x3b, 0..21)) {
            let plain = !text.is_empty() && text.len() <= MOST && text.iter().all(u8::is_ascii_digit);
            let expected = plain.then(|| text.iter().fold(0u64, |number, byte| number * 10 + u64::from(byte - b'0')));
            prop_assert_eq!(number(&text), expected);
        }
    }
}
