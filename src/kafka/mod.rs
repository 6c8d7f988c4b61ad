//! Records → Kafka: one ordered enqueuer, topics made before their first record, delivery reports → tickets.
//!
//! The producer is idempotent and waits for all in-sync replicas, always: a retry neither reorders a partition nor
//! writes a record twice, and nothing is given up by the clock. A record that Kafka refuses for good fails its
//! ticket; so does one that is still queued when the producer goes away. No record is ever dropped in silence.
//!
//! What was handed over and not yet confirmed is bounded by `KafkaSettings::max_in_flight`, and
//! `Producer::capacity` is where the caller stops: it waits there instead of reading on, while whatever answers the
//! server's keepalives goes on by itself.
//!
//! After a fatal error (the observer is told) nothing is taken any more: the pipeline starts over with a new producer.
//! librdkafka's delivery reports, errors and log arrive on a thread of this module's own. Properties by their names in
//! librdkafka's `CONFIGURATION.md`.

mod context;
mod error;
mod limits;
mod offsets;
mod properties;
mod reader;
mod receipt;
mod running;
mod shape;
mod size;
mod state;
#[cfg(test)]
mod tests;
mod topics;
mod transaction;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use rdkafka::error::RDKafkaErrorCode;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord};

use crate::progress::Ticket;
use context::Context;
pub use context::{DeliveryObserver, InFlight, RECORD_OVERHEAD};
pub use error::{KafkaError, SendError, SendErrorKind};
pub use limits::Refusals;
pub use properties::refused_property;
pub use reader::{StoredRecord, TopicReader};
use running::{Running, fatal_reason};
use shape::Shape;
pub use size::{MAX_HEADER_OVERHEAD, MAX_OVERHEAD};
pub use state::{Recovered, StateTopic};
pub use topics::TopicUse;
use topics::Topics;
use transaction::Transactions;

/// How to reach the cluster, and what to make of it.
#[derive(Clone)]
pub struct KafkaSettings {
    /// `host:port`, separated by commas.
    pub bootstrap_servers: String,
    /// `client.id`, unless `properties` says otherwise.
    pub client_id: String,
    /// Any property of librdkafka but those that [`refused_property`] gives a reason for.
    pub properties: BTreeMap<String, String>,
    /// Whether missing topics are created; otherwise they are an error.
    pub create_topics: bool,
    /// Partitions of a created topic.
    pub partitions: i32,
    /// Replicas of a created topic's partitions; −1 is the broker's default.
    pub replication_factor: i32,
    /// Configuration of a created topic.
    pub topic_config: BTreeMap<String, String>,
    /// Bytes handed over and not yet confirmed above which there is no capacity.
    pub max_in_flight: u64,
    /// Every record is part of a transaction of this id; without one there are no transactions.
    pub transactional_id: Option<String>,
}

impl KafkaSettings {
    /// How long a transaction may be open before Kafka aborts it.
    pub fn transaction_timeout(&self) -> Duration {
        properties::transaction_timeout(self)
    }
}

impl fmt::Debug for KafkaSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaSettings")
            .field("bootstrap_servers", &self.bootstrap_servers)
            .field("client_id", &self.client_id)
            // Names only: passwords and keys are among the values.
            .field("properties", &self.properties.keys().collect::<Vec<_>>())
            .field("create_topics", &self.create_topics)
            .field("partitions", &self.partitions)
            .field("replication_factor", &self.replication_factor)
            .field("topic_config", &self.topic_config)
            .field("max_in_flight", &self.max_in_flight)
            .field("transactional_id", &self.transactional_id)
            .finish()
    }
}

/// Where records without a key go. A random partition, as the partitioner would choose, would put the insert of a row and
/// its delete into different ones, and a record that is sent again behind later ones: no order would be left at all.
const KEYLESS_PARTITION: i32 = 0;

/// A record as it is written.
#[derive(Clone, Copy)]
pub struct OutRecord<'a> {
    /// The key, which chooses the partition; without one it is partition 0.
    pub key: Option<&'a [u8]>,
    /// The value; `None` is a tombstone.
    pub value: Option<&'a [u8]>,
    /// Headers, in order.
    pub headers: &'a [(&'a str, &'a [u8])],
    /// `CreateTime`, milliseconds since 1970 (UTC); −1: none.
    pub timestamp_ms: i64,
}

impl OutRecord<'_> {
    /// Bytes of key, value and headers.
    pub fn size(&self) -> usize {
        let headers = self.headers.iter().map(|(name, value)| name.len() + value.len());
        self.key.map_or(0, <[u8]>::len) + self.value.map_or(0, <[u8]>::len) + headers.sum::<usize>()
    }

    /// Bytes of the uncompressed batch that holds this record alone: what the limits of topics and brokers are about.
    pub fn batch_size(&self) -> u64 {
        let headers = self.headers.iter().map(|(name, value)| (name.len(), value.len()));
        let length = |part: Option<&[u8]>| part.map_or(0, <[u8]>::len);
        size::batch_of_one(length(self.key), length(self.value), headers)
    }
}

