//! What the producer tells of itself → metrics, status and log.

use std::sync::Arc;

use super::error::chain;
use crate::kafka::{DeliveryObserver, KafkaError};
use crate::telemetry::metrics::{Metrics, Peer};
use crate::telemetry::state::{State, Status};

/// Listens for a running pipeline.
pub(super) struct KafkaObserver {
    metrics: Metrics,
    status: Arc<Status>,
}

impl KafkaObserver {
    pub(super) fn new(metrics: Metrics, status: Arc<Status>) -> Self {
        KafkaObserver { metrics, status }
    }
}

impl DeliveryObserver for KafkaObserver {
    fn delivered(&self, _records: u64, _bytes: u64) {}

    fn failed(&self, kind: &'static str) {
        self.metrics.kafka.delivery_error(kind);
    }

    fn brokers_down(&self, reason: &str) {
        tracing::warn!(reason, "no broker of kafka can be reached; trying again");
        self.status
            .set_last_error(format!("no broker of kafka can be reached: {reason}"));
    }

    fn brokers_up(&self) {
        tracing::info!("kafka answers again");
        self.metrics.reconnected(Peer::Kafka);
    }

    fn fatal(&self, reason: &str) {
        tracing::error!(reason, "the producer cannot go on");
        self.status
            .set_last_error(format!("the producer cannot go on: {reason}"));
    }

    fn fence_retry(&self, error: &KafkaError) {
        let error = chain(error);
        tracing::warn!(error, "the transactional id cannot be taken over; trying again");
        self.status.set_last_error(error.clone());
        self.status.set_state(State::Connecting, Some(error));
        self.status.heartbeat();
    }

    fn topic_retry(&self, topic: &str, error: &KafkaError) {
        let error = chain(error);
        tracing::warn!(topic, error, "the topic cannot be made sure of; trying again");
        self.status.set_last_error(error.clone());
        self.status
            .set_state(State::BlockedByKafka, Some(format!("topic {topic}: {error}")));
        self.status.heartbeat();
    }
}

/// Listens to nothing, where an error is all that is wanted.
pub(super) struct Silent;

impl DeliveryObserver for Silent {
    fn delivered(&self, _records: u64, _bytes: u64) {}
    fn failed(&self, _kind: &'static str) {}
    fn brokers_down(&self, _reason: &str) {}
    fn brokers_up(&self) {}
    fn fatal(&self, _reason: &str) {}
    fn fence_retry(&self, _error: &KafkaError) {}
    fn topic_retry(&self, _topic: &str, _error: &KafkaError) {}
}
