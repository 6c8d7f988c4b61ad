//! Large transactions that Postgres sends while they run: the same records as without, whatever happens in between.

mod order;
mod records;

use crate::harness::{Config, Database, Kafka, Postgres, Walferry, eventually, read};
use std::time::Duration;
use tokio_postgres::Client;

const SOON: Duration = Duration::from_secs(30);
const LATER: Duration = Duration::from_secs(120);

/// From the next connection on, Postgres streams what runs as early as it can: from 64 kB on, and from 16 on every transaction.
pub async fn stream_early(database: &Database<'_>) {
    stream_from_64kb(database).await;
    if database.postgres.version >= 16 {
        let immediate = "ALTER DATABASE {} SET debug_logical_replication_streaming = 'immediate'";
        database.execute(&immediate.replace("{}", &database.name)).await;
    }
}

/// From the next connection on, Postgres streams what runs once it is larger than 64 kB.
pub async fn stream_from_64kb(database: &Database<'_>) {
    let least = "ALTER DATABASE {} SET logical_decoding_work_mem = '64kB'";
    database.execute(&least.replace("{}", &database.name)).await;
}

/// How many transactions came that were streamed while they ran.
pub async fn streamed(walferry: &Walferry) -> u64 {
    let metrics = walferry.metrics().await;
    metrics.series("walferry_replication_messages_total{type=\"stream_commit\"}") as u64
}

/// A database with a table `t`, whose transactions are streamed from 64 kB on.
async fn database(postgres: &Postgres) -> Database<'_> {
    let database = postgres.database().await;
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v text)").await;
    stream_from_64kb(&database).await;
    database
}

/// A further connection.
async fn session(database: &Database<'_>) -> Client {
    database.postgres.connect(&database.name).await
}

/// Inserts rows of 1 kB.
async fn insert(client: &Client, from: u32, to: u32) {
    let rows = format!("INSERT INTO t SELECT n, repeat('x', 1000) FROM generate_series({from}, {to}) n");
    client.batch_execute(&rows).await.unwrap();
}

/// Waits until so many rows have come, of transactions that may still run.
async fn came(walferry: &Walferry, rows: f64) {
    eventually("the rows of a running transaction come", SOON, async || {
        let metrics = walferry.metrics().await;
        let inserts = metrics.series("walferry_replication_messages_total{type=\"insert\"}");
        (inserts >= rows).then_some(())
    })
    .await;
}

/// All is confirmed, and the topic has the table.
async fn is_there(config: &Config, database: &Database<'_>, kafka: &Kafka, walferry: &Walferry) {
    database.confirmed(&config.slot(), LATER, || walferry.log()).await;
    let topic = format!("{}.public.t", config.name());
    let reading = read(&kafka.address, std::slice::from_ref(&topic)).await;
    reading.is_faultless();
    reading.equals(database, "t", &topic).await;
}
