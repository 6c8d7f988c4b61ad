//! The wall clock of the machine is set forwards and backwards by hours, under both guarantees at once. Kafka's and Postgres's are right.

use super::{Guarantee, Running, SOON, Trial};
use crate::harness::{Clock, Kafka, Link, Postgres, Proxy, Walferry, eventually, read_events, read_records};
use std::time::Duration;

const HOUR: i64 = 3600;
/// In turn, how far ahead the clock is set.
const STEPS: [i64; 3] = [3 * HOUR, -5 * HOUR, 0];

/// What would have changed if a connection, a session or the process had been lost.
async fn life(pipeline: &Running<'_>) -> (u32, Option<String>, f64) {
    let metrics = pipeline.walferry.metrics().await;
    (
        pipeline.walferry.pid(),
        pipeline.trial.database.walsender(&pipeline.trial.name).await,
        metrics.value("walferry_reconnects_total"),
    )
}

/// While they stream, nothing comes of it.
async fn set_while_streaming(clock: &mut Clock, ahead: i64, pipelines: &[Running<'_>]) {
    let mut before = Vec::new();
    for pipeline in pipelines {
        before.push(life(pipeline).await);
    }
    clock.set_ahead(ahead);
    for (pipeline, before) in pipelines.iter().zip(before) {
        pipeline.goes_on().await;
        assert_eq!(life(pipeline).await, before, "{}", pipeline.walferry.log());
    }
}

/// While Kafka is away, and is waited for.
async fn set_without_kafka(clock: &mut Clock, ahead: i64, proxy: &Proxy, pipelines: &[Running<'_>]) {
    proxy.set(Link::Refuse);
    for pipeline in pipelines {
        pipeline.nothing_is_confirmed(Duration::from_secs(1)).await;
    }
    clock.set_ahead(ahead);
    for pipeline in pipelines {
        pipeline.nothing_is_confirmed(Duration::from_secs(1)).await;
    }
    proxy.set(Link::Forward);
    for pipeline in pipelines {
        pipeline.goes_on().await;
    }
}

/// While the connection to Postgres is lost, and made again.
async fn set_without_postgres(clock: &mut Clock, ahead: i64, pipelines: &[Running<'_>]) {
    for pipeline in pipelines {
        let (database, slot) = (&pipeline.trial.database, &pipeline.trial.name);
        let before = database.walsender(slot).await.expect("a walsender");
        database
            .execute(&format!("SELECT pg_terminate_backend({before})"))
            .await;
        clock.set_ahead(ahead);
        eventually("another walsender", SOON, async || {
            let now = database.walsender(slot).await?;
            (now != before).then_some(())
        })
        .await;
        pipeline.goes_on().await;
    }
}

/// How many records were made while the clock was so far ahead, within some minutes, as they say themselves beside Postgres's clock.
fn made_while(ahead: i64, differences: &[i64]) -> usize {
    let of_step = |difference: &&i64| (**difference - ahead * 1000).abs() < 300_000;
    differences.iter().filter(of_step).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_set_by_hours_loses_repeats_and_stops_nothing() {
    let postgres = Postgres::shared(17);
    let (kafka, proxy, direct) = Kafka::behind_a_proxy().await;
    let mut clock = Clock::new();
    let mut pipelines = Vec::new();
    for guarantee in [Guarantee::AtLeastOnce, Guarantee::ExactlyOnce] {
        let mut trial = Trial::new(guarantee, &postgres, &kafka).await;
        // What is verified is read beside the proxy.
        trial.brokers.clone_from(&direct);
        let mut walferry = Walferry::start_by(&trial.config, &clock);
        walferry.ready(SOON).await;
        trial.watch();
        pipelines.push(Running::with(trial, walferry).await);
    }

    for ahead in STEPS {
        eprintln!("{ahead} s ahead while streaming");
        set_while_streaming(&mut clock, ahead, &pipelines).await;
    }
    for ahead in STEPS {
        eprintln!("{ahead} s ahead without Postgres");
        set_without_postgres(&mut clock, ahead, &pipelines).await;
    }
    for ahead in STEPS {
        eprintln!("{ahead} s ahead without Kafka");
        set_without_kafka(&mut clock, ahead, &proxy, &pipelines).await;
    }

    for pipeline in pipelines {
        let settings = format!("{}.public.settings", pipeline.trial.name);
        let Running {
            trial,
            mut walferry,
            workload,
        } = pipeline;
        trial.verify(&walferry, workload).await;

        // Nothing happens any more, and it is told to stop.
        clock.set_ahead(-5 * HOUR);
        let exit = walferry.terminate(SOON).await;
        assert_eq!(exit.code, Some(0), "{}", exit.stderr);
        clock.set_ahead(0);

        let records = read_records(&direct, &[settings]).await;
        let differences: Vec<i64> = records
            .iter()
            .filter_map(|record| {
                let value = record.value.as_ref()?;
                Some(value["ts_ms"].as_i64()? - value["source"]["ts_ms"].as_i64()?)
            })
            .collect();
        for ahead in STEPS {
            let made = made_while(ahead, &differences);
            assert!(
                made > 100,
                "{made} records were made while the clock was {ahead} s ahead"
            );
        }
    }
}

/// Positions have no time of walferry's, which Kafka would hold against its own where the topic takes the writer's.
#[tokio::test(flavor = "multi_thread")]
async fn positions_are_recorded_by_a_clock_that_is_ahead_in_a_topic_that_was_made_by_hand() {
    let (postgres, kafka) = (Postgres::shared(16), Kafka::shared());
    let mut clock = Clock::new();
    for guarantee in [Guarantee::AtLeastOnce, Guarantee::ExactlyOnce] {
        let trial = Trial::new(guarantee, &postgres, &kafka).await;
        let (name, database) = (&trial.name, &trial.database);
        let state = format!("{name}.state");
        kafka.create_topic(&state, 1).await;
        kafka.set_topic_config(&state, "cleanup.policy", "compact").await;
        let config = kafka.topic_config(&state).await;
        assert_eq!(config["message.timestamp.type"], "CreateTime");

        for (time, ahead) in (1..).zip([3 * HOUR, -3 * HOUR, 26 * HOUR]) {
            clock.set_ahead(ahead);
            let mut walferry = Walferry::start_by(&trial.config, &clock);
            walferry.ready(SOON).await;
            let rows = format!("INSERT INTO settings SELECT '{time}-' || n FROM generate_series(1, 100) n");
            database.execute(&rows).await;
            database.confirmed(name, SOON, || walferry.log()).await;
            let exit = walferry.terminate(SOON).await;
            assert_eq!(exit.code, Some(0), "{}", exit.stderr);
            assert!(!exit.stderr.contains("did not take"), "{}", exit.stderr);
        }
        let topic = format!("{name}.public.settings");
        let reading = read_events(&kafka.address, std::slice::from_ref(&topic)).await;
        reading.is_faultless();
        assert_eq!((reading.changes, reading.duplicates), (300, 0));
    }
}
