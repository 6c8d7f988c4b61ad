//! Avro's binary encoding: longs are zigzag varints, strings and bytes have their length before them.

use crate::lsn::Lsn;
use crate::row::ValueError;
use crate::row::uuid::hexadecimal_digits;

use super::stage::Short;

/// Appends a long (or an int, which is encoded alike).
#[inline]
pub(super) fn put_long(value: i64, out: &mut Vec<u8>) {
    let zigzag = zigzag(value);
    if zigzag < 0x80 {
        out.push(low_byte(zigzag));
    } else {
        varint(zigzag).append(out);
    }
}

/// A long.
#[inline]
pub(super) fn long(value: i64) -> Short<10> {
    varint(zigzag(value))
}

#[inline]
fn zigzag(value: i64) -> u64 {
    (value.wrapping_shl(1) ^ value.wrapping_shr(63)).cast_unsigned()
}

/// A varint: 56 bits are spread to eight groups of seven at once, and what is over is cut off.
#[inline]
fn varint(value: u64) -> Short<10> {
    const MORE: u64 = 0x8080_8080_8080_8080;
    let low = value & 0x00ff_ffff_ffff_ffff;
    let halves = (low & 0x00ff_ffff_f000_0000).wrapping_shl(4) | (low & 0x0fff_ffff);
    let quarters = (halves & 0x0fff_c000_0fff_c000).wrapping_shl(2) | (halves & 0x0000_3fff_0000_3fff);
    let groups = (quarters & 0x3f80_3f80_3f80_3f80).wrapping_shl(1) | (quarters & 0x007f_007f_007f_007f);
    let mut out = Short::EMPTY;
    if value == low {
        // The last byte is the one with the highest bit: all before it say that there is more.
        let unused = (groups | 1).leading_zeros() & !7;
        let more = MORE.wrapping_shr(8).wrapping_shr(unused);
        let excess = usize::try_from(unused.wrapping_shr(3)).unwrap_or_default();
        out.push_word(groups | more, 8usize.wrapping_sub(excess));
    } else {
        out.push_word(groups | MORE, 8);
        let high = value.wrapping_shr(56);
        if high < 0x80 {
            out.push(&[low_byte(high)]);
        } else {
            out.push(&[low_byte(high) | 0x80, low_byte(high.wrapping_shr(7))]);
        }
    }
    out
}

#[inline]
fn low_byte(value: u64) -> u8 {
    let [low, ..] = value.to_le_bytes();
    low
}

/// Appends an unsigned 64-bit number as the long of the same bits.
#[inline]
pub(super) fn put_bits(value: u64, out: &mut Vec<u8>) {
    put_long(value.cast_signed(), out);
}

/// Appends a string or bytes.
#[inline]
pub(super) fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    put_length(bytes.len(), out);
    out.extend_from_slice(bytes);
}

/// Appends a length.
#[inline]
pub(super) fn put_length(length: usize, out: &mut Vec<u8>) {
    // No slice is longer than isize::MAX.
    put_long(i64::try_from(length).unwrap_or(i64::MAX), out);
}

/// Appends bytes whose length is known once `write` has written them.
#[inline]
pub(super) fn put_framed(
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), ValueError>,
) -> Result<(), ValueError> {
    let at = out.len();
    out.push(0);
    let start = out.len();
    write(out)?;
    let length = out.len().saturating_sub(start);
    match u8::try_from(length) {
        Ok(short @ 0..=0x3f) => {
            if let Some(place) = out.get_mut(at) {
                *place = short.wrapping_shl(1);
            }
        }
        _ => put_long_frame(at, start, length, out),
    }
    Ok(())
}

/// Puts the length of what stands from `start` on at `at`, where there is one byte for it, and it takes more.
#[inline(never)]
fn put_long_frame(at: usize, start: usize, length: usize, out: &mut Vec<u8>) {
    let end = out.len();
    put_length(length, out);
    let mut prefix = [0u8; 10];
    let width = out.len().saturating_sub(end);
    for (place, byte) in prefix.iter_mut().zip(out.get(end..).unwrap_or_default()) {
        *place = *byte;
    }
    // One byte of the prefix has its place already.
    let moved = at.saturating_add(width);
    out.resize(moved.saturating_add(length), 0);
    out.copy_within(start..end, moved);
    if let Some(place) = out.get_mut(at..moved) {
        place.copy_from_slice(prefix.get(..width).unwrap_or_default());
    }
}

/// Appends a decimal number in ASCII.
pub(super) fn put_decimal(value: u64, out: &mut Vec<u8>) {
    decimal(value).append(out);
}

/// A decimal number in ASCII.
#[inline]
pub(super) fn decimal(value: u64) -> Short<24> {
    const EIGHT: u64 = 100_000_000;
    const SIXTEEN: u64 = EIGHT.wrapping_mul(EIGHT);
    let mut out = Short::EMPTY;
    match value {
        ..EIGHT => put_eight(value, true, &mut out),
        EIGHT..SIXTEEN => {
            put_eight(value.wrapping_div(EIGHT), true, &mut out);
            put_eight(value.wrapping_rem(EIGHT), false, &mut out);
        }
        SIXTEEN.. => {
            put_eight(value.wrapping_div(SIXTEEN), true, &mut out);
            put_eight(value.wrapping_div(EIGHT).wrapping_rem(EIGHT), false, &mut out);
            put_eight(value.wrapping_rem(EIGHT), false, &mut out);
        }
    }
    out
}

