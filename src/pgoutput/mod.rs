//! The messages of Postgres's output plugin pgoutput, from the payload of one XLogData.
//!
//! Source: PostgreSQL manual, "Logical Replication Message Formats" (section 54.9 in version 17) and "Logical
//! Streaming Replication Parameters". All of protocol versions 1 to 4 is decoded:
//!
//! | version | since | adds |
//! |---|---|---|
//! | 1 | 10 | Begin, Commit, Origin, Relation, Type, Insert, Update, Delete; Truncate (11), Message (14) |
//! | 2 | 14 | Stream Start, Stop, Commit, Abort; an xid in what stands between Start and Stop |
//! | 3 | 15 | Begin Prepare, Prepare, Commit Prepared, Rollback Prepared, Stream Prepare |
//! | 4 | 16 | Stream Abort with the abort's LSN and time, if streaming is `parallel` |
//!
//! [`decode`] is a function of the bytes and a [`Context`], since a message does not say whether it carries an xid.
//! Which message may follow which is the caller's to judge. Nothing is copied but the column list of a
//! [`RelationMessage`]: strings and tuples are slices of the input. A message is consumed exactly; bytes left over,
//! a byte the manual does not define and a negative length are errors, and nothing is allocated because a
//! length announces it.
//!
//! Integers are big-endian. Times are microseconds since 2000-01-01 UTC as on the wire; [`unix_us`] converts.

#![deny(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

mod cursor;
mod decode;
mod error;
mod message;
mod tuple;

#[cfg(test)]
mod tests;

pub use decode::{Context, decode};
pub use error::{DecodeError, Fault, Field};
pub use message::{
    Begin, BeginPrepare, ColumnDescription, Commit, CommitPrepared, Delete, Insert, LogicalMessage, Message, OldTuple,
    Origin, Prepare, RelationMessage, RollbackPrepared, StreamAbort, StreamCommit, StreamPrepare, StreamStart,
    Truncate, TypeMessage, Update, unix_us,
};
pub use tuple::{Datum, Tuple, TupleBuf, TupleIter, TupleTooLarge};
