//! What lies between "Kafka has it" and "Postgres is told": the position is recorded.
//!
//! At-least-once: a [`Keeper`](super::keeper::Keeper) writes what is confirmed, and only then is Postgres told. Exactly-once: the
//! position is part of the Kafka transaction that holds the changes, and [`ExactlyOnce`] commits that. Either way the slot is never
//! ahead of the record.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::blocked::while_blocked;
use super::error::PipelineError;
use super::snapshot::Ledger;
use crate::failpoint;
use crate::kafka::{KafkaError, Producer, StateTopic};
use crate::lsn::Lsn;
use crate::progress::{self, Failure, Progress};
use crate::recovery::{Gathering, Identity, Place, Resume, StateRecord, Treatment};
use crate::telemetry::metrics::Metrics;
use crate::telemetry::state::Status;

/// Where a session's positions go.
#[derive(Clone)]
pub(super) struct Book {
    pub(super) producer: Arc<Producer>,
    pub(super) topic: StateTopic,
    pub(super) identity: Identity,
}

impl Book {
    /// Writes a place. Under transactions it counts once the open one is committed.
    pub(super) async fn write(&self, place: Place) -> Result<(), KafkaError> {
        let record = StateRecord {
            identity: self.identity.clone(),
            place,
        };
        self.topic.write(&self.producer, &record.to_json()).await
    }
}

/// How the stream's positions become safe.
pub(super) enum Guarantee {
    /// What is published already is dropped; the rest may come twice.
    AtLeastOnce(Resume),
    /// In Kafka transactions.
    ExactlyOnce(Box<ExactlyOnce>),
}

/// Holds a transaction's end back. One that is let go of belongs to a session that has ended: nothing is lost by that.
pub(super) struct Hold(Option<progress::Ticket>);

impl Hold {
    pub(super) fn new(transaction: &progress::Transaction) -> Self {
        Hold(Some(transaction.hold()))
    }

    fn release(mut self) {
        if let Some(ticket) = self.0.take() {
            ticket.delivered();
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(ticket) = self.0.take() {
            ticket.failed(Failure::Passing("its kafka transaction was not committed".to_owned()));
        }
    }
}

/// Exactly-once, between the stream and the producer.
pub(super) struct ExactlyOnce {
    gathering: Gathering,
    book: Book,
    progress: Progress,
    status: Arc<Status>,
    metrics: Metrics,
    /// How far the snapshots are, whose rows are committed with the changes.
    snapshots: Option<Ledger>,
    /// Of the Postgres transactions that ended in the open Kafka transaction.
    held: Vec<Hold>,
}

impl ExactlyOnce {
    pub(super) fn new(
        gathering: Gathering,
        book: Book,
        progress: Progress,
        status: Arc<Status>,
        metrics: Metrics,
    ) -> Self {
        ExactlyOnce {
            gathering,
            book,
            progress,
            status,
            metrics,
            snapshots: None,
            held: Vec::new(),
        }
    }

    /// Commits what was sent, with the place where it ends.
    async fn commit(&mut self, place: Place) -> Result<(), PipelineError> {
        let begun = Instant::now();
        let book = &self.book;
        let snapshots = self.snapshots.as_ref().and_then(Ledger::take);
        let committed = while_blocked(&book.producer, &self.status, async {
            if let Some(bytes) = snapshots {
                book.topic.write_snapshot(&book.producer, &bytes).await?;
            }
            book.write(place).await?;
            failpoint::reached("committing");
            book.producer.commit().await
        });
        committed.await?;
        failpoint::reached("committed");
        self.metrics.kafka.transaction_committed(begun.elapsed());
        self.gathering.committed(place, Instant::now());
        for hold in self.held.drain(..) {
            hold.release();
        }
        // Where a transaction is open the position waits for its end.
        self.progress.keepalive(place.end_lsn);
        Ok(())
    }

    async fn commit_what_is_due(&mut self) -> Result<(), PipelineError> {
        match self.gathering.due(Instant::now()) {
            Some(place) => self.commit(place).await,
            None => Ok(()),
        }
    }
}

impl Guarantee {
    /// A transaction begins.
    pub(super) fn begin(&mut self, commit_lsn: Lsn) -> Result<Treatment, PipelineError> {
        Ok(match self {
            Guarantee::AtLeastOnce(resume) => resume.treatment(commit_lsn)?,
            Guarantee::ExactlyOnce(exactly_once) => exactly_once.gathering.begin(commit_lsn)?,
        })
    }

