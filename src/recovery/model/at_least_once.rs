//! At-least-once: `progress` says what Kafka has confirmed, that is recorded, and then the slot is told. Nobody is fenced, so what a
//! pipeline wrote before its end may arrive after its successor's.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

use super::super::{Gap, Place, Resume, StateRecord, Treatment};
use super::judge::{Verdict, claim, orphans};
use super::server::{Sent, Server, Session, identity, line};
use super::walferry::Facts;
use crate::lsn::Lsn;
use crate::progress::{Event, Failure, Progress, Ticket, Transaction};

#[derive(Debug, Clone)]
enum Step {
    Run {
        process: usize,
        steps: usize,
        keepalives: bool,
    },
    Write {
        before: u64,
        changes: u32,
    },
    Message(u64),
    Grow(u64),
    /// Records arrive, in any order over the partitions.
    Deliver {
        process: usize,
        at: usize,
        records: usize,
    },
    Fail {
        process: usize,
        at: usize,
    },
    /// What is confirmed is sent off to be recorded.
    Record(usize),
    /// One such record arrives, of whomever it is.
    Arrive {
        at: usize,
        answered: bool,
    },
    Tell(usize),
    Crash {
        process: usize,
        arrive: bool,
    },
    Free,
    Promote {
        lost: usize,
        slot: u64,
    },
    Recreate,
    Advance(u64),
    Accept(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let process = || 0..2_usize;
    prop_oneof![
        30 => (process(), 1..20_usize, any::<bool>())
            .prop_map(|(process, steps, keepalives)| Step::Run { process, steps, keepalives }),
        16 => (0..20_u64, 0..6_u32).prop_map(|(before, changes)| Step::Write { before, changes }),
        3 => (0..20_u64).prop_map(Step::Message),
        4 => (1..30_u64).prop_map(Step::Grow),
        24 => (process(), any::<usize>(), 1..9_usize)
            .prop_map(|(process, at, records)| Step::Deliver { process, at, records }),
        1 => (process(), any::<usize>()).prop_map(|(process, at)| Step::Fail { process, at }),
        12 => process().prop_map(Step::Record),
        12 => (any::<usize>(), any::<bool>()).prop_map(|(at, answered)| Step::Arrive { at, answered }),
        10 => process().prop_map(Step::Tell),
        4 => (process(), any::<bool>()).prop_map(|(process, arrive)| Step::Crash { process, arrive }),
        3 => Just(Step::Free),
        3 => (0..4_usize, 0..30_u64).prop_map(|(lost, slot)| Step::Promote { lost, slot }),
        1 => Just(Step::Recreate),
        1 => (1..40_u64).prop_map(Step::Advance),
        2 => process().prop_map(Step::Accept),
    ]
}

#[derive(Debug)]
struct Stream {
    number: u32,
    facts: Facts,
    progress: Progress,
    resume: Resume,
    broken: Arc<AtomicBool>,
    inbox: VecDeque<Sent>,
    open: Option<Transaction>,
    in_flight: Vec<(u32, Ticket)>,
    /// Of what is recorded, as far as it was heard.
    recorded: Lsn,
    sent_off: Lsn,
}

#[derive(Debug, Default)]
struct Process {
    session: Option<Session>,
    facts: Option<Facts>,
    stream: Option<Stream>,
    accepted: Option<Lsn>,
    refused: Option<Gap>,
}

#[derive(Debug)]
struct World {
    server: Server,
    published: BTreeMap<u32, u32>,
    recorded: Option<StateRecord>,
    /// Records under way, with the number of the stream that sent them.
    under_way: Vec<(u32, StateRecord)>,
    streams: u32,
    moved: bool,
    /// A record arrived that says less than the one before it.
    receded: bool,
    forgiven: BTreeSet<u32>,
}

#[derive(Debug, Default)]
struct Reached {
    twice: u32,
    refused: u32,
    receded: u32,
    dropped: u32,
    orphaned: u32,
}

impl World {
    fn publish(&mut self, change: u32) {
        *self.published.entry(change).or_default() += 1;
    }

