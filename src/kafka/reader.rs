//! A topic, read from where it was left to its present end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::config::FromClientConfigAndContext;
use rdkafka::consumer::{CommitMode, Consumer, ConsumerContext, StreamConsumer};
use rdkafka::message::Message;
use rdkafka::{Offset, TopicPartitionList};

use super::context::AdminContext;
use super::offsets::Offsets;
use super::{KafkaError, KafkaSettings, properties};

/// Limit of one request.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How long nothing may come while there is more to come.
const SILENCE: Duration = Duration::from_secs(60);

impl ConsumerContext for AdminContext {}

/// A record as it was stored.
#[derive(Debug)]
pub struct StoredRecord {
    /// Its partition.
    pub partition: i32,
    /// Its place there.
    pub offset: i64,
    /// Its value; `None`: a tombstone.
    pub value: Option<Vec<u8>>,
}

struct Partition {
    done: Offsets,
    /// The first that was not read yet.
    position: i64,
    /// The end when reading began.
    end: i64,
}

/// Reads what is not done yet, and commits what is. It takes part in no group: of two that run at once, the last commit counts.
pub struct TopicReader {
    consumer: Arc<StreamConsumer<AdminContext>>,
    topic: String,
    partitions: BTreeMap<i32, Partition>,
}

impl TopicReader {
    /// Opens a topic for a consumer group; `None` if it does not exist. `again`: from the beginning, whatever is done already.
    ///
    /// # Errors
    /// A cluster that does not answer, a group that this user may not use.
    pub async fn open(
        settings: &KafkaSettings,
        topic: &str,
        group: &str,
        again: bool,
    ) -> Result<Option<Self>, KafkaError> {
        let mut config = properties::consumer_config(settings, group)?;
        for (key, value) in [
            ("enable.auto.offset.store", "false"),
            ("enable.partition.eof", "true"),
            ("auto.offset.reset", "earliest"),
            // A single record may be as large as that.
            ("receive.message.max.bytes", "1100000000"),
        ] {
            config.set(key, value);
        }
        let consumer: StreamConsumer<AdminContext> =
            StreamConsumer::from_config_and_context(&config, AdminContext::default())
                .map_err(KafkaError::from_client)?;
        let consumer = Arc::new(consumer);
        let found = blocking(topic, {
            let (consumer, topic) = (consumer.clone(), topic.to_owned());
            move || find(&consumer, &topic, again)
        });
        let partitions = found.await?;
        if partitions.is_empty() {
            return Ok(None);
        }
        let mut assignment = TopicPartitionList::new();
        for (partition, state) in partitions.iter().filter(|(_, state)| state.position < state.end) {
            assignment
                .add_partition_offset(topic, *partition, Offset::Offset(state.position))
                .map_err(|error| KafkaError::reading(topic, error))?;
        }
        consumer
            .assign(&assignment)
            .map_err(|error| KafkaError::reading(topic, error))?;
        Ok(Some(TopicReader {
            consumer,
            topic: topic.to_owned(),
            partitions,
        }))
    }

    /// The next record that is not done; `None` at the end.
    ///
    /// # Errors
    /// Nothing came for a minute, or what came was an error.
    pub async fn next(&mut self) -> Result<Option<StoredRecord>, KafkaError> {
        while self.partitions.values().any(|state| state.position < state.end) {
            let received = tokio::time::timeout(SILENCE, self.consumer.recv()).await;
            let message = match received {
                Err(_) => return Err(KafkaError::reading(&self.topic, "nothing came for a minute")),
                Ok(Err(rdkafka::error::KafkaError::PartitionEOF(partition))) => {
                    // What lies between the last record and the end are marks of transactions.
                    if let Some(state) = self.partitions.get_mut(&partition) {
                        state.done.done(state.position, state.end);
                        state.position = state.end;
                    }
                    continue;
                }
                Ok(Err(error)) => return Err(KafkaError::reading(&self.topic, error)),
                Ok(Ok(message)) => message,
            };
            let (partition, offset) = (message.partition(), message.offset());
            let Some(state) = self.partitions.get_mut(&partition) else {
                continue;
            };
            if offset >= state.end {
                state.position = state.end;
                continue;
            }
            // Offsets without a record have nothing to be done.
            state.done.done(state.position, offset);
            state.position = offset + 1;
            if !state.done.is_done(offset) {
                return Ok(Some(StoredRecord {
                    partition,
                    offset,
                    value: message.payload().map(<[u8]>::to_vec),
                }));
            }
        }
        Ok(None)
    }

    /// A record is done.
    pub fn done(&mut self, partition: i32, offset: i64) {
        if let Some(state) = self.partitions.get_mut(&partition) {
            state.done.done(offset, offset + 1);
        }
    }

    /// Commits what is done, and waits until the group has it.
    ///
    /// # Errors
    /// The group's coordinator refuses, or does not answer.
    pub async fn commit(&self) -> Result<(), KafkaError> {
        let mut list = TopicPartitionList::new();
        for (partition, state) in &self.partitions {
            list.add_partition_offset(&self.topic, *partition, Offset::Offset(state.done.next()))
                .map_err(|error| KafkaError::reading(&self.topic, error))?;
            let metadata = state.done.metadata();
            if let Some(mut element) = list
                .find_partition(&self.topic, *partition)
                .filter(|_| !metadata.is_empty())
            {
                element.set_metadata(metadata);
            }
        }
        let (consumer, topic) = (self.consumer.clone(), self.topic.clone());
        blocking(&self.topic, move || {
            consumer
                .commit(&list, CommitMode::Sync)
                .map_err(|error| KafkaError::reading(&topic, error))
        })
        .await
    }
}

/// librdkafka blocks for these.
async fn blocking<T: Send + 'static>(
    topic: &str,
    work: impl FnOnce() -> Result<T, KafkaError> + Send + 'static,
) -> Result<T, KafkaError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| KafkaError::reading(topic, error))?
}

/// The topic's partitions with what is done of them; none if it does not exist. It is looked for in the list of all topics:
/// asked for by its name, some brokers would create it.
fn find(
    consumer: &StreamConsumer<AdminContext>,
    topic: &str,
    again: bool,
) -> Result<BTreeMap<i32, Partition>, KafkaError> {
    let reading = |error| KafkaError::reading(topic, error);
    let metadata = consumer.fetch_metadata(None, TIMEOUT).map_err(reading)?;
    let found = metadata.topics().iter().find(|found| found.name() == topic);
    let ids: Vec<i32> = found
        .map(|found| found.partitions().iter().map(|partition| partition.id()).collect())
        .unwrap_or_default();
    let mut list = TopicPartitionList::new();
    for id in &ids {
        list.add_partition(topic, *id);
    }
    let committed = match ids.is_empty() || again {
        true => list,
        false => consumer.committed_offsets(list, TIMEOUT).map_err(reading)?,
    };
    let mut partitions = BTreeMap::new();
    for id in ids {
        let (low, end) = consumer.fetch_watermarks(topic, id, TIMEOUT).map_err(reading)?;
        let stored = committed.find_partition(topic, id);
        let mut done = match stored.as_ref().map(|stored| (stored.offset(), stored)) {
            Some((Offset::Offset(next), stored)) => Offsets::parse(next, stored.metadata()),
            _ => Offsets::before(0),
        };
        // What is no longer there cannot be done any more.
        done.done(0, low);
        let position = done.next();
        partitions.insert(id, Partition { done, position, end });
    }
    Ok(partitions)
}
