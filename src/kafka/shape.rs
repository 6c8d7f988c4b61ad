//! How large a producer's records and batches may be. librdkafka takes that at its creation, once for all topics.

use super::KafkaSettings;

/// The most that librdkafka takes for `message.max.bytes`.
pub(super) const LARGEST: u64 = 1_000_000_000;

/// Records up to this size are taken by every producer: what a topic takes where nobody has configured anything.
pub(super) const FIRST_RECORD: u64 = 1_048_588;

/// What bounds records and batches in librdkafka, which has one of each for all topics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    /// `message.max.bytes`: never less than a record that is handed over.
    record: u64,
    /// `batch.size`: never more than a topic takes.
    batch: u64,
    /// Whether each record is a batch of its own.
    alone: bool,
}

impl Shape {
    pub(super) fn record(self) -> u64 {
        self.record
    }

    pub(super) fn batch(self) -> u64 {
        self.batch
    }

    pub(super) fn is_alone(self) -> bool {
        self.alone
    }

    pub(super) fn first(settings: &KafkaSettings, alone: bool) -> Self {
        let batch = settings.properties.get("batch.size");
        Shape {
            record: FIRST_RECORD,
            // A text that is no number is for librdkafka to refuse.
            batch: batch.and_then(|text| text.parse().ok()).unwrap_or(1_000_000),
            alone,
        }
    }

    /// What was wished for, by a producer that is alone or not.
    pub(super) fn or_wished(self, wished: Option<Shape>) -> Self {
        Shape {
            alone: self.alone,
            ..wished.unwrap_or(self)
        }
    }

    pub(super) fn with_batches_below(self, limit: u64) -> Self {
        Shape {
            batch: self.batch.min(limit.max(1)),
            ..self
        }
    }

    /// In steps: each of them costs a pause.
    pub(super) fn with_records_up_to(self, size: u64) -> Self {
        match size <= self.record {
            true => self,
            false => Shape {
                record: size.next_power_of_two().min(LARGEST),
                ..self
            },
        }
    }
}
