//! Column rules: what is written in the place of a column's value.
//!
//! A rule works on Postgres's text of the value, which is the same for both forms of it: a mask does not depend on the
//! format of the stream. Its result is text, whatever the column's type is.

use std::fmt;
use std::io::Write;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::printed::{is_printable, lsn_from_text, plain_text};
use super::{ValueError, ValueKind, bytea, text};

/// What becomes of a column. NULL stays NULL under every rule.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Rule {
    /// It is left out altogether.
    Exclude,
    /// SHA-256 (FIPS 180-4) of the salt and, right after it, Postgres's text of the value, in 64 lower-case hexadecimal
    /// digits.
    Sha256(Salt),
    /// This text, whatever the value is.
    Fixed(Arc<str>),
    /// Postgres's text of a value of any type, or its first characters.
    Printed {
        /// How many of them.
        truncate: Option<usize>,
    },
    /// The first characters of a text.
    Truncated {
        /// How many of them.
        characters: usize,
    },
}

/// What stands before the value when it is hashed. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Salt(Arc<[u8]>);

impl Salt {
    /// Keeps `bytes` from being shown.
    pub fn new(bytes: &[u8]) -> Self {
        Salt(bytes.into())
    }
}

impl fmt::Debug for Salt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Salt")
    }
}

impl Rule {
    /// Whether it is there to keep the value from being seen.
    pub fn hides(&self) -> bool {
        !matches!(self, Rule::Printed { truncate: None })
    }
}

/// Why a rule does not fit a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// A record without a part of its key.
    #[error("the column is part of the key, which cannot do without it")]
    ExcludedKey,
    /// A key that several rows would share.
    #[error("the column is part of the key, and rows of different keys would have the same one")]
    SharedKey,
    /// Not text.
    #[error("only text can be truncated")]
    NotText,
    /// A type whose binary form is not printed.
    #[error("the binary form of this type cannot be printed as Postgres's text")]
    NotPrinted,
}

impl Misfit {
    /// What to do.
    pub const fn hint(self) -> &'static str {
        match self {
            Misfit::ExcludedKey | Misfit::SharedKey => {
                "Use mask = \"sha256\" there: it gives each key one of its own, which tells nothing of the value."
            }
            Misfit::NotText => "Add type = \"string\", and the text of the value is truncated.",
            Misfit::NotPrinted => "Use replication.format = \"text\".",
        }
    }
}

/// A value in one of its forms.
#[derive(Clone, Copy)]
pub enum Form<'a> {
    /// The type's text form.
    Text(&'a [u8]),
    /// The type's binary form.
    Binary(&'a [u8]),
}

/// A kind of value, and the rule that it stands under.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Ruled {
    kind: ValueKind,
    rule: Rule,
}

impl Ruled {
    /// Puts a column under a rule. `in_key`: the column is part of the record's key.
    ///
    /// # Errors
    /// [`Misfit`] where the rule makes no sense for it.
    pub fn new(kind: ValueKind, rule: Rule, in_key: bool) -> Result<Self, Misfit> {
        match &rule {
            Rule::Exclude if in_key => Err(Misfit::ExcludedKey),
            Rule::Fixed(_) | Rule::Truncated { .. } | Rule::Printed { truncate: Some(_) } if in_key => {
                Err(Misfit::SharedKey)
            }
            Rule::Truncated { .. } if kind != ValueKind::Text => Err(Misfit::NotText),
            _ => Ok(Ruled { kind, rule }),
        }
    }

    /// Whether nothing is written.
    pub fn is_excluded(&self) -> bool {
        self.rule == Rule::Exclude
    }

    /// Whether the rule can be kept for values in their binary form.
    pub fn reads_binary(&self) -> bool {
        match self.rule {
            Rule::Exclude | Rule::Fixed(_) => true,
            Rule::Sha256(_) | Rule::Printed { .. } | Rule::Truncated { .. } => is_printable(&self.kind),
        }
    }

    /// Appends what is written in the place of a value.
    ///
    /// # Errors
    /// Bytes that are not a value of the type, and, where they are to be seen, not UTF-8.
    pub fn put(&self, value: Form<'_>, out: &mut Vec<u8>) -> Result<(), ValueError> {
        let start = out.len();
        match &self.rule {
            Rule::Exclude => Ok(()),
            Rule::Fixed(with) => {
                out.extend_from_slice(with.as_bytes());
                Ok(())
            }
            Rule::Sha256(salt) => {
                put_plain(&self.kind, value, out)?;
                let mut hash = Sha256::new();
                hash.update(&salt.0);
                hash.update(out.get(start..).unwrap_or_default());
                out.truncate(start);
                for byte in hash.finalize() {
                    let _infallible = write!(out, "{byte:02x}");
                }
                Ok(())
            }
            Rule::Printed { truncate } => put_characters(&self.kind, value, *truncate, out),
            Rule::Truncated { characters } => put_characters(&self.kind, value, Some(*characters), out),
        }
    }
}

