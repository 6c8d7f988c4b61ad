//! Snapshots, beside the stream: what is to be read, by whom, and what becomes of the rows.
//!
//! Everything here runs in the session's one task, between the stream's transactions; readers are tasks of their own that ask and wait.
//! How a row is kept from going back in time is said in [`crate::snapshot`].

mod assign;
mod begin;
mod commands;
mod crew;
mod ledger;
mod overlap;
mod tables;

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, oneshot, watch};
use tokio::time::Instant;

pub(super) use self::begin::{Beginning, Shared, SnapshotMode};
use self::crew::Crew;
pub(super) use self::ledger::Ledger;
pub(super) use self::overlap::Completeness;
use self::overlap::{Fate, Fates, Overlap, RangeId, Taken};
use self::tables::{Listed, Plan};
use super::error::PipelineError;
use super::guarantee::Guarantee;
use super::publish::{Open, Publisher};
use super::source;
use super::sql::Sql;
use super::stream::now_us;
use crate::envelope::{RowChange, SnapshotKind, Transaction};
use crate::failpoint;
use crate::kafka::{Producer, StateTopic};
use crate::lsn::Lsn;
use crate::pgoutput::{Datum, OldTuple, Tuple};
use crate::progress::Progress;
use crate::snapshot::{Cause, Event, Keyless, ReaderSettings, Reading, Report, Rows, SnapshotRecord, Verdict};
use crate::telemetry::Status;
use crate::telemetry::control::{SnapshotCommands, SnapshotRequest};
use crate::telemetry::snapshots::SnapshotCause;

/// While there is something to be read, what is due is looked at this often.
const LOOK: Duration = Duration::from_millis(100);
/// And otherwise, whether there are new tables.
const IDLE_LOOK: Duration = Duration::from_secs(15);
/// At-least-once: what Kafka has is recorded this often.
const RECORD: Duration = Duration::from_secs(1);
/// A reader that waits for the stream longer than that may wait for the server to write its log out.
const NUDGE: Duration = Duration::from_millis(300);
/// The log may have grown by so much since the stream was where it is, for a chunk to begin.
const NEAR: u64 = 16 * 1024 * 1024;

/// What a pipeline is to do about rows that are there already.
#[derive(Debug, Clone)]
pub(super) struct SnapshotSettings {
    pub(super) mode: SnapshotMode,
    /// Tables that are added to the publication later are read too.
    pub(super) new_tables: bool,
    pub(super) parallelism: usize,
    pub(super) max_rows_per_second: Option<u64>,
    /// Above this nothing is read.
    pub(super) max_retained_wal: Option<u64>,
    pub(super) reader: Arc<ReaderSettings>,
}

/// What operators ask for, shared by the sessions of a pipeline.
pub(super) type Commands = Arc<Mutex<SnapshotCommands>>;

/// The values of a key, as text; nothing if one of them is not.
fn key_text(row: Tuple<'_>, places: &[usize]) -> Option<Vec<String>> {
    let columns: Vec<Datum<'_>> = row.iter().collect();
    let texts = places.iter().map(|place| match columns.get(*place) {
        Some(Datum::Text(text)) => std::str::from_utf8(text).ok().map(str::to_owned),
        _ => None,
    });
    texts.collect()
}

/// What there is to be done.
pub(super) enum Turn {
    Event(Event),
    Command(SnapshotRequest),
    Look,
}

/// A reader that may begin a chunk when the stream is there.
struct Ready {
    range: RangeId,
    log_end: Lsn,
    begin: oneshot::Sender<()>,
}

/// The snapshots of a session.
pub(super) struct Snapshots {
    settings: SnapshotSettings,
    publication: String,
    sql: Arc<Sql>,
    status: Arc<Status>,
    producer: Arc<Producer>,
    topic: StateTopic,
    publisher: Publisher,
    /// What is to be read, by oid; the plan takes each step at once.
    planned: SnapshotRecord,
    ledger: Ledger,
    /// The published tables, when they were last looked at.
    listed: HashMap<u32, Listed>,
    listed_at: Option<Instant>,
    plans: HashMap<u32, Plan>,
    /// Tables that could not be read, and when to try again.
    retry: HashMap<u32, Instant>,
    pub(super) overlap: Overlap,
    crew: Crew,
    ready: Vec<Ready>,
    /// Batches of rows, each with a number.
    queue: Progress,
    batches: u64,
    /// Rows that were published or left out, in this session.
    rows: u64,
    confirmed: watch::Receiver<Lsn>,
    next_look: Instant,
    /// Nothing more is published before that.
    throttled: Instant,
    recorded_at: Instant,
    nudged_at: Instant,
    /// The log has grown since an earlier session read anything.
    is_set_apart: bool,
    /// The server replays another one's log.
    in_recovery: bool,
    commands: Commands,
}

