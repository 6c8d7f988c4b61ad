//! A transaction that is far larger than the memory that it may take.

use crate::harness::{Config, Kafka, Postgres, Walferry};
use crate::streaming::streamed;
use crate::workload::pipeline;
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::{Offset, TopicPartitionList};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);
const LATER: Duration = Duration::from_secs(240);
const ROWS: i64 = 1_000_000;
const MEMORY_MIB: u64 = 100;

fn header<'a>(message: &'a BorrowedMessage<'_>, name: &str) -> &'a str {
    let header = message.headers().unwrap().iter().find(|header| header.key == name);
    std::str::from_utf8(header.unwrap().value.unwrap()).unwrap()
}

/// The `id` of a key, whose record has nothing else: Avro's zigzag varint after the five bytes of the wire format.
fn id(key: &[u8]) -> i64 {
    let (last, before) = key[5..].split_last().unwrap();
    assert!(*last < 0x80 && before.iter().all(|byte| *byte >= 0x80), "{key:?}");
    let bits = key[5..]
        .iter()
        .rev()
        .fold(0, |bits, byte| bits << 7 | i64::from(byte & 0x7f));
    bits >> 1 ^ -(bits & 1)
}

/// Reads a topic of one partition as far as it goes: the rows 1, 2, 3 … must have the ordinals 0, 1, 2 … of one commit. How
/// many there are.
fn rows_in_order(brokers: &str, topic: &str) -> i64 {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("group.id", "walferry-large-transaction")
        .set("enable.auto.commit", "false")
        .create()
        .unwrap();
    let (begin, end) = consumer.fetch_watermarks(topic, 0, SOON).unwrap();
    let mut assignment = TopicPartitionList::new();
    assignment.add_partition_offset(topic, 0, Offset::Beginning).unwrap();
    consumer.assign(&assignment).unwrap();
    let mut commit = None;
    for row in 0..end - begin {
        let message = consumer.poll(SOON).expect("a record before the end").unwrap();
        assert_eq!(header(&message, "walferry.ordinal").parse(), Ok(row));
        assert_eq!(id(message.key().unwrap()), row + 1);
        let lsn = header(&message, "walferry.commit_lsn");
        assert_eq!(commit.get_or_insert_with(|| lsn.to_owned()), lsn, "row {row}");
    }
    end - begin
}

#[tokio::test(flavor = "multi_thread")]
async fn one_transaction_of_a_million_rows_takes_little_memory() {
    a_million_rows("off").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_transaction_of_a_million_rows_that_is_streamed_takes_little_memory() {
    a_million_rows("on").await;
}

async fn a_million_rows(streaming: &str) {
    let _alone = crate::harness::heavy().await;
    let (postgres, kafka) = (Postgres::shared(16), Kafka::shared());
    let database = postgres.database().await;
    database
        .execute("CREATE TABLE t (id bigint PRIMARY KEY, v text NOT NULL)")
        .await;
    let name = pipeline();
    let config = Config::new(&name, &database, &kafka)
        .text("avro.envelope", "row")
        .text("replication.streaming", streaming)
        .text("delivery.max_in_flight", "16MiB");
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    let wal = database.wal_end().await;
    database
        .execute(&format!(
            "INSERT INTO t SELECT n, md5(n::text) || md5((-n)::text) FROM generate_series(1, {ROWS}) n"
        ))
        .await;
    database.confirmed(&name, LATER, || walferry.log()).await;
    let memory = walferry.peak_memory_mib();
    assert_eq!(streamed(&walferry).await, u64::from(streaming == "on"));
    let wrote = format!(
        "(pg_current_wal_lsn() - '{wal}'::pg_lsn) > {}",
        MEMORY_MIB * 1024 * 1024
    );
    assert!(
        database.is(&wrote).await,
        "the transaction fits into the memory: the test proves nothing"
    );
    assert!(memory < MEMORY_MIB, "{memory} MiB");
    let (brokers, topic) = (kafka.address.clone(), format!("{name}.public.t"));
    let found = tokio::task::spawn_blocking(move || rows_in_order(&brokers, &topic)).await;
    assert_eq!(found.unwrap(), ROWS);
    let exit = walferry.terminate(SOON).await;
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);
    eprintln!("large transaction, streaming {streaming}: {ROWS} rows, {memory} MiB resident at most");
}
