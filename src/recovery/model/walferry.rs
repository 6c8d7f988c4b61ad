//! A pipeline, one step at a time: it may stop for ever between any two, or go on much later.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::super::{Gap, GapKind, Gathering, Limits, Place, Reconciled, StateRecord, Treatment, reconcile};
use super::judge::{Judge, Verdict};
use super::kafka::{Body, Failed, Kafka};
use super::server::{Line, Sent, Server, Session, identity};
use super::{Flaw, Reached};
use crate::lsn::Lsn;
use crate::recovery::{Found, Switch};

pub(super) const LIMITS: Limits = Limits {
    interval: Duration::from_millis(200),
    changes: 4,
    longest: Duration::from_millis(1_000),
    idle: Duration::from_millis(500),
};

/// What a process meets.
#[derive(Debug)]
pub(super) struct World {
    pub(super) server: Server,
    pub(super) kafka: Kafka,
    pub(super) judge: Judge,
    pub(super) now: Instant,
    /// How far the broker that is asked lags behind, in records.
    pub(super) lag: usize,
    pub(super) keepalives: bool,
    pub(super) nonce: u32,
    pub(super) flaw: Option<Flaw>,
}

/// What the server said when the slot was taken.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    pub(super) line: Line,
    pub(super) history: Vec<Switch>,
    pub(super) slot: Option<u64>,
}

impl Facts {
    pub(super) fn of(server: &Server) -> Self {
        Facts {
            line: server.line,
            history: server.log().history.clone(),
            slot: server.slot,
        }
    }

    /// What follows from the record, which was read before.
    pub(super) fn reconcile(
        &self,
        server: &Server,
        record: Option<&StateRecord>,
        accepted: Option<Lsn>,
    ) -> Result<Reconciled, Gap> {
        let found = Found {
            identity: &identity(self.line),
            history: &self.history,
            slot: self.slot.map(Lsn::new),
            // Asked after the record was read: a later one may be of a position that the log did not have before.
            log_end: Lsn::new(server.logs[&self.line].flushed),
        };
        reconcile(record, found, accepted)
    }

    /// Whether the server would still say so.
    pub(super) fn hold(&self, server: &Server) -> bool {
        (self.line, self.slot) == (server.line, server.slot)
    }
}

#[derive(Debug, Default)]
enum Phase {
    #[default]
    Down,
    Holding(Facts),
    Fenced(Facts),
    Asking(Facts, u32),
    Knowing(Facts, Option<StateRecord>),
    Noting(Facts, Reconciled),
    Streaming(Box<Stream>),
}

#[derive(Debug)]
struct Stream {
    line: Line,
    gathering: Gathering,
    inbox: VecDeque<Sent>,
    /// The Postgres transaction that is open: what to do with it, and how many of its changes came.
    open: Option<(Treatment, u64)>,
    /// So many came once the last of them is sent, which is under way.
    sending: Option<u64>,
    /// The Kafka transaction that is open, and since when.
    transaction: Option<(usize, Instant)>,
    /// The place that stands in it, and is to be committed.
    committing: Option<Place>,
    /// The place is recorded, and the slot may not be told yet.
    telling: bool,
}

#[derive(Debug, Default)]
pub(super) struct Process {
    phase: Phase,
    session: Option<Session>,
    epoch: u32,
    pub(super) accepted: Option<Lsn>,
    pub(super) refused: Option<Gap>,
}

/// What ends a step early.
enum End {
    /// The pipeline drops what it has, and begins again from the record.
    Restart,
    Claim(String),
}

impl From<Failed> for End {
    fn from(_: Failed) -> Self {
        End::Restart
    }
}

impl From<String> for End {
    fn from(claim: String) -> Self {
        End::Claim(claim)
    }
}

impl Process {
    pub(super) fn crash(&mut self, server: &mut Server) {
        if let Some(session) = self.session.take() {
            server.release(&session);
        }
        self.phase = Phase::Down;
    }

    pub(super) fn step(&mut self, world: &mut World, reached: &mut Reached) -> Verdict {
        match self.advance(world, reached) {
            Ok(()) => Ok(()),
            Err(End::Restart) => {
                self.crash(&mut world.server);
                Ok(())
            }
            Err(End::Claim(claim)) => Err(claim),
        }
    }

