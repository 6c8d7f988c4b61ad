//! Dead letters: rows that could not be published, as Postgres sent them, with all that it takes to publish them later.
//!
//! One letter stands for one change of the stream, also for an update that changes the key and would have been a delete and a
//! create. It has the position of the first, and says how many places it takes. The values are the bytes that came, by
//! column and with their kind, and beside them stands the relation as it was described then, its types spelt out: a
//! replay needs neither the table nor the catalog.
//!
//! A letter that is too large itself is cut, the largest values first. A value that was cut is marked and has its size in its
//! place; such a letter is not complete, and cannot be replayed.

mod decode;
mod encode;
mod schema;

use std::collections::BTreeSet;
use std::fmt;

use crate::envelope::{Op, Position, RowChange, Transaction};
use crate::lsn::Lsn;
use crate::pgoutput::TupleBuf;
use crate::relation::Relation;

pub use decode::LetterError;
pub use encode::{DeadLetterEncoder, DoesNotFit};

/// What could not be published.
#[derive(Clone, Copy)]
pub enum Subject<'a> {
    /// A row.
    Row {
        /// The relation that the change was read by.
        relation: &'a Relation,
        /// The change.
        change: RowChange<'a>,
    },
    /// A logical message.
    Message {
        /// Its prefix.
        prefix: &'a str,
        /// Its content.
        content: &'a [u8],
    },
}

/// A letter to be written.
#[derive(Clone, Copy)]
pub struct DeadLetter<'a> {
    /// What could not be published.
    pub subject: Subject<'a>,
    /// The topic that it was for.
    pub topic: &'a str,
    /// Its transaction.
    pub transaction: &'a Transaction,
    /// Where the change stands in the write-ahead log.
    pub lsn: Lsn,
    /// Its place in its transaction.
    pub position: Position,
    /// How many places it takes from there on.
    pub changes: u64,
    /// Why, from a closed set.
    pub reason: &'a str,
    /// Why, in words; never a value.
    pub error: &'a str,
    /// The column at fault.
    pub column: Option<&'a str>,
    /// That column's type.
    pub column_type: Option<&'a str>,
    /// The key that the record has, in Confluent's wire format.
    pub key: Option<&'a [u8]>,
}

/// What may be written down of a value.
#[derive(Clone, PartialEq, Eq)]
pub enum Shown {
    /// All of it.
    AsSent,
    /// This text in its place.
    Masked(Vec<u8>),
    /// That there is something.
    Nothing,
}

/// How much of the old row was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OldKind {
    /// The columns of the replica identity.
    Key,
    /// All columns.
    Full,
}

/// What a stored letter is about.
#[derive(Clone)]
pub enum StoredSubject {
    /// A row.
    Row {
        /// The relation as it was.
        relation: Box<Relation>,
        /// Create, update or delete.
        op: Op,
        /// The old row.
        old: Option<(OldKind, TupleBuf)>,
        /// The new row.
        new: Option<TupleBuf>,
        /// Columns of which the rows hold the text that a rule made of the value.
        masked: BTreeSet<usize>,
        /// Columns of which the rows hold NULL, since a rule left nothing of the value.
        hidden: BTreeSet<usize>,
    },
    /// A logical message.
    Message {
        /// Its prefix.
        prefix: String,
        /// Its content.
        content: Vec<u8>,
    },
}

/// A letter that was read back, whole.
#[derive(Clone)]
pub struct StoredLetter {
    /// The pipeline that wrote it.
    pub pipeline: String,
    /// The database that the row is of.
    pub database: String,
    /// What it is about.
    pub subject: StoredSubject,
    /// The row's transaction.
    pub transaction: Transaction,
    /// Where the change stands in the write-ahead log.
    pub lsn: Lsn,
    /// Its place in its transaction.
    pub position: Position,
    /// How many places it takes from there on.
    pub changes: u64,
    /// Why it could not be published.
    pub reason: String,
}

/// Names and numbers only: a row's values belong in no log.
impl fmt::Debug for StoredLetter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredLetter")
            .field("pipeline", &self.pipeline)
            .field("position", &self.position)
            .field("changes", &self.changes)
            .field("reason", &self.reason)
            .finish_non_exhaustive()
    }
}
