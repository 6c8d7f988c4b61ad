//! Tables that are gone are forgotten, so that a database in which tables come and go costs no more than those that are there.
//!
//! The stream never says that a table is gone, and describes none twice on a connection without a reason: one that is
//! forgotten too early could not be read any more. So now and then the catalog is asked which tables are gone, and where the
//! log ends. A table was locked by whoever dropped it, so no transaction that commits after that has a change of it: once
//! the stream is there, and the catalog still knows nothing of the table, it is forgotten.

use std::collections::HashSet;

use super::Publisher;
use crate::lsn::Lsn;
use crate::pipeline::error::PipelineError;

/// Fewer are never worth a question.
const LEAST: usize = 256;

/// What is going to be forgotten.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    /// Relations that were left by the last one.
    kept: usize,
    gone: Option<Gone>,
    forgotten: bool,
}

#[derive(Debug)]
struct Gone {
    relations: Vec<u32>,
    /// Where the log ended when they were gone.
    end: Lsn,
}

impl Sweep {
    /// Whether anything was ever forgotten.
    pub(super) fn has_forgotten(&self) -> bool {
        self.forgotten
    }

    /// Twice as many as were left by the last one.
    fn is_due(&self, relations: usize) -> bool {
        self.gone.is_none() && relations >= LEAST.max(self.kept.saturating_mul(2))
    }
}

impl Publisher {
    /// Called with each new relation version, in the transaction that commits at `commit_lsn`.
    pub(super) async fn forget_what_is_gone(&mut self, commit_lsn: Lsn) -> Result<(), PipelineError> {
        if let Some(gone) = self.sweep.gone.take_if(|gone| commit_lsn > gone.end) {
            // A transaction that waits for a synchronous standby is in the stream and not yet to be seen. Should that still be so,
            // a table of its own is forgotten wrongly; its next change ends the session, and the next one describes it again.
            let (still, _) = self.sql.gone(&gone.relations).await?;
            for oid in &still {
                self.tables.remove(oid);
            }
            self.relations.forget(&still);
            self.sweep.forgotten |= !still.is_empty();
            self.sweep.kept = self.relations.len();
            tracing::debug!(
                gone = still.len(),
                kept = self.sweep.kept,
                "tables that are gone are forgotten"
            );
        }
        if self.sweep.is_due(self.relations.len()) {
            let (relations, end) = self.sql.gone(&self.relations.oids()).await?;
            match end.filter(|_| !relations.is_empty()) {
                Some(end) => self.sweep.gone = Some(Gone { relations, end }),
                None => self.sweep.kept = self.relations.len(),
            }
        }
        let metrics = &self.way.metrics.tables;
        if metrics.len() >= LEAST.max(self.tables.len().saturating_mul(2)) {
            let named: HashSet<&str> = self.labels().collect();
            metrics.retain(|name| named.contains(name));
        }
        Ok(())
    }

    /// The tables, and the topics of logical messages and dead letters, that counts are kept for.
    fn labels(&self) -> impl Iterator<Item = &str> {
        let messages = self.messages.iter().map(|(_, destination)| destination.label.as_str());
        let messages = messages.chain(self.bad_rows.label());
        self.tables
            .values()
            .map(|table| table.destination.label.as_str())
            .chain(messages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_catalog_is_asked_when_there_are_twice_as_many_tables_as_were_left() {
        let mut sweep = Sweep::default();
        assert!(!sweep.is_due(LEAST - 1) && sweep.is_due(LEAST));
        sweep.kept = 1000;
        assert!(!sweep.is_due(1999) && sweep.is_due(2000));
        sweep.gone = Some(Gone {
            relations: vec![1],
            end: Lsn::ZERO,
        });
        assert!(!sweep.is_due(5000), "one question at a time");
    }
}
