//! UUIDs.

use super::ValueError;

/// Checks the text form: 32 lower-case hexadecimal digits in groups of 8, 4, 4, 4 and 12.
#[inline]
pub fn check_text(text: &[u8]) -> Result<&[u8; 36], ValueError> {
    let text: &[u8; 36] = text.try_into().map_err(|_| ValueError::Malformed)?;
    if ![8, 13, 18, 23].iter().all(|at| text.get::<usize>(*at) == Some(&b'-')) {
        return Err(ValueError::Malformed);
    }
    // Without a branch for each byte, so that it is done many bytes at a time.
    let hexadecimal = text.iter().fold(true, |all, byte| {
        all & ((byte.wrapping_sub(b'0') < 10) | (byte.wrapping_sub(b'a') < 6) | (*byte == b'-'))
    });
    if hexadecimal {
        Ok(text)
    } else {
        Err(ValueError::Malformed)
    }
}

/// The text of the binary form, 16 bytes.
#[inline]
pub fn text_from_binary(bytes: &[u8]) -> Result<[u8; 36], ValueError> {
    let (words, []) = bytes.as_chunks::<4>() else {
        return Err(ValueError::Malformed);
    };
    let [first, second, third, fourth] = words else {
        return Err(ValueError::Malformed);
    };
    let digits = |word: &[u8; 4]| hexadecimal_digits(u32::from_be_bytes(*word).into(), b'a').to_be_bytes();
    let [a, b, c, d, e, f, g, h] = digits(first);
    let [i, j, k, l, m, n, o, p] = digits(second);
    let [q, r, s, t, u, v, w, x] = digits(third);
    let mut text = [b'-'; 36];
    let (front, back) = (
        [
            a, b, c, d, e, f, g, h, b'-', i, j, k, l, b'-', m, n, o, p, b'-', q, r, s, t, b'-',
        ],
        [u, v, w, x],
    );
    let rest = digits(fourth);
    if let Some((place, tail)) = text.split_first_chunk_mut() {
        *place = front;
        if let Some((place, tail)) = tail.split_first_chunk_mut() {
            *place = back;
            if let Some(place) = tail.first_chunk_mut() {
                *place = rest;
            }
        }
    }
    Ok(text)
}

/// The eight digits of a number of 32 bits, the last of them in the lowest byte. `ten`: the letter of that digit.
#[inline]
pub fn hexadecimal_digits(value: u64, ten: u8) -> u64 {
    let halves = (value | value.wrapping_shl(16)) & 0x0000_ffff_0000_ffff;
    let bytes = (halves | halves.wrapping_shl(8)) & 0x00ff_00ff_00ff_00ff;
    let nibbles = (bytes | bytes.wrapping_shl(4)) & 0x0f0f_0f0f_0f0f_0f0f;
    // Adding 6 carries into the high half from 10 on.
    let letters = nibbles.wrapping_add(0x0606_0606_0606_0606).wrapping_shr(4) & 0x0101_0101_0101_0101;
    let gap = u64::from(ten.wrapping_sub(b'0').wrapping_sub(10));
    nibbles
        .wrapping_add(0x3030_3030_3030_3030)
        .wrapping_add(letters.wrapping_mul(gap))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_gives_the_text_that_postgres_prints() {
        let bytes = 0xa0ee_bc99_9c0b_4ef8_bb6d_6bb9_bd38_0a11_u128.to_be_bytes();
        assert_eq!(
            &text_from_binary(&bytes).unwrap(),
            b"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
        );
    }

    #[test]
    fn other_shapes_are_malformed() {
        assert!(check_text(b"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11").is_ok());
        for text in [
            &b"a0eebc999c0b4ef8bb6d6bb9bd380a11"[..],
            b"a0eebc9999c0b-4ef8-bb6d-6bb9bd380a11",
            b"g0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            b"",
        ] {
            assert_eq!(check_text(text), Err(ValueError::Malformed));
        }
        assert_eq!(text_from_binary(&[0; 15]), Err(ValueError::Malformed));
    }
}
