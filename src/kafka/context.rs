//! What librdkafka calls back with: delivery reports, errors, log lines.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::producer::{DeliveryResult, NoCustomPartitioner, ProducerContext};
use tokio::sync::Notify;

use super::limits::Refusals;
use super::{KafkaError, size};
use crate::progress::{Failure, OpenCommit, Ticket};

/// Bytes charged for each record beside key, value and headers: librdkafka's own structure for it, the allocator's
/// and the delivery report's, rounded up, so that `max_in_flight` bounds memory also where records are tiny.
pub const RECORD_OVERHEAD: u64 = 256;

/// Is told what becomes of records and of the cluster. Called on the delivery thread: it must return at once.
pub trait DeliveryObserver: Send + Sync {
    /// Records confirmed since the last call, with the bytes of their keys, values and headers. At most ten calls a
    /// second.
    fn delivered(&self, records: u64, bytes: u64);
    /// A record was refused for good; its ticket has failed. `kind` is one of `too_large`, `authorization`,
    /// `unknown_topic`, `fatal`, `purged` and `other`.
    fn failed(&self, kind: &'static str);
    /// No broker can be reached; librdkafka goes on trying.
    fn brokers_down(&self, reason: &str);
    /// A broker answers again.
    fn brokers_up(&self);
    /// The producer cannot go on: a new one is needed.
    fn fatal(&self, reason: &str);
    /// Taking over the transactional id failed and is going to be tried again.
    fn fence_retry(&self, error: &KafkaError);
    /// Looking for the topic, or creating it, failed and is going to be tried again.
    fn topic_retry(&self, topic: &str, error: &KafkaError);
}

/// Records and bytes handed over and not yet confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InFlight {
    /// Records.
    pub records: u64,
    /// Bytes of keys, values and headers, and [`RECORD_OVERHEAD`] for each record.
    pub bytes: u64,
}

/// Counts what is in flight, and wakes those who wait for less.
#[derive(Debug)]
pub(super) struct Ledger {
    bytes: AtomicU64,
    records: AtomicU64,
    limit: u64,
    low_water: u64,
    fell: Notify,
}

impl Ledger {
    fn new(limit: u64) -> Self {
        let limit = limit.max(1);
        Ledger {
            bytes: AtomicU64::new(0),
            records: AtomicU64::new(0),
            limit,
            low_water: limit - limit / 8,
            fell: Notify::new(),
        }
    }

    pub(super) fn charge(&self, size: usize) {
        self.bytes.fetch_add(RECORD_OVERHEAD + size as u64, Ordering::SeqCst);
        self.records.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn release(&self, size: usize) {
        let charge = RECORD_OVERHEAD + size as u64;
        let before = self.bytes.fetch_sub(charge, Ordering::SeqCst);
        let last = self.records.fetch_sub(1, Ordering::SeqCst) == 1;
        // Exactly one release crosses a mark downwards, and it alone wakes.
        if last || (before >= self.low_water && before - charge < self.low_water) {
            self.fell.notify_waiters();
        }
    }

    pub(super) fn now(&self) -> InFlight {
        InFlight {
            records: self.records.load(Ordering::SeqCst),
            bytes: self.bytes.load(Ordering::SeqCst),
        }
    }

    pub(super) fn has_capacity(&self) -> bool {
        self.bytes.load(Ordering::SeqCst) < self.limit
    }

    pub(super) async fn below_low_water(&self) {
        self.until(|now| now.bytes < self.low_water).await;
    }

    pub(super) async fn empty(&self) {
        self.until(|now| now.records == 0).await;
    }

    async fn until(&self, reached: impl Fn(InFlight) -> bool) {
        loop {
            let mut fell = std::pin::pin!(self.fell.notified());
            // Enlisted before looking: a release between the look and the wait is not missed.
            fell.as_mut().enable();
            if reached(self.now()) {
                return;
            }
            fell.await;
        }
    }
}

/// The producer's context.
pub(super) struct Context {
    log: Log,
    pub(super) in_flight: Ledger,
    pub(super) observer: Arc<dyn DeliveryObserver>,
    refusals: Arc<Refusals>,
    /// Which producer of those that share the refusals this is.
    number: u64,
    /// Whether each record is a batch of its own.
    alone: bool,
    delivered_records: AtomicU64,
    delivered_bytes: AtomicU64,
    down: AtomicBool,
    fatal: AtomicBool,
    /// What the last connection failed with, since a request that waited for it just times out.
    broker_error: Mutex<Option<String>>,
}

impl Context {
    pub(super) fn new(
        observer: Arc<dyn DeliveryObserver>,
        max_in_flight: u64,
        refusals: Arc<Refusals>,
        number: u64,
        alone: bool,
    ) -> Self {
        Context {
            refusals,
            number,
            alone,
            log: Log::default(),
            in_flight: Ledger::new(max_in_flight),
            observer,
            delivered_records: AtomicU64::new(0),
            delivered_bytes: AtomicU64::new(0),
            down: AtomicBool::new(false),
            fatal: AtomicBool::new(false),
            broker_error: Mutex::default(),
        }
    }

