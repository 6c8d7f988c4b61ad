//! The slot: made, looked at and dropped by hand; carried over to a promoted standby.

use crate::harness::{Config, Database, Exit, Kafka, PAIR, Postgres, Proxy, Stop, Walferry, eventually};
use crate::workload::{Workload, create_tables, pipeline, seed, verify};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(60);

async fn command(config: &Config, command: &str) -> Exit {
    Walferry::to_end(config, command, SOON).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_is_made_looked_at_and_dropped_by_hand() {
    let (postgres, kafka) = (Postgres::shared(18), Kafka::shared());
    let database = postgres.database().await;
    create_tables(&database).await;
    let name = pipeline();
    let config = Config::new(&name, &database, &kafka).set("replication.create_slot", "false");

    let missing = command(&config, "slot status").await;
    assert_eq!(missing.code, Some(1));
    missing.says(&[
        &format!("replication slot \"{name}\" does not exist"),
        "walferry slot create",
    ]);

    let created = command(&config, "slot create").await;
    assert_eq!(created.code, Some(0), "{}", created.stderr);
    assert!(
        created
            .stdout
            .starts_with(&format!("slot {name} created; what commits after ")),
        "{}",
        created.stdout
    );
    assert_eq!(
        database.value("SELECT pubname FROM pg_publication").await,
        Some(name.clone())
    );
    let again = command(&config, "slot create").await;
    assert_eq!(again.code, Some(1));
    again.says(&["exists already", "walferry slot drop"]);

    // What commits from here on is kept for the pipeline that starts later.
    let mut committed = Workload::start(&database, 2, 500, seed()).await.done().await;
    let kept = command(&config, "slot status --json").await;
    assert_eq!(kept.code, Some(0), "{}", kept.stderr);
    let status: serde_json::Value = serde_json::from_str(&kept.stdout).unwrap();
    assert_eq!(status["slot"], name.as_str());
    assert_eq!(status["database"], database.name.as_str());
    assert_eq!(status["wal_status"], "reserved");
    assert_eq!(status["failover"], false);
    assert_eq!(status["holder"], serde_json::Value::Null);
    assert!(status["lag_bytes"].as_u64().unwrap() > 10_000, "{status}");
    assert!(
        status["retained_wal_bytes"].as_u64() >= status["lag_bytes"].as_u64(),
        "{status}"
    );

    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    database
        .execute("INSERT INTO events SELECT 77, n::text FROM generate_series(1, 100) n")
        .await;
    committed += 100;
    let used = command(&config, "slot status").await;
    assert_eq!(used.code, Some(0), "{}", used.stderr);
    let walsender = database.walsender(&name).await.unwrap();
    let line =
        format!("in use     by process {walsender} of the server, walferry {name}, role postgres, from 127.0.0.1");
    assert!(used.stdout.contains(&line), "{}", used.stdout);
    let refused = command(&config, "slot drop").await;
    assert_eq!(refused.code, Some(1));
    refused.says(&["is in use by process", "Stop that first"]);

    database.confirmed(&name, SOON, || walferry.log()).await;
    verify(&database, &kafka.address, &name, committed).await;
    assert_eq!(walferry.terminate(SOON).await.code, Some(0));
    let dropped = command(&config, "slot drop").await;
    assert_eq!(dropped.code, Some(0), "{}", dropped.stderr);
    assert!(
        dropped
            .stdout
            .starts_with(&format!("slot {name} dropped; it stood at ")),
        "{}",
        dropped.stdout
    );
    assert!(
        !database
            .is("EXISTS (SELECT FROM pg_replication_slots WHERE database = current_database())")
            .await
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn failover_is_refused_by_a_server_that_does_not_know_it() {
    let (postgres, kafka) = (Postgres::shared(16), Kafka::shared());
    let database = postgres.database().await;
    create_tables(&database).await;
    let config = Config::new(&pipeline(), &database, &kafka).set("replication.failover", "true");
    for run in ["run", "slot create"] {
        let exit = command(&config, run).await;
        assert_eq!(exit.code, Some(1));
        exit.says(&[
            "replication.failover needs Postgres 17 or later",
            "16.",
            "replication.failover = false",
        ]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promoted_standby_of_17_goes_on_with_the_slot_and_nothing_is_lost() {
    promoted(17).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promoted_standby_of_18_goes_on_with_the_slot_and_nothing_is_lost() {
    promoted(18).await;
}

async fn promoted(version: u32) {
    // Once promoted, the standby has none of its own to wait for.
    let waits = |slots| [("synchronized_standby_slots", slots)];
    let (primary, standby) = Postgres::pair(version, &waits("standby"), &waits("")).await;
    let kafka = Kafka::shared();
    let database = primary.database().await;
    create_tables(&database).await;
    let (to_primary, _to_standby) = Proxy::pair(primary.port, standby.port).await;
    let name = pipeline();
    let config = Config::new(&name, &database, &kafka)
        .set("postgres.host", PAIR)
        .set("postgres.port", &to_primary.port.to_string());
    // A slot that was made without it takes failover on at the next start.
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    assert_eq!(walferry.terminate(SOON).await.code, Some(0));
    let config = config.set("replication.failover", "true");
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    let seed = seed();
    let mut committed = Workload::start(&database, 2, 1_000, seed).await.done().await;
    database.confirmed(&name, SOON, || walferry.log()).await;
    let on_standby = standby.connect(&database.name).await;
    standby.has_copy_of(&name, &database.name).await;

    // What the primary commits while walferry is away reaches the standby, and then the primary is gone.
    assert_eq!(walferry.terminate(SOON).await.code, Some(0));
    database
        .execute("INSERT INTO events SELECT 77, n::text FROM generate_series(1, 2000) n")
        .await;
    committed += 2_000;
    let end = database.wal_end().await;
    let replayed = format!("SELECT pg_last_wal_replay_lsn() >= '{end}'::pg_lsn");
    eventually("the standby has it all", SOON, async || {
        let row = on_standby.query_one(&replayed, &[]).await.unwrap();
        row.get::<_, bool>(0).then_some(())
    })
    .await;
    primary.stop(Stop::Immediate);
    drop(to_primary);

    let mut walferry = Walferry::start(&config);
    walferry.not_ready_because("standby", SOON).await;
    assert!(walferry.is_running(), "{}", walferry.log());
    on_standby.execute("SELECT pg_promote()", &[]).await.unwrap();
    walferry.ready(SOON).await;
    let promoted = Database {
        postgres: &standby,
        name: database.name.clone(),
        client: standby.connect(&database.name).await,
    };
    promoted
        .execute("INSERT INTO events SELECT 78, n::text FROM generate_series(1, 500) n")
        .await;
    committed += 500;
    promoted.confirmed(&name, SOON, || walferry.log()).await;
    verify(&promoted, &kafka.address, &name, committed).await;
}
