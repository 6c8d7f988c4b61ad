//! What is wrong with a message, where, in words.

use std::fmt;

/// A message that is not what the protocol defines. Of the message's bytes it shows at most one, a tag or a flag.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("malformed pgoutput message ({message}), at offset {offset}, in {field}: {fault}")]
pub struct DecodeError {
    /// The message's name in the manual; "unknown" if its tag was not recognised.
    pub message: &'static str,
    /// Bytes from the message's tag, which is at 0.
    pub offset: usize,
    /// The field that could not be read.
    pub field: Field,
    /// Why.
    pub fault: Fault,
}

impl DecodeError {
    /// What an operator can do about it.
    pub fn hint(&self) -> &'static str {
        match self.fault {
            Fault::UnknownTag(_) | Fault::UnexpectedByte { .. } => {
                "The server may speak a later protocol than this program knows: look for a newer release, \
                 or for a proxy that changes the stream."
            }
            Fault::TagOfLaterVersion { .. } => {
                "The server sent a message that the negotiated protocol version does not have: look for a proxy between \
                 this program and the server."
            }
            Fault::NotUtf8 => {
                "The connection asks for client_encoding UTF8: a database with encoding SQL_ASCII may hold names \
                 that are not; rename what is affected."
            }
            Fault::Truncated { .. } | Fault::Negative(_) | Fault::Unterminated | Fault::LeftOver(_) => {
                "The stream is damaged or out of step: look for a proxy between this program and the server; nothing \
                 beyond this message was acknowledged."
            }
        }
    }
}

/// A field of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// One of the message's own.
    Of(&'static str),
    /// One of a column's, in a tuple or a relation's description.
    OfColumn {
        /// 1 for the first.
        number: usize,
        /// Which field.
        name: &'static str,
    },
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Field::Of(name) => write!(f, "the {name}"),
            Field::OfColumn { number, name } => write!(f, "column {number}'s {name}"),
        }
    }
}

/// Why a field could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The message ends inside the field.
    Truncated {
        /// Bytes that the field takes.
        needed: usize,
        /// Bytes that are left.
        left: usize,
    },
    /// A count or length below zero.
    Negative(i32),
    /// No message of any version starts with this byte.
    UnknownTag(u8),
    /// The tag belongs to a later protocol version than was negotiated.
    TagOfLaterVersion {
        /// The tag.
        tag: u8,
        /// The first version that has it.
        since: u32,
        /// The version in use.
        negotiated: u32,
    },
    /// A kind or flags byte that the manual does not define.
    UnexpectedByte {
        /// What was there.
        found: u8,
        /// What may be there.
        expected: &'static str,
    },
    /// A string without its NUL.
    Unterminated,
    /// A string that is not UTF-8.
    NotUtf8,
    /// The message is complete and this many bytes follow.
    LeftOver(usize),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Fault::Truncated { needed, left } => write!(f, "{needed} bytes needed, {left} left"),
            Fault::Negative(number) => write!(f, "{number} is negative"),
            Fault::UnknownTag(tag) => write!(f, "{} starts no message", Byte(tag)),
            Fault::TagOfLaterVersion { tag, since, negotiated } => write!(
                f,
                "{} starts a message of protocol version {since}, but version {negotiated} was negotiated",
                Byte(tag)
            ),
            Fault::UnexpectedByte { found, expected } => write!(f, "found {}, expected {expected}", Byte(found)),
            Fault::Unterminated => f.write_str("the string has no end"),
            Fault::NotUtf8 => f.write_str("the string is not UTF-8"),
            Fault::LeftOver(count) => write!(f, "bytes left over: {count}"),
        }
    }
}

/// A byte as its number, and as a character where it has one.
struct Byte(u8);

impl fmt::Display for Byte {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_ascii_graphic() {
            write!(f, "0x{:02X} ('{}')", self.0, char::from(self.0))
        } else {
            write!(f, "0x{:02X}", self.0)
        }
    }
}
