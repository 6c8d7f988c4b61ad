//! The other way in: rows that are there already, read by COPY, joining the stream's way at the encoder.
//!
//! A table is read in chunks, in the order of its key, beside the stream: no snapshot is exported, no transaction stays open from one
//! chunk to the next, and no log is kept back. What the stream brings while a chunk is read supersedes the chunk's rows, so that no row
//! is ever older than what the topic has of its key. In this order, of which `model` shows what comes of leaving one out:
//!
//! 1. A [`Window`] is opened on the table: from here on each change that the stream delivers is remembered, transaction and key.
//! 2. The reader takes a snapshot, a [`Visibility`], and then the end L of the log: what the snapshot sees was committed before L.
//! 3. A transaction that was [`Delivered`] before the window was opened and that the snapshot does not see makes it too old: another
//!    is taken. Otherwise the window is told it, and forgets the keys of transactions that it sees.
//! 4. When the stream has delivered everything before L, the rows are published but for those that the window supersedes.
//!
//! After a restart nobody knows what was delivered before it. It is in the topic, and where commits wait for a synchronous standby a
//! snapshot may not see it yet: [`Delivered::suspect`] is for that.

mod copy;
mod query;
mod range;
mod reader;
mod record;
mod visibility;
mod window;

pub use copy::{CopyError, CopyFault, RowFormat, RowReader};
pub use query::{ChunkQuery, KeyColumn, shape};
pub use reader::{Assignment, Event, ReadError, Reader, ReaderSettings, Report, Rows, Verdict};
pub use record::{Cause, KeyRange, Keyless, Reading, RecordError, SnapshotRecord, Waiting};
pub use visibility::{Delivered, ParseVisibilityError, Visibility};
pub use window::Window;

#[cfg(test)]
mod model;
