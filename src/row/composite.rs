//! Values of composite types (manual, section 8.16; `record_out` and `record_send` in `utils/adt/rowtypes.c`).
//!
//! Text: `(a,"b c",)`. Nothing between two commas is NULL. An attribute is quoted that is empty or holds a quotation mark, a
//! backslash, a parenthesis, a comma or white space; quotation marks and backslashes are doubled.
//!
//! Binary: the number of attributes, then each one's type and its value with the length before it, -1 for NULL. All of
//! these numbers have four bytes. Dropped attributes are in neither form.

use super::ValueError;
use super::piece::{Piece, quoted};
use super::wire::Wire;

/// The attributes of a value in text. One attribute that is NULL and no attribute at all are the same text, `()`; it is read as
/// the former.
#[derive(Clone)]
pub struct TextAttributes<'a> {
    /// `None`: there are no more.
    rest: Option<&'a [u8]>,
}

/// Opens the text of a composite value.
pub fn attributes_from_text(text: &[u8]) -> Result<TextAttributes<'_>, ValueError> {
    match text {
        [b'(', inner @ .., b')'] => Ok(TextAttributes { rest: Some(inner) }),
        _ => Err(ValueError::Malformed),
    }
}

impl<'a> Iterator for TextAttributes<'a> {
    type Item = Result<Piece<'a>, ValueError>;

    fn next(&mut self) -> Option<Self::Item> {
        let text = self.rest.take()?;
        Some(attribute(text).map(|(piece, rest)| {
            self.rest = rest;
            piece
        }))
    }
}

fn attribute(text: &[u8]) -> Result<(Piece<'_>, Option<&[u8]>), ValueError> {
    let (piece, after) = match text {
        [b'"', inner @ ..] => quoted(inner, true)?,
        _ => {
            let end = text.iter().position(|byte| *byte == b',').unwrap_or(text.len());
            let (value, after) = text.split_at_checked(end).unwrap_or((text, &[]));
            if value.iter().any(|byte| b"\"\\()".contains(byte)) {
                return Err(ValueError::Malformed);
            }
            let piece = if value.is_empty() {
                Piece::Null
            } else {
                Piece::Plain(value)
            };
            (piece, after)
        }
    };
    match after {
        [] => Ok((piece, None)),
        [b',', rest @ ..] => Ok((piece, Some(rest))),
        _ => Err(ValueError::Malformed),
    }
}

/// The attributes of a value in its binary form: each one's type, and its value; `None`: NULL.
#[derive(Clone)]
pub struct BinaryAttributes<'a> {
    wire: Wire<'a>,
    left: usize,
}

/// Opens the binary form of a composite value.
pub fn attributes_from_binary(bytes: &[u8]) -> Result<BinaryAttributes<'_>, ValueError> {
    let mut wire = Wire::new(bytes);
    let left = wire.count(8)?;
    if left == 0 {
        wire.end()?;
    }
    Ok(BinaryAttributes { wire, left })
}

impl BinaryAttributes<'_> {
    /// How many attributes are left.
    pub fn remaining(&self) -> usize {
        self.left
    }
}

impl<'a> Iterator for BinaryAttributes<'a> {
    type Item = Result<(u32, Option<&'a [u8]>), ValueError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let mut read = || {
            let ty = self.wire.u32()?;
            let value = self.wire.value()?;
            if self.left == 0 {
                self.wire.end()?;
            }
            Ok((ty, value))
        };
        let attribute = read();
        if attribute.is_err() {
            self.left = 0;
        }
        Some(attribute)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::tests::bytes;
    use proptest::prelude::*;

    type Attributes = Result<Vec<Option<Vec<u8>>>, ValueError>;

    fn text(text: &[u8]) -> Attributes {
        let mut buffer = Vec::new();
        attributes_from_text(text)?
            .map(|attribute| Ok(attribute?.value(&mut buffer).map(<[u8]>::to_vec)))
            .collect()
    }

    type Typed = Result<Vec<(u32, Option<Vec<u8>>)>, ValueError>;

    fn binary(bytes: &[u8]) -> Typed {
        attributes_from_binary(bytes)?
            .map(|attribute| attribute.map(|(ty, value)| (ty, value.map(<[u8]>::to_vec))))
            .collect()
    }

    fn some(value: &str) -> Option<Vec<u8>> {
        Some(value.as_bytes().to_vec())
    }

    #[test]
    fn what_a_server_sent_is_read() {
        let sent = br#"("a ""b"" \\c",1,"{x,""y z"",NULL}")"#;
        assert_eq!(
            text(sent).unwrap(),
            [some(r#"a "b" \c"#), some("1"), some(r#"{x,"y z",NULL}"#)]
        );
        assert_eq!(text(b"(,,{})").unwrap(), [None, None, some("{}")]);
        assert_eq!(text(b"(\"\",2,)").unwrap(), [some(""), some("2"), None]);
        assert_eq!(text(b"(null,-1)").unwrap(), [some("null"), some("-1")]);
        assert_eq!(text(b"()").unwrap(), [None]);

        let sent = bytes("000000030000001900000000000000170000000400000002000003f1ffffffff");
        assert_eq!(
            binary(&sent).unwrap(),
            [(25, some("")), (23, Some(vec![0, 0, 0, 2])), (1009, None)]
        );
        assert_eq!(binary(&[0; 4]).unwrap(), []);
    }

    #[test]
    fn anything_else_is_malformed() {
        for wrong in [
            "", "(", ")", "a", "(a", "(\"a)", "(\"a\"b)", "(a(b)", "(a\\b)", "(a\"b\")", "(a)b",
        ] {
            assert_eq!(text(wrong.as_bytes()), Err(ValueError::Malformed), "{wrong}");
        }
        for wrong in [
            "",
            "000000",
            "ffffffff",
            "7fffffff",
            "0000000000",
            "0000000100000017",
            "000000010000001700000004000000",
            "0000000100000017ffffffff00",
        ] {
            assert_eq!(binary(&bytes(wrong)), Err(ValueError::Malformed), "{wrong}");
        }
    }

    /// What `record_out` does, by the rules of the manual.
    fn record_out(attributes: &[Option<String>]) -> String {
        let written = attributes.iter().map(|attribute| match attribute {
            None => String::new(),
            Some(value) if value.is_empty() || value.contains(|c: char| "\"\\(), \t\n\r\u{b}\u{c}".contains(c)) => {
                format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\"\""))
            }
            Some(value) => value.clone(),
        });
        format!("({})", written.collect::<Vec<_>>().join(","))
    }

    proptest! {
        #[test]
        fn any_attributes_come_back_from_their_text(
            attributes in prop::collection::vec(prop::option::of("([a\"\\\\(), \n{ö]|\\PC){0,6}"), 1..8),
        ) {
            let written = record_out(&attributes);
            let expected = attributes.into_iter().map(|value| value.map(String::into_bytes)).collect();
            prop_assert_eq!(text(written.as_bytes()), Ok(expected));
        }

        #[test]
        fn no_bytes_make_it_panic(
            noise: Vec<u8>,
            written in "[()\"\\\\,a]{0,24}",
            header in "(00000000|00000001|00000002|ffffffff|7fffffff){0,8}",
        ) {
            let _ = text(&noise);
            let _ = text(written.as_bytes());
            let _ = binary(&noise);
            let _ = binary(&bytes(&header));
        }
    }
}