impl Snapshots {
    /// How far they are, for whoever commits.
    pub(super) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Whether the stream is to stand still.
    pub(super) fn holds(&self) -> bool {
        self.crew.exclusive().is_some()
    }

    /// Whether all is read that was to be read before the end, and recorded.
    pub(super) fn is_complete(&self) -> bool {
        self.settings.mode == SnapshotMode::Only
            && self.planned.is_idle()
            && self.ledger.is_settled()
            && !self.ledger.is_dirty()
    }

    /// Whether something is on its way that can be dealt with at once.
    pub(super) fn has_turn(&self) -> bool {
        let now = Instant::now();
        self.next_look <= now || (self.crew.has_event() && self.throttled <= now)
    }

    /// Waits for what is to be done next.
    pub(super) async fn next(&mut self) -> Turn {
        let throttled = self.throttled;
        let events = self.crew.events();
        let event = async {
            tokio::time::sleep_until(throttled).await;
            events.recv().await
        };
        let command = async { self.commands.lock().await.next().await };
        tokio::select! {
            biased;
            command = command => Turn::Command(command),
            () = tokio::time::sleep_until(self.next_look) => Turn::Look,
            Some(event) = event => Turn::Event(event),
        }
    }

    /// Does it. Between two transactions of the stream.
    pub(super) async fn take(&mut self, turn: Turn, guarantee: &mut Guarantee) -> Result<(), PipelineError> {
        // Rows leave nothing to be looked at; a reader that is free, or wants to begin, does, and so does whatever was asked for.
        let calls = match &turn {
            Turn::Event(event) => !matches!(event.report, Report::Rows(_) | Report::Taken { .. } | Report::Closed),
            Turn::Command(_) | Turn::Look => true,
        };
        match turn {
            Turn::Event(event) => self.event(event, guarantee).await?,
            Turn::Command(SnapshotRequest { command, reply }) => {
                let answer = self.command(command).await;
                // Whoever asked may be gone.
                let _ = reply.send(answer);
            }
            Turn::Look => {}
        }
        if calls || self.next_look <= Instant::now() {
            self.look().await?;
        }
        if self.ledger.is_dirty() {
            guarantee.beside(0).await?;
        }
        Ok(())
    }

    async fn event(&mut self, event: Event, guarantee: &mut Guarantee) -> Result<(), PipelineError> {
        let Event {
            reader,
            table,
            range,
            report,
        } = event;
        if !self.crew.is_at(reader, (table, range)) {
            // It was taken off that range, and says its last.
            return Ok(());
        }
        let range = (table, range);
        match report {
            Report::Ready { log_end, begin } => self.ready.push(Ready { range, log_end, begin }),
            Report::Taken {
                visibility,
                lsn,
                verdict,
            } if self.holds() => {
                self.crew.set_exclusive_lsn(lsn);
                let taken = self.overlap.cut(table, &visibility, lsn);
                if taken == Taken::Waiting {
                    let cut = Keyless {
                        table,
                        snapshot: visibility,
                        lsn,
                    };
                    self.step(move |record| record.cut(cut.clone()));
                }
                let _ = verdict.send(match taken {
                    Taken::Waiting => Verdict::Read,
                    Taken::TooOld => Verdict::Again,
                });
            }
            Report::Taken {
                visibility,
                lsn,
                verdict,
            } => {
                self.overlap.taken(range, visibility, lsn, verdict);
            }
            Report::Rows(rows) => self.publish(range, &rows, guarantee).await?,
            Report::Closed => self.overlap.close(range),
            Report::Finished => self.finished(range),
            Report::Changed => {
                self.crew.release(range);
                self.overlap.close(range);
                self.plans.remove(&table);
            }
            Report::Failed(error) => self.failed(range, error)?,
        }
        Ok(())
    }

    /// A step of the plan, which is recorded once Kafka has all rows that were sent before.
    fn step<T>(&mut self, step: impl Fn(&mut SnapshotRecord) -> T + Send + 'static) {
        // What it finds is the same both times.
        let _ = step(&mut self.planned);
        self.ledger.step(self.batches, move |record| {
            let _ = step(record);
        });
    }