    fn last_error(&self) -> MutexGuard<'_, Option<String>> {
        self.broker_error.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The producer has failed for good; told once.
    pub(super) fn fatal(&self, reason: &str) {
        if !self.fatal.swap(true, Ordering::Relaxed) {
            self.observer.fatal(reason);
        }
    }

    /// What the last connection failed with.
    pub(super) fn broker_error(&self) -> Option<String> {
        self.last_error().clone()
    }

    pub(super) fn brokers_are_down(&self) -> bool {
        self.down.load(Ordering::Relaxed)
    }

    /// A broker has answered.
    pub(super) fn brokers_answer(&self) {
        if self.down.swap(false, Ordering::Relaxed) {
            self.observer.brokers_up();
        }
        *self.last_error() = None;
    }

    /// Passes on what was delivered since the last call.
    pub(super) fn report(&self) {
        let records = self.delivered_records.swap(0, Ordering::Relaxed);
        let bytes = self.delivered_bytes.swap(0, Ordering::Relaxed);
        if records > 0 {
            self.observer.delivered(records, bytes);
        }
    }
}

/// The label of a failed delivery.
pub(super) fn failure_kind(code: Option<RDKafkaErrorCode>) -> &'static str {
    use RDKafkaErrorCode::*;
    match code {
        Some(MessageSizeTooLarge | InvalidMessageSize | MessageBatchTooLarge) => "too_large",
        Some(TopicAuthorizationFailed | ClusterAuthorizationFailed) => "authorization",
        Some(UnknownTopic | UnknownPartition | UnknownTopicOrPartition | InvalidTopic) => "unknown_topic",
        Some(Fatal | Fenced | ProducerFenced | InvalidProducerEpoch | OutOfOrderSequenceNumber) => "fatal",
        Some(PurgeQueue | PurgeInflight) => "purged",
        _ => "other",
    }
}

/// Whether the record may be taken when it is sent again, by another producer: one that is not allowed will not be. Of a batch that
/// is too large all records but one may be, and the next producer knows which. A topic that was deleted is made again by the next
/// producer, or is missed by it with a clear error.
fn failure(kind: &'static str, reason: String) -> Failure {
    match kind {
        "authorization" => Failure::Final(reason),
        _ => Failure::Passing(reason),
    }
}

/// Bytes of names and values.
fn headers<'a>(message: &'a BorrowedMessage<'_>) -> impl Iterator<Item = (usize, usize)> + 'a {
    let headers = message.headers().into_iter();
    headers.flat_map(|headers| {
        headers
            .iter()
            .map(|header| (header.key.len(), header.value.map_or(0, <[u8]>::len)))
    })
}

fn size(message: &BorrowedMessage<'_>) -> usize {
    let headers = headers(message).map(|(name, value)| name + value);
    message.key_len() + message.payload_len() + headers.sum::<usize>()
}

impl ProducerContext<NoCustomPartitioner> for Context {
    type DeliveryOpaque = Arc<OpenCommit>;

