//! A schema and a compiled encoder for each relation version.
//!
//! A [`TableEncoder`] is compiled once from what a Relation message said, to a list of fields by position, and from then
//! on writes each row straight from the tuple's bytes into the reused buffers of a [`Batch`]: no value is
//! built in between, and in the steady state nothing is allocated. What it writes is Confluent's wire format (a zero byte, the
//! schema's id in four bytes, big-endian) around Avro's binary encoding (Avro specification 1.12, "Binary Encoding").
//!
//! LSNs are unsigned and an Avro long is signed: they are carried bit for bit, as Debezium does.

#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::as_conversions)
)]

/// The reused buffers, and the records in them.
pub mod batch;
/// Avro's binary encoding of longs, strings and bytes.
mod binary;
/// Rows that could not be published, as they were sent.
pub mod dead_letter;
/// The types of Debezium's Postgres connector.
mod debezium;
/// Relation version → schemas and encoder.
pub mod encoder;
/// What can be wrong with a relation or a row.
pub mod error;
/// One column's value → Avro.
mod field;
/// Logical messages.
pub mod message;
/// SQL names → Avro names.
pub mod name;
/// Values that hold other values.
mod nested;
/// The rules of a relation's columns.
pub mod rule;
/// The schemas' JSON.
mod schema;
/// Values of a few bytes.
mod short;
/// The `source` block.
mod source;
/// Small values on their way into a batch.
mod stage;
/// What a transaction's records have in common.
mod stamp;

#[cfg(test)]
mod tests;

pub use batch::{Batch, Headers, MAX_HEADERS, Record};
pub use dead_letter::{DeadLetter, DeadLetterEncoder, DoesNotFit, Shown, StoredLetter, Subject};
pub use encoder::TableEncoder;
pub use error::{BadRow, CompileError, Reason};
pub use message::MessageEncoder;
pub use rule::ColumnRule;

/// A schema's JSON, and the full name of the record that it defines.
pub type NamedSchema<'a> = (&'a str, &'a str);

/// What has to be registered before an encoder's records can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordSchemas<'a> {
    /// Of the keys; `None`: the records have no key, or that of another encoder.
    pub key: Option<NamedSchema<'a>>,
    /// Of the values.
    pub value: NamedSchema<'a>,
}

/// Which shape the values have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EnvelopeKind {
    /// Debezium's: `before`, `after`, `source`, `op` and so on.
    Debezium,
    /// The row alone; everything else in headers.
    Row,
}

/// Which types the columns have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TypeDialect {
    /// Avro's own.
    Avro,
    /// Those of Debezium's Postgres connector.
    Debezium,
}

/// Which columns can be null.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Nullability {
    /// All outside of the key.
    Optional,
    /// Those that are not NOT NULL in the catalog, and those that some record has no value of.
    Catalog,
}

/// What an encoder needs to know beside the relation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncoderSettings {
    /// The shape of the values.
    pub envelope: EnvelopeKind,
    /// The types of the columns.
    pub types: TypeDialect,
    /// Which columns can be null.
    pub nullability: Nullability,
    /// The pipeline's name: `source.name`.
    pub pipeline: String,
    /// The database: `source.db`.
    pub database: String,
    /// Whether a null value follows each delete (Debezium's shape; under `Row` a delete is a null value anyway).
    pub tombstones: bool,
    /// walferry's version: `source.version`.
    pub version: String,
}

impl EncoderSettings {
    /// Whether an encoder is compiled from what the catalog says, too.
    pub fn need_facts(&self) -> bool {
        self.types == TypeDialect::Debezium || self.nullability == Nullability::Catalog
    }
}
