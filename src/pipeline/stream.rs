//! The stream of one session: messages in, records out, positions forward.

mod running;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;
use tokio::time::Instant;

use super::error::PipelineError;
use super::guarantee::Guarantee;
use super::publish::{Open, Publisher};
use super::shutdown::Shutdown;
use super::snapshot::{Completeness, Snapshots};
use super::streamed::{Committed, Streamed};
use crate::envelope::{RowChange, Transaction};
use crate::lsn::Lsn;
use crate::pgoutput::{self, Context, Datum, Message, OldTuple, unix_us};
use crate::progress::{Failure, Progress};
use crate::recovery::Treatment;
use crate::replication::{ReplicationError, ReplicationReader, StatusSender, StreamMessage};
use crate::telemetry::metrics::{MessageType, Metrics};
use crate::telemetry::state::{State, Status};

/// How often an idle stream says that it lives, and brings its metrics up to date.
const TICK: Duration = Duration::from_secs(1);

/// A snapshot's share of a stream that always has more is a batch of rows in this time.
const SHARE: Duration = Duration::from_millis(2);

/// Why the stream was left without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    /// At a transaction's end, as asked.
    Boundary,
    /// In the middle of a transaction, for it did not end in time.
    TimedOut,
}

/// What may end the stream from outside.
pub(super) struct Signals {
    pub(super) shutdown: Shutdown,
    pub(super) shutdown_timeout: Duration,
    /// Why a record was not delivered.
    pub(super) broken: watch::Receiver<Option<Failure>>,
    /// Postgres is shutting down.
    pub(super) stopping: watch::Receiver<bool>,
}

pub(super) struct Stream<'a> {
    pub(super) reader: ReplicationReader,
    pub(super) sender: &'a StatusSender,
    pub(super) publisher: Publisher,
    pub(super) progress: Progress,
    pub(super) guarantee: Guarantee,
    pub(super) snapshots: Snapshots,
    pub(super) streamed: Streamed,
    pub(super) context: Context,
    pub(super) metrics: Metrics,
    pub(super) status: Arc<Status>,
    pub(super) shutdown: Shutdown,
    open: Option<Open>,
    /// What the open transaction consists of, if it was streamed while it ran.
    committed: Option<Committed>,
    /// What came after it, and has to wait for its end.
    parked: Option<Result<StreamMessage, ReplicationError>>,
    previous_commit: Option<Lsn>,
    received: Lsn,
    /// When a snapshot last had its turn beside a stream that always has more.
    shared_at: Instant,
    bytes_counted: u64,
    messages: [u64; MessageType::ALL.len()],
}

impl<'a> Stream<'a> {
    #[expect(clippy::too_many_arguments, reason = "the parts of a session, each once")]
    pub(super) fn new(
        reader: ReplicationReader,
        sender: &'a StatusSender,
        publisher: Publisher,
        progress: Progress,
        guarantee: Guarantee,
        snapshots: Snapshots,
        streamed: Streamed,
        context: Context,
        metrics: Metrics,
        status: Arc<Status>,
        shutdown: Shutdown,
    ) -> Self {
        Stream {
            reader,
            sender,
            publisher,
            progress,
            guarantee,
            snapshots,
            streamed,
            context,
            metrics,
            status,
            shutdown,
            open: None,
            committed: None,
            parked: None,
            previous_commit: None,
            received: Lsn::ZERO,
            shared_at: Instant::now(),
            bytes_counted: 0,
            messages: [0; MessageType::ALL.len()],
        }
    }

