//! The change event: what happened, to which row, where in the stream.
//!
//! A change's *position* is the LSN of its transaction's commit record and its 0-based place among the changes that this
//! transaction published. It is unique, increases along the stream, and is the same when the transaction is sent
//! again. Times are microseconds since the Unix epoch.

use std::fmt;

use crate::lsn::Lsn;
use crate::pgoutput::{OldTuple, Tuple};

/// Names that are stricter than SQL's.
pub mod escape;
/// The topic of a table.
pub mod topic;

pub use topic::{
    TopicError, TopicTemplate, TopicTemplateError, check_topic, message_topic, pipeline_topic, topic_name,
};

/// What happened, in Debezium's letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// A row came to be.
    Create,
    /// A row changed and kept its key.
    Update,
    /// A row went.
    Delete,
    /// A row was read by a snapshot.
    Read,
    /// A table was emptied.
    Truncate,
    /// A logical message (`pg_logical_emit_message`).
    Message,
}

impl Op {
    /// The code's one byte.
    pub const fn letter(self) -> u8 {
        match self {
            Op::Create => b'c',
            Op::Update => b'u',
            Op::Delete => b'd',
            Op::Read => b'r',
            Op::Truncate => b't',
            Op::Message => b'm',
        }
    }

    /// `c u d r t m`.
    pub const fn code(self) -> &'static str {
        match self {
            Op::Create => "c",
            Op::Update => "u",
            Op::Delete => "d",
            Op::Read => "r",
            Op::Truncate => "t",
            Op::Message => "m",
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// Where a change stands in the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The transaction's commit record.
    pub commit_lsn: Lsn,
    /// The change's place among those that the transaction published, from 0.
    pub ordinal: u64,
}

/// The transaction that a change belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transaction {
    /// Its id; 0 where there is none, as for a logical message outside of a transaction.
    pub xid: u32,
    /// The LSN of its commit record.
    pub commit_lsn: Lsn,
    /// When it was committed, µs since the Unix epoch.
    pub commit_time_us: i64,
    /// When it was received, µs since the Unix epoch; taken once for all of its changes.
    pub now_us: i64,
    /// Where the commit before this one ended, for `source.sequence`; `None` right after a start.
    pub previous_commit_lsn: Option<Lsn>,
}

/// Why a row is read that is there already, in Debezium's words (`source.snapshot`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SnapshotKind {
    /// It was there before the pipeline was.
    Initial,
    /// Somebody asked for it.
    Incremental,
}

impl SnapshotKind {
    /// `true`, `incremental`.
    pub const fn code(self) -> &'static str {
        match self {
            SnapshotKind::Initial => "true",
            SnapshotKind::Incremental => "incremental",
        }
    }
}

/// A change to one row, or to a table as a whole.
#[derive(Clone, Copy)]
pub enum RowChange<'a> {
    /// No change: a row as a snapshot found it.
    Read {
        /// The row.
        new: Tuple<'a>,
        /// Why it was read.
        kind: SnapshotKind,
    },
    /// A new row.
    Insert {
        /// The row.
        new: Tuple<'a>,
    },
    /// A changed row.
    Update {
        /// Of the row before, what the replica identity demands and Postgres found worth sending.
        old: Option<OldTuple<'a>>,
        /// The row.
        new: Tuple<'a>,
    },
    /// A deleted row.
    Delete {
        /// Of the row, what the replica identity demands.
        old: OldTuple<'a>,
    },
    /// The table was emptied.
    Truncate,
}
