//! The process dies, is told to stop, or both, at each of the places where that leaves a state of its own (`src/failpoint.rs`).

use super::{Guarantee, SOON, Trial};
use crate::harness::{Exit, Kafka, Postgres};
use crate::workload::Workload;
use std::time::Duration;

/// Where, and at most the how-manieth time.
fn places(guarantee: Guarantee) -> Vec<(&'static str, u64)> {
    let mut places = vec![
        ("enqueued", 1_000),
        ("topic", 5),
        ("registration", 6),
        ("recovering", 1),
        ("recovered", 1),
    ];
    places.extend(match guarantee {
        Guarantee::AtLeastOnce => [("delivered", 2), ("recorded", 2)],
        Guarantee::ExactlyOnce => [("committing", 6), ("committed", 6)],
    });
    places
}

async fn reaches(trial: &Trial<'_>, failpoint: &str) -> Exit {
    let exit = trial.start_towards(failpoint).end(SOON).await;
    exit.says(&["failpoint reached"]);
    exit
}

async fn dies(trial: &Trial<'_>, place: &str, times: u64) {
    let exit = reaches(trial, &format!("{place}:{times}")).await;
    // SIGABRT
    assert_eq!(exit.signal, Some(6), "{place}:{times}: {}", exit.stderr);
}

async fn stops(trial: &Trial<'_>, place: &str, times: u64) {
    let exit = reaches(trial, &format!("{place}:{times}:terminate")).await;
    assert_eq!(exit.code, Some(0), "{place}:{times}: {}", exit.stderr);
}

async fn at_every_place(guarantee: Guarantee, version: u32) {
    let (postgres, kafka) = (Postgres::shared(version), Kafka::shared());
    let mut trial = Trial::new(guarantee, &postgres, &kafka).await;
    // No slot yet, then one and nothing that anybody knows of it.
    dies(&trial, "recovering", 1).await;
    dies(&trial, "recovered", 1).await;
    let workload: Workload = trial.workload().await;
    let mut deaths = Vec::new();
    for (place, most) in places(guarantee) {
        deaths.push((place, 1));
        if most > 1 {
            deaths.push((place, trial.rng.u64(2..=most)));
        }
    }
    trial.rng.shuffle(&mut deaths);
    for (place, times) in deaths {
        eprintln!("{}: {place}:{times}", guarantee.name());
        dies(&trial, place, times).await;
        trial.watch();
    }
    for (place, most) in places(guarantee) {
        let times = trial.rng.u64(1..=most);
        eprintln!("{}: {place}:{times}:terminate", guarantee.name());
        stops(&trial, place, times).await;
    }
    let walferry = trial.start().await;
    trial.verify(&walferry, workload).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn at_least_once_loses_nothing_wherever_it_dies_or_is_stopped() {
    at_every_place(Guarantee::AtLeastOnce, 15).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn exactly_once_neither_loses_nor_repeats_wherever_it_dies_or_is_stopped() {
    at_every_place(Guarantee::ExactlyOnce, 18).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_split_transaction_goes_on_where_the_last_committed_part_ends() {
    let (postgres, kafka) = (Postgres::shared(16), Kafka::shared());
    let trial = Trial::new(Guarantee::ExactlyOnce, &postgres, &kafka).await;
    let mut trial = trial.set("delivery.max_transaction_changes", "1000");
    drop(trial.start().await);
    let workload = trial.workload().await;
    trial.large_transaction(20_000).await;
    let mut deaths = vec![
        ("committing", 1),
        ("committed", 1),
        ("committing", 4),
        ("committed", 3),
        ("enqueued", 2_500),
    ];
    trial.rng.shuffle(&mut deaths);
    for (place, times) in deaths {
        dies(&trial, place, times).await;
    }
    let walferry = trial.start().await;
    trial.large_transaction(5_000).await;
    trial.verify(&walferry, workload).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_that_is_not_reached_leaves_the_process_alone_and_nothing_in_its_log() {
    let (postgres, kafka) = (Postgres::shared(17), Kafka::shared());
    let trial = Trial::new(Guarantee::AtLeastOnce, &postgres, &kafka).await;
    let mut walferry = trial.start_towards("committing:1");
    walferry.ready(SOON).await;
    let exit = walferry.terminate(Duration::from_secs(35)).await;
    assert_eq!((exit.code, exit.stderr.contains("failpoint reached")), (Some(0), false));
}
