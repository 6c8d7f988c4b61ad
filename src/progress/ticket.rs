//! Tickets, one a record.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::{Failure, SharedRef};
use crate::lsn::Lsn;

/// A transaction whose records are not all delivered. Opaque outside this module: it is what a [`Ticket`] becomes
/// while the record is in the producer's hands.
#[derive(Debug)]
pub struct OpenCommit {
    queue: SharedRef,
    /// Unresolved tickets, and one more until the transaction is sealed, so that zero means sealed and delivered.
    outstanding: AtomicU64,
    published: AtomicBool,
    commit_lsn: Lsn,
    commit_time_us: i64,
}

impl OpenCommit {
    pub(super) fn new(queue: SharedRef, commit_lsn: Lsn, commit_time_us: i64) -> Self {
        let (outstanding, published) = (AtomicU64::new(1), AtomicBool::new(false));
        OpenCommit {
            queue,
            outstanding,
            published,
            commit_lsn,
            commit_time_us,
        }
    }

    /// Takes one away; whether it was the last.
    pub(super) fn release(&self) -> bool {
        self.outstanding.fetch_sub(1, Ordering::AcqRel) == 1
    }

    pub(super) fn is_complete(&self) -> bool {
        self.outstanding.load(Ordering::Acquire) == 0
    }

    /// Where and when the transaction committed, if it published anything.
    pub(super) fn published(&self) -> Option<(Lsn, i64)> {
        self.published
            .load(Ordering::Relaxed)
            .then_some((self.commit_lsn, self.commit_time_us))
    }

    fn break_queue(&self, failure: Failure) {
        // A queue that is gone belonged to a connection that is gone: the server sends all of it again.
        if let Some(queue) = self.queue.upgrade() {
            let lsn = self.commit_lsn;
            queue.broken(&failure.map(|reason| format!("{reason}, in the transaction that committed at {lsn}")));
        }
    }
}

/// The obligation to deliver one record.
#[must_use = "a dropped ticket stops the pipeline"]
#[derive(Debug)]
pub struct Ticket {
    commit: Arc<OpenCommit>,
    resolved: bool,
}

impl Ticket {
    pub(super) fn issue(commit: &Arc<OpenCommit>) -> Self {
        commit.outstanding.fetch_add(1, Ordering::Relaxed);
        commit.published.store(true, Ordering::Relaxed);
        Ticket {
            commit: Arc::clone(commit),
            resolved: false,
        }
    }

    /// Holds a transaction back without being a record's.
    pub(super) fn hold(commit: &Arc<OpenCommit>) -> Self {
        commit.outstanding.fetch_add(1, Ordering::Relaxed);
        Ticket {
            commit: Arc::clone(commit),
            resolved: false,
        }
    }

    /// Kafka has confirmed the record.
    pub fn delivered(mut self) {
        self.resolved = true;
        if self.commit.release()
            && let Some(queue) = self.commit.queue.upgrade()
        {
            queue.completed();
        }
    }

    /// The record will not be delivered. The confirmed LSN stays before its transaction.
    pub fn failed(mut self, failure: Failure) {
        self.resolved = true;
        self.commit.break_queue(failure);
    }

    /// The ticket as something that can travel through a producer's opaque pointer. Who holds it owes a
    /// [`from_shared`](Ticket::from_shared).
    pub fn into_shared(mut self) -> Arc<OpenCommit> {
        self.resolved = true;
        Arc::clone(&self.commit)
    }

    /// The ticket back from its travel.
    pub fn from_shared(commit: Arc<OpenCommit>) -> Self {
        Ticket {
            commit,
            resolved: false,
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.resolved {
            self.commit.break_queue(Failure::Final(
                "a record was dropped before it was delivered".to_owned(),
            ));
        }
    }
}
