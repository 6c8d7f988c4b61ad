//! The recorded position of a pipeline: written, and read back after a crash.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::config::FromClientConfigAndContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use rdkafka::{Offset, TopicPartitionList};

use super::context::AdminContext;
use super::{KafkaError, KafkaSettings, Producer, TopicUse, properties};

/// Limit of one request.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How long nothing of what was just written may show. It waits for transactions of other pipelines that were open before it.
const SILENCE: Duration = Duration::from_secs(60);
const TURN: Duration = Duration::from_millis(100);
/// How far back to look first.
const NEAR: i64 = 500;
/// And by what factor further, as long as nothing is found.
const FURTHER: i64 = 20;

/// What is recorded of a pipeline. A removed record is none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Where its published changes end.
    pub position: Option<Vec<u8>>,
    /// How far its snapshots are.
    pub snapshot: Option<Vec<u8>>,
}

/// What was found between two offsets: a record, its removal, or nothing.
#[derive(Default)]
#[expect(clippy::option_option, reason = "nothing there, or a tombstone, or a record")]
struct Found {
    position: Option<Option<Vec<u8>>>,
    snapshot: Option<Option<Vec<u8>>>,
}

/// Where the position of a pipeline is recorded: a compacted topic of one partition that pipelines share, by the pipeline's name.
#[derive(Debug, Clone)]
pub struct StateTopic {
    /// Its name.
    pub topic: String,
    /// The key.
    pub pipeline: String,
    /// Whether a position, the first, says less than one that was written before it, the second.
    pub outdated: fn(&[u8], &[u8]) -> bool,
}

impl StateTopic {
    /// Sees to it that the topic is there, and keeps what is written.
    ///
    /// # Errors
    /// Those of [`Producer::ensure_topic`]; a topic that is not compacted.
    pub async fn ensure(&self, producer: &Producer) -> Result<(), KafkaError> {
        producer.ensure_topic(&self.topic, TopicUse::State).await.map(drop)
    }

    /// Writes the position, and waits until Kafka has it. Under transactions it counts once the open one is committed.
    ///
    /// # Errors
    /// Kafka did not take it.
    pub async fn write(&self, producer: &Arc<Producer>, value: &[u8]) -> Result<(), KafkaError> {
        producer
            .deliver(&self.topic, self.pipeline.as_bytes(), Some(value))
            .await
    }

    /// Writes how far the snapshots are, in the same way.
    ///
    /// # Errors
    /// Kafka did not take it.
    pub async fn write_snapshot(&self, producer: &Arc<Producer>, value: &[u8]) -> Result<(), KafkaError> {
        producer
            .deliver(&self.topic, self.snapshot_key().as_bytes(), Some(value))
            .await
    }

    /// No name of a pipeline has a colon.
    fn snapshot_key(&self) -> String {
        format!("{}:snapshot", self.pipeline)
    }

    /// Removes the position that was written before, so that it outdates nothing.
    ///
    /// # Errors
    /// Kafka did not take the tombstone.
    pub async fn clear(&self, producer: &Arc<Producer>) -> Result<(), KafkaError> {
        producer.deliver(&self.topic, self.pipeline.as_bytes(), None).await
    }

    /// What was written last, and, under transactions, committed. A position that an earlier one outdates does not count.
    ///
    /// A plain read may be stale: what was committed a moment ago does not show before transactions of others that are open in
    /// the partition have ended. So a mark is written, and everything up to it is read.
    ///
    /// # Errors
    /// The mark was not taken, or does not show.
    pub async fn recover(&self, producer: &Arc<Producer>) -> Result<Recovered, KafkaError> {
        let mark = Mark {
            // No name of a pipeline, which is text, has this key.
            key: [&[0xFF], self.pipeline.as_bytes()].concat(),
            value: format!("{{\"start\":\"{:016x}\"}}", fastrand::u64(..)),
        };
        producer
            .deliver(&self.topic, &mark.key, Some(mark.value.as_bytes()))
            .await?;
        producer.commit().await?;
        let (topic, settings) = (self.clone(), producer.settings.clone());
        let read = tokio::task::spawn_blocking(move || topic.read_up_to(&mark, &settings)).await;
        read.map_err(|_| KafkaError::Stopping)?
    }

    fn read_up_to(&self, mark: &Mark, settings: &KafkaSettings) -> Result<Recovered, KafkaError> {
        // Asked for by librdkafka, and used for nothing: no member, no offset.
        let group = format!("walferry.{}.state", self.pipeline);
        let config = properties::consumer_config(settings, &group)?;
        let consumer: BaseConsumer<AdminContext> =
            BaseConsumer::from_config_and_context(&config, AdminContext::default()).map_err(KafkaError::from_client)?;
        let failed = |error: rdkafka::error::KafkaError| self.unreadable(&error);
        let (low, high) = consumer.fetch_watermarks(&self.topic, 0, TIMEOUT).map_err(failed)?;
        let mut distance = NEAR;
        loop {
            let from = high.saturating_sub(distance).max(low);
            let found = self.read_from(&consumer, from, mark)?;
            if (found.position.is_some() && found.snapshot.is_some()) || from <= low {
                return Ok(Recovered {
                    position: found.position.flatten(),
                    snapshot: found.snapshot.flatten(),
                });
            }
            distance = distance.saturating_mul(FURTHER);
        }
    }

    /// What stands last under the pipeline's keys, from this offset up to the mark.
    fn read_from(&self, consumer: &BaseConsumer<AdminContext>, from: i64, mark: &Mark) -> Result<Found, KafkaError> {
        let failed = |error: rdkafka::error::KafkaError| self.unreadable(&error);
        let mut assignment = TopicPartitionList::new();
        assignment
            .add_partition_offset(&self.topic, 0, Offset::Offset(from))
            .map_err(failed)?;
        consumer.assign(&assignment).map_err(failed)?;
        let snapshot_key = self.snapshot_key();
        let mut found = Found::default();
        let mut heard = Instant::now();
        let mut last = None;
        while heard.elapsed() < SILENCE {
            match consumer.poll(TURN) {
                None => {}
                // Connections come and go; a group that may not be used is not used.
                Some(Err(error)) => last = Some(error),
                Some(Ok(message)) => {
                    heard = Instant::now();
                    match message.key() {
                        Some(key) if key == self.pipeline.as_bytes() => {
                            let (late, early) = (message.payload(), found.position.as_ref().and_then(Option::as_ref));
                            if !late
                                .zip(early)
                                .is_some_and(|(late, early)| (self.outdated)(late, early))
                            {
                                found.position = Some(late.map(<[u8]>::to_vec));
                            }
                        }
                        Some(key) if key == snapshot_key.as_bytes() => {
                            found.snapshot = Some(message.payload().map(<[u8]>::to_vec));
                        }
                        Some(key) if key == mark.key && message.payload() == Some(mark.value.as_bytes()) => {
                            return Ok(found);
                        }
                        _ => {}
                    }
                }
            }
        }
        Err(match last {
            Some(error) => self.unreadable(&error),
            None => {
                self.unreadable(&"what was just written does not show; a transaction of another pipeline may be open")
            }
        })
    }

    fn unreadable(&self, reason: &dyn std::fmt::Display) -> KafkaError {
        KafkaError::Position {
            topic: self.topic.clone(),
            reason: reason.to_string(),
        }
    }
}

/// What shows that everything before it is visible.
struct Mark {
    key: Vec<u8>,
    value: String,
}
