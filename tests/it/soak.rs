//! A pipeline for hours, and one disturbance after the other. `scripts/soak` runs it and prints what came of it.

use crate::harness::{Config, Kafka, Link, Postgres, Proxy, Registry, Stop, Walferry, eventually};
use crate::workload::{Workload, create_tables, pipeline, seed, verify};
use fastrand::Rng;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(180);
const MEMORY_MIB: u64 = 150;

/// What is done to the pipeline. Each waits for its own effect: one that was not reached fails the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Disturbance {
    WalferryKilled,
    WalferryStopped,
    WalferryFrozen,
    KafkaKilled,
    KafkaFrozen,
    PostgresStopped,
    PostgresCrashed,
    WalsenderTerminated,
    PostgresConnectionsCut,
    PostgresUnreachable,
    RegistryGone,
    RegistrySilent,
}

const ALL: [Disturbance; 12] = [
    Disturbance::WalferryKilled,
    Disturbance::WalferryStopped,
    Disturbance::WalferryFrozen,
    Disturbance::KafkaKilled,
    Disturbance::KafkaFrozen,
    Disturbance::PostgresStopped,
    Disturbance::PostgresCrashed,
    Disturbance::WalsenderTerminated,
    Disturbance::PostgresConnectionsCut,
    Disturbance::PostgresUnreachable,
    Disturbance::RegistryGone,
    Disturbance::RegistrySilent,
];

impl Disturbance {
    /// Whether another process of walferry runs after it.
    fn replaces_the_process(self) -> bool {
        matches!(
            self,
            Disturbance::WalferryKilled
                | Disturbance::WalferryStopped
                | Disturbance::RegistryGone
                | Disturbance::RegistrySilent
        )
    }
}

struct Soak<'a> {
    postgres: &'a Postgres,
    database: crate::harness::Database<'a>,
    kafka: Kafka,
    to_postgres: Proxy,
    to_registry: Proxy,
    config: Config,
    walferry: Walferry,
    rng: Rng,
    starts: u64,
    reconnects: f64,
    memory: Vec<u64>,
    descriptors: Vec<usize>,
}

impl Soak<'_> {
    async fn some_seconds(&mut self, from: u64, to: u64) {
        let pause = Duration::from_millis(self.rng.u64(from * 1_000..to * 1_000));
        tokio::time::sleep(pause).await;
    }

    /// A new process takes the place of one that ended.
    fn start(&mut self) {
        self.walferry = Walferry::start(&self.config);
        self.starts += 1;
    }

    async fn walsender(&self) -> Option<String> {
        self.database.walsender(self.walferry.slot()).await
    }

    async fn disturb(&mut self, disturbance: Disturbance) {
        match disturbance {
            Disturbance::WalferryKilled => {
                self.walferry.kill();
                self.some_seconds(0, 5).await;
                self.start();
            }
            Disturbance::WalferryStopped => {
                let exit = self.walferry.terminate(Duration::from_secs(60)).await;
                assert_eq!(exit.code, Some(0), "{}", exit.stderr);
                self.start();
            }
            Disturbance::WalferryFrozen => {
                self.walferry.freeze();
                self.some_seconds(5, 20).await;
                self.walferry.thaw();
            }
            Disturbance::KafkaKilled => {
                self.kafka.kill();
                self.nothing_is_confirmed().await;
                self.some_seconds(0, 20).await;
                self.kafka.start();
                self.kafka.ready().await;
            }
            Disturbance::KafkaFrozen => {
                self.kafka.freeze();
                self.nothing_is_confirmed().await;
                self.some_seconds(5, 30).await;
                self.kafka.thaw();
            }
            Disturbance::PostgresStopped | Disturbance::PostgresCrashed => {
                let how = match disturbance {
                    Disturbance::PostgresStopped => Stop::Fast,
                    _ => Stop::Immediate,
                };
                let took = self.postgres.stop(how);
                assert!(took < Duration::from_secs(30), "{disturbance:?} took {took:?}");
                self.walferry.not_ready_because("", SOON).await;
                self.some_seconds(0, 10).await;
                self.postgres.start();
                self.database.reconnect().await;
            }
            Disturbance::WalsenderTerminated => {
                let before = self.walsender().await;
                let slot = self.walferry.slot();
                self.database
                    .execute(&format!(
                        "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '{slot}'"
                    ))
                    .await;
                eventually("another walsender", SOON, async || {
                    let now = self.walsender().await;
                    (now.is_some() && now != before).then_some(())
                })
                .await;
            }
            Disturbance::PostgresConnectionsCut => {
                let before = self.walsender().await;
                self.to_postgres.cut();
                eventually("another walsender", SOON, async || {
                    let now = self.walsender().await;
                    (now.is_some() && now != before).then_some(())
                })
                .await;
            }
            Disturbance::PostgresUnreachable => {
                self.to_postgres.set(Link::BlackHole);
                self.walferry.not_ready_because("", SOON).await;
                self.some_seconds(0, 10).await;
                self.to_postgres.cut();
                self.to_postgres.set(Link::Forward);
            }
            Disturbance::RegistryGone | Disturbance::RegistrySilent => {
                let link = match disturbance {
                    Disturbance::RegistryGone => Link::Refuse,
                    _ => Link::BlackHole,
                };
                self.to_registry.set(link);
                // Only a new process needs the registry.
                self.walferry.kill();
                self.start();
                self.walferry.not_ready_because("registry", SOON).await;
                self.some_seconds(0, 20).await;
                self.to_registry.cut();
                self.to_registry.set(Link::Forward);
            }
        }
    }

    /// Without Kafka, what is committed now stays unconfirmed.
    async fn nothing_is_confirmed(&self) {
        let (slot, end) = (self.walferry.slot(), self.database.wal_end().await);
        eventually("changes behind that position", SOON, async || {
            self.database
                .is(&format!("pg_current_wal_lsn() > '{end}'::pg_lsn + 100000"))
                .await
                .then_some(())
        })
        .await;
        let end = self.database.wal_end().await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        let behind =
            format!("(SELECT confirmed_flush_lsn < '{end}' FROM pg_replication_slots WHERE slot_name = '{slot}')");
        assert!(
            self.database.is(&behind).await,
            "confirmed without Kafka\n{}",
            self.walferry.log()
        );
    }

    async fn sample(&mut self) {
        self.memory.push(self.walferry.resident_memory_mib());
        self.descriptors.push(self.walferry.descriptors());
    }

    async fn count_reconnects(&mut self) {
        self.reconnects += self.walferry.metrics().await.value("walferry_reconnects_total");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "as long as it is told to: scripts/soak"]
