//! UUIDs.

use super::ValueError;
use super::integer::exact;

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
    let bytes: [u8; 16] = exact(bytes)?;
    let mut digits = [0u8; 32];
    for (pair, byte) in digits.as_chunks_mut::<2>().0.iter_mut().zip(bytes) {
        *pair = [digit(byte.wrapping_shr(4)), digit(byte & 0xf)];
    }
    let mut text = [b'-'; 36];
    for (place, group) in [
        (0..8, 0..8),
        (9..13, 8..12),
        (14..18, 12..16),
        (19..23, 16..20),
        (24..36, 20..32),
    ] {
        if let (Some(place), Some(group)) = (text.get_mut(place), digits.get(group)) {
            place.copy_from_slice(group);
        }
    }
    Ok(text)
}

#[inline]
fn digit(nibble: u8) -> u8 {
    nibble.wrapping_add(if nibble < 10 { b'0' } else { b'a'.wrapping_sub(10) })
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
