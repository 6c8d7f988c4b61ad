//! Column values: what the text and the binary form of each type mean.
//!
//! Every function here is a pure one, from the bytes of one column to a value. Both forms of a type give the same
//! value, bit for bit; where the two could differ, it is said beside the function. Units are those of Avro's logical
//! types: days and microseconds since 1970-01-01 on the proleptic Gregorian calendar, which is Postgres's calendar
//! too.
//!
//! The forms are those of the manual's chapter 8 ("Data Types") under the session settings of our connections
//! (`DateStyle = ISO`, `TimeZone = UTC`, `IntervalStyle = iso_8601`, `extra_float_digits = 3`), and for binary those
//! of the types' send functions.
//!
//! An error says which kind of thing is wrong and never carries the value.

#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::as_conversions)
)]

/// Arrays of one dimension.
pub mod array;
/// `bytea`: hex, escape, raw.
pub mod bytea;
/// The ISO text of dates and timestamps.
pub mod calendar;
/// Values of composite types.
pub mod composite;
/// Decimal digits, eight at a time.
mod digits;
/// `float4`, `float8`.
pub mod float;
/// Points, boxes, circles and the like.
pub mod geometric;
/// `hstore`.
pub mod hstore;
/// `int2`, `int4`, `int8`, `oid`, `xid8`, `bool`.
pub mod integer;
/// `interval`.
pub mod interval;
/// Which of these a type is, by oid, by name and by what lies below a domain.
pub mod kind;
/// `inet`, `cidr`, `macaddr`, `macaddr8`.
mod network;
/// `numeric`.
pub mod numeric;
/// The parts of a text that holds other texts.
pub mod piece;
/// What is text for us whatever its form.
pub mod printed;
/// Ranges and multiranges.
pub mod range;
/// What is written in the place of a column's value.
pub mod rule;
/// `tsvector`, `tsquery`.
mod search;
/// `date`, `time`, `timetz`, `timestamp`, `timestamptz`.
pub mod temporal;
/// Everything that is text in both forms, and `"char"`.
pub mod text;
/// `uuid`.
pub mod uuid;
/// pgvector's `vector` and `halfvec`.
pub mod vector;
/// Binary forms being read from their front.
mod wire;

#[cfg(test)]
pub(crate) mod tests {
    /// The bytes of hexadecimal digits.
    pub(crate) fn bytes(hexadecimal: &str) -> Vec<u8> {
        hexadecimal
            .as_bytes()
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    }
}

pub use kind::{ArrayKind, AttributeKind, CompositeKind, ValueKind};
pub use rule::{Misfit, Rule, Ruled, Salt};

/// Why the bytes of a column are not a value of its type. A closed set, fit for a metric's label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ValueError {
    /// The bytes are not in the form that the type has.
    #[error("the bytes are not a value of this type")]
    Malformed,
    /// Text that is not UTF-8, as it can be in a database of encoding SQL_ASCII.
    #[error("the text is not valid UTF-8")]
    InvalidUtf8,
    /// A value that the Avro type cannot hold.
    #[error("the value is outside the range of the Avro type")]
    OutOfRange,
    /// NaN or an infinity, in a decimal.
    #[error("NaN and infinity have no place in a decimal")]
    NotFinite,
    /// An array that has not one dimension from 1 on.
    #[error("the array has several dimensions, or a lower bound other than 1")]
    ArrayShape,
    /// A composite value whose attributes are not those of its type, which has changed since.
    #[error(
        "the value has neither the attributes that its type has in the catalog nor those that it is known to have had"
    )]
    Attributes,
    /// A binary value of a type that is known by its text only.
    #[error("the binary form of this type is not known")]
    NoBinaryForm,
}

impl ValueError {
    /// The metric label.
    pub const fn label(self) -> &'static str {
        match self {
            ValueError::Malformed => "malformed",
            ValueError::InvalidUtf8 => "invalid_utf8",
            ValueError::OutOfRange => "out_of_range",
            ValueError::NotFinite => "not_finite",
            ValueError::ArrayShape => "array_shape",
            ValueError::Attributes => "attributes",
            ValueError::NoBinaryForm => "no_binary_form",
        }
    }
}
