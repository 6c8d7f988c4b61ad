//! A chunk read beside the stream, step by step, in every order that the server allows; and with a rule left out, to show that each
//! is needed.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::*;

const KEYS: usize = 3;

/// The rules of a chunk, each of which can be left out.
#[derive(Debug, Clone, Copy)]
struct Rules {
    /// A snapshot that does not see what was delivered before the window was opened is not used.
    retries: bool,
    /// The window is opened before the snapshot is taken.
    opens_first: bool,
    /// No row is published before the stream has delivered everything before L.
    waits: bool,
    /// What the window remembers supersedes the chunk's rows.
    supersedes: bool,
    /// After a restart what is running counts as delivered.
    suspects: bool,
}

const ALL: Rules = Rules {
    retries: true,
    opens_first: true,
    waits: true,
    supersedes: true,
    suspects: true,
};

#[derive(Debug, Clone)]
enum Step {
    /// A transaction changes the keys of this mask, or deletes them.
    Start(u8, bool),
    /// The commit record of one of the running is written.
    Commit(usize),
    /// One of the running is rolled back.
    Abort(usize),
    /// One of those with a commit record leaves the list of the running: it waited for a standby.
    Leave(usize),
    /// The stream delivers the next transaction in the order of the commit records.
    Deliver,
    /// The reader goes on by one step.
    Read,
    /// The session ends, and another begins where it was.
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1_u8..8, prop::bool::weighted(0.2)).prop_map(|(keys, deletes)| Step::Start(keys, deletes)),
        4 => any::<usize>().prop_map(Step::Commit),
        1 => any::<usize>().prop_map(Step::Abort),
        3 => any::<usize>().prop_map(Step::Leave),
        4 => Just(Step::Deliver),
        6 => Just(Step::Read),
        1 => Just(Step::Restart),
    ]
}

#[derive(PartialEq)]
enum Stage {
    Running,
    Committed,
    Over,
}

struct Transaction {
    xid: u64,
    /// Key, the version that it gets, whether a row is there afterwards.
    changes: Vec<(usize, u64, bool)>,
    stage: Stage,
}

/// What a snapshot is taken as: itself, the end of the log, and the rows that it sees.
type Taken = (Visibility, usize, Vec<(usize, u64)>);

enum Reader {
    Idle,
    Open(Window, u64),
    /// Only where the window is opened too late.
    Late(Taken),
    Reading(Window, usize, Vec<(usize, u64)>),
}

struct World {
    rules: Rules,
    transactions: Vec<Transaction>,
    first_xid: u64,
    /// Completed ids end here.
    xmax: u64,
    /// Version and presence of each row, as a new snapshot sees it.
    table: [(u64, bool); KEYS],
    log: Vec<usize>,
    streamed: usize,
    delivered: Delivered,
    reader: Reader,
    chunks: usize,
    /// The last version in the topic.
    topic: [Option<u64>; KEYS],
    next_version: u64,
}

fn short(xid: u64) -> u32 {
    u32::try_from(xid & 0xFFFF_FFFF).unwrap()
}

fn key_bytes(key: usize) -> [u8; 8] {
    key.to_be_bytes()
}

impl World {
    fn new(rules: Rules, first_xid: u64) -> Self {
        World {
            rules,
            transactions: Vec::new(),
            first_xid,
            xmax: first_xid,
            table: [(0, true); KEYS],
            log: Vec::new(),
            streamed: 0,
            delivered: Delivered::new(),
            reader: Reader::Idle,
            chunks: 0,
            topic: [None; KEYS],
            next_version: 1,
        }
    }

    fn nth(&self, n: usize, stage: &Stage) -> Option<usize> {
        let candidates: Vec<usize> = (0..self.transactions.len())
            .filter(|at| self.transactions[*at].stage == *stage)
            .collect();
        (!candidates.is_empty()).then(|| candidates[n % candidates.len()])
    }

    /// Rows stay locked until their transaction has left the list.
    fn is_locked(&self, key: usize) -> bool {
        let held = |transaction: &Transaction| transaction.changes.iter().any(|change| change.0 == key);
        self.transactions
            .iter()
            .any(|transaction| transaction.stage != Stage::Over && held(transaction))
    }