    fn record(&mut self, record: StateRecord) {
        let later = |before: &StateRecord| {
            line(&before.identity) > line(&record.identity) || before.place.end_lsn > record.place.end_lsn
        };
        self.receded |= self.recorded.as_ref().is_some_and(later);
        self.recorded = Some(record);
    }

    fn after_step(&self) -> Verdict {
        if let (Some(record), Some(slot), false) = (&self.recorded, self.server.slot, self.moved || self.receded) {
            let end = record.place.end_lsn.as_u64();
            claim!(slot <= end, "the slot is at {slot}, and what is recorded ends at {end}");
        }
        Ok(())
    }
}

impl Process {
    fn crash(&mut self, world: &mut World, arrive: bool) {
        if let Some(session) = self.session.take() {
            world.server.release(&session);
        }
        self.facts = None;
        if let Some(Stream {
            in_flight,
            progress,
            open,
            ..
        }) = self.stream.take()
        {
            drop((progress, open));
            for (change, _lost) in in_flight.into_iter().filter(|_| arrive) {
                world.publish(change);
            }
        }
    }

    fn step(&mut self, world: &mut World, keepalives: bool, reached: &mut Reached) -> Verdict {
        match (&mut self.stream, self.facts.take()) {
            (Some(stream), _) => {
                let session = self.session.as_mut();
                let alive = session.is_some_and(|session| stream.receive(&world.server, session, keepalives, reached));
                if !alive || stream.broken.load(Ordering::Relaxed) {
                    self.crash(world, false);
                }
                Ok(())
            }
            (None, None) => {
                self.session = world.server.hold();
                let ready = self.session.is_some() || world.server.slot.is_none();
                self.facts = ready.then(|| Facts::of(&world.server));
                Ok(())
            }
            (None, Some(facts)) => self.begin(world, facts, reached),
        }
    }

    fn begin(&mut self, world: &mut World, facts: Facts, reached: &mut Reached) -> Verdict {
        let reconciled = match facts.reconcile(&world.server, world.recorded.as_ref(), self.accepted) {
            Ok(reconciled) => reconciled,
            Err(gap) => {
                reached.refused += 1;
                claim!(
                    world.moved || world.receded || !facts.hold(&world.server),
                    "nobody touched anything, and yet: {gap}"
                );
                self.refused = Some(gap);
                self.crash(world, false);
                return Ok(());
            }
        };
        let Some(slot) = facts.slot else {
            world.server.create_slot();
            self.crash(world, false);
            return Ok(());
        };
        let commits = &world.server.logs[&facts.line].commits;
        let known = reconciled.place.end_lsn.max(reconciled.place.commit_lsn).as_u64();
        let missing = |commit: &&super::server::Commit| commit.start < slot.max(known);
        let missing = commits.iter().filter(missing).flat_map(|commit| &commit.changes);
        let missing: Vec<u32> = missing
            .copied()
            .filter(|change| !world.published.contains_key(change) && !world.forgiven.contains(change))
            .collect();
        claim!(
            missing.is_empty() || reconciled.accepted.is_some() || world.recorded.is_none(),
            "{missing:?} will not come or would be dropped, and nobody says so"
        );
        world.forgiven.extend(missing);
        if let (Some(record), None) = (&world.recorded, &reconciled.accepted) {
            let (then, now) = (line(&record.identity), &world.server.logs[&facts.line]);
            let mut orphans = orphans(&world.server.logs[&then], now, &world.published);
            // What is in Kafka and not recorded is nowhere known.
            orphans.retain(|commit| *commit < record.place.end_lsn.as_u64());
            claim!(
                orphans.is_empty() || reconciled.orphaned.is_some(),
                "what committed at {orphans:?} is orphaned, and nobody says so"
            );
            reached.orphaned += u32::from(!orphans.is_empty());
        }
        if reconciled.news {
            world.record(StateRecord {
                identity: identity(facts.line),
                place: reconciled.place,
            });
        }
        if facts.hold(&world.server) {
            (world.moved, world.receded) = (false, false);
        }
        world.streams += 1;
        let broken = Arc::new(AtomicBool::new(false));
        let observer = {
            let broken = Arc::clone(&broken);
            Box::new(move |event: Event<'_>| {
                if matches!(event, Event::Broken(_)) {
                    broken.store(true, Ordering::Relaxed);
                }
            })
        };
        self.stream = Some(Stream {
            number: world.streams,
            facts,
            progress: Progress::new(reconciled.place.end_lsn, observer),
            resume: Resume::new(reconciled.place),
            broken,
            inbox: VecDeque::new(),
            open: None,
            in_flight: Vec::new(),
            recorded: reconciled.place.end_lsn,
            sent_off: reconciled.place.end_lsn,
        });
        Ok(())
    }