    fn delivery(&self, result: &DeliveryResult<'_>, commit: Arc<OpenCommit>) {
        let ticket = Ticket::from_shared(commit);
        let size = match result {
            Ok(message) => {
                let size = size(message);
                ticket.delivered();
                self.delivered_records.fetch_add(1, Ordering::Relaxed);
                self.delivered_bytes.fetch_add(size as u64, Ordering::Relaxed);
                if self.brokers_are_down() {
                    self.brokers_answer();
                }
                size
            }
            Err((error, message)) => {
                let size = size(message);
                let kind = failure_kind(error.rdkafka_error_code());
                let why = error
                    .rdkafka_error_code()
                    .map_or_else(|| error.to_string(), |code| code.to_string());
                let reason = format!(
                    "kafka did not take a record of {size} bytes for topic {}, partition {}: {why}",
                    message.topic(),
                    message.partition(),
                );
                if kind == "too_large" {
                    let size = size::batch_of_one(message.key_len(), message.payload_len(), headers(message));
                    self.refusals.note(self.number, self.alone, message.topic(), size);
                }
                ticket.failed(failure(kind, reason));
                self.observer.failed(kind);
                size
            }
        };
        self.in_flight.release(size);
    }
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.log.line(level, facility, message);
        // A connection that breaks off is only logged; one that cannot be made is an error event as well.
        if facility == "FAIL" {
            let message = message.split_once("]: ").map_or(message, |(_, message)| message);
            *self.last_error() = Some(message.to_owned());
        }
    }

    fn stats_raw(&self, statistics: &[u8]) {
        log_statistics(statistics);
    }

    fn error(&self, error: rdkafka::error::KafkaError, reason: &str) {
        match error.rdkafka_error_code() {
            Some(RDKafkaErrorCode::AllBrokersDown) => {
                if !self.down.swap(true, Ordering::Relaxed) {
                    let reason = self.broker_error().unwrap_or_else(|| reason.to_owned());
                    self.observer.brokers_down(&reason);
                }
            }
            _ => *self.last_error() = Some(reason.to_owned()),
        }
    }
}

/// The context of the client that creates topics.
#[derive(Default)]
pub(super) struct AdminContext {
    log: Log,
}

impl ClientContext for AdminContext {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.log.line(level, facility, message);
    }

    fn stats_raw(&self, _: &[u8]) {}

    /// The producer meets the same error on its own connections and reports it.
    fn error(&self, error: rdkafka::error::KafkaError, reason: &str) {
        tracing::debug!(target: "walferry::kafka::librdkafka", "{error}: {reason}");
    }
}

/// A connection that cannot be made fails many times a second, each time with a line.
const FAILURE_INTERVAL: Duration = Duration::from_secs(10);

/// librdkafka's log, as tracing's.
#[derive(Default)]
struct Log {
    /// When a failed connection was last a warning.
    failure: Mutex<Option<Instant>>,
}

impl Log {
    fn line(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        use RDKafkaLogLevel::*;
        match (level, facility) {
            // It is tried again by itself; that no broker is left is told to the observer.
            (_, "FAIL") if self.failure_is_news() => {
                tracing::warn!(target: "walferry::kafka::librdkafka", facility, "{message}");
            }
            (_, "FAIL") | (Debug, _) => {
                tracing::debug!(target: "walferry::kafka::librdkafka", facility, "{message}");
            }
            (Emerg | Alert | Critical | Error, _) => {
                tracing::error!(target: "walferry::kafka::librdkafka", facility, "{message}");
            }
            (Warning, _) => tracing::warn!(target: "walferry::kafka::librdkafka", facility, "{message}"),
            (Notice | Info, _) => tracing::info!(target: "walferry::kafka::librdkafka", facility, "{message}"),
        }
    }

    fn failure_is_news(&self) -> bool {
        let mut last = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        let news = last.is_none_or(|last| last.elapsed() >= FAILURE_INTERVAL);
        if news {
            *last = Some(Instant::now());
        }
        news
    }
}

fn log_statistics(statistics: &[u8]) {
    tracing::debug!(target: "walferry::kafka::librdkafka", "{}", String::from_utf8_lossy(statistics));
}