    fn start(&mut self, changes: Vec<(usize, u64, bool)>) -> usize {
        let at = self.transactions.len();
        self.transactions.push(Transaction {
            xid: self.first_xid + u64::try_from(at).unwrap(),
            changes,
            stage: Stage::Running,
        });
        at
    }

    fn leave(&mut self, at: usize) {
        self.transactions[at].stage = Stage::Over;
        self.xmax = self.xmax.max(self.transactions[at].xid + 1);
    }

    fn publish(&mut self, key: usize, version: u64, what: &str) -> Result<(), String> {
        match self.topic[key] {
            Some(last) if version < last => Err(format!("{what} of key {key} goes back from {last} to {version}")),
            _ => {
                self.topic[key] = Some(version);
                Ok(())
            }
        }
    }

    fn take(&self) -> Taken {
        let running: Vec<u64> = self
            .transactions
            .iter()
            .filter(|transaction| transaction.stage != Stage::Over && transaction.xid < self.xmax)
            .map(|transaction| transaction.xid)
            .collect();
        let xmin = running.first().copied().unwrap_or(self.xmax);
        let list: Vec<String> = running.iter().map(u64::to_string).collect();
        let snapshot = Visibility::parse(&format!("{xmin}:{}:{}", self.xmax, list.join(","))).unwrap();
        let rows = (0..KEYS)
            .filter(|key| self.table[*key].1)
            .map(|key| (key, self.table[key].0));
        (snapshot, self.log.len(), rows.collect())
    }

    fn read(&mut self) -> Result<(), String> {
        self.reader = match std::mem::replace(&mut self.reader, Reader::Idle) {
            Reader::Idle if self.rules.opens_first => Reader::Open(Window::new(), self.delivered.count()),
            Reader::Idle => {
                let taken = self.take();
                match self.delivered.unseen_by(&taken.0) {
                    Some(_) => Reader::Idle,
                    None => Reader::Late(taken),
                }
            }
            Reader::Late((snapshot, end, rows)) => {
                let mut window = Window::new();
                window.seen(snapshot);
                Reader::Reading(window, end, rows)
            }
            Reader::Open(mut window, opened) => {
                let (snapshot, end, rows) = self.take();
                match self.delivered.unseen_before(opened, &snapshot) {
                    Some(_) if self.rules.retries => Reader::Open(window, opened),
                    _ => {
                        window.seen(snapshot);
                        Reader::Reading(window, end, rows)
                    }
                }
            }
            Reader::Reading(window, end, rows) if self.rules.waits && self.streamed < end => {
                Reader::Reading(window, end, rows)
            }
            Reader::Reading(window, end, mut rows) => match rows.pop() {
                Some((key, version)) => {
                    if !(self.rules.supersedes && window.supersedes(&key_bytes(key))) {
                        self.publish(key, version, "a row")?;
                    }
                    Reader::Reading(window, end, rows)
                }
                None => {
                    self.chunks += 1;
                    Reader::Idle
                }
            },
        };
        Ok(())
    }

    fn deliver(&mut self) -> Result<(), String> {
        let Some(&at) = self.log.get(self.streamed) else {
            return Ok(());
        };
        self.streamed += 1;
        let xid = short(self.transactions[at].xid);
        for (key, version, _) in self.transactions[at].changes.clone() {
            if let Reader::Open(window, _) | Reader::Reading(window, ..) = &mut self.reader {
                window.changed(xid, &key_bytes(key));
            }
            self.publish(key, version, "a change")?;
        }
        self.delivered.push(xid);
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        match *step {
            Step::Start(mask, deletes) => {
                let keys: Vec<usize> = (0..KEYS).filter(|key| mask >> key & 1 == 1).collect();
                if keys.iter().any(|key| self.is_locked(*key)) {
                    return Ok(());
                }
                let version = self.next_version;
                self.next_version += 1;
                self.start(keys.into_iter().map(|key| (key, version, !deletes)).collect());
            }
            Step::Commit(n) => {
                if let Some(at) = self.nth(n, &Stage::Running) {
                    self.transactions[at].stage = Stage::Committed;
                    self.log.push(at);
                }
            }
            Step::Abort(n) => {
                if let Some(at) = self.nth(n, &Stage::Running) {
                    self.leave(at);
                }
            }
            Step::Leave(n) => {
                if let Some(at) = self.nth(n, &Stage::Committed) {
                    self.leave(at);
                    for (key, version, present) in self.transactions[at].changes.clone() {
                        self.table[key] = (version, present);
                    }
                }
            }
            Step::Deliver => self.deliver()?,
            Step::Read => self.read()?,
            Step::Restart => {
                self.reader = Reader::Idle;
                self.delivered = Delivered::new();
                if self.rules.suspects {
                    let own = self.start(Vec::new());
                    self.leave(own);
                    self.delivered.suspect(&self.take().0);
                }
            }
        }
        Ok(())
    }

