//! Exactly-once: which changes go into which Kafka transaction.

use std::time::{Duration, Instant};

use super::{Place, Resume, Treatment, Vanished};
use crate::lsn::Lsn;

/// When a Kafka transaction is committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// It is open for so long at most, if a Postgres transaction ends by then.
    pub interval: Duration,
    /// With so many changes it is committed, if no Postgres transaction is open. One that alone has so many is split, so that there
    /// are never twice as many.
    pub changes: u64,
    /// It is open for so long at most, whatever comes: Kafka itself would abort it later. A Postgres transaction that has not ended
    /// by then is split.
    pub longest: Duration,
    /// While nothing is published, a position is recorded this often at most.
    pub idle: Duration,
}

/// A Postgres transaction between Begin and Commit.
#[derive(Debug, Clone, Copy)]
struct Open {
    commit_lsn: Lsn,
    /// All of it is published already.
    dropped: bool,
    /// Changes so far, with those that were skipped.
    changes: u64,
    /// How many are published already.
    skip: u64,
    /// Records of a change are in the Kafka transaction, or may be, that does not count among them yet.
    sending: bool,
}

/// A Kafka transaction.
#[derive(Debug, Clone, Copy)]
struct Transaction {
    since: Instant,
    changes: u64,
}

/// Gathers Postgres transactions into Kafka transactions.
///
/// Claims, which `tests` and `model` attack:
/// - A place that is recorded says precisely which changes were published by the transactions committed so far.
/// - A Postgres transaction is published whole in one Kafka transaction, unless it alone has more changes than the limit or has not
///   ended when the Kafka transaction is as old as it may be.
/// - Positions are recorded in their order, and none is skipped that holds something unpublished.
/// - At its [`deadline`](Gathering::deadline) something is due.
///
/// It must be asked what is [`due`](Gathering::due) after every message. After a commit that failed it is of no use any more,
/// whatever the error: only what is recorded says whether the transaction was committed.
#[derive(Debug)]
pub struct Gathering {
    limits: Limits,
    resume: Resume,
    /// As of the last committed record.
    recorded: Place,
    recorded_at: Instant,
    /// Where what was received whole ends.
    sealed: Place,
    open: Option<Open>,
    transaction: Option<Transaction>,
}

impl Gathering {
    /// Everything up to `place` is published.
    pub fn new(place: Place, limits: Limits, now: Instant) -> Self {
        Gathering {
            limits,
            resume: Resume::new(place),
            recorded: place,
            recorded_at: now,
            sealed: place,
            open: None,
            transaction: None,
        }
    }

    /// As of the last committed record.
    pub fn recorded(&self) -> Place {
        self.recorded
    }

    /// A Postgres transaction begins.
    ///
    /// # Errors
    /// Those of [`Resume::treatment`].
    pub fn begin(&mut self, commit_lsn: Lsn) -> Result<Treatment, Vanished> {
        let treatment = self.resume.treatment(commit_lsn)?;
        let (dropped, skip) = match treatment {
            Treatment::Drop => (true, 0),
            Treatment::Publish { skip } => (false, skip),
        };
        self.open = Some(Open {
            commit_lsn,
            dropped,
            changes: 0,
            skip,
            sending: false,
        });
        Ok(treatment)
    }

    /// The next change is being sent: until [`changes`](Gathering::changes) counts it, none of its records may be committed.
    pub fn sending(&mut self) {
        if let Some(open) = self.open.as_mut() {
            open.sending = true;
        }
    }

    /// The Kafka transaction that the next record goes into has begun.
    pub fn opened(&mut self, now: Instant) {
        self.transaction.get_or_insert(Transaction { since: now, changes: 0 });
    }

    /// Whether a Kafka transaction is open.
    pub fn is_open(&self) -> bool {
        self.transaction.is_some()
    }

    /// The open Postgres transaction has `changes` changes by now, those included that were skipped. Sent again, it must be counted
    /// the same.
    pub fn changes(&mut self, changes: u64) {
        let Some(open) = self.open.as_mut() else {
            return;
        };
        let published = changes.max(open.skip) - open.changes.max(open.skip);
        (open.changes, open.sending) = (changes, false);
        if let Some(transaction) = self.transaction.as_mut() {
            transaction.changes += published;
        }
    }

