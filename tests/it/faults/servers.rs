//! Links to the servers that misbehave, Postgres that goes away, and signals, under both guarantees at once.

use super::{Guarantee, Running, SOON, Trial};
use crate::harness::{Kafka, Link, Postgres, Proxy, Stop, Walferry, eventually};
use rustix::process::Signal;
use std::time::Duration;

async fn both_go_on(pipelines: &[Running<'_>]) {
    for pipeline in pipelines {
        pipeline.goes_on().await;
    }
}

/// A link that is slow or falls silent, and is whole again.
async fn disturb(proxy: &Proxy, link: Link, pipelines: &[Running<'_>]) {
    eprintln!("{link:?}");
    let before = proxy.disturbed();
    proxy.set(link);
    match link {
        // It passes, if slowly.
        Link::Delayed | Link::Trickling => both_go_on(pipelines).await,
        Link::HalfClosed => {
            eventually("a connection is half closed", SOON, async || {
                (proxy.disturbed() > before).then_some(())
            })
            .await;
        }
        _ => {
            for pipeline in pipelines {
                pipeline.nothing_is_confirmed(Duration::from_secs(2)).await;
            }
        }
    }
    let reached = proxy.disturbed() > before;
    assert_eq!(reached, !matches!(link, Link::BlackHole | Link::Refuse), "{link:?}");
    proxy.set(Link::Forward);
    if matches!(link, Link::BlackHole | Link::HalfClosed) {
        proxy.cut();
    }
    both_go_on(pipelines).await;
}

const LINKS: [Link; 5] = [
    Link::Delayed,
    Link::Trickling,
    Link::HalfClosed,
    Link::BlackHole,
    Link::Refuse,
];

#[tokio::test(flavor = "multi_thread")]
async fn a_link_to_kafka_that_is_slow_half_closed_silent_or_cut_loses_nothing() {
    let postgres = Postgres::shared(18);
    let (kafka, proxy, direct) = Kafka::behind_a_proxy().await;
    let running = async |guarantee| {
        let mut trial = Trial::new(guarantee, &postgres, &kafka).await;
        // What is verified is read beside the proxy.
        trial.brokers.clone_from(&direct);
        Running::start(trial).await
    };
    let pipelines = [
        running(Guarantee::AtLeastOnce).await,
        running(Guarantee::ExactlyOnce).await,
    ];
    for link in LINKS {
        disturb(&proxy, link, &pipelines).await;
    }
    for pipeline in pipelines {
        pipeline.verify().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn exactly_once_survives_what_postgres_and_the_link_to_it_do() {
    let postgres = Postgres::private(16, &[("wal_sender_timeout", "6s")]);
    let kafka = Kafka::shared();
    let proxy = Proxy::start(postgres.port).await;
    let trial = Trial::new(Guarantee::ExactlyOnce, &postgres, &kafka).await;
    let trial = trial
        .set("postgres.port", &proxy.port.to_string())
        .set("postgres.connect_timeout", "\"2s\"");
    let mut pipelines = [Running::start(trial).await];
    for link in LINKS {
        disturb(&proxy, link, &pipelines).await;
    }

    eprintln!("the walsender is killed");
    let [pipeline] = &pipelines;
    let (database, slot) = (&pipeline.trial.database, &pipeline.trial.name);
    let before = database.walsender(slot).await.expect("a walsender");
    database
        .execute(&format!("SELECT pg_terminate_backend({before})"))
        .await;
    eventually("another walsender", SOON, async || {
        let now = database.walsender(slot).await?;
        (now != before).then_some(())
    })
    .await;
    both_go_on(&pipelines).await;

    for how in [Stop::Fast, Stop::Immediate] {
        eprintln!("Postgres ends");
        let [pipeline] = &mut pipelines;
        let held = match how {
            Stop::Fast => None,
            Stop::Immediate => Some(pipeline.workload.hold().await),
        };
        postgres.stop(how);
        drop(held);
        pipeline.walferry.not_ready_because("", SOON).await;
        postgres.start();
        pipeline.trial.database.reconnect().await;
        both_go_on(&pipelines).await;
    }
    for pipeline in pipelines {
        pipeline.verify().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_pipe_is_survived_and_a_hangup_loses_nothing() {
    let (postgres, kafka) = (Postgres::shared(15), Kafka::shared());
    let mut trial = Trial::new(Guarantee::ExactlyOnce, &postgres, &kafka).await;
    let mut walferry = trial.start().await;
    let workload = trial.workload().await;
    trial.goes_on(&workload, &walferry, 200).await;
    walferry.signal(Signal::PIPE);
    trial.goes_on(&workload, &walferry, 200).await;
    assert!(walferry.is_running(), "SIGPIPE ends nothing");
    walferry.signal(Signal::HUP);
    let exit = walferry.end(SOON).await;
    assert_eq!(exit.signal, Some(1), "ended by SIGHUP: {}", exit.stderr);
    let walferry: Walferry = trial.start().await;
    trial.goes_on(&workload, &walferry, 200).await;
    trial.verify(&walferry, workload).await;
}
