//! `[replication]`.

use super::Judge;
use crate::config::glob::TablePattern;
use crate::config::settings::{Format, Replication, Streaming};
use crate::config::value;

impl Judge {
    pub(super) fn replication(&mut self) -> Replication {
        let slot = self.text("replication.slot");
        let publication = self.text("replication.publication");
        if !self.text("name").is_empty() {
            let slot_character = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            if slot.is_empty() || slot.len() > 63 || !slot.chars().all(slot_character) {
                self.fault(
                    "replication.slot",
                    "cannot be the name of a slot",
                    "use 1 to 63 of a-z, 0-9 and _",
                );
            }
            if publication.is_empty() || publication.len() > 63 || publication.contains('\0') {
                self.fault(
                    "replication.publication",
                    "cannot be the name of a publication",
                    "use 1 to 63 bytes",
                );
            }
        }
        for key in ["replication.tables", "replication.exclude_tables"] {
            for pattern in self.texts(key) {
                if let Err(error) = TablePattern::parse(&pattern) {
                    self.fault(key, &format!("the pattern {} {error}", value::quote(&pattern)), "");
                }
            }
        }
        if self.bool("replication.create_publication") && self.texts("replication.tables").is_empty() {
            self.fault(
                "replication.tables",
                "is empty, but replication.create_publication needs it",
                "name tables, such as [\"public.*\"], or set create_publication = false",
            );
        }
        let spool_max_size = self.spool_max_size();
        Replication {
            slot,
            publication,
            create_slot: self.bool("replication.create_slot"),
            failover: self.bool("replication.failover"),
            create_publication: self.bool("replication.create_publication"),
            tables: self.texts("replication.tables"),
            exclude_tables: self.texts("replication.exclude_tables"),
            streaming: match self.text("replication.streaming").as_str() {
                "on" => Streaming::On,
                "off" => Streaming::Off,
                _ => Streaming::Auto,
            },
            spool_dir: self.path("replication.spool_dir"),
            spool_memory: self.size("replication.spool_memory"),
            spool_max_size,
            format: match self.text("replication.format").as_str() {
                "text" => Format::Text,
                "binary" => Format::Binary,
                _ => Format::Auto,
            },
            status_interval: self.duration("replication.status_interval"),
        }
    }

    fn spool_max_size(&mut self) -> Option<u64> {
        const KEY: &str = "replication.spool_max_size";
        // 0 is no limit.
        let size = Some(self.size(KEY)).filter(|size| *size > 0)?;
        if size < self.size("replication.spool_memory") {
            self.fault(
                KEY,
                "is out of range, as all of replication.spool_memory is written at once",
                "must be 0B for no limit, or a size from replication.spool_memory on",
            );
        }
        Some(size)
    }
}
