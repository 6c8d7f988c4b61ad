//! `hstore` (manual, appendix F, "hstore"; `contrib/hstore/hstore_io.c`).
//!
//! Text: `"key"=>"value", "other"=>NULL`, with a backslash before quotation marks and backslashes. Binary: the number of pairs,
//! then key and value, each with its length before it, -1 for NULL. Both are in the order in which the server keeps the
//! pairs, and no key is there twice.

use super::ValueError;
use super::piece::{Piece, quoted};
use super::wire::Wire;

/// The pairs of an hstore in text.
#[derive(Clone)]
pub struct TextPairs<'a> {
    /// `None`: there are no more.
    rest: Option<&'a [u8]>,
}

/// Opens the text of an hstore.
pub fn pairs_from_text(text: &[u8]) -> TextPairs<'_> {
    TextPairs {
        rest: (!text.is_empty()).then_some(text),
    }
}

impl TextPairs<'_> {
    /// How many pairs are left.
    pub fn remaining(&self) -> Result<usize, ValueError> {
        self.clone()
            .try_fold(0usize, |count, pair| pair.map(|_| count.saturating_add(1)))
    }
}

impl<'a> Iterator for TextPairs<'a> {
    type Item = Result<(Piece<'a>, Piece<'a>), ValueError>;

    fn next(&mut self) -> Option<Self::Item> {
        let text = self.rest.take()?;
        Some(pair(text).map(|(pair, rest)| {
            self.rest = rest;
            pair
        }))
    }
}

type Pair<'a> = (Piece<'a>, Piece<'a>);

fn pair(text: &[u8]) -> Result<(Pair<'_>, Option<&[u8]>), ValueError> {
    let text = text.strip_prefix(b"\"").ok_or(ValueError::Malformed)?;
    let (key, text) = quoted(text, false)?;
    let (value, text) = match text {
        [b'=', b'>', b'"', text @ ..] => quoted(text, false)?,
        [b'=', b'>', b'N', b'U', b'L', b'L', text @ ..] => (Piece::Null, text),
        _ => return Err(ValueError::Malformed),
    };
    match text {
        [] => Ok(((key, value), None)),
        [b',', b' ', rest @ ..] => Ok(((key, value), Some(rest))),
        _ => Err(ValueError::Malformed),
    }
}

/// The pairs of an hstore in its binary form.
#[derive(Clone)]
pub struct BinaryPairs<'a> {
    wire: Wire<'a>,
    left: usize,
}

/// Opens the binary form of an hstore.
pub fn pairs_from_binary(bytes: &[u8]) -> Result<BinaryPairs<'_>, ValueError> {
    let mut wire = Wire::new(bytes);
    let left = wire.count(8)?;
    if left == 0 {
        wire.end()?;
    }
    Ok(BinaryPairs { wire, left })
}

impl BinaryPairs<'_> {
    /// How many pairs are left.
    pub fn remaining(&self) -> usize {
        self.left
    }
}

impl<'a> Iterator for BinaryPairs<'a> {
    type Item = Result<(&'a [u8], Option<&'a [u8]>), ValueError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let mut read = || {
            let key = self.wire.value()?.ok_or(ValueError::Malformed)?;
            let value = self.wire.value()?;
            if self.left == 0 {
                self.wire.end()?;
            }
            Ok((key, value))
        };
        let pair = read();
        if pair.is_err() {
            self.left = 0;
        }
        Some(pair)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::tests::bytes;
    use proptest::prelude::*;

    type Pairs = Result<Vec<(Vec<u8>, Option<Vec<u8>>)>, ValueError>;

    fn text(text: &[u8]) -> Pairs {
        let pairs = pairs_from_text(text);
        let count = pairs.remaining()?;
        let mut buffer = Vec::new();
        let read: Vec<_> = pairs
            .map(|pair| {
                let (key, value) = pair?;
                let key = key.value(&mut buffer).unwrap().to_vec();
                Ok((key, value.value(&mut buffer).map(<[u8]>::to_vec)))
            })
            .collect::<Result<_, ValueError>>()?;
        assert_eq!(read.len(), count);
        Ok(read)
    }

    fn binary(bytes: &[u8]) -> Pairs {
        pairs_from_binary(bytes)?
            .map(|pair| pair.map(|(key, value)| (key.to_vec(), value.map(<[u8]>::to_vec))))
            .collect()
    }

    #[test]
    fn what_a_server_sent_is_read_alike_from_both_forms() {
        let expected = [
            ("", Some("")),
            ("a", Some("1")),
            ("b\"\\", None),
            (" x => ", Some("\"")),
        ]
        .map(|(key, value)| (key.as_bytes().to_vec(), value.map(|value| value.as_bytes().to_vec())));
        let sent = br#"""=>"", "a"=>"1", "b\"\\"=>NULL, " x => "=>"\"""#;
        assert_eq!(text(sent).unwrap(), expected);
        let sent = bytes(concat!(
            "000000040000000000000000000000016100000001310000000362225cffffffff",
            "000000062078203d3e200000000122"
        ));
        assert_eq!(binary(&sent).unwrap(), expected);
        assert_eq!(text(b"").unwrap(), []);
        assert_eq!(binary(&[0; 4]).unwrap(), []);
    }

    #[test]
    fn anything_else_is_malformed() {
        for wrong in [
            "a=>1",
            "\"a\"",
            "\"a\"=>",
            "\"a\"=>null",
            "\"a\"=>\"1\",",
            "\"a\"=>\"1\",\"b\"=>\"2\"",
            "NULL=>\"1\"",
            "\"a\"=>NULLx",
        ] {
            assert_eq!(text(wrong.as_bytes()), Err(ValueError::Malformed), "{wrong}");
        }
        for wrong in [
            "",
            "ffffffff",
            "0000000000",
            "00000001ffffffffffffffff",
            "00000001000000016100000001",
            "000000010000000161ffffffff00",
        ] {
            assert_eq!(binary(&bytes(wrong)), Err(ValueError::Malformed), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_pairs_come_back_from_their_text(
            pairs in prop::collection::vec(("([a\"\\\\,=> ]|\\PC){0,5}", prop::option::of("([a\"\\\\,=> ]|\\PC){0,5}")), 0..6),
        ) {
            let quote = |text: &String| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
            let written: Vec<_> = pairs
                .iter()
                .map(|(key, value)| format!("{}=>{}", quote(key), value.as_ref().map_or("NULL".to_owned(), quote)))
                .collect();
            let expected = pairs.into_iter().map(|(key, value)| (key.into_bytes(), value.map(String::into_bytes))).collect();
            prop_assert_eq!(text(written.join(", ").as_bytes()), Ok(expected));
        }

        #[test]
        fn no_bytes_make_it_panic(noise: Vec<u8>, written in "[\"\\\\=>, aNUL]{0,24}") {
            let _ = text(&noise);
            let _ = text(written.as_bytes());
            let _ = binary(&noise);
        }
    }
}