    /// Streams until told to stop, or until something is wrong.
    ///
    /// Told to stop, it reads on to the end of a transaction that has published something: to leave in its middle
    /// would publish its first part again after the restart.
    pub(super) async fn run(&mut self, signals: &mut Signals) -> Result<Left, PipelineError> {
        let mut tick = tokio::time::interval(TICK);
        let mut deadline: Option<Instant> = None;
        loop {
            if deadline.is_some() {
                self.status.set_state(State::Draining, None);
                if !self.owes_a_commit() {
                    return Ok(Left::Boundary);
                }
            }
            let look = self.guarantee.deadline().map(Instant::from_std);
            let publishes = self.committed.is_some();
            let message = tokio::select! {
                biased;
                () = signals.shutdown.requested(), if deadline.is_none() => {
                    deadline = Some(Instant::now() + signals.shutdown_timeout);
                    continue;
                }
                () = at(deadline), if deadline.is_some() => return Ok(Left::TimedOut),
                failure = is_broken(&mut signals.broken) => return Err(PipelineError::Undelivered(failure)),
                () = is_true(&mut signals.stopping) => return Err(PipelineError::ServerStopping),
                () = at(look), if look.is_some() => {
                    let status = Arc::clone(&self.status);
                    let work = alive(&status, self.guarantee.look());
                    if let Some(left) = finish(work, signals, &mut deadline).await? {
                        return Ok(left);
                    }
                    continue;
                }
                () = std::future::ready(()), if publishes => {
                    self.status.heartbeat();
                    let status = Arc::clone(&self.status);
                    let work = alive(&status, self.publish_and_read());
                    if let Some(left) = finish(work, signals, &mut deadline).await? {
                        return Ok(left);
                    }
                    self.count();
                    tokio::task::yield_now().await;
                    continue;
                }
                message = next(&mut self.parked, &mut self.reader), if !self.snapshots.holds() => message?,
                turn = self.snapshots.next(), if self.open.is_none() && deadline.is_none() => {
                    let status = Arc::clone(&self.status);
                    let work = alive(&status, self.snapshots.take(turn, &mut self.guarantee));
                    if let Some(left) = finish(work, signals, &mut deadline).await? {
                        return Ok(left);
                    }
                    if self.snapshots.is_complete() {
                        tracing::info!("every table is read, and that is all that snapshot.mode = \"only\" asks for; the slot stays, for a later run to go on");
                        return Ok(Left::Boundary);
                    }
                    continue;
                }
                _ = tick.tick() => {
                    self.status.heartbeat();
                    self.count();
                    continue;
                }
            };
            let status = Arc::clone(&self.status);
            let work = alive(&status, self.work(message));
            if let Some(left) = finish(work, signals, &mut deadline).await? {
                return Ok(left);
            }
            self.count();
            // While the socket always has more, nothing above waits, and whatever shares this task (the monitor, which hears of
            // a shutdown) would never be asked.
            tokio::task::yield_now().await;
        }
    }

    /// Lets go of the connection; what is still to be settled.
    pub(super) fn leave(self) -> (Guarantee, Snapshots) {
        (self.guarantee, self.snapshots)
    }