/// What [`Producer::probe`] saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterInfo {
    /// The cluster's id; brokers before 0.10.1 have none.
    pub cluster_id: Option<String>,
    /// `host:port` of each broker, as it announces itself.
    pub brokers: Vec<String>,
    /// The topics that this user can see.
    pub topics: BTreeSet<String>,
}

type Native = BaseProducer<Context>;

/// The producer. All records go through one of these, in their order.
///
/// Dropping it purges what is queued and fails those tickets, within a few seconds and on its own thread; call
/// [`Producer::flush`] first to wait for deliveries.
pub struct Producer {
    settings: KafkaSettings,
    observer: Arc<dyn DeliveryObserver>,
    refusals: Arc<Refusals>,
    number: u64,
    alone: bool,
    topics: Topics,
    transactions: Option<Transactions>,
    /// Replaced, while nothing is in flight, by one that takes larger records or makes smaller batches.
    running: RwLock<Arc<Running>>,
}

impl fmt::Debug for Producer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer")
            .field("in_flight", &self.in_flight())
            .finish_non_exhaustive()
    }
}

impl Producer {
    /// A producer; it connects in the background.
    ///
    /// # Errors
    /// A property that is refused, unknown or has a value that cannot be.
    pub fn new(settings: &KafkaSettings, observer: Arc<dyn DeliveryObserver>) -> Result<Self, KafkaError> {
        Self::with_refusals(settings, observer, Arc::default())
    }

    /// The same, for one that comes after another: it knows what was refused to that.
    ///
    /// # Errors
    /// Those of [`Producer::new`].
    pub fn with_refusals(
        settings: &KafkaSettings,
        observer: Arc<dyn DeliveryObserver>,
        refusals: Arc<Refusals>,
    ) -> Result<Self, KafkaError> {
        let (number, alone) = refusals.begin();
        if alone {
            tracing::warn!(
                "kafka refused records as too large in spite of the limits that it shows; each is sent alone now"
            );
        }
        let topics = Topics::new(settings)?;
        let shape = Shape::first(settings, alone).or_wished(refusals.wished());
        let context = Context::new(
            observer.clone(),
            settings.max_in_flight,
            refusals.clone(),
            number,
            alone,
        );
        let running = Running::start(settings, shape, context)?;
        Ok(Producer {
            settings: settings.clone(),
            observer,
            refusals,
            number,
            alone,
            topics,
            transactions: settings.transactional_id.clone().map(Transactions::new),
            running: RwLock::new(Arc::new(running)),
        })
    }

    fn running(&self) -> Arc<Running> {
        self.running_now().clone()
    }

    /// The same for what does not wait.
    fn running_now(&self) -> RwLockReadGuard<'_, Arc<Running>> {
        self.running.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sees to it that the topic exists: looks, and creates it where it is missing and `create_topics` is set. Then sees to it that no
    /// batch is larger than it takes.
    ///
    /// Waits as long as it takes for a cluster that is away; each failed try goes to the observer. A topic that was
    /// seen once is not looked for again. Gives the largest record that it takes ([`OutRecord::batch_size`]).
    ///
    /// # Errors
    /// Only what trying again does not mend: [`KafkaError::is_transient`] is false for all of them.
    pub async fn ensure_topic(&self, topic: &str, purpose: TopicUse) -> Result<u64, KafkaError> {
        let native = self.running().native.clone();
        self.topics.ensure(&native, topic, purpose).await?;
        let limit = self.limit(topic);
        self.reshape(|shape| shape.with_batches_below(limit)).await?;
        Ok(limit)
    }

    /// The largest record that a topic takes, asked for again unless that was just done: it may have been raised.
    pub async fn current_limit(&self, topic: &str) -> u64 {
        let native = self.running().native.clone();
        self.topics.ask_again(&native, topic).await;
        self.limit(topic)
    }

    fn limit(&self, topic: &str) -> u64 {
        let names = topic.len() as u64 + self.settings.client_id.len() as u64;
        limits::largest(
            self.topics.configured(topic),
            properties::user_limit(&self.settings),
            self.refusals.smallest(topic),
            names,
        )
    }

    /// Records up to this size are taken by every producer; for a larger one [`make_room`](Producer::make_room) is
    /// called first.
    pub const ROOMY: u64 = shape::FIRST_RECORD;

    /// Sees to it that a record of this size is taken. Where librdkafka's own limit is lower, all that is in flight is waited
    /// for, and a new one with a higher limit goes on: a high limit from the start would cost memory with every batch.
    ///
    /// # Errors
    /// Those of [`Producer::new`]; and [`KafkaError::Shape`] where records are in transactions: the producer after this one takes it.
    pub async fn make_room(&self, size: u64) -> Result<(), KafkaError> {
        self.reshape(|shape| shape.with_records_up_to(size)).await
    }

