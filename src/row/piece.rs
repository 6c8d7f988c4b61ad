//! The parts of a text that holds other values' texts: array elements, attributes of a row, keys and values of an hstore.

use std::fmt;

use super::ValueError;

/// One part.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// NULL.
    Null,
    /// A value as it stands there.
    Plain(&'a [u8]),
    /// A value in which a backslash stands before the character that is meant, or a quotation mark is doubled.
    Escaped(&'a [u8]),
}

/// Lengths only: a row's values belong in no log.
impl fmt::Debug for Piece<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Piece::Null => formatter.write_str("Null"),
            Piece::Plain(value) => write!(formatter, "Plain({} bytes)", value.len()),
            Piece::Escaped(value) => write!(formatter, "Escaped({} bytes)", value.len()),
        }
    }
}

impl<'a> Piece<'a> {
    /// The value; `None`: NULL. `buffer` is overwritten where there are escapes to remove.
    pub fn value<'b>(self, buffer: &'b mut Vec<u8>) -> Option<&'b [u8]>
    where
        'a: 'b,
    {
        match self {
            Piece::Null => None,
            Piece::Plain(value) => Some(value),
            Piece::Escaped(mut rest) => {
                buffer.clear();
                while let Some(at) = rest.iter().position(|byte| matches!(byte, b'\\' | b'"')) {
                    let (plain, escape) = rest.split_at_checked(at).unwrap_or((rest, &[]));
                    buffer.extend_from_slice(plain);
                    match escape {
                        [_, meant, tail @ ..] => {
                            buffer.push(*meant);
                            rest = tail;
                        }
                        _ => rest = &[],
                    }
                }
                buffer.extend_from_slice(rest);
                Some(buffer)
            }
        }
    }
}

/// Reads up to the closing quotation mark; the opening one has been read. `doubled`: whether two of them mean one.
/// Gives the part and what follows.
pub(super) fn quoted(text: &[u8], doubled: bool) -> Result<(Piece<'_>, &[u8]), ValueError> {
    let mut escaped = false;
    let mut at = 0usize;
    loop {
        let rest = text.get(at..).unwrap_or_default();
        let step = rest
            .iter()
            .position(|byte| matches!(byte, b'\\' | b'"'))
            .ok_or(ValueError::Malformed)?;
        at = at.saturating_add(step);
        match rest.get(step..).unwrap_or_default() {
            [b'"', b'"', ..] if doubled => {}
            [b'"', after @ ..] => {
                let inner = text.get(..at).unwrap_or_default();
                let piece = if escaped {
                    Piece::Escaped(inner)
                } else {
                    Piece::Plain(inner)
                };
                return Ok((piece, after));
            }
            [_, _, ..] => {}
            _ => return Err(ValueError::Malformed),
        }
        escaped = true;
        at = at.saturating_add(2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_removed_and_plain_text_is_not_copied() {
        let mut buffer = b"old".to_vec();
        assert_eq!(quoted(b"a b\",c", false), Ok((Piece::Plain(b"a b"), &b",c"[..])));
        assert_eq!(Piece::Plain(b"a b").value(&mut buffer), Some(&b"a b"[..]));
        assert_eq!(buffer, b"old");
        let (piece, rest) = quoted(br#"a\"b\\",c"#, false).unwrap();
        assert_eq!(rest, b",c");
        assert_eq!(piece.value(&mut buffer), Some(&br#"a"b\"#[..]));
        let (piece, rest) = quoted(br#"a""b\\")"#, true).unwrap();
        assert_eq!(rest, b")");
        assert_eq!(piece.value(&mut buffer), Some(&br#"a"b\"#[..]));
    }

    #[test]
    fn a_quotation_without_an_end_is_malformed() {
        for text in [&b""[..], b"a", b"a\\", b"a\\\""] {
            assert_eq!(quoted(text, false), Err(ValueError::Malformed));
        }
        assert_eq!(quoted(b"a\"\"", true), Err(ValueError::Malformed));
    }
}
