//! The slot is held against the recorded position while both move: it never is ahead.

use crate::harness::{Database, connect_to};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const SHOWN_WITHIN: Duration = Duration::from_secs(10);

pub struct Watch {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Seen>>,
}

/// What it has seen.
#[derive(Default)]
pub struct Seen {
    pub samples: u64,
    /// How often the slot had moved since the sample before.
    pub advances: u64,
    /// Where the slot stood further than anything in Kafka.
    pub ahead: Vec<String>,
}

impl Watch {
    pub fn start(database: &Database<'_>, slot: &str, brokers: &str, topic: &str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let (port, database, slot) = (database.postgres.port, database.name.clone(), slot.to_owned());
        let mut positions = Positions::new(brokers, topic, &slot);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
                .unwrap();
            let (mut seen, mut client, mut last) = (Seen::default(), None, 0);
            while !told.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(50));
                // First the slot, then Kafka: what is written from then on does not count.
                let confirmed = runtime.block_on(async {
                    if client.is_none() {
                        client = connect_to(port, &database).await.ok();
                    }
                    let confirmed = confirmed(client.as_ref()?, &slot).await;
                    if confirmed.is_none() {
                        client = None;
                    }
                    confirmed
                });
                let Some(confirmed) = confirmed else { continue };
                let (now, begin) = (SystemTime::now(), Instant::now());
                let mut recorded = positions.furthest(now);
                // A broker that has just begun to lead, or that has slept, may not show all that it has at once.
                while confirmed > recorded && begin.elapsed() < SHOWN_WITHIN {
                    recorded = positions.furthest(now);
                }
                seen.samples += 1;
                seen.advances += u64::from(confirmed > last);
                last = confirmed;
                if confirmed > recorded {
                    seen.ahead
                        .push(format!("{confirmed:X} confirmed, {recorded:X} recorded"));
                }
            }
            seen
        });
        Watch {
            stop,
            thread: Some(thread),
        }
    }

    pub fn finish(mut self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

async fn confirmed(client: &tokio_postgres::Client, slot: &str) -> Option<u64> {
    let sql = "SELECT (confirmed_flush_lsn - '0/0'::pg_lsn)::bigint FROM pg_replication_slots WHERE slot_name = $1::text::name";
    let row = client.query_one(sql, &[&slot]).await.ok()?;
    row.get::<_, Option<i64>>(0).map(|lsn| u64::try_from(lsn).unwrap())
}

/// The topic of positions, read over and over.
struct Positions {
    consumer: BaseConsumer,
    topic: String,
    pipeline: String,
    next: i64,
    /// When each was written, in milliseconds, and what it says.
    positions: Vec<(i64, u64)>,
}

impl Positions {
    fn new(brokers: &str, topic: &str, pipeline: &str) -> Self {
        let consumer = ClientConfig::new()
            .set("bootstrap.servers", brokers)
            .set("group.id", "walferry-watch")
            .set("enable.auto.commit", "false")
            .set("enable.partition.eof", "true")
            .set("fetch.wait.max.ms", "10")
            // A record whose transaction Kafka is just about to end counts: the answer may be with walferry already.
            .set("isolation.level", "read_uncommitted")
            .set("log_level", "0")
            .create()
            .unwrap();
        Positions {
            consumer,
            topic: topic.to_owned(),
            pipeline: pipeline.to_owned(),
            next: 0,
            positions: Vec::new(),
        }
    }

    /// The furthest position of those that Kafka shows and that were written before `then`.
    fn furthest(&mut self, then: SystemTime) -> u64 {
        let then = i64::try_from(then.duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap();
        let mut assignment = TopicPartitionList::new();
        assignment
            .add_partition_offset(&self.topic, 0, Offset::Offset(self.next))
            .unwrap();
        // Anew each time: so the end that is reached is that of an answer which was asked for now.
        self.consumer.assign(&assignment).unwrap();
        // To its end, also when told to stop: librdkafka does not survive that an assignment goes before it has begun.
        loop {
            match self.consumer.poll(Duration::from_millis(100)) {
                Some(Err(KafkaError::PartitionEOF(_))) => {
                    let before = self.positions.iter().filter(|(written, _)| *written <= then);
                    return before.map(|(_, lsn)| *lsn).max().unwrap_or_default();
                }
                // Brokers come and go.
                None | Some(Err(_)) => {}
                Some(Ok(message)) => {
                    self.next = message.offset() + 1;
                    if message.key() == Some(self.pipeline.as_bytes())
                        && let Some(value) = message.payload()
                    {
                        let value: serde_json::Value = serde_json::from_slice(value).unwrap();
                        let written = message.timestamp().to_millis().expect("a record's time");
                        self.positions.push((written, lsn(value["end_lsn"].as_str().unwrap())));
                    }
                }
            }
        }
    }
}

fn lsn(text: &str) -> u64 {
    let (high, low) = text.split_once('/').unwrap();
    (u64::from_str_radix(high, 16).unwrap() << 32) | u64::from_str_radix(low, 16).unwrap()
}