    fn owes_a_commit(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.ordinal > open.skip)
    }

    /// Handles a message and all that was received with it.
    async fn work(&mut self, first: StreamMessage) -> Result<(), PipelineError> {
        let mut next = Some(first);
        while let Some(message) = next {
            if self.committed.is_some() && !running::may_come_beside(&message, self.streamed.in_block()) {
                self.parked = Some(Ok(message));
                break;
            }
            match message {
                StreamMessage::XLogData {
                    start, wal_end, data, ..
                } => {
                    self.received = self.received.max(start).max(wal_end);
                    self.handle(start, &data).await?;
                }
                StreamMessage::Keepalive {
                    wal_end,
                    reply_requested,
                    ..
                } => {
                    self.keepalive(wal_end, reply_requested);
                }
                StreamMessage::End => return Err(PipelineError::StreamEnded),
            }
            if self.open.is_none() {
                if self.shutdown.is_requested() {
                    break;
                }
                self.between_transactions().await?;
                if self.snapshots.holds() {
                    break;
                }
            }
            next = self.reader.try_next()?;
        }
        self.sender.received(self.received);
        self.status.received(self.received);
        self.status.wal_end(self.received);
        self.status.heartbeat();
        Ok(())
    }

    /// Under load the stream always has more: snapshots get a share of it.
    async fn between_transactions(&mut self) -> Result<(), PipelineError> {
        if self.snapshots.has_turn() && self.shared_at.elapsed() >= SHARE {
            let turn = self.snapshots.next().await;
            self.snapshots.take(turn, &mut self.guarantee).await?;
            self.shared_at = Instant::now();
        }
        Ok(())
    }

    fn keepalive(&mut self, wal_end: Lsn, reply_requested: bool) {
        self.seen(MessageType::Keepalive);
        self.received = self.received.max(wal_end);
        self.sender.received(self.received);
        if self.open.is_none() {
            self.guarantee.keepalive(wal_end, &self.progress);
            self.snapshots.overlap.passed(wal_end);
        }
        if reply_requested {
            self.sender.reply_requested(wal_end);
        }
    }

    async fn handle(&mut self, lsn: Lsn, bytes: &[u8]) -> Result<(), PipelineError> {
        let in_stream = self.streamed.in_block();
        let message = self.decode(lsn, bytes, in_stream)?;
        self.seen(message_type(&message));
        self.streamed.arrived();
        if in_stream {
            return self.streamed.take_in(lsn, &message, bytes).await;
        }
        match message {
            Message::Begin(begin) => {
                if self.open.is_some() {
                    return Err(PipelineError::Unexpected {
                        lsn,
                        found: "Begin inside a transaction",
                    });
                }
                self.open = Some(self.begin(begin.final_lsn, begin.xid, unix_us(begin.commit_time))?);
                Ok(())
            }
            Message::Commit(commit) => {
                let Some(open) = self
                    .open
                    .take()
                    .filter(|open| open.info.commit_lsn == commit.commit_lsn)
                else {
                    return Err(PipelineError::Unexpected {
                        lsn,
                        found: "a Commit that ends no transaction",
                    });
                };
                self.end(open, commit.end_lsn).await
            }
            Message::StreamStart(start) => {
                self.outside_of_transactions(lsn, "Stream Start inside a transaction")?;
                self.streamed.start(lsn, &start)
            }
            Message::StreamAbort(abort) => self.streamed.abort(lsn, &abort),
            Message::StreamCommit(commit) => self.commit_streamed(lsn, &commit),
            other => {
                self.streamed.described(lsn, &other, bytes);
                self.apply(lsn, other).await
            }
        }
    }

    fn decode<'b>(&self, lsn: Lsn, bytes: &'b [u8], in_stream: bool) -> Result<Message<'b>, PipelineError> {
        let context = Context {
            in_stream,
            ..self.context
        };
        pgoutput::decode(bytes, context).map_err(|source| PipelineError::Decode { lsn, source })
    }

    /// Does what a message says that stands in a transaction, or for itself.
    async fn apply(&mut self, lsn: Lsn, message: Message<'_>) -> Result<(), PipelineError> {
        match message {
            Message::Insert(insert) => {
                self.change(lsn, insert.relation, RowChange::Insert { new: insert.new })
                    .await
            }
            Message::Update(update) => {
                self.change(
                    lsn,
                    update.relation,
                    RowChange::Update {
                        old: update.old,
                        new: update.new,
                    },
                )
                .await
            }
            Message::Delete(delete) => {
                self.change(lsn, delete.relation, RowChange::Delete { old: delete.old })
                    .await
            }
            Message::Truncate(truncate) => {
                for relation in truncate.relations() {
                    self.change(lsn, relation, RowChange::Truncate).await?;
                }
                Ok(())
            }
            Message::Relation(relation) => {
                let commit_lsn = self.open.as_ref().map(|open| open.info.commit_lsn);
                self.publisher.describe(lsn, commit_lsn, &relation).await
            }
            Message::Type(described) => {
                self.publisher.describe_type(&described);
                Ok(())
            }
            Message::Origin(_) => Ok(()),
            Message::Message(message) => self.logical_message(lsn, &message).await,
            other => Err(PipelineError::Unexpected {
                lsn,
                found: other.name(),
            }),
        }
    }

    fn begin(&mut self, commit_lsn: Lsn, xid: u32, commit_time_us: i64) -> Result<Open, PipelineError> {
        let info = Transaction {
            xid,
            commit_lsn,
            commit_time_us,
            now_us: now_us(),
            previous_commit_lsn: self.previous_commit,
        };
        let tickets = self.progress.begin(commit_lsn, commit_time_us)?;
        let (skip, hold) = match self.guarantee.begin(commit_lsn)? {
            // It has fewer changes than that.
            Treatment::Drop => {
                self.metrics.replication.repeated.inc();
                (u64::MAX, None)
            }
            Treatment::Publish { skip } => (skip, self.guarantee.hold(&tickets)),
        };
        Ok(Open {
            tickets,
            info,
            ordinal: 0,
            skip,
            hold,
        })
    }

    /// A transaction has come to its end.
    async fn end(&mut self, open: Open, end_lsn: Lsn) -> Result<(), PipelineError> {
        self.previous_commit = Some(end_lsn);
        self.metrics.replication.transactions.inc();
        self.seal(open, end_lsn).await
    }

    async fn seal(&mut self, open: Open, end_lsn: Lsn) -> Result<(), PipelineError> {
        let xid = open.info.xid;
        open.tickets.commit(end_lsn)?;
        self.guarantee.sealed(end_lsn, open.hold).await?;
        if xid != 0 {
            self.snapshots.overlap.delivered(xid);
        }
        self.snapshots.overlap.passed(end_lsn);
        Ok(())
    }

    async fn change(&mut self, lsn: Lsn, relation: u32, change: RowChange<'_>) -> Result<(), PipelineError> {
        let Some(open) = self.open.as_mut() else {
            return Err(PipelineError::Unexpected {
                lsn,
                found: "a change outside a transaction",
            });
        };
        if open.is_dropped() {
            return Ok(());
        }
        let overlap = &mut self.snapshots.overlap;
        if overlap.is_cut(relation, open.info.xid, open.info.commit_lsn) {
            return self.publisher.pass_over(open, lsn, relation, change);
        }
        self.guarantee.sending();
        self.publisher.change(open, lsn, relation, change).await?;
        if overlap.is_watched(relation) {
            let (xid, completeness) = (open.info.xid, completeness(change));
            match change {
                RowChange::Truncate => overlap.truncated(relation, xid),
                _ => overlap.changed(relation, xid, completeness, self.publisher.keys()),
            }
            if completeness == Completeness::Incomplete {
                self.snapshots.moved(relation, change);
            }
        }
        self.guarantee.changed(open.ordinal).await
    }

    /// A transactional message is one of its transaction's changes. Another stands for itself, at the place of its
    /// own record, which is not passed by confirming it: the next transaction's end does that.
    async fn logical_message(&mut self, lsn: Lsn, message: &pgoutput::LogicalMessage<'_>) -> Result<(), PipelineError> {
        match (self.open.as_mut(), message.transactional) {
            (Some(open), true) if open.is_dropped() => Ok(()),
            (Some(open), true) => {
                self.guarantee.sending();
                self.publisher.message(open, lsn, message).await?;
                self.guarantee.changed(open.ordinal).await
            }
            (None, false) => {
                let mut open = self.begin(message.lsn, 0, now_us())?;
                if !open.is_dropped() {
                    self.guarantee.sending();
                    self.publisher.message(&mut open, lsn, message).await?;
                    self.guarantee.changed(open.ordinal).await?;
                }
                self.seal(open, message.lsn).await
            }
            _ => Err(PipelineError::Unexpected {
                lsn,
                found: "a logical message out of its place",
            }),
        }
    }

    fn seen(&mut self, message: MessageType) {
        if let Some(count) = self.messages.get_mut(message as usize) {
            *count += 1;
        }
    }

    fn count(&mut self) {
        for (message, count) in MessageType::ALL.iter().zip(&mut self.messages) {
            if *count > 0 {
                self.metrics.replication.messages(*message, std::mem::take(count));
            }
        }
        let bytes = self.reader.bytes_received();
        self.metrics
            .replication
            .bytes
            .inc_by(bytes.saturating_sub(self.bytes_counted));
        self.bytes_counted = bytes;
        self.publisher.count();
        self.streamed.count();
    }
}

