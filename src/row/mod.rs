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

/// `bytea`: hex, escape, raw.
pub mod bytea;
/// `float4`, `float8`.
pub mod float;
/// `int2`, `int4`, `int8`, `oid`, `xid8`, `bool`.
pub mod integer;
/// Which of these a type is, by oid, by name and by what lies below a domain.
pub mod kind;
/// `numeric`.
pub mod numeric;
/// `date`, `time`, `timetz`, `timestamp`, `timestamptz`.
pub mod temporal;
/// Everything that is text in both forms, and `"char"`.
pub mod text;
/// `uuid`.
pub mod uuid;

pub use kind::ValueKind;

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
            ValueError::NoBinaryForm => "no_binary_form",
        }
    }
}
