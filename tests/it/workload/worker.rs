//! One connection of the workload: its transactions, and what became of each.

use super::statements::{Statement, Statements};
use crate::harness::connect_to;
use fastrand::Rng;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::RwLock;
use tokio_postgres::{Client, SimpleQueryMessage};

/// Where to connect, and how often a transaction is made.
#[derive(Clone)]
pub struct Source {
    pub port: u16,
    pub database: String,
    /// Whether TRUNCATE is replicated: not by Postgres 10.
    pub truncates: bool,
    /// So many statements a transaction.
    pub statements: Range<u32>,
    /// The pause after a transaction is below this.
    pub pause: Duration,
}

pub struct Worker {
    source: Source,
    client: Client,
    statements: Statements,
}

/// The connection was lost.
struct Lost;

impl Worker {
    pub async fn connect(source: Source, connection: u32, seed: u64) -> Self {
        let client = connect_to(source.port, &source.database).await.unwrap();
        Worker {
            source,
            client,
            statements: Statements {
                rng: Rng::with_seed(seed.wrapping_add(u64::from(connection))),
                connection,
                serial: 0,
            },
        }
    }

    /// Runs until so many changes were committed by all, or until told to stop.
    pub async fn run(mut self, changes: u64, committed: &AtomicU64, stop: &AtomicBool, hold: &RwLock<()>) {
        self.fill(committed).await;
        while committed.load(Ordering::Relaxed) < changes && !stop.load(Ordering::Relaxed) {
            let free = hold.read().await;
            self.transaction(committed).await;
            drop(free);
            if !self.source.pause.is_zero() {
                let most = u64::try_from(self.source.pause.as_micros()).unwrap();
                tokio::time::sleep(Duration::from_micros(self.statements.rng.u64(..most))).await;
            }
        }
    }

    /// A first row of every table: every topic exists at the end.
    async fn fill(&mut self, committed: &AtomicU64) {
        let mut statements = Vec::new();
        for table in 0..5 {
            self.statements.insert(table, &mut statements);
        }
        self.commit(statements, committed, true).await;
    }

    async fn transaction(&mut self, committed: &AtomicU64) {
        // Alone in its transaction: it waits for the others' locks, and must hold none meanwhile.
        if self.statements.rng.u32(..2000) == 0 {
            if self.source.truncates {
                // One change, whatever the number of rows.
                self.commit(vec![Statement::once("TRUNCATE settings")], committed, true)
                    .await;
            }
            return;
        }
        let mut statements = Vec::new();
        let count = self.statements.rng.u32(self.source.statements.clone());
        for _ in 0..count {
            if self.statements.rng.u32(..12) == 0 {
                statements.push(Statement::silent("SAVEPOINT s"));
                let from = statements.len();
                self.statements.statement(&mut statements);
                for undone in &mut statements[from..] {
                    undone.each = 0;
                }
                statements.push(Statement::silent("ROLLBACK TO SAVEPOINT s"));
            } else {
                self.statements.statement(&mut statements);
            }
        }
        let commit = self.statements.rng.u32(..15) != 0;
        self.commit(statements, committed, commit).await;
    }

    /// Runs a transaction, and counts its changes if it was committed: also where the server went away in the middle.
    async fn commit(&mut self, statements: Vec<Statement>, committed: &AtomicU64, commit: bool) {
        match self.begin(&statements).await {
            Ok((xid, changes)) => {
                let ended = self.query(if commit { "COMMIT" } else { "ROLLBACK" }).await.is_ok();
                if commit && (ended || self.was_committed(&xid).await) {
                    committed.fetch_add(changes, Ordering::Relaxed);
                }
                if !ended && !commit {
                    self.reconnect().await;
                }
            }
            Err(Lost) => self.reconnect().await,
        }
    }

    /// All but the end: the transaction's id, and how many changes it is.
    async fn begin(&self, statements: &[Statement]) -> Result<(String, u64), Lost> {
        let mut sql = String::from("BEGIN;SELECT txid_current()");
        for statement in statements {
            sql.push(';');
            sql.push_str(&statement.sql);
        }
        let answer = self.query(&sql).await?;
        let xid = answer.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        });
        let counts: Vec<u64> = answer
            .iter()
            .filter_map(|message| match message {
                SimpleQueryMessage::CommandComplete(rows) => Some(*rows),
                _ => None,
            })
            .collect();
        assert_eq!(counts.len(), statements.len() + 2, "{sql}");
        let changes = statements
            .iter()
            .zip(&counts[2..])
            .map(|(s, rows)| s.changes(*rows))
            .sum();
        Ok((xid.expect("a transaction's id"), changes))
    }

    async fn query(&self, sql: &str) -> Result<Vec<SimpleQueryMessage>, Lost> {
        match self.client.simple_query(sql).await {
            Ok(answer) => Ok(answer),
            // 57P01 to 57P03: the server is stopping, or not there yet.
            Err(error) if error.is_closed() || error.code().is_none_or(|code| code.code().starts_with("57P")) => {
                Err(Lost)
            }
            Err(error) => panic!("{sql}: {error:?}"),
        }
    }

    async fn was_committed(&mut self, xid: &str) -> bool {
        loop {
            self.reconnect().await;
            let Ok(answer) = self.query(&format!("SELECT txid_status({xid})")).await else {
                continue;
            };
            let status = answer.iter().find_map(|message| match message {
                SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
                _ => None,
            });
            match status.as_deref() {
                Some("committed") => return true,
                Some("aborted") => return false,
                _ => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }

    async fn reconnect(&mut self) {
        for _ in 0..1200 {
            if let Ok(client) = connect_to(self.source.port, &self.source.database).await {
                self.client = client;
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("Postgres did not come back within a minute");
    }
}
