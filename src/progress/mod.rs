//! Which position is safe: the contiguous prefix of what Kafka has confirmed.
//!
//! Transactions enter in the order of their commits; deliveries come back in any order, over all topics and
//! partitions. The confirmed LSN is the highest end LSN such that **every record of every transaction that
//! ends at or before it has been delivered**. It never goes back, and it never passes anything unresolved.
//!
//! Transactions that published nothing, and the positions of keepalives, stand in the same queue: they are confirmed
//! when all before them is, and not earlier. A keepalive between Begin and Commit says nothing about the open
//! transaction and is not taken in. (walsender has sent everything that committed before the position which a
//! keepalive names, so outside a transaction that position is as good as the end of an empty transaction;
//! manual, "Streaming Replication Protocol", Primary keepalive message.)
//!
//! Each record has a [`Ticket`]. It is resolved by [`Ticket::delivered`] or [`Ticket::failed`]; one that is dropped
//! without either is taken for lost, which stops the pipeline: a lost record must never look delivered.

mod ring;
mod ticket;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use ring::Ring;
pub use ticket::{OpenCommit, Ticket};

use crate::lsn::Lsn;

/// What the observer is told. It is called with the queue locked, so events come in order; it must return at once
/// and must not call back.
#[derive(Debug)]
pub enum Event<'a> {
    /// Everything up to `confirmed` is in Kafka.
    Advanced {
        /// The new confirmed LSN.
        confirmed: Lsn,
        /// Commit LSN of the last transaction with records in it; `0/0` before the first.
        published: Lsn,
        /// Commit times (µs since 1970, UTC) of the transactions with records which that confirmed.
        commit_times_us: &'a [i64],
    },
    /// A record was not delivered, or its ticket was dropped: the confirmed LSN will not advance any more.
    Broken(&'a Failure),
}

type Observer = Box<dyn Fn(Event<'_>) + Send + Sync>;

/// Why a record was not delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// Sent again, it may be taken.
    Passing(String),
    /// It will never be taken as things stand.
    Final(String),
}

impl Failure {
    /// The reason, for the log.
    pub fn reason(&self) -> &str {
        match self {
            Failure::Passing(reason) | Failure::Final(reason) => reason,
        }
    }

    fn map(self, change: impl FnOnce(String) -> String) -> Self {
        match self {
            Failure::Passing(reason) => Failure::Passing(change(reason)),
            Failure::Final(reason) => Failure::Final(change(reason)),
        }
    }
}

/// The queue of open commits. Clones share it.
#[derive(Clone)]
pub struct Progress {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    ring: Mutex<Ring>,
    observer: Observer,
}

/// A transaction, keepalive or end that does not lie beyond what was received before.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} at {found} does not lie beyond {last}, which came before it")]
pub struct OutOfOrder {
    what: &'static str,
    found: Lsn,
    last: Lsn,
}

impl Progress {
    /// An empty queue: everything up to `confirmed` is known to be safe.
    pub fn new(confirmed: Lsn, observer: Observer) -> Self {
        let shared = Shared {
            ring: Mutex::new(Ring::new(confirmed)),
            observer,
        };
        Progress {
            shared: Arc::new(shared),
        }
    }

    /// Takes in the Begin of a transaction.
    ///
    /// # Errors
    ///
    /// [`OutOfOrder`] if its commit LSN is not beyond those before it: Postgres sends transactions in the order of their commits.
    pub fn begin(&self, commit_lsn: Lsn, commit_time_us: i64) -> Result<Transaction, OutOfOrder> {
        let mut ring = self.shared.lock();
        let last = ring.last_commit();
        if commit_lsn <= last {
            return Err(OutOfOrder {
                what: "a transaction's commit",
                found: commit_lsn,
                last,
            });
        }
        let commit = Arc::new(OpenCommit::new(
            Arc::downgrade(&self.shared),
            commit_lsn,
            commit_time_us,
        ));
        ring.open(commit_lsn, Arc::clone(&commit));
        Ok(Transaction {
            commit,
            commit_lsn,
            shared: Arc::clone(&self.shared),
        })
    }

    /// Takes in the position of a keepalive; whether it counts: not between Begin and Commit.
    pub fn keepalive(&self, wal_end: Lsn) -> bool {
        let mut ring = self.shared.lock();
        let counts = ring.push_position(wal_end);
        if counts {
            self.shared.advance(&mut ring);
        }
        counts
    }

    /// The LSN up to which everything is in Kafka.
    pub fn confirmed(&self) -> Lsn {
        self.shared.lock().confirmed()
    }

    /// Commit LSN of the last confirmed transaction with records; `0/0` before the first.
    pub fn published(&self) -> Lsn {
        self.shared.lock().published()
    }

    /// Whether nothing waits: no transaction is open and every one received is confirmed.
    pub fn is_idle(&self) -> bool {
        self.shared.lock().is_empty()
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress")
            .field("confirmed", &self.confirmed())
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Ring> {
        // The ring is consistent between any two statements, so a panic elsewhere does not spoil it.
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn advance(&self, ring: &mut Ring) {
        if let Some((confirmed, published, commit_times_us)) = ring.pop_confirmed() {
            (self.observer)(Event::Advanced {
                confirmed,
                published,
                commit_times_us,
            });
        }
    }

    /// The last ticket of a sealed transaction was delivered.
    fn completed(&self) {
        let mut ring = self.lock();
        self.advance(&mut ring);
    }

    fn broken(&self, failure: &Failure) {
        let _in_order = self.lock();
        (self.observer)(Event::Broken(failure));
    }
}

/// A transaction between its Begin and its Commit.
///
/// Dropped without [`commit`](Transaction::commit), it holds back the confirmed LSN for ever, as it should: the
/// transaction was cut off, and the server will send it again.
#[derive(Debug)]
pub struct Transaction {
    commit: Arc<OpenCommit>,
    commit_lsn: Lsn,
    shared: Arc<Shared>,
}

impl Transaction {
    /// A ticket for one record of this transaction.
    pub fn ticket(&self) -> Ticket {
        Ticket::issue(&self.commit)
    }

    /// A ticket that is no record's: the transaction is not complete before it is resolved, whatever else is delivered.
    pub fn hold(&self) -> Ticket {
        Ticket::hold(&self.commit)
    }

    /// Seals it: no more records. `end_lsn` is what is confirmed once all are delivered.
    ///
    /// # Errors
    ///
    /// [`OutOfOrder`] if the end lies before the commit record's start.
    pub fn commit(self, end_lsn: Lsn) -> Result<(), OutOfOrder> {
        if end_lsn < self.commit_lsn {
            return Err(OutOfOrder {
                what: "a transaction's end",
                found: end_lsn,
                last: self.commit_lsn,
            });
        }
        let mut ring = self.shared.lock();
        ring.seal(end_lsn);
        if self.commit.release() {
            self.shared.advance(&mut ring);
        }
        Ok(())
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shared")
    }
}

pub(crate) type SharedRef = Weak<Shared>;

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
