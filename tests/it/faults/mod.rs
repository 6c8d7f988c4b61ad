//! Both guarantees against whatever goes wrong: a seeded workload, a disturbance, and one verification of what stands in Kafka.

mod brokers;
mod clocks;
mod failpoints;
mod kills;
mod registries;
mod servers;
mod spool;
mod watch;
mod zombies;

use crate::harness::{Config, Database, Kafka, Postgres, Reading, Walferry, eventually};
use crate::workload::{Workload, create_tables, pipeline, seed, topics, verify_but_for};
use fastrand::Rng;
use std::time::Duration;
use watch::Watch;

const SOON: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Guarantee {
    AtLeastOnce,
    ExactlyOnce,
}

impl Guarantee {
    fn name(self) -> &'static str {
        match self {
            Guarantee::AtLeastOnce => "at-least-once",
            Guarantee::ExactlyOnce => "exactly-once",
        }
    }
}

/// A pipeline of a name, a database and topics of its own, that is going to be disturbed.
struct Trial<'a> {
    guarantee: Guarantee,
    database: Database<'a>,
    brokers: String,
    name: String,
    config: Config,
    seed: u64,
    rng: Rng,
    /// Changes committed beside the workload's.
    committed: u64,
    watch: Option<Watch>,
    /// Whether two producers that know nothing of each other may have sent at one time, as no instance is fenced under
    /// at-least-once: between a repeated delete and its tombstone something else may stand then.
    interleaved: bool,
}

impl<'a> Trial<'a> {
    async fn new(guarantee: Guarantee, postgres: &'a Postgres, kafka: &Kafka) -> Self {
        let database = postgres.database().await;
        create_tables(&database).await;
        let (name, seed) = (pipeline(), seed());
        let config = Config::new(&name, &database, kafka)
            .set("kafka.partitions", "3")
            .text("delivery.guarantee", guarantee.name())
            // Of its own: what is read of it is not held back by other pipelines.
            .text("delivery.state_topic", &format!("{name}.state"));
        Trial {
            guarantee,
            brokers: kafka.address.clone(),
            config,
            seed,
            rng: Rng::with_seed(seed),
            committed: 0,
            watch: None,
            interleaved: false,
            name,
            database,
        }
    }

    /// Sets a key of the configuration to a TOML value.
    fn set(mut self, key: &str, value: &str) -> Self {
        self.config = self.config.set(key, value);
        self
    }

    /// Starts walferry, and waits until it streams. From the first time on the slot is held against what Kafka has.
    async fn start(&mut self) -> Walferry {
        let mut walferry = Walferry::start(&self.config);
        walferry.ready(SOON).await;
        self.watch();
        walferry
    }

    fn watch(&mut self) {
        if self.watch.is_none() {
            let topic = format!("{}.state", self.name);
            self.watch = Some(Watch::start(&self.database, &self.name, &self.brokers, &topic));
        }
    }

    /// Some hundred changes a second.
    async fn workload(&self) -> Workload {
        Workload::paced(&self.database, 4, self.seed, Duration::from_millis(100)).await
    }

    /// One transaction of so many changes.
    async fn large_transaction(&mut self, changes: u64) {
        let rows = format!("INSERT INTO events SELECT 1000, n::text FROM generate_series(1, {changes}) n");
        self.database.execute(&rows).await;
        self.committed += changes;
    }

    /// Waits for so many changes more, and until they are confirmed.
    async fn goes_on(&self, workload: &Workload, walferry: &Walferry, changes: u64) {
        let from = workload.committed();
        eventually("the workload goes on", SOON, async || {
            (workload.committed() > from + changes).then_some(())
        })
        .await;
        let limit = Duration::from_secs(120);
        self.database.confirmed(&self.name, limit, || walferry.log()).await;
    }

    /// Ends it, and looks for everything: there, in order, unchanged, and under exactly-once never twice.
    async fn verify(mut self, walferry: &Walferry, workload: Workload) -> Reading {
        let committed = self.committed + workload.stop().await;
        self.database
            .confirmed(&self.name, Duration::from_secs(180), || walferry.log())
            .await;
        let seen = self.watch.take().expect("a watch").finish();
        assert!(seen.ahead.is_empty(), "the slot was ahead of Kafka: {:#?}", seen.ahead);
        assert!(seen.advances > 1, "the slot was not seen to move");
        let but_for: &[&str] = match self.interleaved {
            true => &["tombstones_without_their_delete"],
            false => &[],
        };
        let reading = verify_but_for(but_for, &self.database, &self.brokers, &self.name, committed).await;
        eprintln!(
            "{}: {} changes, {} repeated; the slot was held against Kafka {} times",
            self.guarantee.name(),
            reading.changes,
            reading.duplicates,
            seen.samples
        );
        if self.guarantee == Guarantee::ExactlyOnce {
            assert_eq!(reading.duplicates, 0, "each change once\n{}", walferry.log());
        }
        reading
    }

    /// What is going to happen at that place, to a walferry that is started now.
    fn start_towards(&self, failpoint: &str) -> Walferry {
        Walferry::start_with_failpoint(&self.config, failpoint)
    }
}

/// A pipeline that runs under its workload.
struct Running<'a> {
    trial: Trial<'a>,
    walferry: Walferry,
    workload: Workload,
}

impl<'a> Running<'a> {
    async fn start(mut trial: Trial<'a>) -> Self {
        let walferry = trial.start().await;
        Self::with(trial, walferry).await
    }

    /// With one that streams already.
    async fn with(trial: Trial<'a>, walferry: Walferry) -> Self {
        let workload = trial.workload().await;
        let running = Running {
            trial,
            walferry,
            workload,
        };
        running.goes_on().await;
        running
    }

    fn topics(&self) -> Vec<String> {
        topics(&self.trial.name)
    }

    async fn goes_on(&self) {
        self.trial.goes_on(&self.workload, &self.walferry, 200).await;
    }

    async fn verify(self) -> Reading {
        self.trial.verify(&self.walferry, self.workload).await
    }

    /// What is committed from now on stays unconfirmed for as long as told.
    async fn nothing_is_confirmed(&self, time: Duration) {
        let from = self.workload.committed();
        eventually("the workload goes on", SOON, async || {
            (self.workload.committed() > from + 100).then_some(())
        })
        .await;
        let end = self.trial.database.wal_end().await;
        tokio::time::sleep(time).await;
        let slot = &self.trial.name;
        let behind =
            format!("(SELECT confirmed_flush_lsn < '{end}' FROM pg_replication_slots WHERE slot_name = '{slot}')");
        assert!(self.trial.database.is(&behind).await, "{}", self.walferry.log());
    }
}