fn message_type(message: &Message<'_>) -> MessageType {
    match message {
        Message::Begin(_) => MessageType::Begin,
        Message::Message(_) => MessageType::Message,
        Message::Commit(_) => MessageType::Commit,
        Message::Origin(_) => MessageType::Origin,
        Message::Relation(_) => MessageType::Relation,
        Message::Type(_) => MessageType::Type,
        Message::Insert(_) => MessageType::Insert,
        Message::Update(_) => MessageType::Update,
        Message::Delete(_) => MessageType::Delete,
        Message::Truncate(_) => MessageType::Truncate,
        Message::StreamStart(_) => MessageType::StreamStart,
        Message::StreamStop => MessageType::StreamStop,
        Message::StreamCommit(_) => MessageType::StreamCommit,
        Message::StreamAbort(_) => MessageType::StreamAbort,
        Message::BeginPrepare(_) => MessageType::BeginPrepare,
        Message::Prepare(_) => MessageType::Prepare,
        Message::CommitPrepared(_) => MessageType::CommitPrepared,
        Message::RollbackPrepared(_) => MessageType::RollbackPrepared,
        Message::StreamPrepare(_) => MessageType::StreamPrepare,
    }
}

/// What waited, or the next message. Cancel safe.
async fn next(
    parked: &mut Option<Result<StreamMessage, ReplicationError>>,
    reader: &mut ReplicationReader,
) -> Result<StreamMessage, ReplicationError> {
    match parked.take() {
        Some(parked) => parked,
        None => reader.next().await,
    }
}