    fn advance(&mut self, world: &mut World, reached: &mut Reached) -> Result<(), End> {
        self.phase = match std::mem::take(&mut self.phase) {
            Phase::Down => {
                self.session = world.server.hold();
                match self.session.is_some() || world.server.slot.is_none() {
                    true => Phase::Holding(Facts::of(&world.server)),
                    false => Phase::Down,
                }
            }
            Phase::Holding(facts) => {
                self.epoch = match world.flaw {
                    Some(Flaw::NoFence) => world.kafka.epoch(),
                    _ => world.kafka.fence(),
                };
                Phase::Fenced(facts)
            }
            Phase::Fenced(facts) => {
                world.nonce += 1;
                self.write(world, Body::Sentinel(world.nonce))?;
                Phase::Asking(facts, world.nonce)
            }
            Phase::Asking(facts, nonce) => {
                let sentinel = (world.flaw != Some(Flaw::PlainRead)).then_some(nonce);
                match world.kafka.state(world.lag, sentinel) {
                    Ok(record) => Phase::Knowing(facts, record),
                    Err(Failed) => {
                        reached.stale_reads += 1;
                        world.lag = 0;
                        Phase::Asking(facts, nonce)
                    }
                }
            }
            Phase::Knowing(facts, record) => self.reconcile(world, facts, record, reached)?,
            Phase::Noting(facts, reconciled) => {
                if reconciled.news {
                    let record = StateRecord {
                        identity: identity(facts.line),
                        place: reconciled.place,
                    };
                    self.write(world, Body::State(record.to_json()))?;
                }
                match facts.hold(&world.server) {
                    true => world.judge.moved = false,
                    // What was accepted is of a server that is no more.
                    false => world.judge.moved |= reconciled.accepted.is_some(),
                }
                Phase::Streaming(Box::new(Stream {
                    line: facts.line,
                    gathering: Gathering::new(reconciled.place, LIMITS, world.now),
                    inbox: VecDeque::new(),
                    open: None,
                    sending: None,
                    transaction: None,
                    committing: None,
                    telling: true,
                }))
            }
            Phase::Streaming(mut stream) => {
                let session = self.session.as_mut().ok_or(Failed)?;
                stream.advance(world, session, self.epoch, reached)?;
                Phase::Streaming(stream)
            }
        };
        Ok(())
    }

    /// A Kafka transaction with one record.
    fn write(&self, world: &mut World, body: Body) -> Result<(), Failed> {
        let transaction = world.kafka.begin(self.epoch)?;
        world.kafka.produce(self.epoch, transaction, body)?;
        world.kafka.commit(self.epoch, transaction)
    }

    fn reconcile(
        &mut self,
        world: &mut World,
        facts: Facts,
        record: Option<StateRecord>,
        reached: &mut Reached,
    ) -> Result<Phase, End> {
        let reconciled = match facts.reconcile(&world.server, record.as_ref(), self.accepted) {
            Ok(reconciled) => reconciled,
            Err(gap) if world.flaw == Some(Flaw::GapsIgnored) => {
                let _ignored = gap;
                Reconciled {
                    place: record.as_ref().map(|record| record.place).unwrap_or_default(),
                    news: false,
                    accepted: None,
                    orphaned: None,
                }
            }
            Err(gap) => {
                match gap.kind {
                    GapKind::Ahead { .. } => reached.ahead += 1,
                    GapKind::NoSlot { .. } => reached.no_slot += 1,
                    GapKind::System { .. } | GapKind::Database { .. } => reached.other_system += 1,
                    GapKind::Timeline { .. } => reached.other_timeline += 1,
                    // The judge says that it cannot be.
                    GapKind::SetBack { .. } => {}
                }
                if self.epoch == world.kafka.epoch() {
                    world
                        .judge
                        .refused(&world.server, &world.kafka, &facts, record.as_ref(), &gap)?;
                }
                self.refused = Some(gap);
                return Err(End::Restart);
            }
        };
        if facts.slot.is_none() {
            world.server.create_slot();
            return Err(End::Restart);
        }
        reached.orphaned += u32::from(reconciled.orphaned.is_some());
        reached.resumed_parts += u32::from(reconciled.place.partial > 0);
        // Nothing follows from what one decides whose successor has fenced it since.
        if self.epoch == world.kafka.epoch() {
            world
                .judge
                .reconciled(&world.server, &world.kafka, &facts, record.as_ref(), &reconciled)?;
        }
        Ok(Phase::Noting(facts, reconciled))
    }

    /// It is told to stop: what is whole is committed and confirmed, what is cut is left to be aborted.
    pub(super) fn stop(&mut self, world: &mut World) -> Verdict {
        if let (Phase::Streaming(stream), Some(session)) = (&mut self.phase, self.session.as_mut()) {
            let place = stream.gathering.rest().filter(|_| !stream.gathering.is_cut());
            let end = match place {
                Some(place) if stream.committing.is_none() => stream
                    .record(world, session, self.epoch, place)
                    .and_then(|()| stream.commit(world, self.epoch, place)),
                _ => Ok(()),
            };
            if stream.telling && end.is_ok() {
                stream.tell(world, session);
            }
        }
        self.crash(&mut world.server);
        Ok(())
    }

