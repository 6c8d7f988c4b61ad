//! How far the snapshots are: as planned, and as Kafka has it.
//!
//! Each step is made twice. The plan takes it at once: it says what to read next. What is recorded takes it when Kafka has all rows
//! that were sent before it: at-least-once that is when they are confirmed; exactly-once they and the record are committed together.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::snapshot::SnapshotRecord;

type Step = Box<dyn FnOnce(&mut SnapshotRecord) + Send>;

struct Book {
    recorded: SnapshotRecord,
    /// Steps that wait, each for the batches up to a number.
    waiting: VecDeque<(u64, Step)>,
    /// Something was taken that is not written.
    dirty: bool,
}

/// Shared with whoever commits.
#[derive(Clone)]
pub(in crate::pipeline) struct Ledger {
    book: Arc<Mutex<Book>>,
    /// Rows and record are committed together.
    together: bool,
}

impl Ledger {
    pub(super) fn new(recorded: SnapshotRecord, together: bool) -> Self {
        let book = Book {
            recorded,
            waiting: VecDeque::new(),
            dirty: false,
        };
        Ledger {
            book: Arc::new(Mutex::new(book)),
            together,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A step that counts once Kafka has the batches up to this one.
    pub(super) fn step(&self, batch: u64, step: impl FnOnce(&mut SnapshotRecord) + Send + 'static) {
        let mut book = self.lock();
        if self.together {
            step(&mut book.recorded);
            book.dirty = true;
        } else {
            book.waiting.push_back((batch, Box::new(step)));
        }
    }

    /// Kafka has the batches up to this one.
    pub(super) fn confirmed(&self, batch: u64) {
        let mut book = self.lock();
        while book.waiting.front().is_some_and(|(number, _)| *number <= batch)
            && let Some((_, step)) = book.waiting.pop_front()
        {
            step(&mut book.recorded);
            book.dirty = true;
        }
    }

    /// What is to be written, if anything is.
    pub(in crate::pipeline) fn take(&self) -> Option<Vec<u8>> {
        let mut book = self.lock();
        std::mem::take(&mut book.dirty).then(|| book.recorded.to_json())
    }

    /// Whether there is something to be written.
    pub(super) fn is_dirty(&self) -> bool {
        self.lock().dirty
    }

    /// Everything that was planned is recorded, though perhaps not written.
    pub(super) fn is_settled(&self) -> bool {
        self.lock().waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paused(ledger: &Ledger) -> Option<bool> {
        let bytes = ledger.take()?;
        Some(SnapshotRecord::parse(&bytes).unwrap().paused)
    }

    fn pause(ledger: &Ledger, batch: u64) {
        ledger.step(batch, |record| record.paused = true);
    }

    #[test]
    fn a_step_waits_for_the_rows_before_it() {
        let ledger = Ledger::new(SnapshotRecord::new("7".to_owned(), 5), false);
        pause(&ledger, 2);
        ledger.confirmed(1);
        assert_eq!((paused(&ledger), ledger.is_settled()), (None, false));
        ledger.confirmed(2);
        assert!(ledger.is_settled() && ledger.is_dirty());
        assert_eq!(paused(&ledger), Some(true));
        assert_eq!(paused(&ledger), None, "it is written once");
    }

    #[test]
    fn what_is_committed_together_does_not_wait() {
        let ledger = Ledger::new(SnapshotRecord::new("7".to_owned(), 5), true);
        pause(&ledger, 7);
        assert_eq!(paused(&ledger), Some(true));
    }
}
