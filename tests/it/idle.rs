//! A publication that is idle while the server is busy retains no WAL, without a write to the source.

use crate::harness::{Config, Database, Kafka, Postgres, Walferry};
use crate::workload::pipeline;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);
const RETAINED: i64 = 64 * 1024 * 1024;

/// Writes some 20 MB of WAL.
async fn busy(database: &Database<'_>) {
    database
        .execute("INSERT INTO noise SELECT n, repeat('x', 1000) FROM generate_series(1, 15000) n")
        .await;
    database.execute("TRUNCATE noise").await;
}

async fn retains_nothing(published: &Database<'_>, written: &Database<'_>) {
    let kafka = Kafka::shared();
    published.execute("CREATE TABLE quiet (id int PRIMARY KEY)").await;
    written.execute("CREATE TABLE noise (id int, filler text)").await;
    let name = pipeline();
    // A role that may read and replicate, and nothing else: it could not write to the source if it wanted to.
    published
        .execute(&format!(
            "CREATE PUBLICATION {name} FOR TABLE quiet; CREATE ROLE {name} LOGIN REPLICATION; \
             GRANT SELECT ON quiet TO {name}; REVOKE CREATE ON SCHEMA public FROM PUBLIC; \
             REVOKE TEMPORARY ON DATABASE {} FROM PUBLIC",
            published.name
        ))
        .await;
    let config = Config::new(&name, published, &kafka).text("postgres.user", &name);
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;

    let begin = written.wal_end().await;
    let mut highest = 0;
    for _ in 0..16 {
        busy(written).await;
        written.execute("CHECKPOINT").await;
        let end = written.wal_end().await;
        published.confirmed_to(&name, &end, SOON, || walferry.log()).await;
        // restart_lsn follows at the next running-xacts record that is confirmed.
        highest = highest.max(published.retained_wal_bytes(&name).await);
    }
    let wrote: i64 = written
        .value(&format!("SELECT (pg_current_wal_lsn() - '{begin}')::bigint"))
        .await
        .unwrap()
        .parse()
        .unwrap();
    assert!(
        wrote > 3 * RETAINED,
        "the neighbour wrote {wrote} bytes only: the test proves nothing"
    );
    assert!(highest < RETAINED, "{highest} bytes of WAL retained");
    assert_eq!(kafka.topics(&format!("{name}.")).await, Vec::<String>::new());
    let exit = walferry.terminate(SOON).await;
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_publication_beside_a_busy_table_advances() {
    let postgres = Postgres::private(16, &[]);
    let database = postgres.database().await;
    retains_nothing(&database, &database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_publication_beside_a_busy_database_advances() {
    let postgres = Postgres::private(18, &[]);
    let (published, written) = (postgres.database().await, postgres.database().await);
    retains_nothing(&published, &written).await;
}