/// Whether the change says all of its row. Under REPLICA IDENTITY FULL what was not sent is in the old row.
fn completeness(change: RowChange<'_>) -> Completeness {
    match change {
        RowChange::Update {
            old: None | Some(OldTuple::Key(_)),
            new,
        } if new.iter().any(|datum| datum == Datum::Unchanged) => Completeness::Incomplete,
        _ => Completeness::Complete,
    }
}

/// Drives a batch to its end. The future is dropped only where the session ends with it: half a batch handled and then
/// forgotten would be lost rows.
async fn finish(
    work: impl Future<Output = Result<(), PipelineError>>,
    signals: &mut Signals,
    deadline: &mut Option<Instant>,
) -> Result<Option<Left>, PipelineError> {
    tokio::pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done.map(|()| None),
            () = signals.shutdown.requested(), if deadline.is_none() => {
                *deadline = Some(Instant::now() + signals.shutdown_timeout);
            }
            () = at(*deadline), if deadline.is_some() => return Ok(Some(Left::TimedOut)),
            failure = is_broken(&mut signals.broken) => return Err(PipelineError::Undelivered(failure)),
            () = is_true(&mut signals.stopping) => return Err(PipelineError::ServerStopping),
        }
    }
}

/// Runs to the end of `work`, and says meanwhile that the loop turns.
pub(super) async fn alive<T>(status: &Status, work: impl Future<Output = T>) -> T {
    let mut tick = tokio::time::interval(Duration::from_secs(5));
    tokio::pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            _ = tick.tick() => status.heartbeat(),
        }
    }
}

/// Now, in µs since 1970 (UTC).
pub(super) fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

async fn at(deadline: Option<Instant>) {
    if let Some(deadline) = deadline {
        tokio::time::sleep_until(deadline).await;
    }
}

async fn is_broken(broken: &mut watch::Receiver<Option<Failure>>) -> Failure {
    if let Ok(failure) = broken.wait_for(Option::is_some).await
        && let Some(failure) = failure.as_ref()
    {
        return failure.clone();
    }
    // Nobody is left to say it; the queue that would have is gone with the session.
    std::future::pending().await
}

async fn is_true(signal: &mut watch::Receiver<bool>) {
    if signal.wait_for(|value| *value).await.is_err() {
        std::future::pending::<()>().await;
    }
}
