//! How far the snapshots are, as `/snapshot` and `/status` show it.

use serde::{Deserialize, Serialize};

use super::{SnapshotCause, SnapshotState};

/// How far the snapshots are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SnapshotView {
    /// The initial snapshot is still to be made, or being made.
    pub due: bool,
    /// Why nothing is read for now.
    pub paused: Option<String>,
    /// Of the tables that were asked for together, or one before the other had ended: how many have ended.
    pub tables_ended: u64,
    /// How many they are.
    pub tables_total: u64,
    /// Rows read of all of these.
    pub rows: u64,
    /// Rows read, of the estimates; none where one of them is missing.
    pub percent: Option<f64>,
    /// The time that the rest takes at the rate of those that are being read.
    pub remaining_seconds: Option<u64>,
    /// Table by table, by name: those that wait, that are read, and that ended, the latest thousand of the last.
    pub tables: Vec<TableSnapshot>,
}

impl SnapshotView {
    /// One where there is nothing to tell.
    pub fn nothing() -> Self {
        Self {
            due: false,
            paused: None,
            tables_ended: 0,
            tables_total: 0,
            rows: 0,
            percent: None,
            remaining_seconds: None,
            tables: Vec::new(),
        }
    }

    /// Whether something is being read, or is to be.
    pub fn is_running(&self) -> bool {
        self.due || self.tables.iter().any(|table| !table.state.has_ended())
    }
}

/// How far one table is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TableSnapshot {
    /// `schema.table`.
    pub table: String,
    /// Why it is read.
    pub cause: SnapshotCause,
    /// How far it is.
    pub state: SnapshotState,
    /// Rows read.
    pub rows: u64,
    /// Rows of them that were dropped, as a newer change was there already.
    pub superseded: u64,
    /// How many rows there are, as the catalog estimates it; none where it has never counted.
    pub estimated_rows: Option<u64>,
    /// Rows read, of the estimate.
    pub percent: Option<f64>,
    /// Since this session began to read it, pauses left out.
    pub rows_per_second: Option<f64>,
    /// The time that the rest takes at this rate.
    pub remaining_seconds: Option<u64>,
    /// RFC 3339, UTC.
    pub started_at: Option<String>,
    /// RFC 3339, UTC; also of one that was cancelled, or failed.
    pub finished_at: Option<String>,
    /// Why it failed.
    pub reason: Option<String>,
}
