//! A mixed workload: five tables, several connections, a seed that is printed.
//!
//! Inserts, updates and deletes of one row and of many, changed keys, NULLs, large values left alone by updates, upserts,
//! savepoints and whole transactions rolled back, truncates. Every connection has its own rows, so that
//! they meet in the WAL and not at locks.

use crate::harness::{Database, Reading, fresh};
use fastrand::Rng;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio_postgres::{Client, SimpleQueryMessage};

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

/// A workload that runs by itself until it has made its changes or is told to stop.
pub struct Workload {
    tasks: Vec<tokio::task::JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    committed: Arc<AtomicU64>,
}

impl Workload {
    /// At least `changes` committed changes in all, over so many connections; a change of a key counts as two.
    pub async fn start(database: &Database<'_>, connections: u32, changes: u64, seed: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let committed = Arc::new(AtomicU64::new(0));
        let mut tasks = Vec::new();
        for connection in 0..connections {
            let client = database.postgres.connect(&database.name).await;
            let mut worker = Worker {
                client,
                rng: Rng::with_seed(seed.wrapping_add(u64::from(connection))),
                connection,
                serial: 0,
                truncates: database.postgres.version > 10,
            };
            let (stop, committed) = (stop.clone(), committed.clone());
            tasks.push(tokio::spawn(async move {
                worker.fill(&committed).await;
                while committed.load(Ordering::Relaxed) < changes && !stop.load(Ordering::Relaxed) {
                    worker.transaction(&committed).await;
                }
            }));
        }
        Workload { tasks, stop, committed }
    }

