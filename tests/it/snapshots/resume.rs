//! Killed at any moment, a snapshot goes on after the last row that Kafka has.

use super::{LATER, SOON, after_kills, all_read, is_faultless_but_for, name, reading, rows_read};
use crate::harness::{Database, Kafka, Postgres, Walferry, heavy, read};
use crate::workload::{TABLES, Workload, create_tables, seed, topics};
use std::collections::BTreeSet;
use std::time::Duration;

/// Tables whose rows nobody touches: a key of two columns, and one in ranges.
const STILL: [(&str, u64); 2] = [("pairs", 12_000), ("numbers", 20_000)];
const STILL_TABLES: &str = "
    CREATE TABLE pairs (a int, b text, v text, PRIMARY KEY (b, a));
    INSERT INTO pairs SELECT n, 'b' || n % 7, repeat('x', n % 50) FROM generate_series(1, 12000) n;
    CREATE TABLE numbers (id bigint PRIMARY KEY, half numeric, at timestamptz DEFAULT now());
    INSERT INTO numbers SELECT n, n / 2.0 FROM generate_series(1, 20000) n;
    ANALYZE pairs; ANALYZE numbers";

/// The tables of which a process has read all.
async fn finished(walferry: &Walferry) -> BTreeSet<String> {
    let status = walferry.status().await;
    let tables = status["snapshot"]["tables"].as_array().cloned().unwrap_or_default();
    let done = tables.iter().filter(|table| table["state"] == "done");
    done.map(|table| table["table"].as_str().unwrap().to_owned()).collect()
}

/// Ten kills in the middle of it. A table that was finished may not be read any more, so that whoever reads it again fails.
async fn killed_ten_times(database: &Database<'_>, kafka: &Kafka, guarantee: &str) -> crate::harness::Reading {
    create_tables(database).await;
    database.execute(STILL_TABLES).await;
    let role = crate::harness::fresh("reader");
    database
        .execute(&format!(
            "CREATE ROLE {role} LOGIN REPLICATION; GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}; \
             GRANT CREATE ON DATABASE \"{}\" TO {role}",
            database.name
        ))
        .await;
    let name = name();
    database
        .execute(&format!("CREATE PUBLICATION {name} FOR ALL TABLES"))
        .await;
    let config = reading(&name, database, kafka, guarantee)
        .text("postgres.user", &role)
        .set("snapshot.parallelism", "3")
        .set("snapshot.max_rows_per_second", "2500");
    let seed = seed();
    let mut pause = fastrand::Rng::with_seed(seed);
    let workload = Workload::paced(database, 4, seed, Duration::from_millis(40)).await;
    let mut revoked = BTreeSet::new();
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    for kill in 0..10 {
        // Somewhere in the middle: the moment is the disturbance, nothing is waited for.
        tokio::time::sleep(Duration::from_millis(pause.u64(300..1500))).await;
        let done = finished(&walferry).await;
        walferry.kill();
        // What it said to be finished may not be recorded yet: the ones before are, for a second at least.
        for table in done.difference(&revoked).cloned().collect::<Vec<_>>() {
            if kill > 0 && guarantee == "exactly-once" {
                database.execute(&format!("REVOKE SELECT ON {table} FROM {role}")).await;
            }
            revoked.insert(table);
        }
        assert!(
            revoked.len() < TABLES.len() + STILL.len(),
            "it was still reading at kill {kill}"
        );
        walferry = Walferry::start(&config);
        walferry.ready(SOON).await;
    }
    all_read(&walferry, LATER).await;
    workload.stop().await;
    database.confirmed(walferry.slot(), LATER, || walferry.log()).await;

    let mut all = topics(&name);
    all.extend(STILL.iter().map(|(table, _)| format!("{name}.public.{table}")));
    let mut reading = read(&kafka.address, &all).await;
    let exit = walferry.terminate(SOON).await;
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);
    is_faultless_but_for(after_kills(guarantee), &mut reading);
    let tables = TABLES.iter().copied().chain(STILL.iter().map(|(table, _)| *table));
    for (table, topic) in tables.zip(&all) {
        // The rows of the one without a key come again where a kill began it anew.
        if table != "events" {
            reading.equals(database, table, topic).await;
        }
    }
    for (table, rows) in STILL {
        let found = rows_read(&reading, &format!("{name}.public.{table}"));
        eprintln!("{table}: {found} read of {rows}");
        match guarantee {
            "exactly-once" => assert_eq!(found, rows, "{table}"),
            _ => assert!((rows..2 * rows).contains(&found), "{table}: {found}"),
        }
    }
    reading
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_kills_under_exactly_once_read_each_row_once_and_no_finished_table_again() {
    let _alone = heavy().await;
    let (postgres, kafka) = (Postgres::shared(16), Kafka::shared());
    let database = postgres.database().await;
    killed_ten_times(&database, &kafka, "exactly-once").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_kills_under_at_least_once_lose_no_row() {
    let _alone = heavy().await;
    let (postgres, kafka) = (Postgres::shared(18), Kafka::shared());
    let database = postgres.database().await;
    killed_ten_times(&database, &kafka, "at-least-once").await;
}