    fn is_settled(&self, world: &World) -> bool {
        match (&self.stream, &self.session) {
            (Some(stream), Some(session)) => {
                world.server.is_drained(session)
                    && stream.inbox.is_empty()
                    && stream.progress.is_idle()
                    && world.server.slot == Some(stream.progress.confirmed().as_u64())
            }
            _ => false,
        }
    }
}

impl Stream {
    /// Whether the connection is still there.
    fn receive(&mut self, server: &Server, session: &mut Session, keepalives: bool, reached: &mut Reached) -> bool {
        if self.inbox.is_empty() {
            for _ in 0..6 {
                match server.next(session, keepalives) {
                    Ok(sent @ Sent::Keepalive(_)) => {
                        self.inbox.push_back(sent);
                        break;
                    }
                    Ok(sent) => self.inbox.push_back(sent),
                    Err(()) => return false,
                }
            }
        }
        match self.inbox.pop_front() {
            None => {}
            Some(Sent::Begin(commit)) => {
                let commit = Lsn::new(commit);
                self.open = match self.resume.treatment(commit).unwrap() {
                    Treatment::Drop => None,
                    Treatment::Publish { .. } => Some(self.progress.begin(commit, 0).unwrap()),
                };
                reached.dropped += u32::from(self.open.is_none());
            }
            Some(Sent::Change(change)) => {
                if let Some(open) = &self.open {
                    self.in_flight.push((change, open.ticket()));
                }
            }
            Some(Sent::Commit(end)) => {
                if let Some(open) = self.open.take() {
                    open.commit(Lsn::new(end)).unwrap();
                }
            }
            Some(Sent::Keepalive(position)) => {
                self.progress.keepalive(Lsn::new(position));
            }
        }
        true
    }

    fn deliver(&mut self, at: usize, published: &mut BTreeMap<u32, u32>) {
        if !self.in_flight.is_empty() {
            let (change, ticket) = self.in_flight.swap_remove(at % self.in_flight.len());
            *published.entry(change).or_default() += 1;
            ticket.delivered();
        }
    }

    fn record(&mut self) -> Option<(u32, StateRecord)> {
        let confirmed = self.progress.confirmed();
        let news = confirmed > std::mem::replace(&mut self.sent_off, confirmed);
        news.then(|| {
            let record = StateRecord {
                identity: identity(self.facts.line),
                place: Place::at(confirmed),
            };
            (self.number, record)
        })
    }
}

