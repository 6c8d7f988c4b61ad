//! Text, in a client encoding of UTF-8.

use super::ValueError;

/// Checks that text is UTF-8: a server of encoding SQL_ASCII sends whatever bytes it was given.
#[inline]
pub fn utf8(bytes: &[u8]) -> Result<&str, ValueError> {
    std::str::from_utf8(bytes).map_err(|_| ValueError::InvalidUtf8)
}

/// The same bytes, if they are UTF-8. Most text is short and ASCII, which is seen at once.
#[inline]
pub fn checked(bytes: &[u8]) -> Result<&[u8], ValueError> {
    if bytes.is_ascii() {
        return Ok(bytes);
    }
    utf8(bytes).map(str::as_bytes)
}

/// The text of a binary `jsonb`, `jsonpath` or `ltree`: version 1, then the text.
#[inline]
pub fn versioned_from_binary(bytes: &[u8]) -> Result<&str, ValueError> {
    match bytes.split_first() {
        Some((1, text)) => utf8(text),
        _ => Err(ValueError::Malformed),
    }
}

/// The text of a `"char"`, at most four bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CharText {
    bytes: [u8; 4],
    length: u8,
}

impl CharText {
    fn of(byte: u8) -> Self {
        let octal = |shift: u32| b'0'.wrapping_add(byte.wrapping_shr(shift) & 7);
        match byte {
            0 => CharText {
                bytes: [0; 4],
                length: 0,
            },
            1..=0x7f => CharText {
                bytes: [byte, 0, 0, 0],
                length: 1,
            },
            _ => CharText {
                bytes: [b'\\', octal(6), octal(3), octal(0)],
                length: 4,
            },
        }
    }

    /// ASCII.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or_default()
    }
}

/// Reads the binary form of a `"char"`: one byte, 0 for the empty string.
///
/// A byte above 127 becomes `\ooo`, the text that Postgres 16 and later give.
pub fn char_from_binary(bytes: &[u8]) -> Result<CharText, ValueError> {
    match bytes {
        [byte] => Ok(CharText::of(*byte)),
        _ => Err(ValueError::Malformed),
    }
}

/// Reads the text of a `"char"`: nothing, one byte, or `\ooo`. Before Postgres 16 a byte above 127 came as it is; it
/// becomes the `\ooo` of later servers.
pub fn char_from_text(bytes: &[u8]) -> Result<CharText, ValueError> {
    match bytes {
        [] => Ok(CharText::of(0)),
        [byte] => Ok(CharText::of(*byte)),
        [b'\\', a @ b'0'..=b'7', b @ b'0'..=b'7', c @ b'0'..=b'7'] => Ok(CharText {
            bytes: [b'\\', *a, *b, *c],
            length: 4,
        }),
        _ => Err(ValueError::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_is_not_utf8_is_refused() {
        assert_eq!(utf8("größe".as_bytes()), Ok("größe"));
        assert_eq!(utf8(b"gr\xf6\xdfe"), Err(ValueError::InvalidUtf8));
    }

    #[test]
    fn binary_json_of_another_version_is_refused() {
        assert_eq!(versioned_from_binary(b"\x01{\"a\": 1}"), Ok("{\"a\": 1}"));
        assert_eq!(versioned_from_binary(b"\x02{}"), Err(ValueError::Malformed));
        assert_eq!(versioned_from_binary(b""), Err(ValueError::Malformed));
    }

    #[test]
    fn char_has_the_same_text_in_both_forms() {
        for (text, binary, expected) in [
            (&b""[..], [0u8], &b""[..]),
            (b"x", [b'x'], b"x"),
            (b"\\344", [0xe4], b"\\344"),
            (b"\xe4", [0xe4], b"\\344"),
        ] {
            assert_eq!(char_from_text(text).unwrap().as_bytes(), expected);
            assert_eq!(char_from_binary(&binary).unwrap().as_bytes(), expected);
        }
        assert_eq!(char_from_text(b"ab"), Err(ValueError::Malformed));
        assert_eq!(char_from_binary(b""), Err(ValueError::Malformed));
    }
}
