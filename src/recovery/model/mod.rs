//! Exactly-once against a world in which everything may happen between any two steps: two pipelines that stop for ever or go on much
//! later, a Kafka whose answers are lost or late, a server that is promoted, replaced, or whose slot somebody moves.
//!
//! The judge knows everything, and holds the claims of `recovery` against it after each step and once all has come to rest.

mod at_least_once;
mod judge;
mod kafka;
mod server;
mod walferry;

use std::cell::RefCell;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use judge::{Judge, Verdict};
use kafka::{Fate, Kafka};
use server::Server;
use walferry::{Process, World};

/// A pipeline that does not do what the claims ask of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    /// It shares its predecessor's epoch.
    NoFence,
    /// It reads the last record that the broker happens to have.
    PlainRead,
    /// It tells the slot before the record is committed.
    ToldFirst,
    /// It commits the record after the changes, in a transaction of its own.
    RecordApart,
    /// It takes a commit that failed for one that did not.
    ErrorsIgnored,
    /// It goes on where there is a gap.
    GapsIgnored,
}

#[derive(Debug, Clone)]
enum Step {
    /// A process does so much.
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
    Wait(u64),
    Crash(usize),
    Stop(usize),
    /// The server gives up the connection that holds the slot.
    Free,
    Fate(Fate),
    Arrive,
    TimeOut,
    Lag(usize),
    Accept(usize),
    /// The `back`th timeline before this one goes on, without its last commits.
    Promote {
        back: u32,
        lost: usize,
        slot: Option<u64>,
    },
    Drop,
    Recreate,
    Advance(u64),
    SetBack(u64),
    Replace {
        flushed: u64,
        slot: Option<u64>,
    },
}

/// What happens by itself.
fn ordinary() -> impl Strategy<Value = Step> {
    let run = (0..2_usize, 1..25_usize, any::<bool>()).prop_map(|(process, steps, keepalives)| Step::Run {
        process,
        steps,
        keepalives,
    });
    let changes = prop_oneof![2 => Just(0), 6 => 1..4_u32, 2 => 4..13_u32];
    let fate = prop_oneof![Just(Fate::LostAnswer), Just(Fate::LostRequest), Just(Fate::Late)];
    prop_oneof![
        40 => run,
        24 => (prop_oneof![Just(0), 1..20_u64], changes).prop_map(|(before, changes)| Step::Write { before, changes }),
        4 => prop_oneof![Just(0), 1..20_u64].prop_map(Step::Message),
        4 => (1..30_u64).prop_map(Step::Grow),
        12 => (1..700_u64).prop_map(Step::Wait),
        3 => (0..2_usize).prop_map(Step::Crash),
        2 => (0..2_usize).prop_map(Step::Stop),
        4 => Just(Step::Free),
        5 => fate.prop_map(Step::Fate),
        2 => Just(Step::Arrive),
        1 => Just(Step::TimeOut),
        3 => (1..12_usize).prop_map(Step::Lag),
        3 => (Just(0), 0..4_usize, (0..30_u64).prop_map(Some))
            .prop_map(|(back, lost, slot)| Step::Promote { back, lost, slot }),
    ]
}

/// What somebody does.
fn meddling() -> impl Strategy<Value = Step> {
    let slot = || prop::option::weighted(0.7, 0..40_u64);
    prop_oneof![
        3 => (0..3_u32, 0..4_usize, slot()).prop_map(|(back, lost, slot)| Step::Promote { back, lost, slot }),
        1 => Just(Step::Drop),
        2 => Just(Step::Recreate),
        2 => (1..60_u64).prop_map(Step::Advance),
        1 => (1..60_u64).prop_map(Step::SetBack),
        1 => (50..250_u64, slot()).prop_map(|(flushed, slot)| Step::Replace { flushed, slot }),
        6 => (0..2_usize).prop_map(Step::Accept),
    ]
}

fn history() -> impl Strategy<Value = Vec<Step>> {
    let undisturbed = prop::collection::vec(ordinary(), 1..70);
    let disturbed = prop::collection::vec(prop_oneof![8 => ordinary(), 1 => meddling()], 1..90);
    prop_oneof![undisturbed, disturbed]
}

/// What the histories led to: a model that reaches nothing shows nothing.
#[derive(Debug, Default, PartialEq, Eq)]
struct Reached {
    ahead: u32,
    no_slot: u32,
    other_system: u32,
    other_timeline: u32,
    orphaned: u32,
    cut: u32,
    resumed_parts: u32,
    stale_reads: u32,
}

fn live(history: &[Step], flaw: Option<Flaw>, reached: &mut Reached) -> Verdict {
    let mut world = World {
        server: Server::new(),
        kafka: Kafka::default(),
        judge: Judge::default(),
        now: Instant::now(),
        lag: 0,
        keepalives: false,
        nonce: 0,
        flaw,
    };
    let mut processes = [Process::default(), Process::default()];
    for step in history {
        happen(step, &mut world, &mut processes, reached)?;
    }
    come_to_rest(&mut world, processes, reached)
}