    /// Whether everything is published, recorded and confirmed.
    pub(super) fn is_settled(&self, server: &Server) -> bool {
        match (&self.phase, &self.session) {
            (Phase::Streaming(stream), Some(session)) => {
                server.is_drained(session)
                    && stream.inbox.is_empty()
                    && stream.sending.is_none()
                    && !stream.telling
                    && stream.gathering.rest().is_none()
                    && server.slot == Some(stream.gathering.recorded().end_lsn.as_u64())
            }
            _ => false,
        }
    }
}

impl Stream {
    fn advance(
        &mut self,
        world: &mut World,
        session: &mut Session,
        epoch: u32,
        reached: &mut Reached,
    ) -> Result<(), End> {
        if let Some(deadline) = self.gathering.deadline()
            && self.gathering.due(deadline.max(world.now)).is_none()
        {
            return Err(End::Claim("at its deadline nothing is due".to_owned()));
        }
        if let Some(came) = self.sending.take() {
            self.gathering.changes(came);
            return Ok(());
        }
        if let Some(place) = self.committing {
            return Ok(self.commit(world, epoch, place)?);
        }
        if std::mem::take(&mut self.telling) {
            self.tell(world, session);
            return Ok(());
        }
        if let Some(place) = self.gathering.due(world.now) {
            if self.gathering.is_cut() {
                reached.cut += 1;
                if self
                    .transaction
                    .is_some_and(|(_, since)| world.now >= since + LIMITS.longest)
                {
                    world.judge.may_be_cut(&world.server, self.line, place);
                }
            }
            return Ok(self.record(world, session, epoch, place)?);
        }
        self.receive(world, session, epoch)
    }

    /// The place goes into the Kafka transaction.
    fn record(&mut self, world: &mut World, session: &Session, epoch: u32, place: Place) -> Result<(), Failed> {
        if world.flaw == Some(Flaw::RecordApart)
            && let Some((transaction, _)) = self.transaction.take()
        {
            world.kafka.commit(epoch, transaction)?;
        }
        if world.flaw == Some(Flaw::ToldFirst) {
            world.server.confirm(session, place.end_lsn.as_u64());
        }
        let transaction = self.transaction(world, epoch)?;
        let record = StateRecord {
            identity: identity(self.line),
            place,
        };
        world.kafka.produce(epoch, transaction, Body::State(record.to_json()))?;
        self.committing = Some(place);
        Ok(())
    }

    fn transaction(&mut self, world: &mut World, epoch: u32) -> Result<usize, Failed> {
        let (transaction, _) = match self.transaction {
            Some(open) => open,
            None => *self.transaction.insert((world.kafka.begin(epoch)?, world.now)),
        };
        Ok(transaction)
    }

    fn commit(&mut self, world: &mut World, epoch: u32, place: Place) -> Result<(), Failed> {
        let (transaction, _) = self.transaction.ok_or(Failed)?;
        match world.kafka.commit(epoch, transaction) {
            Err(Failed) if world.flaw != Some(Flaw::ErrorsIgnored) => return Err(Failed),
            _ => {}
        }
        self.gathering.committed(place, world.now);
        (self.transaction, self.committing, self.telling) = (None, None, true);
        Ok(())
    }

    fn tell(&self, world: &mut World, session: &Session) {
        let recorded = self.gathering.recorded();
        world.server.confirm(session, recorded.end_lsn.as_u64());
    }

    fn receive(&mut self, world: &mut World, session: &mut Session, epoch: u32) -> Result<(), End> {
        if self.inbox.is_empty() {
            // As much as a read of the socket gives: it is worked off though the walsender may be gone by then.
            for _ in 0..6 {
                match world.server.next(session, world.keepalives) {
                    Ok(sent @ Sent::Keepalive(_)) => {
                        self.inbox.push_back(sent);
                        break;
                    }
                    Ok(sent) => self.inbox.push_back(sent),
                    Err(()) => return Err(End::Restart),
                }
            }
        }
        match self.inbox.pop_front() {
            None => {}
            Some(Sent::Begin(commit)) => {
                let treatment = self
                    .gathering
                    .begin(Lsn::new(commit))
                    .map_err(|vanished| vanished.to_string())?;
                self.open = Some((treatment, 0));
            }
            Some(Sent::Change(change)) => {
                let Some((treatment, came)) = self.open.as_mut() else {
                    return Err(End::Claim("a change outside of a transaction".to_owned()));
                };
                *came += 1;
                let came = *came;
                self.gathering.sending();
                if matches!(*treatment, Treatment::Publish { skip } if came > skip) {
                    let transaction = self.transaction(world, epoch)?;
                    self.gathering.opened(world.now);
                    world.kafka.produce(epoch, transaction, Body::Change(change))?;
                }
                self.sending = Some(came);
            }
            Some(Sent::Commit(end)) => {
                self.open = None;
                self.gathering.seal(Lsn::new(end));
            }
            Some(Sent::Keepalive(position)) => self.gathering.idle(Lsn::new(position)),
        }
        Ok(())
    }
}