fn happen(step: &Step, world: &mut World, processes: &mut [Process; 2], reached: &mut Reached) -> Verdict {
    let idle = !world.server.is_held();
    match *step {
        Step::Run {
            process,
            steps,
            keepalives,
        } => {
            for _ in 0..steps {
                processes[process].step(world, keepalives, reached)?;
            }
        }
        Step::Write { before, changes } => world.server.write(before, changes, false),
        Step::Message(before) => world.server.write(before, 1, true),
        Step::Grow(bytes) => world.server.grow(bytes),
        Step::Deliver { process, at, records } => {
            if let Some(stream) = &mut processes[process].stream {
                for _ in 0..records {
                    stream.deliver(at, &mut world.published);
                }
            }
        }
        Step::Fail { process, at } => {
            if let Some(stream) = &mut processes[process].stream
                && !stream.in_flight.is_empty()
            {
                let (_, ticket) = stream.in_flight.swap_remove(at % stream.in_flight.len());
                ticket.failed(Failure::Passing("refused".to_owned()));
            }
        }
        Step::Record(process) => {
            let record = processes[process].stream.as_mut().and_then(Stream::record);
            world.under_way.extend(record);
        }
        Step::Arrive { at, answered } if !world.under_way.is_empty() => {
            // Of one pipeline they arrive in their order.
            let (number, _) = world.under_way[at % world.under_way.len()];
            let first = world.under_way.iter().position(|(of, _)| *of == number);
            let (number, record) = world.under_way.remove(first.unwrap());
            let end = record.place.end_lsn;
            world.record(record);
            for stream in processes.iter_mut().filter_map(|process| process.stream.as_mut()) {
                if stream.number == number && answered {
                    stream.recorded = end;
                }
            }
        }
        Step::Tell(process) => {
            if let (Some(stream), Some(session)) = (&processes[process].stream, &processes[process].session) {
                world.server.confirm(session, stream.recorded.as_u64());
            }
        }
        Step::Crash { process, arrive } => processes[process].crash(world, arrive),
        Step::Free => world.server.free(),
        Step::Promote { lost, slot } => {
            let line = world.server.line;
            world.moved |= !world.server.promote(line, lost, Some(slot));
        }
        Step::Recreate if idle => {
            world.moved = true;
            world.server.slot = None;
            world.server.create_slot();
        }
        Step::Advance(bytes) if idle => {
            world.moved = true;
            let flushed = world.server.log().flushed;
            world.server.slot = world.server.slot.map(|slot| (slot + bytes).min(flushed).max(slot));
        }
        Step::Accept(process) => {
            let process = &mut processes[process];
            process.accepted = process.refused.as_ref().map(|gap| gap.from);
        }
        Step::Arrive { .. } | Step::Recreate | Step::Advance(_) => {}
    }
    world.after_step()
}

fn live(history: &[Step], reached: &mut Reached) -> Verdict {
    let mut world = World {
        server: Server::new(),
        published: BTreeMap::new(),
        recorded: None,
        under_way: Vec::new(),
        streams: 0,
        moved: false,
        receded: false,
        forgiven: BTreeSet::new(),
    };
    let mut processes = [Process::default(), Process::default()];
    for step in history {
        happen(step, &mut world, &mut processes, reached)?;
        reached.receded += u32::from(world.receded);
    }
    for process in &mut processes {
        process.crash(&mut world, false);
    }
    world.server.free();
    for _ in 0..1_000 {
        for step in [
            Step::Run {
                process: 0,
                steps: 4,
                keepalives: false,
            },
            Step::Deliver {
                process: 0,
                at: 0,
                records: 6,
            },
            Step::Record(0),
            Step::Arrive { at: 0, answered: true },
            Step::Tell(0),
        ] {
            happen(&step, &mut world, &mut processes, reached)?;
        }
        if let Some(gap) = processes[0].refused.take() {
            processes[0].accepted = Some(gap.from);
        }
        if processes[0].is_settled(&world) {
            return at_rest(&world, reached);
        }
    }
    Err("it never comes to rest".to_owned())
}

fn at_rest(world: &World, reached: &mut Reached) -> Verdict {
    for commit in &world.server.log().commits {
        for change in &commit.changes {
            claim!(
                world.published.contains_key(change) || world.forgiven.contains(change),
                "change {change}, committed at {}, was never published",
                commit.start
            );
        }
    }
    let twice = world.published.values().any(|times| *times > 1);
    reached.twice += u32::from(twice);
    claim!(
        !twice || world.streams > 1,
        "a change was published twice without a restart"
    );
    Ok(())
}

#[test]
fn each_change_of_the_surviving_history_is_published_or_lies_in_a_gap_that_was_named() {
    let reached = RefCell::new(Reached::default());
    let result = TestRunner::new(Config {
        failure_persistence: None,
        ..Config::with_cases(1_200)
    })
    .run(&prop::collection::vec(step(), 1..120), |history| {
        live(&history, &mut reached.borrow_mut()).map_err(TestCaseError::fail)
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    let Reached {
        twice,
        refused,
        receded,
        dropped,
        orphaned,
    } = reached.into_inner();
    let all = [twice, refused, receded, dropped, orphaned];
    assert!(all.iter().all(|times| *times > 3), "{all:?}");
}
