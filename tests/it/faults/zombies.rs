//! Two instances of one pipeline, of which the one that streamed sleeps, and wakes up when the other has taken over.

use super::{Guarantee, SOON, Trial};
use crate::harness::{Kafka, Postgres, Walferry, eventually, read_uncommitted};
use crate::workload::topics;
use std::time::Duration;

/// Postgres lets the slot go, as it does when nothing is heard of its reader for wal_sender_timeout.
async fn postgres_gives_up(trial: &Trial<'_>) {
    let slot = &trial.name;
    trial
        .database
        .execute(&format!(
            "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '{slot}' AND active"
        ))
        .await;
    trial.database.walsender_gone(slot).await;
}

/// The first instance freezes itself at this place; the other takes over; the first wakes up, and waits; the other is killed, and the
/// first takes over again.
async fn wakes_up_after(guarantee: Guarantee, failpoint: &str) {
    let (postgres, kafka) = (Postgres::shared(18), Kafka::shared());
    let mut trial = Trial::new(guarantee, &postgres, &kafka).await;
    trial.interleaved = guarantee == Guarantee::AtLeastOnce;
    trial.start().await.terminate(SOON).await;
    let workload = trial.workload().await;
    let mut sleeper = trial.start_towards(failpoint);
    sleeper.frozen(SOON).await;
    assert!(sleeper.whole_log().contains("failpoint reached"), "{}", sleeper.log());
    postgres_gives_up(&trial).await;
    let mut other = trial.start().await;
    trial.goes_on(&workload, &other, 300).await;
    sleeper.thaw();
    sleeper.not_ready_because("slot", SOON).await;
    other.ready(SOON).await;
    trial.goes_on(&workload, &other, 300).await;
    assert!(sleeper.is_running() && other.is_running());
    other.kill();
    sleeper.ready(SOON).await;
    trial.goes_on(&workload, &sleeper, 300).await;
    trial.verify(&sleeper, workload).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_sleeps_while_it_sends_publishes_nothing_after_another_took_over() {
    wakes_up_after(Guarantee::ExactlyOnce, "enqueued:200:freeze").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_sleeps_inside_a_commit_publishes_nothing_after_another_took_over() {
    wakes_up_after(Guarantee::ExactlyOnce, "committing:3:freeze").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_sleeps_between_commit_and_confirmation_repeats_nothing_after_another_took_over() {
    wakes_up_after(Guarantee::ExactlyOnce, "committed:3:freeze").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_sleeps_before_it_publishes_anything_publishes_nothing_after_another_took_over() {
    wakes_up_after(Guarantee::ExactlyOnce, "recovered:1:freeze").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn at_least_once_one_that_sleeps_before_it_records_loses_nothing_after_another_took_over() {
    wakes_up_after(Guarantee::AtLeastOnce, "delivered:2:freeze").await;
}

/// It fences when it wakes up, though the slot is another's by then: that one begins anew.
#[tokio::test(flavor = "multi_thread")]
async fn one_that_sleeps_before_it_fences_costs_the_other_a_session_and_no_change() {
    let (postgres, kafka) = (Postgres::shared(18), Kafka::shared());
    let mut trial = Trial::new(Guarantee::ExactlyOnce, &postgres, &kafka).await;
    trial.start().await.terminate(SOON).await;
    let workload = trial.workload().await;
    let mut sleeper = trial.start_towards("recovering:1:freeze");
    sleeper.frozen(SOON).await;
    postgres_gives_up(&trial).await;
    let mut other = trial.start().await;
    trial.goes_on(&workload, &other, 300).await;
    sleeper.thaw();
    eventually("the other is fenced", SOON, async || {
        let sessions = other.metrics().await;
        (sessions.series("walferry_reconnects_total{peer=\"kafka\"}") > 0.0).then_some(())
    })
    .await;
    // Whoever is first has the slot.
    eventually("one of them streams", SOON, async || {
        let streams = async |one: &Walferry| one.readiness().await.is_some_and(|(status, _)| status == 200);
        (streams(&sleeper).await || streams(&other).await).then_some(())
    })
    .await;
    trial.goes_on(&workload, &other, 300).await;
    assert!(sleeper.is_running() && other.is_running());
    other.kill();
    sleeper.ready(SOON).await;
    trial.verify(&sleeper, workload).await;
}

/// Two instances, each of which sleeps in turn wherever it is.
#[tokio::test(flavor = "multi_thread")]
async fn instances_that_fall_asleep_in_turn_publish_each_change_once() {
    let (postgres, kafka) = (Postgres::shared(15), Kafka::shared());
    let mut trial = Trial::new(Guarantee::ExactlyOnce, &postgres, &kafka).await;
    let mut streaming = trial.start().await;
    let mut waiting = Walferry::start(&trial.config);
    waiting.not_ready_because("slot", SOON).await;
    let workload = trial.workload().await;
    for _ in 0..4 {
        trial.goes_on(&workload, &streaming, 100).await;
        let pause = Duration::from_millis(trial.rng.u64(0..300));
        // Somewhere in the middle: the moment is the disturbance.
        tokio::time::sleep(pause).await;
        streaming.freeze();
        postgres_gives_up(&trial).await;
        waiting.ready(SOON).await;
        trial.goes_on(&workload, &waiting, 100).await;
        streaming.thaw();
        streaming.not_ready_because("slot", SOON).await;
        std::mem::swap(&mut streaming, &mut waiting);
    }
    let (name, brokers) = (trial.name.clone(), trial.brokers.clone());
    let reading = trial.verify(&streaming, workload).await;
    let all = read_uncommitted(&brokers, &topics(&name)).await;
    assert!(
        all.records > reading.records,
        "none of the sleepers had anything in an open transaction"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn one_whose_transaction_kafka_gave_up_begins_anew_by_itself() {
    let postgres = Postgres::shared(17);
    let kafka = Kafka::private_with(&[("transaction.abort.timed.out.transaction.cleanup.interval.ms", "500")]).await;
    let trial = Trial::new(Guarantee::ExactlyOnce, &postgres, &kafka).await;
    let mut trial = trial.set("kafka.properties", "{ \"transaction.timeout.ms\" = \"4000\" }");
    trial.start().await.terminate(SOON).await;
    let workload = trial.workload().await;
    let mut sleeper = trial.start_towards("committing:3:freeze");
    sleeper.frozen(SOON).await;
    let pid = sleeper.pid();
    // The length of the sleep is the disturbance.
    tokio::time::sleep(Duration::from_secs(8)).await;
    sleeper.thaw();
    // Kafka refuses its epoch, or what it had sent before it slept is too old by its own clock: whichever it looks at first.
    eventually("it gives its transaction up", SOON, async || {
        let sessions = sleeper.metrics().await;
        (sessions.series("walferry_reconnects_total{peer=\"kafka\"}") > 0.0).then_some(())
    })
    .await;
    sleeper.ready(SOON).await;
    trial.goes_on(&workload, &sleeper, 300).await;
    assert_eq!((sleeper.is_running(), sleeper.pid()), (true, pid));
    trial.verify(&sleeper, workload).await;
}

/// The sleeper has a position to record that is older than what the other has recorded since.
#[tokio::test(flavor = "multi_thread")]
async fn a_position_that_a_sleeper_records_late_is_no_gap() {
    let (postgres, kafka) = (Postgres::shared(16), Kafka::shared());
    let mut trial = Trial::new(Guarantee::AtLeastOnce, &postgres, &kafka).await;
    trial.interleaved = true;
    trial.start().await.terminate(SOON).await;
    let workload = trial.workload().await;
    let mut sleeper = trial.start_towards("delivered:2:freeze");
    sleeper.frozen(SOON).await;
    postgres_gives_up(&trial).await;
    let mut other = trial.start().await;
    trial.goes_on(&workload, &other, 300).await;
    other.kill();
    trial.database.walsender_gone(&trial.name).await;
    sleeper.thaw();
    sleeper.ready(SOON).await;
    trial.verify(&sleeper, workload).await;
}