/// Appends eight decimal digits, or, `leading`, those from the first on that is not 0.
#[inline]
fn put_eight(value: u64, leading: bool, out: &mut Short<24>) {
    // Two numbers of four digits, four of two, eight of one, side by side, the first in the lowest bits. The factors are
    // reciprocals, good for numbers of that size.
    let fours = value.wrapping_div(10_000) | value.wrapping_rem(10_000).wrapping_shl(32);
    let hundreds = fours.wrapping_mul(5_243).wrapping_shr(19) & 0x0000_007f_0000_007f;
    let twos = hundreds | fours.wrapping_sub(hundreds.wrapping_mul(100)).wrapping_shl(16);
    let tens = twos.wrapping_mul(103).wrapping_shr(10) & 0x000f_000f_000f_000f;
    let digits = tens | twos.wrapping_sub(tens.wrapping_mul(10)).wrapping_shl(8);
    let zeros = if leading {
        digits.trailing_zeros().min(56) & !7
    } else {
        0
    };
    let length = 8u32.wrapping_sub(zeros.wrapping_shr(3));
    out.push_word(
        (digits | 0x3030_3030_3030_3030).wrapping_shr(zeros),
        usize::try_from(length).unwrap_or_default(),
    );
}

/// Appends an LSN as Postgres prints it, `X/X`.
pub(super) fn put_lsn(lsn: Lsn, out: &mut Vec<u8>) {
    lsn_text(lsn).append(out);
}

/// An LSN as Postgres prints it, `X/X`.
#[inline]
pub(super) fn lsn_text(lsn: Lsn) -> Short<24> {
    let mut out = Short::EMPTY;
    put_hexadecimal(lsn.as_u64().wrapping_shr(32), &mut out);
    out.push(b"/");
    put_hexadecimal(lsn.as_u64() & 0xffff_ffff, &mut out);
    out
}

/// Appends a number of 32 bits without zeros before it.
#[inline]
fn put_hexadecimal(value: u64, out: &mut Short<24>) {
    let zeros = value.wrapping_shl(32).leading_zeros().min(28) & !3;
    let digits = hexadecimal_digits(value, b'A').swap_bytes();
    out.push_word(
        digits.wrapping_shr(zeros.wrapping_mul(2)),
        usize::try_from(8u32.wrapping_sub(zeros.wrapping_shr(2))).unwrap_or_default(),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn appended(value: i64) -> Vec<u8> {
        let mut out = Vec::new();
        put_long(value, &mut out);
        out
    }

    #[test]
    fn longs_are_zigzag_varints() {
        for (value, expected) in [
            (0, &[0u8][..]),
            (-1, &[1]),
            (1, &[2]),
            (63, &[0x7e]),
            (-64, &[0x7f]),
            (64, &[0x80, 0x01]),
            (8192, &[0x80, 0x80, 0x01]),
            (i64::MAX, &[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]),
            (i64::MIN, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]),
        ] {
            assert_eq!(appended(value), expected, "{value}");
            assert_eq!(long(value).as_bytes(), expected, "{value}");
        }
    }

    #[test]
    fn longs_of_every_width_are_those_of_the_plain_loop() {
        for shift in 0..64 {
            for value in [
                1u64 << shift,
                (1 << shift) - 1,
                u64::MAX >> shift,
                0x5555_5555_5555_5555 >> shift,
            ] {
                let mut expected = Vec::new();
                let mut rest = value;
                while rest >= 0x80 {
                    expected.push(rest as u8 | 0x80);
                    rest >>= 7;
                }
                expected.push(rest as u8);
                // From zigzag back to the number.
                let number = (value >> 1) as i64 ^ -((value & 1) as i64);
                assert_eq!(appended(number), expected, "{value:#x}");
                assert_eq!(long(number).as_bytes(), expected, "{value:#x}");
            }
        }
    }

    #[test]
    fn a_frame_has_its_length_before_it_however_long_it_is() {
        for length in [0usize, 1, 63, 64, 200, 10_000] {
            let content = vec![7u8; length];
            let mut framed = vec![1, 2];
            put_framed(&mut framed, |out| {
                out.extend_from_slice(&content);
                Ok(())
            })
            .unwrap();
            let mut plain = vec![1, 2];
            put_bytes(&content, &mut plain);
            assert_eq!(framed, plain, "{length}");
        }
    }

    #[test]
    fn decimals_are_ascii() {
        let of_every_length = (0..20).flat_map(|digits| {
            let power = 10u64.pow(digits);
            [power - 1, power, power.saturating_mul(9), power / 3 * 2 + 7]
        });
        for value in (0..10_000)
            .map(|number| number * 10_000 + number)
            .chain(of_every_length)
            .chain([u64::MAX])
        {
            assert_eq!(decimal(value).as_bytes(), value.to_string().as_bytes());
        }
    }

    #[test]
    fn lsns_are_printed_as_postgres_does() {
        let of_every_length = (0..64).map(|bits| 0xFEDC_BA98_7654_3210 >> bits);
        for value in of_every_length.chain([0, 0xA, 0x10, 0x16_B374_D848, 0x1_0000_0000, u64::MAX]) {
            let lsn = Lsn::new(value);
            assert_eq!(lsn_text(lsn).as_bytes(), lsn.to_string().as_bytes());
        }
    }
}
