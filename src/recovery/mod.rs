//! Where the published changes end, as it is recorded in Kafka, and what to make of it when a pipeline starts.
//!
//! The record stands in `delivery.state_topic` under the pipeline's name. It is written **before** Postgres is told the position
//! in it, so a slot is never ahead of the record unless somebody moved it: advanced it by hand, dropped it and made it again, or
//! set the cluster back. [`reconcile`] finds that out, and names the gap; it never guesses.
//!
//! Under exactly-once the record is part of the Kafka transaction that holds the changes, so it says precisely which are there.
//! Postgres sends again what it was not told of, and [`Resume`] says what of it to drop. Which changes go into which Kafka
//! transaction is decided by [`Gathering`].
//!
//! All of it is pure: it is driven by the pipeline, and by `model` through thousands of interleavings of two pipelines with crashes,
//! lost and late answers, promotions, and slots that somebody moves.
//!
//! What the pipeline owes, in this order; `model` shows what comes of leaving one out:
//! 1. take the slot, so that nobody else does, and ask the server who it is and where the slot stands;
//! 2. fence whoever published before, so that nothing of theirs is committed any more;
//! 3. read the record up to a sentinel of one's own: the broker that is asked may not have the last one yet;
//! 4. reconcile; if there was no slot, make one and begin again; if there is news, record it;
//! 5. stream; commit changes and record together, and only then tell the slot. After any error of Kafka: begin again.

mod gathering;
#[cfg(test)]
mod model;
mod reconcile;
mod record;
mod resume;
#[cfg(test)]
mod tests;

pub use gathering::{Gathering, Limits};
pub use reconcile::{Found, Gap, GapKind, Reconciled, Switch, TimelineHistoryError, reconcile, timeline_history};
pub use record::{Identity, Place, RecordError, StateRecord};
pub use resume::{Resume, Treatment, Vanished};
