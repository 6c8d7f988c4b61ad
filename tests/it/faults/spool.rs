//! What becomes of large running transactions when the process dies, and when there is no room for them.

use super::{Guarantee, SOON, Trial};
use crate::harness::{Config, Database, Env, Kafka, Postgres, Walferry, fresh};
use crate::streaming::{stream_early, stream_from_64kb, streamed};
use crate::workload::{Workload, pipeline};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A directory of the test's own.
fn directory() -> PathBuf {
    Env::get().private_dir(&fresh("spool"))
}

fn files(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

async fn at_every_place(guarantee: Guarantee, version: u32) {
    let (postgres, kafka) = (Postgres::shared(version), Kafka::shared());
    let directory = directory();
    let mut trial = Trial::new(guarantee, &postgres, &kafka)
        .await
        .set("replication.spool_dir", &format!("{directory:?}"))
        .set("replication.spool_memory", "\"64KiB\"")
        .set("delivery.max_transaction_changes", "1000");
    stream_early(&trial.database).await;
    drop(trial.start().await);
    // What comes while it is down has to be caught up with.
    let pause = Duration::from_secs(3);
    let workload = Workload::large_and_paced(&trial.database, 2, trial.seed, pause).await;
    let mut deaths = vec![
        ("streamed", 1),
        ("streamed", 10),
        ("spooled", 1),
        ("spooled", 4),
        ("enqueued", 1),
        ("enqueued", 700),
        ("enqueued", 2_500),
    ];
    deaths.extend(match guarantee {
        Guarantee::AtLeastOnce => [("delivered", 2), ("recorded", 1)],
        Guarantee::ExactlyOnce => [("committing", 2), ("committed", 2)],
    });
    trial.rng.shuffle(&mut deaths);
    for (place, times) in deaths {
        eprintln!("{}: {place}:{times}", guarantee.name());
        trial.large_transaction(3_000).await;
        let exit = trial.start_towards(&format!("{place}:{times}")).end(SOON).await;
        exit.says(&["failpoint reached"]);
        assert_eq!(exit.signal, Some(6), "{place}:{times}: {}", exit.stderr);
    }
    for _ in 0..3 {
        let mut walferry = trial.start().await;
        trial.large_transaction(6_000).await;
        tokio::time::sleep(Duration::from_millis(trial.rng.u64(200..1500))).await;
        walferry.kill();
    }
    let mut walferry = trial.start().await;
    trial.goes_on(&workload, &walferry, 200).await;
    assert!(streamed(&walferry).await > 0, "{}", walferry.log());
    trial.verify(&walferry, workload).await;
    let exit = walferry.terminate(SOON).await;
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);
    assert_eq!(files(&directory), [""; 0], "the spool leaves nothing behind");
}

#[tokio::test(flavor = "multi_thread")]
async fn at_least_once_loses_nothing_of_large_transactions_wherever_it_dies() {
    at_every_place(Guarantee::AtLeastOnce, 15).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn exactly_once_neither_loses_nor_repeats_of_large_transactions_wherever_it_dies() {
    at_every_place(Guarantee::ExactlyOnce, 18).await;
}

/// A table, and a pipeline that keeps what runs in this directory.
async fn pipeline_with_spool(database: &Database<'_>, kafka: &Kafka, directory: &Path) -> Config {
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v text)").await;
    stream_from_64kb(database).await;
    Config::new(&pipeline(), database, kafka)
        .text("replication.spool_dir", directory.to_str().unwrap())
        .text("replication.spool_memory", "64KiB")
}

/// Rows of 1 kB, in a transaction that runs.
async fn run(database: &Database<'_>, rows: u32) {
    let rows = format!("BEGIN; INSERT INTO t SELECT n, repeat('secret', 170) FROM generate_series(1, {rows}) n");
    database.execute(&rows).await;
}

async fn confirmed(database: &Database<'_>, slot: &str) -> String {
    let slot = format!("SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = '{slot}'");
    database.value(&slot).await.unwrap()
}

