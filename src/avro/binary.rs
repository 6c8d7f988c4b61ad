//! Avro's binary encoding: longs are zigzag varints, strings and bytes have their length before them.

use crate::lsn::Lsn;
use crate::row::ValueError;

/// Appends a long (or an int, which is encoded alike).
#[inline]
pub(super) fn put_long(value: i64, out: &mut Vec<u8>) {
    let zigzag = (value.wrapping_shl(1) ^ value.wrapping_shr(63)).cast_unsigned();
    if zigzag < 0x80 {
        out.push(low_byte(zigzag));
    } else {
        put_wide(zigzag, out);
    }
}

/// Appends a varint of two bytes and more: 56 bits are spread to eight groups of seven at once, and what is over is cut off.
#[inline]
fn put_wide(value: u64, out: &mut Vec<u8>) {
    let low = value & 0x00ff_ffff_ffff_ffff;
    let halves = (low & 0x00ff_ffff_f000_0000).wrapping_shl(4) | (low & 0x0fff_ffff);
    let quarters = (halves & 0x0fff_c000_0fff_c000).wrapping_shl(2) | (halves & 0x0000_3fff_0000_3fff);
    let groups = (quarters & 0x3f80_3f80_3f80_3f80).wrapping_shl(1) | (quarters & 0x007f_007f_007f_007f);
    const MORE: u64 = 0x8080_8080_8080_8080;
    if value == low {
        // The last byte is the one with the highest bit: all before it say that there is more.
        let unused = groups.leading_zeros() & !7;
        let more = MORE.wrapping_shr(unused.wrapping_add(8));
        let length = out.len().saturating_add(8);
        out.extend_from_slice(&(groups | more).to_le_bytes());
        let excess = usize::try_from(unused.wrapping_shr(3)).unwrap_or_default();
        out.truncate(length.saturating_sub(excess));
    } else {
        out.extend_from_slice(&(groups | MORE).to_le_bytes());
        let high = value.wrapping_shr(56);
        if high < 0x80 {
            out.push(low_byte(high));
        } else {
            out.extend_from_slice(&[low_byte(high) | 0x80, low_byte(high.wrapping_shr(7))]);
        }
    }
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
    let mut buffer = [b'0'; 20];
    let mut rest = value;
    let mut digits = 0usize;
    for place in buffer.iter_mut().rev() {
        *place = low_byte(rest.wrapping_rem(10)).wrapping_add(b'0');
        rest = rest.wrapping_div(10);
        digits = digits.wrapping_add(1);
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(buffer.get(buffer.len().saturating_sub(digits)..).unwrap_or_default());
}

/// Appends an LSN as Postgres prints it, `X/X`.
pub(super) fn put_lsn(lsn: Lsn, out: &mut Vec<u8>) {
    let [a, b, c, d, e, f, g, h] = lsn.as_u64().to_be_bytes();
    put_hexadecimal(u32::from_be_bytes([a, b, c, d]), out);
    out.push(b'/');
    put_hexadecimal(u32::from_be_bytes([e, f, g, h]), out);
}

fn put_hexadecimal(value: u32, out: &mut Vec<u8>) {
    let mut buffer = [b'0'; 8];
    let mut rest = value;
    let mut digits = 0usize;
    for place in buffer.iter_mut().rev() {
        let nibble = low_byte(u64::from(rest & 0xf));
        *place = nibble.wrapping_add(if nibble < 10 { b'0' } else { b'A'.wrapping_sub(10) });
        rest = rest.wrapping_shr(4);
        digits = digits.wrapping_add(1);
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(buffer.get(buffer.len().saturating_sub(digits)..).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long(value: i64) -> Vec<u8> {
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
            assert_eq!(long(value), expected, "{value}");
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
                assert_eq!(long(number), expected, "{value:#x}");
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
        for value in [0, 7, 10, 1234, u64::MAX] {
            let mut out = Vec::new();
            put_decimal(value, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), value.to_string());
        }
    }

    #[test]
    fn lsns_are_printed_as_postgres_does() {
        for value in [0, 0xA, 0x10, 0x16_B374_D848, 0x1_0000_0000, u64::MAX] {
            let mut out = Vec::new();
            put_lsn(Lsn::new(value), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), Lsn::new(value).to_string());
        }
    }
}
