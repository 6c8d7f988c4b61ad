//! UUIDs.

use super::ValueError;
use super::integer::exact;

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Checks the text form: 32 lower-case hexadecimal digits in groups of 8, 4, 4, 4 and 12.
#[inline]
pub fn check_text(text: &[u8]) -> Result<&[u8; 36], ValueError> {
    let text: &[u8; 36] = text.try_into().map_err(|_| ValueError::Malformed)?;
    let [
        a @ ..,
        b'-',
        _,
        _,
        _,
        _,
        b'-',
        _,
        _,
        _,
        _,
        b'-',
        _,
        _,
        _,
        _,
        b'-',
        _,
        _,
        _,
        _,
        _,
        _,
        _,
        _,
        _,
        _,
        _,
        _,
    ] = text
    else {
        return Err(ValueError::Malformed);
    };
    let hexadecimal = a
        .iter()
        .chain(text.iter().skip(a.len()))
        .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-'));
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
    let mut text = [b'-'; 36];
    let mut places = text
        .iter_mut()
        .enumerate()
        .filter(|(at, _)| !matches!(at, 8 | 13 | 18 | 23))
        .map(|(_, place)| place);
    for byte in bytes {
        for nibble in [byte.wrapping_shr(4), byte & 0xf] {
            if let (Some(place), Some(&digit)) = (places.next(), HEX.get(usize::from(nibble))) {
                *place = digit;
            }
        }
    }
    Ok(text)
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