    async fn publish(&mut self, range: RangeId, rows: &Rows, guarantee: &mut Guarantee) -> Result<(), PipelineError> {
        let (table, number) = range;
        let Some(reading) = self.planned.reading(table) else {
            return Ok(());
        };
        let cause = reading.cause;
        let (lsn, fates) = match (self.crew.exclusive(), self.overlap.fates(range)) {
            (Some((_, lsn)), _) => (lsn, Fates::UNDISTURBED),
            (None, Some(found)) => found,
            (None, None) => {
                // Nobody knows what supersedes them: the range is read again from where it was.
                self.crew.stop(range);
                return Ok(());
            }
        };
        let key = self
            .plans
            .get(&table)
            .map(|plan| plan.key_places.as_slice())
            .unwrap_or_default();
        let now_us = now_us();
        let info = Transaction {
            xid: 0,
            // No record begins there: it lies behind every change that the rows have, and before every one that they have not.
            commit_lsn: Lsn::new(lsn.as_u64().saturating_sub(1)),
            commit_time_us: now_us,
            now_us,
            previous_commit_lsn: None,
        };
        self.batches += 1;
        let mut open = Open {
            tickets: self.queue.begin(Lsn::new(self.batches), now_us)?,
            info,
            ordinal: self.rows,
            skip: 0,
            hold: None,
        };
        let kind = match cause {
            Cause::Initial => SnapshotKind::Initial,
            Cause::Asked => SnapshotKind::Incremental,
        };
        let mut superseded: u64 = 0;
        let mut owed = Vec::new();
        for row in rows.iter() {
            let new = Tuple::parse(row).map_err(|source| PipelineError::Decode { lsn, source })?;
            let row = RowChange::Read { new, kind };
            let fate = Cell::new(Fate::Published);
            let newer = |key: &[u8]| {
                fate.set(fates.of(key));
                fate.get() != Fate::Published
            };
            if !self.publisher.read(&mut open, lsn, table, row, newer).await? {
                superseded += 1;
            }
            if fate.get() == Fate::Owed {
                owed.extend(key_text(new, key));
            }
        }
        self.rows = open.ordinal;
        open.tickets.commit(Lsn::new(self.batches))?;
        failpoint::reached("read");
        let count = rows.len() as u64;
        let last_key = rows.last_key.clone();
        let relation = self
            .planned
            .reading(table)
            .and_then(|reading| reading.ranges.get(number))
            .map(|range| range.relation);
        self.step(move |record| {
            record.advance(table, number, last_key.clone(), count);
            for key in &owed {
                record.owe(table, relation.unwrap_or(table), key);
            }
        });
        if let Some(listed) = self.listed.get(&table) {
            self.status.snapshots().rows(&listed.full_name(), count, superseded);
        }
        self.publisher.count();
        if let Some(most) = self.settings.max_rows_per_second {
            let takes = Duration::from_secs_f64(count as f64 / most.max(1) as f64);
            self.throttled = self.throttled.max(Instant::now()) + takes;
        }
        guarantee.beside(count).await
    }

    /// The stream published a change of a table that is being read, and left a value out. Where it gives the row another key, and the value
    /// was not read under the old one, the row is read under the new one.
    pub(super) fn moved(&mut self, table: u32, change: RowChange<'_>) {
        let RowChange::Update {
            old: Some(OldTuple::Key(_)),
            new,
        } = change
        else {
            return;
        };
        let Some(plan) = self.plans.get(&table).filter(|plan| !plan.is_whole) else {
            return;
        };
        // Which of its partitions has it the stream does not say.
        let parts: Vec<u32> = plan.parts.iter().map(|part| part.oid).collect();
        match key_text(new, &plan.key_places) {
            Some(key) => self.step(move |record| {
                for part in &parts {
                    record.owe(table, *part, &key);
                }
            }),
            None => tracing::warn!(
                table = self.name(table),
                "a row that is not read yet got another key, and its long values did not come with it: ask for the table again with `walferry snapshot`"
            ),
        }
    }

    fn finished(&mut self, range: RangeId) {
        let (table, number) = range;
        self.crew.release(range);
        self.overlap.close(range);
        self.step(move |record| record.finish_range(table, number));
        if self.planned.reading(table).is_some_and(Reading::is_read) {
            self.conclude(table);
        }
    }

    /// All of the table is read.
    fn conclude(&mut self, table: u32) {
        self.step(move |record| record.finished(table));
        self.plans.remove(&table);
        self.overlap.set_read(table, false);
        let name = self.name(table);
        self.status.snapshots().finished(&name);
        if self.planned.is_idle() {
            self.status.snapshots().due(false);
        }
    }