    async fn reshape(&self, change: impl FnOnce(Shape) -> Shape) -> Result<(), KafkaError> {
        let before = self.running();
        let shape = change(before.shape);
        if shape == before.shape {
            return Ok(());
        }
        if self.transactions.as_ref().is_some_and(Transactions::is_fenced) {
            self.refusals.wish(shape);
            return Err(KafkaError::Shape);
        }
        tracing::debug!(?shape, "a producer of another shape takes over");
        before.context().in_flight.empty().await;
        let (settings, observer, refusals) = (self.settings.clone(), self.observer.clone(), self.refusals.clone());
        let (number, alone) = (self.number, self.alone);
        // The thread of the one that goes is waited for.
        let started = tokio::task::spawn_blocking(move || {
            let context = Context::new(observer, settings.max_in_flight, refusals, number, alone);
            Running::start(&settings, shape, context).map(Arc::new)
        });
        let started = started.await.map_err(|_| KafkaError::Stopping)??;
        *self.running.write().unwrap_or_else(PoisonError::into_inner) = started;
        let _ = tokio::task::spawn_blocking(move || drop(before)).await;
        Ok(())
    }

    /// Whether less than `max_in_flight` is in flight.
    pub fn has_capacity(&self) -> bool {
        self.running_now().context().in_flight.has_capacity()
    }

    /// Returns at once while there is capacity; otherwise when deliveries have brought what is in flight an eighth
    /// below the limit, so that the caller does not wake for every single one.
    pub async fn capacity(&self) {
        let running = self.running();
        if !running.context().in_flight.has_capacity() {
            running.context().in_flight.below_low_water().await;
        }
    }

    /// Hands a record over. It never waits: ask for [`capacity`](Producer::capacity) first. The order of the calls is
    /// the order in each partition.
    ///
    /// # Errors
    /// The record was not taken; the error gives the ticket back, which must still be resolved.
    pub fn send(&self, topic: &str, record: &OutRecord<'_>, ticket: Ticket) -> Result<(), SendError> {
        let partition = record.key.is_none().then_some(KEYLESS_PARTITION);
        self.send_to(topic, partition, record, ticket)
    }

    fn send_to(
        &self,
        topic: &str,
        partition: Option<i32>,
        record: &OutRecord<'_>,
        ticket: Ticket,
    ) -> Result<(), SendError> {
        let running = self.running_now();
        let context = running.context();
        if let Some(Err(source)) = self.transactions.as_ref().map(|open| open.enter(&running.native)) {
            return Err(SendError {
                kind: match fatal_reason(&running.native) {
                    Some(reason) => SendErrorKind::Fatal { reason },
                    None => SendErrorKind::Refused { source },
                },
                topic: topic.to_owned(),
                ticket,
            });
        }
        let mut out: BaseRecord<'_, [u8], [u8], _> = BaseRecord::with_opaque_to(topic, ticket.into_shared());
        out.key = record.key;
        out.payload = record.value;
        out.timestamp = Some(record.timestamp_ms);
        out.partition = partition;
        if !record.headers.is_empty() {
            let headers = OwnedHeaders::new_with_capacity(record.headers.len());
            out.headers = Some(record.headers.iter().fold(headers, |headers, &(key, value)| {
                headers.insert(Header {
                    key,
                    value: Some(value),
                })
            }));
        }
        let size = record.size();
        // Before the record is handed over: its delivery report may come before `send` is back.
        context.in_flight.charge(size);
        match running.native.send(out) {
            Ok(()) => Ok(()),
            Err((error, out)) => {
                context.in_flight.release(size);
                let ticket = Ticket::from_shared(out.delivery_opaque);
                let kind = match error.rdkafka_error_code() {
                    Some(RDKafkaErrorCode::QueueFull) => SendErrorKind::QueueFull,
                    Some(RDKafkaErrorCode::MessageSizeTooLarge) => SendErrorKind::TooLarge {
                        size: record.batch_size(),
                    },
                    // "Erroneous state": of a transaction that can only be aborted.
                    Some(code @ (RDKafkaErrorCode::Fatal | RDKafkaErrorCode::State)) => SendErrorKind::Fatal {
                        reason: fatal_reason(&running.native).unwrap_or_else(|| code.to_string()),
                    },
                    _ => SendErrorKind::Refused { source: error },
                };
                Err(SendError {
                    kind,
                    topic: topic.to_owned(),
                    ticket,
                })
            }
        }
    }

    /// Records and bytes handed over and not yet confirmed.
    pub fn in_flight(&self) -> InFlight {
        self.running_now().context().in_flight.now()
    }

    /// Waits until everything is resolved, delivered or failed, at most `timeout`; whether it is.
    pub async fn flush(&self, timeout: Duration) -> bool {
        let running = self.running();
        tokio::time::timeout(timeout, running.context().in_flight.empty())
            .await
            .is_ok()
    }

    /// Asks the cluster once for what it is.
    ///
    /// # Errors
    /// No answer within ten seconds.
    pub async fn probe(&self) -> Result<ClusterInfo, KafkaError> {
        topics::probe(&self.running().native).await
    }
}