    /// What holds the transaction back until it is committed to Kafka, under exactly-once.
    pub(super) fn hold(&self, transaction: &progress::Transaction) -> Option<Hold> {
        matches!(self, Guarantee::ExactlyOnce(_)).then(|| Hold::new(transaction))
    }

    /// The transaction's next change is being sent. Left in the middle, its records are not committed.
    pub(super) fn sending(&mut self) {
        if let Guarantee::ExactlyOnce(exactly_once) = self {
            exactly_once.gathering.sending();
        }
    }

    /// The transaction has so many changes by now.
    pub(super) async fn changed(&mut self, changes: u64) -> Result<(), PipelineError> {
        let Guarantee::ExactlyOnce(exactly_once) = self else {
            return Ok(());
        };
        let gathering = &mut exactly_once.gathering;
        if !gathering.is_open() && exactly_once.book.producer.is_in_transaction() {
            gathering.opened(Instant::now());
        }
        gathering.changes(changes);
        exactly_once.commit_what_is_due().await
    }

    /// Between two transactions: so many rows of a snapshot were sent, or its progress is to be recorded.
    pub(super) async fn beside(&mut self, rows: u64) -> Result<(), PipelineError> {
        let Guarantee::ExactlyOnce(exactly_once) = self else {
            return Ok(());
        };
        exactly_once.gathering.beside(rows, Instant::now());
        exactly_once.commit_what_is_due().await
    }

    /// From now on snapshots are committed with the changes.
    pub(super) fn with(&mut self, snapshots: &Ledger) {
        if let Guarantee::ExactlyOnce(exactly_once) = self {
            exactly_once.snapshots = Some(snapshots.clone());
        }
    }

    /// The transaction has ended.
    pub(super) async fn sealed(&mut self, end_lsn: Lsn, hold: Option<Hold>) -> Result<(), PipelineError> {
        let Guarantee::ExactlyOnce(exactly_once) = self else {
            return Ok(());
        };
        exactly_once.gathering.seal(end_lsn);
        exactly_once.held.extend(hold);
        exactly_once.commit_what_is_due().await
    }

    /// Everything that committed before `lsn` was received.
    pub(super) fn keepalive(&mut self, lsn: Lsn, progress: &Progress) {
        match self {
            Guarantee::ExactlyOnce(exactly_once) if lsn > exactly_once.gathering.recorded().end_lsn => {
                exactly_once.gathering.idle(lsn);
            }
            _ => {
                progress.keepalive(lsn);
            }
        }
    }

    /// When to look at it again, though nothing comes.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self {
            Guarantee::AtLeastOnce(_) => None,
            Guarantee::ExactlyOnce(exactly_once) => exactly_once.gathering.deadline(),
        }
    }

    /// The deadline has come.
    pub(super) async fn look(&mut self) -> Result<(), PipelineError> {
        match self {
            Guarantee::AtLeastOnce(_) => Ok(()),
            Guarantee::ExactlyOnce(exactly_once) => exactly_once.commit_what_is_due().await,
        }
    }

    /// Leaves nothing open: commits what is whole, and gives up what is cut.
    pub(super) async fn leave(&mut self, limit: Duration) -> bool {
        let Guarantee::ExactlyOnce(exactly_once) = self else {
            return true;
        };
        let gathering = &exactly_once.gathering;
        let settled = match (gathering.is_cut(), gathering.rest()) {
            (true, _) => false,
            (false, None) => true,
            (false, Some(place)) => match tokio::time::timeout(limit, exactly_once.commit(place)).await {
                Ok(Ok(())) => true,
                Ok(Err(error)) => {
                    tracing::debug!(error = error.chain(), "the last kafka transaction was not committed");
                    false
                }
                Err(_) => false,
            },
        };
        if !settled {
            let _ = tokio::time::timeout(limit, exactly_once.book.producer.abort()).await;
        }
        settled
    }
}