    /// `schema.table`, as far as it is known.
    fn name(&self, table: u32) -> String {
        match self.listed.get(&table) {
            Some(listed) => listed.full_name(),
            None => format!("relation {table}"),
        }
    }

    /// What is due by the clock: chunks that may begin, ranges without a reader, what Kafka has and is not recorded.
    async fn look(&mut self) -> Result<(), PipelineError> {
        let now = Instant::now();
        // What was sent last may not be confirmed yet, or not recorded, when nothing more is to be read.
        let is_at_rest = self.planned.is_idle() && self.ledger.is_settled() && !self.ledger.is_dirty();
        self.next_look = now + if is_at_rest { IDLE_LOOK } else { LOOK };
        let batch = self.confirmed.borrow_and_update().as_u64();
        self.ledger.confirmed(batch);
        let confirmed = self.status.confirmed_flush_lsn();
        if self.overlap.confirmed(confirmed) {
            self.step(move |record| record.passed(confirmed));
        }
        for range in self.overlap.overfull() {
            tracing::info!(
                table = self.name(range.0),
                "the stream changes the table too fast for a chunk of this size; it is read again"
            );
            self.crew.stop(range);
            self.overlap.close(range);
        }
        self.grant();
        match self.plan_and_assign(now).await {
            Err(error) if error.is_transient() && !error.is_of_the_producer() => {
                tracing::warn!(
                    error = error.chain(),
                    "the tables to be read cannot be looked at; trying again"
                );
                self.next_look = now + RECORD;
            }
            other => other?,
        }
        if self.overlap.has_waited(now - NUDGE) && self.nudged_at + NUDGE < now && !self.in_recovery {
            self.nudged_at = now;
            self.nudge();
        }
        self.record(now).await
    }

    /// Lets chunks begin whose readers wait, if nothing speaks against it.
    fn grant(&mut self) {
        let paused = self.pause_reason();
        self.status.snapshots().paused(paused.clone());
        if paused.is_some() {
            return;
        }
        let holds = self.holds();
        for Ready { range, log_end, begin } in std::mem::take(&mut self.ready) {
            let near = Lsn::new(log_end.as_u64().saturating_sub(NEAR));
            if !self.crew.is_on(range) {
                continue;
            }
            if holds {
                let _ = begin.send(());
            } else if self.overlap.is_past(near) {
                self.overlap.open(range);
                let _ = begin.send(());
            } else {
                self.ready.push(Ready { range, log_end, begin });
            }
        }
    }

    fn pause_reason(&mut self) -> Option<String> {
        if self.planned.paused {
            return Some("as asked".to_owned());
        }
        let retained = self.status.retained_wal_bytes();
        let most = self.settings.max_retained_wal.filter(|most| retained > *most)?;
        Some(format!(
            "the slot retains {retained} bytes of the log, and snapshot.max_retained_wal is {most}"
        ))
    }

    /// A commit record that was not flushed, or a position behind it that no commit follows, is not sent: a transaction of our own, which
    /// changes nothing, makes the server write its log out.
    fn nudge(&self) {
        let sql = Arc::clone(&self.sql);
        tokio::spawn(async move {
            if let Ok(client) = sql.client().await {
                // It is tried again soon enough.
                let _ = source::write_commit_record(&client).await;
            }
        });
    }

    /// At-least-once: writes what Kafka has.
    async fn record(&mut self, now: Instant) -> Result<(), PipelineError> {
        // That everything is read is recorded at once: where nothing else is to be done, the process waits for it.
        let is_last = self.planned.is_idle() && self.ledger.is_settled();
        if self.producer.is_transactional() || (now < self.recorded_at + RECORD && !is_last) {
            return Ok(());
        }
        if let Some(bytes) = self.ledger.take() {
            self.recorded_at = now;
            self.topic.write_snapshot(&self.producer, &bytes).await?;
            failpoint::reached("read_recorded");
        }
        Ok(())
    }

    /// The session is over: records what Kafka has by now, so that it is not read again.
    pub(super) async fn leave(mut self, limit: Duration) {
        self.status.snapshots().interrupted();
        let batch = self.confirmed.borrow_and_update().as_u64();
        self.ledger.confirmed(batch);
        self.recorded_at = Instant::now() - RECORD;
        // What is not recorded is read again.
        let _ = tokio::time::timeout(limit, self.record(Instant::now())).await;
    }
}

fn board_cause(cause: Cause) -> SnapshotCause {
    match cause {
        Cause::Initial => SnapshotCause::Initial,
        Cause::Asked => SnapshotCause::Asked,
    }
}