/// Appends Postgres's text, or its first characters.
fn put_characters(
    kind: &ValueKind,
    value: Form<'_>,
    truncate: Option<usize>,
    out: &mut Vec<u8>,
) -> Result<(), ValueError> {
    let start = out.len();
    put_plain(kind, value, out)?;
    let printed = text::utf8(out.get(start..).unwrap_or_default())?;
    if let Some((end, _)) = truncate.and_then(|characters| printed.char_indices().nth(characters)) {
        out.truncate(start.saturating_add(end));
    }
    Ok(())
}

/// Appends Postgres's text. Text of the row's own need not be UTF-8.
fn put_plain(kind: &ValueKind, value: Form<'_>, out: &mut Vec<u8>) -> Result<(), ValueError> {
    match (value, kind) {
        (Form::Binary(value), ValueKind::Text) => out.extend_from_slice(value),
        (Form::Binary(value), _) => plain_text(kind, value, out)?,
        // These have had other texts under other versions or settings of the server.
        (Form::Text(value), ValueKind::Char) => out.extend_from_slice(text::char_from_text(value)?.as_bytes()),
        (Form::Text(value), ValueKind::Lsn) => {
            let _infallible = write!(out, "{}", lsn_from_text(value)?);
        }
        (Form::Text(value), ValueKind::Bytea) if !value.starts_with(b"\\x") => {
            let mut bytes = Vec::new();
            bytea::decode_into(value, &mut bytes)?;
            plain_text(kind, &bytes, out)?;
        }
        (Form::Text(value), _) => out.extend_from_slice(value),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::tests::bytes;
    use proptest::prelude::*;

    fn sha256() -> Rule {
        Rule::Sha256(Salt::new(b"pepper"))
    }

    fn put(kind: &ValueKind, rule: &Rule, value: Form<'_>) -> Result<String, ValueError> {
        let mut out = b"before".to_vec();
        Ruled::new(kind.clone(), rule.clone(), false)
            .unwrap()
            .put(value, &mut out)?;
        Ok(String::from_utf8(out.split_off(6)).unwrap())
    }

    #[test]
    fn a_hash_is_that_of_salt_and_text() {
        // printf 'pepper%s' VALUE | sha256sum
        for (kind, text, binary, expected) in [
            (
                ValueKind::Text,
                "ada@example.com",
                "616461406578616d706c652e636f6d",
                "f3de2501fc91c4a9ae4d4ed50bef931c9901aabe5ea36979890a69204e7eb2b1",
            ),
            (
                ValueKind::Text,
                "",
                "",
                "8cbbcf29d9cef89675c5f5c1dcfe827d0570416a5aaba30dd0de159661ad905b",
            ),
            (
                ValueKind::Int4,
                "42",
                "0000002a",
                "93ca73bec2907ec825519db1f7ee28cb033d71c83d14b76ef78b0c4e64566e6e",
            ),
        ] {
            assert_eq!(put(&kind, &sha256(), Form::Text(text.as_bytes())).unwrap(), expected);
            assert_eq!(put(&kind, &sha256(), Form::Binary(&bytes(binary))).unwrap(), expected);
        }
    }

    #[test]
    fn the_same_value_has_the_same_text_in_both_forms() {
        for (kind, text, binary, printed) in [
            (ValueKind::Bool, "t", "01", "t"),
            (ValueKind::Int8, "-7", "fffffffffffffff9", "-7"),
            (ValueKind::Float8, "0.1", "3fb999999999999a", "0.1"),
            (
                ValueKind::Decimal {
                    precision: 10,
                    scale: 2,
                },
                "NaN",
                "00000000c0000000",
                "NaN",
            ),
            (ValueKind::Date, "-infinity", "80000000", "-infinity"),
            (
                ValueKind::Timestamp,
                "294276-12-31 23:59:59.999999",
                "7fffff5bb3b29fff",
                "294276-12-31 23:59:59.999999",
            ),
            (ValueKind::Bytea, "\\xdead", "dead", "\\xdead"),
            (ValueKind::Bytea, "\\336\\255", "dead", "\\xdead"),
            (ValueKind::Char, "\\344", "e4", "\\344"),
            (ValueKind::Lsn, "16/0374D848", "000000160374d848", "16/374D848"),
            (ValueKind::Versioned, "{\"a\": 1}", "017b2261223a20317d", "{\"a\": 1}"),
            (ValueKind::Text, "größe", "6772c3b6c39f65", "größe"),
        ] {
            let rule = Rule::Printed { truncate: None };
            assert_eq!(put(&kind, &rule, Form::Text(text.as_bytes())).as_deref(), Ok(printed));
            assert_eq!(put(&kind, &rule, Form::Binary(&bytes(binary))).as_deref(), Ok(printed));
            let mask = |value| put(&kind, &sha256(), value).unwrap();
            assert_eq!(mask(Form::Text(text.as_bytes())), mask(Form::Binary(&bytes(binary))));
        }
    }

    #[test]
    fn text_is_cut_between_characters() {
        let cut = |characters| {
            let rule = Rule::Truncated { characters };
            put(&ValueKind::Text, &rule, Form::Text("aö🦀b".as_bytes())).unwrap()
        };
        assert_eq!([1, 2, 3, 4, 5].map(cut), ["a", "aö", "aö🦀", "aö🦀b", "aö🦀b"]);
        let printed = Rule::Printed { truncate: Some(4) };
        assert_eq!(
            put(&ValueKind::Date, &printed, Form::Binary(&bytes("0000223e"))).as_deref(),
            Ok("2024")
        );
    }

    #[test]
    fn what_is_not_utf8_can_be_hidden_and_not_shown() {
        let noise = Form::Text(b"gr\xf6\xdfe");
        assert_eq!(
            put(&ValueKind::Text, &Rule::Truncated { characters: 2 }, noise),
            Err(ValueError::InvalidUtf8)
        );
        let mask = put(&ValueKind::Text, &sha256(), noise).unwrap();
        assert_eq!(
            put(&ValueKind::Text, &sha256(), Form::Binary(b"gr\xf6\xdfe")).unwrap(),
            mask
        );
        assert_eq!(
            put(&ValueKind::Text, &Rule::Fixed("***".into()), noise).as_deref(),
            Ok("***")
        );
    }

    #[test]
    fn a_rule_that_would_break_the_key_is_refused() {
        let key = |rule| Ruled::new(ValueKind::Text, rule, true).map(|_| ());
        assert_eq!(key(Rule::Exclude), Err(Misfit::ExcludedKey));
        assert_eq!(key(Rule::Fixed("x".into())), Err(Misfit::SharedKey));
        assert_eq!(key(Rule::Truncated { characters: 9 }), Err(Misfit::SharedKey));
        assert_eq!(key(Rule::Printed { truncate: Some(9) }), Err(Misfit::SharedKey));
        assert_eq!(key(Rule::Printed { truncate: None }), Ok(()));
        assert_eq!(key(sha256()), Ok(()));
    }

    #[test]
    fn only_text_is_truncated_unless_it_is_made_text() {
        let truncated = Rule::Truncated { characters: 3 };
        assert_eq!(Ruled::new(ValueKind::Int4, truncated, false), Err(Misfit::NotText));
        assert!(Ruled::new(ValueKind::Int4, Rule::Printed { truncate: Some(3) }, false).is_ok());
    }

    #[test]
    fn what_is_not_printed_needs_text_and_what_is_not_read_needs_nothing() {
        let reads = |rule| Ruled::new(ValueKind::Hstore, rule, false).unwrap().reads_binary();
        assert!(!reads(sha256()));
        assert!(!reads(Rule::Printed { truncate: None }));
        assert!(reads(Rule::Exclude));
        assert!(reads(Rule::Fixed("x".into())));
    }

    #[test]
    fn the_salt_is_not_shown() {
        assert_eq!(format!("{:?}", sha256()), "Sha256(Salt)");
    }

    proptest! {
        #[test]
        fn a_cut_text_is_its_first_characters(text in "\\PC{0,12}", characters in 1usize..8) {
            let expected: String = text.chars().take(characters).collect();
            for form in [Form::Text(text.as_bytes()), Form::Binary(text.as_bytes())] {
                prop_assert_eq!(put(&ValueKind::Text, &Rule::Truncated { characters }, form).unwrap(), expected.as_str());
            }
        }

        #[test]
        fn a_mask_holds_nothing_of_the_value_and_its_length_is_that_of_every_other(text: Vec<u8>) {
            let mask = put(&ValueKind::Text, &sha256(), Form::Text(&text)).unwrap();
            prop_assert_eq!(mask.len(), 64);
            prop_assert!(mask.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')));
        }

        #[test]
        fn no_bytes_make_it_panic(noise: Vec<u8>) {
            for kind in [ValueKind::Bytea, ValueKind::Char, ValueKind::Lsn, ValueKind::Numeric, ValueKind::Hstore] {
                for rule in [sha256(), Rule::Printed { truncate: Some(1) }] {
                    let ruled = Ruled::new(kind.clone(), rule, false).unwrap();
                    let _ = ruled.put(Form::Text(&noise), &mut Vec::new());
                    let _ = ruled.put(Form::Binary(&noise), &mut Vec::new());
                }
            }
        }
    }
}