    /// Something that is no change was sent into the Kafka transaction, or is to be: rows of a snapshot, or its progress.
    pub fn beside(&mut self, records: u64, now: Instant) {
        self.opened(now);
        if let Some(transaction) = self.transaction.as_mut() {
            transaction.changes = transaction.changes.saturating_add(records);
        }
    }

    /// The open Postgres transaction ends.
    pub fn seal(&mut self, end_lsn: Lsn) {
        let Some(open) = self.open.take().filter(|open| !open.dropped) else {
            return;
        };
        self.sealed = Place {
            // One without changes leaves nothing in Kafka that could be orphaned.
            commit_lsn: match open.changes.max(open.skip) {
                0 => self.sealed.commit_lsn,
                _ => open.commit_lsn,
            },
            end_lsn: end_lsn.max(self.sealed.end_lsn),
            partial: 0,
        };
    }

    /// Everything that committed before `lsn` was received, between transactions.
    pub fn idle(&mut self, lsn: Lsn) {
        // What is left of a split transaction commits later than any position before it.
        if self.open.is_none() && self.sealed.partial == 0 {
            self.sealed.end_lsn = self.sealed.end_lsn.max(lsn);
        }
    }

    /// What is published once the Kafka transaction is committed.
    fn place(&self) -> Place {
        match self
            .open
            .filter(|open| !open.dropped && open.changes.max(open.skip) > 0)
        {
            None => self.sealed,
            Some(open) => Place {
                commit_lsn: open.commit_lsn,
                end_lsn: self.sealed.end_lsn,
                partial: open.changes.max(open.skip),
            },
        }
    }

    /// Whether the Kafka transaction holds a part of a Postgres transaction that has not ended. It may be a part of its first change:
    /// who stops while that is being sent has no place that describes it.
    pub fn is_cut(&self) -> bool {
        self.open
            .is_some_and(|open| !open.dropped && (open.sending || open.changes > open.skip))
    }

    /// The place to record before the pipeline stops, if it is not recorded yet. Not where the transaction [is cut](Gathering::is_cut).
    pub fn rest(&self) -> Option<Place> {
        let place = self.place();
        (self.is_open() || place != self.recorded).then_some(place)
    }

    /// The place to record by a commit that is due now.
    pub fn due(&self, now: Instant) -> Option<Place> {
        let due = match self.transaction {
            None => self.open.is_none() && self.sealed != self.recorded && now >= self.recorded_at + self.limits.idle,
            Some(transaction) => {
                let age = now.saturating_duration_since(transaction.since);
                let (full, old) = match self.open.filter(|open| !open.dropped) {
                    None => (transaction.changes, self.limits.interval.min(self.limits.longest)),
                    // What is in it of earlier ones does not count: a small one is not cut because it comes last.
                    Some(open) => (open.changes.saturating_sub(open.skip), self.limits.longest),
                };
                full >= self.limits.changes || age >= old
            }
        };
        due.then(|| self.place())
    }

    /// When to ask again, though nothing comes.
    pub fn deadline(&self) -> Option<Instant> {
        match (self.transaction, self.open) {
            (Some(transaction), None) => Some(transaction.since + self.limits.interval.min(self.limits.longest)),
            (Some(transaction), Some(_)) => Some(transaction.since + self.limits.longest),
            (None, None) if self.sealed != self.recorded => Some(self.recorded_at + self.limits.idle),
            (None, _) => None,
        }
    }

    /// The Kafka transaction with this place is committed.
    pub fn committed(&mut self, place: Place, now: Instant) {
        self.recorded = place;
        self.recorded_at = now;
        self.transaction = None;
        if let Some(open) = self
            .open
            .as_mut()
            .filter(|open| place.partial > 0 && open.commit_lsn == place.commit_lsn)
        {
            open.skip = place.partial;
        }
    }
}