/// After the disk was full: with room all of it comes.
async fn comes_with_room(config: Config, database: &Database<'_>, kafka: &Kafka) {
    let config = config.text("replication.spool_max_size", "0B");
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    database.confirmed(walferry.slot(), SOON, || walferry.log()).await;
    let topic = format!("{}.public.t", config.name());
    let reading = crate::harness::read(&kafka.address, std::slice::from_ref(&topic)).await;
    reading.is_faultless();
    reading.equals(database, "t", &topic).await;
    assert_eq!(reading.duplicates, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_of_the_spool_stops_with_the_file_named_and_nothing_of_it_acknowledged() {
    let (postgres, kafka) = (Postgres::shared(17), Kafka::shared());
    let database = postgres.database().await;
    let directory = directory();
    let config = pipeline_with_spool(&database, &kafka, &directory).await;
    let mut walferry = Walferry::start_with_disk(&config, &directory, 1 << 20);
    walferry.ready(SOON).await;
    run(&database, 20_000).await;
    let exit = walferry.end(SOON).await;
    assert_eq!(exit.code, Some(1), "{}", exit.stderr);
    exit.says(&[
        "a running transaction cannot be spooled",
        directory.to_str().unwrap(),
        "No space left on device",
        "make room there",
        "replication.streaming = \"off\"",
    ]);
    assert!(!exit.stderr.contains("secret"), "{}", exit.stderr);
    let before = database.wal_end().await;
    database.execute("COMMIT").await;
    let stands = confirmed(&database, walferry.slot()).await;
    assert!(database.is(&format!("'{stands}'::pg_lsn <= '{before}'::pg_lsn")).await);
    comes_with_room(config, &database, &kafka).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limit_of_the_spool_stops_with_what_to_do_and_without_its_files() {
    let (postgres, kafka) = (Postgres::shared(14), Kafka::shared());
    let database = postgres.database().await;
    let directory = directory().join("made");
    let config = pipeline_with_spool(&database, &kafka, &directory).await;
    let mut walferry = Walferry::start(&config.clone().text("replication.spool_max_size", "1MiB"));
    walferry.ready(SOON).await;
    run(&database, 20_000).await;
    let exit = walferry.end(SOON).await;
    assert_eq!(exit.code, Some(1), "{}", exit.stderr);
    exit.says(&[
        directory.to_str().unwrap(),
        "larger than replication.spool_max_size, which is 1048576 bytes",
        "raise replication.spool_max_size",
    ]);
    assert_eq!(files(&directory), [""; 0]);
    database.execute("COMMIT").await;
    comes_with_room(config, &database, &kafka).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_cannot_be_used_is_refused_by_name_unless_nobody_named_it() {
    let (postgres, kafka) = (Postgres::shared(16), Kafka::shared());
    let database = postgres.database().await;
    let file = directory().join("file");
    std::fs::write(&file, "x").unwrap();
    let config = pipeline_with_spool(&database, &kafka, &file).await;
    let exit = Walferry::to_end(&config, "run", SOON).await;
    assert_eq!(exit.code, Some(1), "{}", exit.stderr);
    exit.says(&["the spool's directory", file.to_str().unwrap(), "replication.spool_dir"]);
    // The system's own directory: it goes on as before there were running transactions.
    let config = config.text("replication.spool_dir", "");
    let mut walferry = Walferry::start_with_variables(&config, &[("TMPDIR", file.to_str().unwrap())]);
    walferry.ready(SOON).await;
    database
        .execute("INSERT INTO t SELECT n, repeat('x', 1000) FROM generate_series(1, 1000) n")
        .await;
    database.confirmed(walferry.slot(), SOON, || walferry.log()).await;
    assert_eq!(streamed(&walferry).await, 0);
    assert!(
        walferry.log().contains("large transactions are not streamed"),
        "{}",
        walferry.log()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spool_file_that_is_damaged_is_named_and_the_transaction_comes_again() {
    let (postgres, kafka) = (Postgres::shared(18), Kafka::shared());
    let database = postgres.database().await;
    let directory = directory();
    let config = pipeline_with_spool(&database, &kafka, &directory).await;
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    run(&database, 5_000).await;
    let name = crate::harness::eventually("a file of some size", SOON, async || {
        let name = files(&directory).pop()?;
        let length = std::fs::metadata(directory.join(&name)).ok()?.len();
        (length > 4 << 20).then_some(name)
    })
    .await;
    let path = directory.join(&name);
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"?", 1 << 20).unwrap();
    database.execute("COMMIT").await;
    database.confirmed(walferry.slot(), SOON, || walferry.log()).await;
    let log = walferry.whole_log();
    let told = log
        .lines()
        .find(|line| line.contains("is damaged at byte"))
        .expect("a line of the log");
    assert!(told.contains(&name) && !log.contains("secretsecret"), "{told}");
    let topic = format!("{}.public.t", config.name());
    let reading = crate::harness::read(&kafka.address, std::slice::from_ref(&topic)).await;
    reading.is_faultless();
    reading.equals(&database, "t", &topic).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streaming_that_is_asked_for_and_not_to_be_had_is_refused() {
    let (postgres, kafka) = (Postgres::shared(13), Kafka::shared());
    let database = postgres.database().await;
    database.execute("CREATE TABLE t (id int PRIMARY KEY)").await;
    let config = Config::new(&pipeline(), &database, &kafka).text("replication.streaming", "on");
    let exit = Walferry::to_end(&config, "run", SOON).await;
    assert_eq!(exit.code, Some(1), "{}", exit.stderr);
    exit.says(&[
        "needs Postgres 14 or later, and the server is 13.",
        "replication.streaming = \"auto\"",
    ]);
}
