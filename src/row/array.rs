//! Arrays (manual, section 8.15; `array_out` and `array_send` in `utils/adt/arrayfuncs.c`).
//!
//! Text: `{a,"b c",NULL}`. An element is quoted that is empty, reads as NULL, or holds a quotation mark, a backslash, a
//! brace, white space or the delimiter of the element's type (`,`; for `box` `;`); a backslash stands before quotation marks and
//! backslashes. Lower bounds other than 1 stand before it: `[2:3]={1,2}`.
//!
//! Binary: the number of dimensions, a flag for NULLs, the element's type; a size and a lower bound for each dimension; then each
//! element with its length before it, -1 for NULL. All of these have four bytes.
//!
//! Only empty arrays and those of one dimension from 1 on are read, since Avro's have no other shape.

use super::ValueError;
use super::piece::{Piece, quoted};
use super::wire::Wire;

/// The elements of an array in text.
#[derive(Clone)]
pub struct TextElements<'a> {
    /// `None`: there are no more.
    rest: Option<&'a [u8]>,
    delimiter: u8,
}

/// Opens the text of an array.
///
/// # Errors
/// [`ValueError::ArrayShape`] if it has lower bounds of its own; several dimensions are noticed at the first element.
pub fn elements_from_text(text: &[u8], delimiter: u8) -> Result<TextElements<'_>, ValueError> {
    match text {
        [b'[', ..] => Err(ValueError::ArrayShape),
        [b'{', b'}'] => Ok(TextElements { rest: None, delimiter }),
        [b'{', inner @ .., b'}'] => Ok(TextElements {
            rest: Some(inner),
            delimiter,
        }),
        _ => Err(ValueError::Malformed),
    }
}

impl<'a> TextElements<'a> {
    /// How many elements are left.
    pub fn remaining(&self) -> Result<usize, ValueError> {
        self.clone()
            .try_fold(0usize, |count, element| element.map(|_| count.saturating_add(1)))
    }

    fn element(&self, text: &'a [u8]) -> Result<(Piece<'a>, Option<&'a [u8]>), ValueError> {
        let (piece, after) = match text {
            [b'{', ..] => return Err(ValueError::ArrayShape),
            [b'"', inner @ ..] => quoted(inner, false)?,
            _ => {
                let end = text.iter().position(|byte| *byte == self.delimiter);
                let (element, after) = text.split_at_checked(end.unwrap_or(text.len())).unwrap_or((text, &[]));
                if element.is_empty() || element.iter().any(|byte| b"\"\\{}".contains(byte)) {
                    return Err(ValueError::Malformed);
                }
                let piece = if element.eq_ignore_ascii_case(b"NULL") {
                    Piece::Null
                } else {
                    Piece::Plain(element)
                };
                (piece, after)
            }
        };
        match after {
            [] => Ok((piece, None)),
            [delimiter, rest @ ..] if *delimiter == self.delimiter => Ok((piece, Some(rest))),
            _ => Err(ValueError::Malformed),
        }
    }
}

impl<'a> Iterator for TextElements<'a> {
    type Item = Result<Piece<'a>, ValueError>;

    fn next(&mut self) -> Option<Self::Item> {
        let text = self.rest.take()?;
        Some(self.element(text).map(|(piece, rest)| {
            self.rest = rest;
            piece
        }))
    }
}

/// The elements of an array in its binary form; `None`: NULL.
#[derive(Clone)]
pub struct BinaryElements<'a> {
    wire: Wire<'a>,
    left: usize,
}

/// Opens the binary form of an array with elements of type `element`.
///
/// # Errors
/// [`ValueError::ArrayShape`] for several dimensions or another lower bound than 1.
pub fn elements_from_binary(bytes: &[u8], element: u32) -> Result<BinaryElements<'_>, ValueError> {
    elements_from(bytes, element, 1)
}

/// Opens the binary form of an `int2vector` or `oidvector`, which begin at 0.
pub(super) fn elements_of_vector(bytes: &[u8], element: u32) -> Result<BinaryElements<'_>, ValueError> {
    elements_from(bytes, element, 0).map_err(|_| ValueError::Malformed)
}

fn elements_from(bytes: &[u8], element: u32, lower_bound: i32) -> Result<BinaryElements<'_>, ValueError> {
    let mut wire = Wire::new(bytes);
    let dimensions = wire.i32()?;
    let flags = wire.u32()?;
    if flags > 1 || wire.u32()? != element {
        return Err(ValueError::Malformed);
    }
    match dimensions {
        0 => {
            wire.end()?;
            Ok(BinaryElements { wire, left: 0 })
        }
        1 => {
            let size = wire.i32()?;
            if wire.i32()? != lower_bound {
                return Err(ValueError::ArrayShape);
            }
            let left = usize::try_from(size).map_err(|_| ValueError::Malformed)?;
            if left.saturating_mul(4) > wire.len() {
                return Err(ValueError::Malformed);
            }
            if left == 0 {
                wire.end()?;
            }
            Ok(BinaryElements { wire, left })
        }
        2.. => Err(ValueError::ArrayShape),
        _ => Err(ValueError::Malformed),
    }
}

impl BinaryElements<'_> {
    /// How many elements are left.
    pub fn remaining(&self) -> usize {
        self.left
    }
}

impl<'a> Iterator for BinaryElements<'a> {
    type Item = Result<Option<&'a [u8]>, ValueError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let element = self.wire.value();
        let element = match self.left {
            0 => element.and_then(|element| self.wire.end().map(|()| element)),
            _ => element,
        };
        if element.is_err() {
            self.left = 0;
        }
        Some(element)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::tests::bytes;
    use proptest::prelude::*;