    /// Without a bound, until `stop`.
    pub async fn endless(database: &Database<'_>, connections: u32, seed: u64) -> Self {
        Self::start(database, connections, u64::MAX, seed).await
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

struct Worker {
    client: Client,
    rng: Rng,
    connection: u32,
    serial: u32,
    truncates: bool,
}

/// A statement, and how many changes each of its rows is; 0 where it is rolled back.
struct Statement(String, u64);

impl Worker {
    /// A first row of every table: every topic exists at the end.
    async fn fill(&mut self, committed: &AtomicU64) {
        let mut statements = Vec::new();
        for table in 0..5 {
            self.insert(table, &mut statements);
        }
        self.run(statements, committed, true).await;
    }

    async fn transaction(&mut self, committed: &AtomicU64) {
        // Alone in its transaction: it waits for the others' locks, and must hold none meanwhile.
        if self.rng.u32(..2000) == 0 {
            // Postgres 10 does not replicate it.
            if self.truncates {
                self.run(vec![Statement("TRUNCATE settings".to_owned(), 0)], committed, true)
                    .await;
                committed.fetch_add(1, Ordering::Relaxed);
            }
            return;
        }
        let mut statements = Vec::new();
        for _ in 0..self.rng.u32(1..6) {
            if self.rng.u32(..12) == 0 {
                statements.push(Statement("SAVEPOINT s".to_owned(), 0));
                let from = statements.len();
                self.statement(&mut statements);
                for undone in &mut statements[from..] {
                    undone.1 = 0;
                }
                statements.push(Statement("ROLLBACK TO SAVEPOINT s".to_owned(), 0));
            } else {
                self.statement(&mut statements);
            }
        }
        let commit = self.rng.u32(..15) != 0;
        self.run(statements, committed, commit).await;
    }

    async fn run(&self, statements: Vec<Statement>, committed: &AtomicU64, commit: bool) {
        let mut sql = String::from("BEGIN;");
        for Statement(text, _) in &statements {
            sql.push_str(text);
            sql.push(';');
        }
        sql.push_str(if commit { "COMMIT" } else { "ROLLBACK" });
        let answer = self
            .client
            .simple_query(&sql)
            .await
            .unwrap_or_else(|e| panic!("{sql}: {e:?}"));
        let counts: Vec<u64> = answer
            .iter()
            .filter_map(|message| match message {
                SimpleQueryMessage::CommandComplete(rows) => Some(*rows),
                _ => None,
            })
            .collect();
        assert_eq!(counts.len(), statements.len() + 2, "{sql}");
        if commit {
            let changes: u64 = statements
                .iter()
                .zip(&counts[1..])
                .map(|(Statement(_, each), rows)| each * rows)
                .sum();
            committed.fetch_add(changes, Ordering::Relaxed);
        }
    }

    fn statement(&mut self, out: &mut Vec<Statement>) {
        let table = self.rng.usize(..5);
        match self.rng.u32(..100) {
            0..45 => self.insert(table, out),
            45..80 => self.update(table, out),
            80..90 => self.delete(table, out),
            _ => self.change_key(table, out),
        }
    }

    /// Ids of this connection: the connections' own residues modulo 16.
    fn next_id(&mut self) -> u32 {
        self.serial += 1;
        self.serial * 16 + self.connection
    }

    fn some_id(&mut self) -> u32 {
        self.rng.u32(1..=self.serial.max(1)) * 16 + self.connection
    }

    fn or_null(&mut self, value: String) -> String {
        if self.rng.u32(..6) == 0 {
            "NULL".to_owned()
        } else {
            value
        }
    }

    fn word(&mut self) -> String {
        const WORDS: [&str; 8] = [
            "",
            "ferry",
            "Fähre",
            "渡し船",
            "it''s",
            "tab\there",
            "\u{1f6a2}",
            "a\\b",
        ];
        let word = WORDS[self.rng.usize(..WORDS.len())];
        format!("'{word}'")
    }

    fn timestamp(&mut self) -> String {
        let micros = self.rng.i64(-2_000_000_000_000_000..4_000_000_000_000_000);
        format!("(timestamp '2000-01-01' + {micros} * interval '1 microsecond')")
    }

    fn timestamptz(&mut self) -> String {
        format!("({} AT TIME ZONE 'UTC')", self.timestamp())
    }

    fn insert(&mut self, table: usize, out: &mut Vec<Statement>) {
        let id = self.next_id();
        let sql = match table {
            0 => {
                // Many rows of one statement share all but their ordinal.
                let rows = self.rng.u32(1..20);
                self.serial += rows;
                let (balance, active, note) = (self.money(), self.boolean(), self.word());
                let (note, opened) = (self.or_null(note), self.timestamptz());
                format!(
                    "INSERT INTO accounts SELECT {id} + 16 * n, 'owner ' || n, {balance}, {active}, {opened}, {note} \
                     FROM generate_series(0, {rows} - 1) n"
                )
            }
            1 => {
                let (amount, state, created) = (self.numeric(), self.state(), self.timestamp());
                let created = self.or_null(created);
                let (day, micros) = (self.rng.i32(-100_000..100_000), self.rng.u64(..86_400_000_000));
                format!(
                    "INSERT INTO orders VALUES ('r{}', {id}, {amount}, {state}, {created}, date '2000-01-01' + {day}, \
                     time '00:00' + {micros} * interval '1 microsecond')",
                    id % 7
                )
            }
            2 => {
                let size = if self.rng.u32(..4) == 0 {
                    self.rng.u32(3_000..20_000)
                } else {
                    self.rng.u32(..50)
                };
                let meta = self.or_null(format!("'{{\"n\": {id}, \"a\": [1, null, \"ü\"]}}'"));
                let raw = self.or_null(format!("decode('{:08x}00ff', 'hex')", self.rng.clone().u32(..)));
                let (ratio, small) = (self.eighth(), self.eighth());
                format!(
                    "INSERT INTO documents VALUES ({}, repeat('{}', {size}), {meta}, {raw}, {ratio}, {small}, 0)",
                    uuid(id),
                    char::from(b'a' + self.rng.u8(..26))
                )
            }
            3 => {
                let (kind, happened) = (self.word(), self.timestamptz());
                let (kind, happened) = (self.or_null(kind), self.or_null(happened));
                let payload = self.or_null(format!("'{{\"a\":{id},  \"a\":12345678901234567890}}'"));
                format!(
                    "INSERT INTO events VALUES ({}, {kind}, {happened}, {payload})",
                    self.connection
                )
            }
            _ => {
                let (size, first) = (self.rng.i32(..), self.rng.i16(..));
                let (size, first) = (
                    self.or_null(size.to_string()),
                    self.or_null(format!("'{first}'::smallint")),
                );
                format!(
                    "INSERT INTO settings VALUES ('k{}', {size}, {first}, {id}) \
                     ON CONFLICT (\"Key name\") DO UPDATE SET \"größe\" = EXCLUDED.\"größe\"",
                    self.settings_key()
                )
            }
        };
        out.push(Statement(sql, 1));
    }

    fn update(&mut self, table: usize, out: &mut Vec<Statement>) {
        let id = self.some_id();
        let sql = match table {
            0 => {
                let (balance, note) = (self.money(), self.word());
                let note = self.or_null(note);
                format!(
                    "UPDATE accounts SET balance = {balance}, note = {note} \
                     WHERE id BETWEEN {id} AND {id} + 80 AND id % 16 = {}",
                    self.connection
                )
            }
            1 => {
                let (amount, state) = (self.numeric(), self.state());
                let state = self.or_null(state);
                format!(
                    "UPDATE orders SET amount = {amount}, state = {state} WHERE region = 'r{}' AND id = {id}",
                    id % 7
                )
            }
            // Leaves the large value alone.
            2 => format!("UPDATE documents SET version = version + 1 WHERE id = {}", uuid(id)),
            3 => {
                let kind = self.word();
                format!(
                    "UPDATE events SET kind = {kind} WHERE ctid = (SELECT ctid FROM events WHERE connection = {} \
                     OFFSET {} LIMIT 1)",
                    self.connection,
                    id % 20
                )
            }
            _ => {
                let key = self.settings_key();
                format!("UPDATE settings SET \"order-id\" = NULL WHERE \"Key name\" = 'k{key}'")
            }
        };
        out.push(Statement(sql, 1));
    }

    fn delete(&mut self, table: usize, out: &mut Vec<Statement>) {
        let id = self.some_id();
        let sql = match table {
            0 => format!(
                "DELETE FROM accounts WHERE id BETWEEN {id} AND {id} + 32 AND id % 16 = {}",
                self.connection
            ),
            1 => format!("DELETE FROM orders WHERE region = 'r{}' AND id = {id}", id % 7),
            2 => format!("DELETE FROM documents WHERE id = {}", uuid(id)),
            3 => format!(
                "DELETE FROM events WHERE ctid = (SELECT ctid FROM events WHERE connection = {} LIMIT 1)",
                self.connection
            ),
            _ => format!("DELETE FROM settings WHERE \"Key name\" = 'k{}'", self.settings_key()),
        };
        out.push(Statement(sql, 1));
    }

    /// A new key is a delete and a create.
    fn change_key(&mut self, table: usize, out: &mut Vec<Statement>) {
        let (id, new) = (self.some_id(), self.next_id());
        let sql = match table {
            0 => format!("UPDATE accounts SET id = {new} WHERE id = {id}"),
            1 => format!(
                "UPDATE orders SET id = {new}, region = 'r{}' WHERE region = 'r{}' AND id = {id}",
                new % 7,
                id % 7
            ),
            2 => format!("UPDATE documents SET id = {} WHERE id = {}", uuid(new), uuid(id)),
            _ => return self.insert(table, out),
        };
        out.push(Statement(sql, 2));
    }

    fn settings_key(&mut self) -> u32 {
        self.rng.u32(..50) * 16 + self.connection
    }

    fn money(&mut self) -> String {
        let cents = self.rng.i64(-99_999_999_999..99_999_999_999);
        self.or_null(format!(
            "{}{}.{:02}",
            if cents < 0 { "-" } else { "" },
            cents.abs() / 100,
            cents.abs() % 100
        ))
    }

    fn numeric(&mut self) -> String {
        let digits = self.rng.usize(1..40);
        let number: String = (0..digits).map(|_| char::from(b'0' + self.rng.u8(..10))).collect();
        let scale = self.rng.usize(..15);
        match self.rng.u32(..20) {
            0 => "'NaN'".to_owned(),
            1 => "NULL".to_owned(),
            2 => "0.000".to_owned(),
            _ => format!("{number}.{:0scale$}", self.rng.u32(..10)),
        }
    }

    /// Exact in either float, and printed alike by every server.
    fn eighth(&mut self) -> String {
        let n = self.rng.i32(-8000..8000);
        match self.rng.u32(..20) {
            0 => "'NaN'".to_owned(),
            1 => "'-Infinity'".to_owned(),
            2 => "NULL".to_owned(),
            _ => format!("{}", f64::from(n) / 8.0),
        }
    }

    fn boolean(&mut self) -> String {
        let value = self.rng.bool().to_string();
        self.or_null(value)
    }

    fn state(&mut self) -> String {
        format!("'{}'", ["new", "paid", "sent", "größer"][self.rng.usize(..4)])
    }
}

fn uuid(id: u32) -> String {
    format!("'{id:08x}-1234-4abc-8def-0123456789ab'")
}

/// Reads the topics, and holds them against the tables and the count: nothing missing, nothing made up, everything in order.
pub async fn verify(database: &Database<'_>, brokers: &str, pipeline: &str, committed: u64) -> Reading {
    let topics = topics(pipeline);
    let reading = crate::harness::read(brokers, &topics).await;
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
