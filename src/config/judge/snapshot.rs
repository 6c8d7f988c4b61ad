//! `[snapshot]`.

use super::Judge;
use crate::config::settings::{NewTables, Snapshot, SnapshotMode};

/// One segment of the WAL: a slot retains that much though nothing is behind.
const LEAST_RETAINED_WAL: u64 = 16 << 20;

impl Judge {
    pub(super) fn snapshot(&mut self) -> Snapshot {
        Snapshot {
            mode: match self.text("snapshot.mode").as_str() {
                "never" => SnapshotMode::Never,
                "only" => SnapshotMode::Only,
                _ => SnapshotMode::Initial,
            },
            new_tables: match self.text("snapshot.new_tables").as_str() {
                "ignore" => NewTables::Ignore,
                _ => NewTables::Initial,
            },
            parallelism: u32::try_from(self.integer("snapshot.parallelism")).unwrap_or(1),
            chunk_rows: self.integer("snapshot.chunk_rows").unsigned_abs(),
            max_rows_per_second: limit(self.integer("snapshot.max_rows_per_second").unsigned_abs()),
            max_retained_wal: self.max_retained_wal(),
            statement_timeout: self.duration("snapshot.statement_timeout"),
            lock_timeout: self.duration("snapshot.lock_timeout"),
        }
    }

    fn max_retained_wal(&mut self) -> Option<u64> {
        const KEY: &str = "snapshot.max_retained_wal";
        let retained = limit(self.size(KEY))?;
        if retained < LEAST_RETAINED_WAL {
            self.fault(
                KEY,
                "is out of range, as a slot retains a segment of the WAL at any time",
                "must be 0B for no limit, or a size from 16MiB on",
            );
        }
        Some(retained)
    }
}

/// 0 is no limit.
fn limit(value: u64) -> Option<u64> {
    Some(value).filter(|value| *value > 0)
}