    type Elements = Result<Vec<Option<Vec<u8>>>, ValueError>;

    fn text(text: &[u8], delimiter: u8) -> Elements {
        let elements = elements_from_text(text, delimiter)?;
        let count = elements.remaining()?;
        let mut buffer = Vec::new();
        let read: Vec<_> = elements
            .map(|element| Ok(element?.value(&mut buffer).map(<[u8]>::to_vec)))
            .collect::<Result<_, ValueError>>()?;
        assert_eq!(read.len(), count);
        Ok(read)
    }

    fn binary(bytes: &[u8], element: u32) -> Elements {
        let elements = elements_from_binary(bytes, element)?;
        elements.map(|element| Ok(element?.map(<[u8]>::to_vec))).collect()
    }

    fn some(elements: &[Option<&str>]) -> Elements {
        let owned = |element: &Option<&str>| element.map(|element| element.as_bytes().to_vec());
        Ok(elements.iter().map(owned).collect())
    }

    #[test]
    fn what_a_server_sent_is_read_alike_from_both_forms() {
        let expected = some(&[
            Some("a"),
            Some("b c"),
            None,
            Some("NULL"),
            Some(""),
            Some("a\"b\\c"),
            Some("{x}"),
            Some("a,b"),
        ]);
        let sent = br#"{a,"b c",NULL,"NULL","","a\"b\\c","{x}","a,b"}"#;
        assert_eq!(text(sent, b','), expected);
        let sent = bytes(concat!(
            "0000000100000001000000190000000800000001000000016100000003622063ffffffff000000044e554c4c",
            "00000000000000056122625c63000000037b787d00000003612c62"
        ));
        assert_eq!(binary(&sent, 25), expected);
        assert_eq!(text(b"{}", b','), Ok(vec![]));
        assert_eq!(binary(&bytes("000000000000000000000019"), 25), Ok(vec![]));
    }

    #[test]
    fn boxes_are_separated_by_semicolons() {
        let expected = some(&[Some("(1,1),(0,0)"), Some("(2,2),(1,1)")]);
        assert_eq!(text(b"{(1,1),(0,0);(2,2),(1,1)}", b';'), expected);
    }

    #[test]
    fn other_shapes_are_refused_by_name() {
        assert_eq!(text(b"[2:3]={1,2}", b','), Err(ValueError::ArrayShape));
        assert_eq!(text(b"{{1,2},{3,4}}", b','), Err(ValueError::ArrayShape));
        let shifted = "000000010000000000000017000000020000000200000004000000010000000400000002";
        assert_eq!(binary(&bytes(shifted), 23), Err(ValueError::ArrayShape));
        let square = "00000002000000000000001700000002000000010000000200000001";
        assert_eq!(binary(&bytes(square), 23), Err(ValueError::ArrayShape));
    }

    #[test]
    fn anything_else_is_malformed() {
        for wrong in [
            "",
            "{",
            "}",
            "{,}",
            "{a,}",
            "{,a}",
            "{a b\"}",
            "{\"a\"b}",
            "{\"a}",
            "{a}}",
            "{a\\}",
            "{\"a\\\"}",
        ] {
            assert_eq!(text(wrong.as_bytes(), b','), Err(ValueError::Malformed), "{wrong}");
        }
        for wrong in [
            "",
            "ffffffff0000000000000017",
            "000000000000000000000019",
            "000000000000000200000017",
            "00000000000000000000001700",
            "00000001000000000000001700000001000000010000000400000001ff",
            "000000010000000000000017000000020000000100000004000000010000",
            "0000000100000000000000177fffffff00000001",
            "000000010000000000000017ffffffff00000001",
        ] {
            assert_eq!(binary(&bytes(wrong), 23), Err(ValueError::Malformed), "{wrong}");
        }
    }

    /// What `array_out` does, by the rules of its manual page.
    fn array_out(elements: &[Option<String>], delimiter: char) -> String {
        let written = elements.iter().map(|element| match element {
            None => "NULL".to_owned(),
            Some(element) => {
                let special = |c: char| {
                    c == '"' || c == '\\' || c == '{' || c == '}' || c == delimiter || " \t\n\r\u{b}\u{c}".contains(c)
                };
                if element.is_empty() || element.eq_ignore_ascii_case("null") || element.contains(special) {
                    format!("\"{}\"", element.replace('\\', "\\\\").replace('"', "\\\""))
                } else {
                    element.clone()
                }
            }
        });
        format!("{{{}}}", written.collect::<Vec<_>>().join(&delimiter.to_string()))
    }

    proptest! {
        #[test]
        fn any_elements_come_back_from_their_text(
            elements in prop::collection::vec(prop::option::of("(null|NULL|[a\"\\\\{},; \n(ö]|\\PC){0,6}"), 0..8),
            delimiter in prop_oneof![Just(','), Just(';')],
        ) {
            let written = array_out(&elements, delimiter);
            let expected = elements.into_iter().map(|element| element.map(String::into_bytes)).collect();
            prop_assert_eq!(text(written.as_bytes(), u8::try_from(delimiter).unwrap()), Ok(expected));
        }

        #[test]
        fn no_bytes_make_it_panic(
            noise: Vec<u8>,
            written in "[{}\"\\\\,aN\\[\\]]{0,24}",
            header in "(00000000|00000001|00000002|ffffffff|7fffffff){0,8}",
        ) {
            let _ = text(&noise, b',');
            let _ = text(written.as_bytes(), b',');
            let _ = binary(&noise, 23);
            let _ = binary(&bytes(&header), 1);
        }
    }
}