    /// Everything comes to its end, the chunk too; the topic then has of each key what the table has.
    fn end(&mut self) -> Result<(), String> {
        while self.nth(0, &Stage::Running).is_some() {
            self.step(&Step::Commit(0))?;
        }
        while self.nth(0, &Stage::Committed).is_some() {
            self.step(&Step::Leave(0))?;
        }
        while self.streamed < self.log.len() {
            self.deliver()?;
        }
        while self.chunks == 0 || !matches!(self.reader, Reader::Idle) {
            self.read()?;
        }
        for key in 0..KEYS {
            if self.topic[key] != Some(self.table[key].0) {
                return Err(format!(
                    "the topic has {:?} of key {key}, the table {:?}",
                    self.topic[key], self.table[key]
                ));
            }
        }
        Ok(())
    }
}

fn run(rules: Rules, first_xid: u64, steps: &[Step]) -> Result<(), String> {
    let mut world = World::new(rules, first_xid);
    for step in steps {
        world.step(step)?;
    }
    world.end()
}

/// Among them some that pass from one epoch to the next.
fn first_xid() -> impl Strategy<Value = u64> {
    prop_oneof![Just(1_000), (1_u64 << 32) - 20..1 << 32]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn the_topic_never_goes_back_and_ends_with_what_the_table_has(
        first_xid in first_xid(),
        steps in prop::collection::vec(step(), 1..80),
    ) {
        prop_assert_eq!(run(ALL, first_xid, &steps), Ok(()));
    }
}

/// What goes wrong without a rule.
fn outcome_without(rules: Rules) -> String {
    let config = Config {
        cases: 20_000,
        failure_persistence: None,
        ..Config::default()
    };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let cases = (first_xid(), prop::collection::vec(step(), 1..80));
    let failed = runner.run(&cases, |(first_xid, steps)| {
        run(rules, first_xid, &steps).map_err(TestCaseError::fail)
    });
    failed.expect_err("every order came out right").to_string()
}

#[test]
fn a_row_goes_back_if_a_snapshot_is_used_that_does_not_see_what_was_delivered() {
    let outcome = outcome_without(Rules { retries: false, ..ALL });
    assert!(outcome.contains("a row of key"), "{outcome}");
}

#[test]
fn a_row_goes_back_if_the_window_is_opened_after_the_snapshot() {
    let outcome = outcome_without(Rules {
        opens_first: false,
        ..ALL
    });
    assert!(outcome.contains("a row of key"), "{outcome}");
}

#[test]
fn a_change_goes_back_if_rows_do_not_wait_for_the_stream() {
    let outcome = outcome_without(Rules { waits: false, ..ALL });
    assert!(outcome.contains("a change of key"), "{outcome}");
}

#[test]
fn a_row_goes_back_if_the_window_does_not_supersede_it() {
    let outcome = outcome_without(Rules {
        supersedes: false,
        ..ALL
    });
    assert!(outcome.contains("a row of key"), "{outcome}");
}

#[test]
fn a_row_goes_back_if_what_waits_at_a_restart_is_not_suspected_of_having_been_delivered() {
    let outcome = outcome_without(Rules { suspects: false, ..ALL });
    assert!(outcome.contains("a row of key"), "{outcome}");
}
