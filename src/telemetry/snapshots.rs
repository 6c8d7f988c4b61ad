//! How far the snapshots are: table by table, for `/status`, `/snapshot`, the metrics and the display of `run`.
//!
//! Whoever reads the tables writes here, once a batch; nothing here asks them.

mod board;
mod view;

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use serde::{Deserialize, Serialize};

use board::Board;
pub use view::{SnapshotView, TableSnapshot};

use super::metrics::closed_set;

closed_set! {
    /// Why a table is read.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    SnapshotCause {
        Initial => "initial",
        Asked => "asked",
    }
}

closed_set! {
    /// How far a table is.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    SnapshotState {
        Waiting => "waiting",
        Reading => "reading",
        Paused => "paused",
        Done => "done",
        Cancelled => "cancelled",
        Failed => "failed",
    }
}

impl SnapshotState {
    /// Whether nothing more is read of the table.
    pub const fn has_ended(self) -> bool {
        match self {
            Self::Waiting | Self::Reading | Self::Paused => false,
            Self::Done | Self::Cancelled | Self::Failed => true,
        }
    }
}

impl fmt::Display for SnapshotState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

impl fmt::Display for SnapshotCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

/// The tables that are read, are to be read, or were. Tables are named `schema.table`, as in the other metrics.
///
/// Every method is a lookup under a short lock. What is not known is no error: a table may be forgotten while its last
/// batch is on its way.
#[derive(Debug, Default)]
pub struct SnapshotBoard {
    board: Mutex<Board>,
}

impl SnapshotBoard {
    /// The initial snapshot is to be made, though its tables may not be known yet; or it is no longer.
    pub fn due(&self, due: bool) {
        self.lock().due = due;
    }

    /// The table is to be read; `estimate` is the number of its rows as the catalog has it. What was known of an earlier
    /// reading is forgotten, but for the count of rows.
    pub fn waiting(&self, table: &str, cause: SnapshotCause, estimate: Option<u64>) {
        self.lock().waiting(table, cause, estimate);
    }

    /// The table is being read. `before` of its rows were read by an earlier session, whose work this goes on with.
    pub fn begun(&self, table: &str, before: u64) {
        self.lock().begun(table, before, Instant::now(), SystemTime::now());
    }

    /// `read` more of its rows were read; `superseded` of them were dropped, as a newer change of theirs was there already.
    pub fn rows(&self, table: &str, read: u64, superseded: u64) {
        self.lock().rows(table, read, superseded);
    }

    /// All of its rows were read, and Kafka has them.
    pub fn finished(&self, table: &str) {
        self.ended(table, SnapshotState::Done, None);
    }

    /// It is no longer to be read.
    pub fn cancelled(&self, table: &str) {
        self.ended(table, SnapshotState::Cancelled, None);
    }

    /// It cannot be read. The reason holds no value of a row.
    pub fn failed(&self, table: &str, reason: impl Into<String>) {
        self.ended(table, SnapshotState::Failed, Some(reason.into()));
    }

    /// Nothing is read for now, for this reason; or reading goes on.
    pub fn paused(&self, reason: Option<String>) {
        self.lock().paused(reason, Instant::now());
    }

    /// The session has ended: what was being read waits for the next one.
    pub fn interrupted(&self) {
        self.lock().interrupted(Instant::now());
    }

    /// Forgets the tables that have ended and are not to be kept: their names are gone.
    pub fn retain(&self, keep: impl Fn(&str) -> bool) {
        self.lock().retain(keep);
    }

    /// A copy for readers; `None` where there never was a snapshot, and none is due.
    pub fn view(&self) -> Option<SnapshotView> {
        self.lock().view(Instant::now())
    }

    /// The rows read of each table since the start, those of earlier readings among them.
    pub(super) fn rows_read(&self) -> Vec<(String, u64)> {
        self.lock().rows_read()
    }

    fn ended(&self, table: &str, state: SnapshotState, reason: Option<String>) {
        self.lock()
            .ended(table, state, reason, Instant::now(), SystemTime::now());
    }

    fn lock(&self) -> MutexGuard<'_, Board> {
        // Numbers stand for themselves: a panic between two of them leaves nothing broken.
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