async fn a_pipeline_for_hours_through_disturbances_of_every_kind_loses_nothing() {
    let seconds = std::env::var("WALFERRY_SOAK_SECONDS").expect("WALFERRY_SOAK_SECONDS: scripts/soak sets it");
    let length = Duration::from_secs(seconds.parse().expect("WALFERRY_SOAK_SECONDS is a number"));
    let postgres = Postgres::private(17, &[("wal_sender_timeout", "10s")]);
    let (kafka, registry) = (Kafka::private().await, Registry::shared());
    let (to_postgres, to_registry) = (Proxy::start(postgres.port).await, Proxy::start(registry.port()).await);
    let database = postgres.database().await;
    create_tables(&database).await;
    let (name, seed) = (pipeline(), seed());
    let guarantee = std::env::var("WALFERRY_SOAK_GUARANTEE").unwrap_or_else(|_| "at-least-once".to_owned());
    let config = Config::new(&name, &database, &kafka)
        .set("kafka.partitions", "3")
        .text("delivery.guarantee", &guarantee)
        .set("postgres.port", &to_postgres.port.to_string())
        .text("postgres.connect_timeout", "5s")
        .text("schema_registry.url", &registry.url_through(to_registry.port));
    let mut soak = Soak {
        postgres: &postgres,
        walferry: Walferry::start(&config),
        database,
        kafka,
        to_postgres,
        to_registry,
        config,
        rng: Rng::with_seed(seed),
        starts: 1,
        reconnects: 0.0,
        memory: Vec::new(),
        descriptors: Vec::new(),
    };
    soak.walferry.ready(SOON).await;
    // About a million changes in two hours: what the verification can hold in memory.
    let workload = Workload::paced(&soak.database, 4, seed, Duration::from_millis(300)).await;

    let begin = Instant::now();
    let mut done: BTreeMap<Disturbance, u64> = BTreeMap::new();
    let mut round = Vec::new();
    while begin.elapsed() < length || done.len() < ALL.len() {
        if round.is_empty() {
            round = ALL.to_vec();
            soak.rng.shuffle(&mut round);
        }
        let Some(disturbance) = round.pop() else { continue };
        let (pid, before) = (soak.walferry.pid(), workload.committed());
        eprintln!(
            "soak: {:>5} s, {before} changes: {disturbance:?}",
            begin.elapsed().as_secs()
        );
        let replaced = disturbance.replaces_the_process();
        if replaced {
            soak.count_reconnects().await;
        }
        let held = match disturbance {
            Disturbance::PostgresCrashed => Some(workload.hold().await),
            _ => None,
        };
        soak.disturb(disturbance).await;
        drop(held);
        assert_eq!(soak.walferry.pid() != pid, replaced, "{disturbance:?}");
        *done.entry(disturbance).or_default() += 1;
        soak.walferry.ready(SOON).await;
        let after = workload.committed();
        eventually("the workload goes on", SOON, async || {
            (workload.committed() > after).then_some(())
        })
        .await;
        soak.database
            .confirmed(soak.walferry.slot(), SOON, || soak.walferry.log())
            .await;
        soak.some_seconds(5, 30).await;
        soak.sample().await;
    }
    let committed = workload.stop().await;
    soak.database
        .confirmed(soak.walferry.slot(), SOON, || soak.walferry.log())
        .await;
    soak.count_reconnects().await;
    let took = begin.elapsed().as_secs();
    let reading = verify(&soak.database, &soak.kafka.address, &name, committed).await;

    soak.memory.sort_unstable();
    soak.descriptors.sort_unstable();
    eprintln!("soak: {guarantee}, {took} s, seed {seed}");
    eprintln!(
        "soak: {} changes in {} transactions, none missing, {} repeated after crashes",
        reading.changes, reading.transactions, reading.duplicates
    );
    eprintln!("soak: {} disturbances: {done:?}", done.values().sum::<u64>());
    eprintln!(
        "soak: {} starts of walferry, {} reconnects",
        soak.starts, soak.reconnects
    );
    eprintln!(
        "soak: resident memory {} to {} MiB, median {}; descriptors {} to {}, median {}; {} samples",
        soak.memory[0],
        soak.memory[soak.memory.len() - 1],
        soak.memory[soak.memory.len() / 2],
        soak.descriptors[0],
        soak.descriptors[soak.descriptors.len() - 1],
        soak.descriptors[soak.descriptors.len() / 2],
        soak.memory.len(),
    );
    assert!(soak.memory.iter().all(|mib| *mib < MEMORY_MIB), "{:?} MiB", soak.memory);
    if guarantee == "exactly-once" {
        assert_eq!(reading.duplicates, 0, "each change once");
    }
}
