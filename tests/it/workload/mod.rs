//! A mixed workload: five tables, several connections, a seed that is printed.
//!
//! Inserts, updates and deletes of one row and of many, changed keys, NULLs, large values left alone by updates, upserts,
//! savepoints and whole transactions rolled back, truncates. Every connection has its own rows, so that
//! they meet in the WAL and not at locks.

mod statements;
mod worker;

use self::worker::{Source, Worker};
use crate::harness::{Database, Reading, fresh};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedRwLockWriteGuard, RwLock};

/// The tables, in schema public.
pub const TABLES: [&str; 5] = ["accounts", "orders", "documents", "events", "settings"];

const SCHEMA: &str = r#"
CREATE TYPE order_state AS ENUM ('new', 'paid', 'sent', 'größer');
CREATE TABLE accounts (
    id bigint PRIMARY KEY, owner text NOT NULL, balance numeric(12,2), active boolean, opened timestamptz, note varchar(80));
CREATE TABLE orders (
    region text, id int, amount numeric, state order_state, created timestamp, day date, at time,
    PRIMARY KEY (region, id));
CREATE TABLE documents (
    id uuid PRIMARY KEY, body text, meta jsonb, raw bytea, ratio double precision, small real, version int NOT NULL);
ALTER TABLE documents ALTER body SET STORAGE EXTERNAL;
CREATE TABLE events (connection int NOT NULL, kind text, happened timestamptz, payload json);
ALTER TABLE events REPLICA IDENTITY FULL;
CREATE TABLE settings ("Key name" text PRIMARY KEY, "größe" int, "1st" smallint, "order-id" bigint);
"#;

/// Statements of a transaction.
const SMALL: Range<u32> = 1..6;
const LARGE: Range<u32> = 40..160;

pub async fn create_tables(database: &Database<'_>) {
    database.execute(SCHEMA).await;
}

/// The topics of the tables, in their order, by the default template.
pub fn topics(pipeline: &str) -> Vec<String> {
    TABLES
        .iter()
        .map(|table| format!("{pipeline}.public.{table}"))
        .collect()
}

/// `WALFERRY_TEST_SEED`, or one of its own; printed, so that a failure can be had again.
pub fn seed() -> u64 {
    let seed = match std::env::var("WALFERRY_TEST_SEED") {
        Ok(text) => text.parse().expect("WALFERRY_TEST_SEED is a number"),
        Err(_) => fastrand::u64(..),
    };
    eprintln!("workload: WALFERRY_TEST_SEED={seed}");
    seed
}

/// A workload that runs by itself until it has made its changes or is told to stop. Where Postgres goes away in between,
/// it waits for it, and asks what became of the transaction that it was about to commit.
pub struct Workload {
    tasks: Vec<tokio::task::JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    committed: Arc<AtomicU64>,
    /// Each transaction shares it.
    hold: Arc<RwLock<()>>,
}

impl Workload {
    /// At least `changes` committed changes in all, over so many connections; a change of a key counts as two.
    pub async fn start(database: &Database<'_>, connections: u32, changes: u64, seed: u64) -> Self {
        let truncates = database.postgres.version > 10;
        Self::spawn(database, connections, changes, seed, Duration::ZERO, truncates, SMALL).await
    }

    /// The same in transactions of which most are larger than 64 kB.
    pub async fn large(database: &Database<'_>, connections: u32, changes: u64, seed: u64) -> Self {
        let (truncates, pause) = (database.postgres.version > 10, Duration::ZERO);
        Self::spawn(database, connections, changes, seed, pause, truncates, LARGE).await
    }

    /// Such transactions without a bound, each followed by a pause below this.
    pub async fn large_and_paced(database: &Database<'_>, connections: u32, seed: u64, pause: Duration) -> Self {
        let truncates = database.postgres.version > 10;
        Self::spawn(database, connections, u64::MAX, seed, pause, truncates, LARGE).await
    }

    /// Without a bound, until `stop`.
    pub async fn endless(database: &Database<'_>, connections: u32, seed: u64) -> Self {
        Self::start(database, connections, u64::MAX, seed).await
    }

    /// Without a bound, each transaction followed by a pause below this.
    pub async fn paced(database: &Database<'_>, connections: u32, seed: u64, pause: Duration) -> Self {
        let truncates = database.postgres.version > 10;
        Self::spawn(database, connections, u64::MAX, seed, pause, truncates, SMALL).await
    }

    /// The same, for a reader that knows no truncates.
    pub async fn without_truncates(database: &Database<'_>, connections: u32, seed: u64, pause: Duration) -> Self {
        Self::spawn(database, connections, u64::MAX, seed, pause, false, SMALL).await
    }

    async fn spawn(
        database: &Database<'_>,
        connections: u32,
        changes: u64,
        seed: u64,
        pause: Duration,
        truncates: bool,
        statements: Range<u32>,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let committed = Arc::new(AtomicU64::new(0));
        let hold: Arc<RwLock<()>> = Arc::default();
        let source = Source {
            port: database.postgres.port,
            database: database.name.clone(),
            truncates,
            statements,
            pause,
        };
        let mut tasks = Vec::new();
        for connection in 0..connections {
            let worker = Worker::connect(source.clone(), connection, seed).await;
            let (stop, committed, hold) = (stop.clone(), committed.clone(), hold.clone());
            tasks.push(tokio::spawn(async move {
                worker.run(changes, &committed, &stop, &hold).await;
            }));
        }
        Workload {
            tasks,
            stop,
            committed,
            hold,
        }
    }

    /// Until it is let go of no transaction runs. One that a crash of Postgres cut short may have lost its id to another.
    pub async fn hold(&self) -> OwnedRwLockWriteGuard<()> {
        self.hold.clone().write_owned().await
    }

    pub fn committed(&self) -> u64 {
        self.committed.load(Ordering::Relaxed)
    }

    /// Waits for the end; how many changes were committed.
    pub async fn done(self) -> u64 {
        for task in self.tasks {
            task.await.unwrap();
        }
        self.committed.load(Ordering::Relaxed)
    }

    pub async fn stop(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.done().await
    }
}

/// Reads the topics, and holds them against the tables and the count: nothing missing, nothing made up, everything in order.
pub async fn verify(database: &Database<'_>, brokers: &str, pipeline: &str, committed: u64) -> Reading {
    verify_but_for(&[], database, brokers, pipeline, committed).await
}

/// The same, where these kinds of faults are part of the bargain.
pub async fn verify_but_for(
    kinds: &[&str],
    database: &Database<'_>,
    brokers: &str,
    pipeline: &str,
    committed: u64,
) -> Reading {
    let topics = topics(pipeline);
    let mut reading = crate::harness::read(brokers, &topics).await;
    reading.faults.retain(|kind, _| !kinds.contains(&kind.as_str()));
    reading.is_faultless();
    assert_eq!(reading.changes, committed, "changes in Kafka and changes committed");
    for (table, topic) in TABLES.iter().zip(&topics) {
        reading.equals(database, table, topic).await;
    }
    reading
}

/// A pipeline's name that no other test has.
pub fn pipeline() -> String {
    fresh("wf")
}
