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
mod properties;
#[cfg(test)]
mod tests;
mod topics;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rdkafka::config::FromClientConfigAndContext;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _, PurgeConfig};

use crate::progress::Ticket;
use context::Context;
pub use context::{DeliveryObserver, InFlight, RECORD_OVERHEAD};
pub use error::{KafkaError, SendError, SendErrorKind};
pub use properties::refused_property;
use topics::Topics;

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
    /// `CreateTime`, milliseconds since 1970 (UTC).
    pub timestamp_ms: i64,
}

impl OutRecord<'_> {
    /// Bytes of key, value and headers.
    pub fn size(&self) -> usize {
        let headers = self.headers.iter().map(|(name, value)| name.len() + value.len());
        self.key.map_or(0, <[u8]>::len) + self.value.map_or(0, <[u8]>::len) + headers.sum::<usize>()
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
    native: Arc<Native>,
    topics: Topics,
    stop: Arc<AtomicBool>,
    poller: Option<JoinHandle<()>>,
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
        let config = properties::producer_config(settings)?;
        let context = Context::new(observer, settings.max_in_flight);
        let native = Native::from_config_and_context(&config, context).map_err(KafkaError::from_client)?;
        let native = Arc::new(native);
        let stop = Arc::new(AtomicBool::new(false));
        let poller = std::thread::Builder::new().name("kafka-deliveries".to_owned());
        let poller = poller.spawn({
            let (native, stop) = (native.clone(), stop.clone());
            move || poll(&native, &stop)
        });
        let poller = poller.map_err(|source| KafkaError::Thread { source })?;
        Ok(Producer {
            topics: Topics::new(settings)?,
            native,
            stop,
            poller: Some(poller),
        })
    }

    fn context(&self) -> &Context {
        self.native.client().context()
    }

    /// Sees to it that the topic exists: looks, and creates it where it is missing and `create_topics` is set.
    ///
    /// Waits as long as it takes for a cluster that is away; each failed try goes to the observer. A topic that was
    /// seen once is not looked for again.
    ///
    /// # Errors
    /// Only what trying again does not mend: [`KafkaError::is_transient`] is false for all of them.
    pub async fn ensure_topic(&self, topic: &str) -> Result<(), KafkaError> {
        self.topics.ensure(&self.native, topic).await
    }

    /// Whether less than `max_in_flight` is in flight.
    pub fn has_capacity(&self) -> bool {
        self.context().in_flight.has_capacity()
    }

    /// Returns at once while there is capacity; otherwise when deliveries have brought what is in flight an eighth
    /// below the limit, so that the caller does not wake for every single one.
    pub async fn capacity(&self) {
        if !self.has_capacity() {
            self.context().in_flight.below_low_water().await;
        }
    }

    /// Hands a record over. It never waits: ask for [`capacity`](Producer::capacity) first. The order of the calls is
    /// the order in each partition.
    ///
    /// # Errors
    /// The record was not taken; the error gives the ticket back, which must still be resolved.
    pub fn send(&self, topic: &str, record: &OutRecord<'_>, ticket: Ticket) -> Result<(), SendError> {
        let context = self.context();
        let mut out: BaseRecord<'_, [u8], [u8], _> = BaseRecord::with_opaque_to(topic, ticket.into_shared());
        out.key = record.key;
        out.payload = record.value;
        out.timestamp = Some(record.timestamp_ms);
        if record.key.is_none() {
            out.partition = Some(KEYLESS_PARTITION);
        }
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
        match self.native.send(out) {
            Ok(()) => Ok(()),
            Err((error, out)) => {
                context.in_flight.release(size);
                let ticket = Ticket::from_shared(out.delivery_opaque);
                let kind = match error.rdkafka_error_code() {
                    Some(RDKafkaErrorCode::QueueFull) => SendErrorKind::QueueFull,
                    Some(RDKafkaErrorCode::MessageSizeTooLarge) => SendErrorKind::TooLarge { size },
                    Some(RDKafkaErrorCode::Fatal) => SendErrorKind::Fatal {
                        reason: fatal_reason(&self.native).unwrap_or_default(),
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
        self.context().in_flight.now()
    }

    /// Waits until everything is resolved, delivered or failed, at most `timeout`; whether it is.
    pub async fn flush(&self, timeout: Duration) -> bool {
        tokio::time::timeout(timeout, self.context().in_flight.empty())
            .await
            .is_ok()
    }

    /// Asks the cluster once for what it is.
    ///
    /// # Errors
    /// No answer within ten seconds.
    pub async fn probe(&self) -> Result<ClusterInfo, KafkaError> {
        topics::probe(&self.native).await
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(poller) = self.poller.take() {
            // It cannot panic but by a fault of an observer, which has been reported by then.
            let _ = poller.join();
        }
    }
}

/// How long one turn of the polling thread lasts; events are handled as they come, counters go out once a turn.
const TURN: Duration = Duration::from_millis(100);
/// Time for the broker threads to hand back what was purged. They do it at once, unless they wait for name resolution.
const PURGE_LIMIT: Duration = Duration::from_secs(5);
/// While no broker answers, how often one is asked, since an idle producer would not notice that it is back.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

fn fatal_reason(native: &Native) -> Option<String> {
    let (code, reason) = native.client().fatal_error()?;
    Some(format!("{reason} ({code:?})"))
}

fn poll(native: &Native, stop: &AtomicBool) {
    let context = native.client().context();
    let mut asked = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        native.poll(TURN);
        context.report();
        // The error event does not tell a fatal error from a passing one.
        if let Some(reason) = fatal_reason(native) {
            context.fatal(&reason);
        }
        if context.brokers_are_down() && asked.elapsed() >= PROBE_INTERVAL {
            if native.client().fetch_metadata(None, Duration::from_millis(500)).is_ok() {
                context.brokers_answer();
            }
            asked = Instant::now();
        }
    }
    native.purge(PurgeConfig::default().queue().inflight());
    let purged = Instant::now();
    while context.in_flight.now().records > 0 && purged.elapsed() < PURGE_LIMIT {
        native.poll(Duration::from_millis(10));
    }
    context.report();
}
