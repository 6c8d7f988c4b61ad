//! kill -9, as often as told. `scripts/kills` runs it and prints what came of it.

use super::{Guarantee, Trial};
use crate::harness::{Kafka, Postgres, Walferry};
use std::time::{Duration, Instant};

/// One pipeline that was killed over and over: a line of the report.
async fn killed(guarantee: Guarantee, postgres: &Postgres, kafka: &Kafka, brokers: usize, kills: u64) -> String {
    let begin = Instant::now();
    let mut trial = Trial::new(guarantee, postgres, kafka).await;
    if brokers > 1 {
        trial = trial.set("kafka.replication_factor", "3");
    }
    let mut walferry = trial.start().await;
    let workload = trial.workload().await;
    for kill in 1..=kills {
        let pause = Duration::from_millis(trial.rng.u64(200..1500));
        // Somewhere in the middle: the moment is the disturbance.
        tokio::time::sleep(pause).await;
        walferry.kill();
        walferry = Walferry::start(&trial.config);
        walferry.ready(Duration::from_secs(120)).await;
        if kill % 25 == 0 {
            let changes = workload.committed();
            eprintln!(
                "{}, Postgres {}, {brokers} brokers: {kill} kills, {changes} changes",
                guarantee.name(),
                postgres.version
            );
        }
    }
    let seed = trial.seed;
    // It panics where a change is missing.
    let reading = trial.verify(&walferry, workload).await;
    format!(
        "{:<13} | {:>8} | {brokers:>7} | {kills:>5} | {:>8} | {:>4} | {:>8} | {:>7} | {seed}",
        guarantee.name(),
        postgres.version,
        reading.changes,
        0,
        reading.duplicates,
        begin.elapsed().as_secs()
    )
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "an hour: scripts/kills"]
async fn kill_9_over_and_over_loses_nothing_and_exactly_once_repeats_nothing() {
    let kills = std::env::var("WALFERRY_KILLS").expect("WALFERRY_KILLS: scripts/kills sets it");
    let kills: u64 = kills.parse().expect("WALFERRY_KILLS is a number");
    let mut report = Vec::new();
    for brokers in [1, 3] {
        let kafka = match brokers {
            1 => Kafka::private().await,
            _ => Kafka::cluster(brokers).await,
        };
        for version in [15, 18] {
            let postgres = Postgres::shared(version);
            let (one, other) = tokio::join!(
                killed(Guarantee::AtLeastOnce, &postgres, &kafka, brokers, kills),
                killed(Guarantee::ExactlyOnce, &postgres, &kafka, brokers, kills),
            );
            for line in [one, other] {
                eprintln!("{line}");
                report.push(line);
            }
        }
    }
    eprintln!("\nguarantee     | Postgres | brokers | kills |  changes | lost | repeated | seconds | seed");
    for line in report {
        eprintln!("{line}");
    }
}