fn happen(step: &Step, world: &mut World, processes: &mut [Process; 2], reached: &mut Reached) -> Verdict {
    let idle = !world.server.is_held();
    match *step {
        Step::Run {
            process,
            steps,
            keepalives,
        } => {
            world.keepalives = keepalives;
            for _ in 0..steps {
                processes[process].step(world, reached)?;
                world.judge.after_step(&world.server, &mut world.kafka)?;
            }
        }
        Step::Write { before, changes } => world.server.write(before, changes, false),
        Step::Message(before) => world.server.write(before, 1, true),
        Step::Grow(bytes) => world.server.grow(bytes),
        Step::Wait(milliseconds) => world.now += Duration::from_millis(milliseconds),
        Step::Crash(process) => processes[process].crash(&mut world.server),
        Step::Stop(process) => processes[process].stop(world)?,
        Step::Free => world.server.free(),
        Step::Fate(fate) => world.kafka.fate = Some(fate),
        Step::Arrive => world.kafka.arrive(),
        Step::TimeOut => world.kafka.time_out(),
        Step::Lag(records) => world.lag = records,
        Step::Accept(process) => {
            let process = &mut processes[process];
            process.accepted = process.refused.as_ref().map(|gap| gap.from);
        }
        Step::Promote { back, lost, slot } => {
            let (system, timeline) = world.server.line;
            let from = timeline.saturating_sub(back).max(1);
            let descends = world.server.promote((system, from), lost, slot);
            world.judge.moved |= !descends || slot.is_none();
        }
        // Postgres lets nobody touch a slot that is held.
        Step::Drop if idle => {
            world.judge.moved = true;
            world.server.slot = None;
        }
        Step::Recreate if idle => {
            world.judge.moved = true;
            world.server.slot = None;
            world.server.create_slot();
        }
        Step::Advance(bytes) if idle => {
            world.judge.moved = true;
            let flushed = world.server.log().flushed;
            world.server.slot = world.server.slot.map(|slot| (slot + bytes).min(flushed).max(slot));
        }
        Step::SetBack(bytes) if idle => {
            world.judge.moved = true;
            world.server.slot = world.server.slot.map(|slot| slot.saturating_sub(bytes));
        }
        Step::Replace { flushed, slot } => {
            world.judge.moved = true;
            world.server.replace(flushed, slot);
        }
        Step::Drop | Step::Recreate | Step::Advance(_) | Step::SetBack(_) => {}
    }
    world.judge.after_step(&world.server, &mut world.kafka)
}

/// One pipeline is left, and nothing happens any more. The operator accepts what it refuses.
fn come_to_rest(world: &mut World, processes: [Process; 2], reached: &mut Reached) -> Verdict {
    let [mut left, mut gone] = processes;
    gone.crash(&mut world.server);
    left.crash(&mut world.server);
    world.server.free();
    world.kafka.fate = None;
    for _ in 0..5_000 {
        left.step(world, reached)?;
        world.judge.after_step(&world.server, &mut world.kafka)?;
        world.now += Duration::from_millis(20);
        if let Some(gap) = left.refused.take() {
            left.accepted = Some(gap.from);
        }
        if left.is_settled(&world.server) {
            return world.judge.at_rest(&world.server, &world.kafka);
        }
    }
    Err("it never comes to rest".to_owned())
}

#[test]
fn each_change_of_the_surviving_history_is_published_once_or_lies_in_a_gap_that_was_named() {
    let reached = RefCell::new(Reached::default());
    let result = TestRunner::new(Config {
        failure_persistence: None,
        ..Config::with_cases(2_500)
    })
    .run(&history(), |history| {
        live(&history, None, &mut reached.borrow_mut()).map_err(TestCaseError::fail)
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    let Reached {
        ahead,
        no_slot,
        other_system,
        other_timeline,
        orphaned,
        cut,
        resumed_parts,
        stale_reads,
    } = reached.into_inner();
    let all = [
        ahead,
        no_slot,
        other_system,
        other_timeline,
        orphaned,
        cut,
        resumed_parts,
        stale_reads,
    ];
    assert!(all.iter().all(|times| *times > 3), "{all:?}");
}

/// What the model says of a pipeline with this flaw, after so many histories at most.
fn found_out(flaw: Flaw) -> Option<String> {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let config = Config {
        failure_persistence: None,
        max_shrink_iters: 0,
        ..Config::with_cases(2_000)
    };
    let mut runner = TestRunner::new_with_rng(config, rng);
    let result = runner.run(&history(), |history| {
        live(&history, Some(flaw), &mut Reached::default()).map_err(TestCaseError::fail)
    });
    match result {
        Err(TestError::Fail(reason, _)) => Some(reason.message().to_owned()),
        _ => None,
    }
}

#[test]
fn a_pipeline_that_leaves_out_a_step_is_found_out() {
    for flaw in [
        Flaw::NoFence,
        Flaw::PlainRead,
        Flaw::ToldFirst,
        Flaw::RecordApart,
        Flaw::ErrorsIgnored,
        Flaw::GapsIgnored,
    ] {
        let verdict = found_out(flaw);
        assert!(verdict.is_some(), "{flaw:?} is not found out");
    }
}
