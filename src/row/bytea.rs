//! `bytea` (manual, section 8.4). Our sessions ask for the hex form; the escape form is read as well, so that a server
//! whose setting wins still gives the same bytes. The binary form is the bytes themselves.

use super::ValueError;

/// How many bytes the text stands for.
pub fn decoded_length(text: &[u8]) -> Result<usize, ValueError> {
    match text.strip_prefix(b"\\x") {
        Some(digits) if digits.len().is_multiple_of(2) => Ok(digits.len().wrapping_div(2)),
        Some(_) => Err(ValueError::Malformed),
        None => Escaped { rest: text }.try_fold(0usize, |count, byte| byte.map(|_| count.saturating_add(1))),
    }
}

/// Appends the bytes that the text stands for.
pub fn decode_into(text: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    let Some(digits) = text.strip_prefix(b"\\x") else {
        for byte in (Escaped { rest: text }) {
            out.push(byte?);
        }
        return Ok(());
    };
    let (pairs, rest) = digits.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(ValueError::Malformed);
    }
    out.reserve(pairs.len());
    for [high, low] in pairs {
        out.push(nibble(*high)?.wrapping_shl(4) | nibble(*low)?);
    }
    Ok(())
}

#[inline]
fn nibble(byte: u8) -> Result<u8, ValueError> {
    match byte {
        b'0'..=b'9' => Ok(byte.wrapping_sub(b'0')),
        b'a'..=b'f' => Ok(byte.wrapping_sub(b'a').wrapping_add(10)),
        b'A'..=b'F' => Ok(byte.wrapping_sub(b'A').wrapping_add(10)),
        _ => Err(ValueError::Malformed),
    }
}

/// The escape form: `\\` is a backslash, `\ooo` a byte in octal, any other byte itself.
struct Escaped<'a> {
    rest: &'a [u8],
}

impl Iterator for Escaped<'_> {
    type Item = Result<u8, ValueError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (&first, tail) = self.rest.split_first()?;
        if first != b'\\' {
            self.rest = tail;
            return Some(Ok(first));
        }
        let octal = |digit: u8| digit.wrapping_sub(b'0');
        match tail {
            [b'\\', rest @ ..] => {
                self.rest = rest;
                Some(Ok(b'\\'))
            }
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', rest @ ..] => {
                self.rest = rest;
                Some(Ok(octal(*a).wrapping_shl(6) | octal(*b).wrapping_shl(3) | octal(*c)))
            }
            _ => {
                self.rest = &[];
                Some(Err(ValueError::Malformed))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(text: &[u8]) -> Result<Vec<u8>, ValueError> {
        let mut out = Vec::new();
        decode_into(text, &mut out)?;
        assert_eq!(decoded_length(text), Ok(out.len()));
        Ok(out)
    }

    #[test]
    fn both_outputs_give_the_same_bytes() {
        assert_eq!(decode(b"\\x").unwrap(), b"");
        assert_eq!(decode(b"").unwrap(), b"");
        assert_eq!(decode(b"\\xdeadBEEF00").unwrap(), [0xde, 0xad, 0xbe, 0xef, 0]);
        assert_eq!(
            decode(b"\\336\\255\\276\\357\\000").unwrap(),
            [0xde, 0xad, 0xbe, 0xef, 0]
        );
        assert_eq!(decode(b"a\\\\b ").unwrap(), b"a\\b ");
    }

    #[test]
    fn half_a_byte_or_a_broken_escape_is_malformed() {
        for text in [&b"\\x0"[..], b"\\xg0", b"\\", b"a\\9", b"\\40", b"\\400"] {
            assert_eq!(
                decode_into(text, &mut Vec::new()),
                Err(ValueError::Malformed),
                "{text:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_bytes_come_back_from_either_form(bytes: Vec<u8>) {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            prop_assert_eq!(&decode(format!("\\x{hex}").as_bytes()).unwrap(), &bytes);
            let mut escaped = Vec::new();
            for &byte in &bytes {
                match byte {
                    b'\\' => escaped.extend_from_slice(b"\\\\"),
                    0x20..=0x7e => escaped.push(byte),
                    _ => escaped.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
                }
            }
            prop_assert_eq!(&decode(&escaped).unwrap(), &bytes);
        }
    }
}
