//! How large a record may be: what topics and brokers say, what the user says, and what was refused.
//!
//! A topic's `max.message.bytes` (or the brokers' `message.max.bytes`, which stands in for it) and its `segment.bytes` bound a
//! batch; the brokers' `socket.request.max.bytes` bounds the request around it, and a broker closes the connection at a
//! larger one without an answer. `message.max.bytes` among the properties is the user's own bound.
//!
//! All of these are asked for when a topic is made sure of, and again before a record is called too large, so that a limit that was
//! raised counts at once. A limit that was lowered shows as a refused batch. Of its records nobody knows which was too large,
//! and a new producer asks again. Only if that did not help (the user may not see the configuration) the producer after it
//! sends batches of one record, whose refusal says what the limit is below.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::shape::{LARGEST, Shape};

/// Kafka's default of `message.max.bytes`, where nobody may see what is configured.
const DEFAULT_MESSAGE_BYTES: u64 = 1_048_588;
/// Kafka's default of `socket.request.max.bytes`, likewise.
const DEFAULT_REQUEST_BYTES: u64 = 104_857_600;
/// What a produce request has beside topic, client id and the batch, in any of its versions.
const REQUEST_OVERHEAD: u64 = 100;

/// What is configured on the other side; `None` where it is not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Configured {
    /// The topic's bound on a batch.
    pub(super) batch: Option<u64>,
    /// The least of the brokers' bounds on a request.
    pub(super) request: Option<u64>,
}

/// The largest record that a topic takes, as the batch that holds it alone. `names`: bytes of the topic's name and the client id.
pub(super) fn largest(configured: Configured, user: Option<u64>, refused: Option<u64>, names: u64) -> u64 {
    // What the user says stands where Kafka does not say anything.
    let batch = configured.batch.or(user).unwrap_or(DEFAULT_MESSAGE_BYTES);
    let request = match (configured.request, user) {
        (Some(request), _) => request,
        (None, Some(_)) => u64::MAX,
        (None, None) => DEFAULT_REQUEST_BYTES,
    };
    let below = |limit: Option<u64>| limit.unwrap_or(u64::MAX);
    batch
        .min(request.saturating_sub(REQUEST_OVERHEAD + names))
        .min(below(user))
        .min(below(refused.map(|refused| refused.saturating_sub(1))))
        .min(LARGEST)
}

/// What brokers refused as too large, and what was larger than a producer takes. It outlives the producers that heard of it.
#[derive(Debug, Default)]
pub struct Refusals {
    producers: AtomicU64,
    shape: Mutex<Option<Shape>>,
    topics: Mutex<HashMap<String, Refusal>>,
}

#[derive(Debug, Default)]
struct Refusal {
    /// Producers in a row to which a batch of this topic was refused.
    times: u32,
    /// The last of them.
    producer: u64,
    /// The smallest record that was refused alone.
    smallest: Option<u64>,
}

/// Refused so often in spite of the limits that were asked for, a topic's records are sent one by one.
const ENOUGH: u32 = 2;

impl Refusals {
    /// Counts a new producer; whether it must send batches of one record.
    pub(super) fn begin(&self) -> (u64, bool) {
        let producer = self.producers.fetch_add(1, Ordering::Relaxed) + 1;
        let alone = self.lock().values().any(|refusal| refusal.times >= ENOUGH);
        (producer, alone)
    }

    /// The shape that the next producer begins with, if one was wished for.
    pub(super) fn wished(&self) -> Option<Shape> {
        *self.shape.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next producer is to have this shape: the present one cannot be exchanged in the middle of a transaction.
    pub(super) fn wish(&self, shape: Shape) {
        *self.shape.lock().unwrap_or_else(PoisonError::into_inner) = Some(shape);
    }

    /// A record of this size was refused to this producer.
    pub(super) fn note(&self, producer: u64, alone: bool, topic: &str, size: u64) {
        let mut topics = self.lock();
        let refusal = topics.entry(topic.to_owned()).or_default();
        if alone {
            refusal.smallest = Some(refusal.smallest.map_or(size, |smallest| smallest.min(size)));
            refusal.times = 0;
        } else if refusal.producer != producer {
            refusal.producer = producer;
            refusal.times += 1;
        }
    }

    /// The smallest record of the topic that was refused alone.
    pub(super) fn smallest(&self, topic: &str) -> Option<u64> {
        self.lock().get(topic)?.smallest
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Refusal>> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_of_all_limits_counts() {
        let configured = |batch, request| Configured { batch, request };
        for (found, user, refused, expected) in [
            (configured(Some(5_000), Some(1_000_000)), None, None, 5_000),
            (configured(Some(5_000), Some(4_000)), None, None, 4_000 - 100 - 20),
            (configured(Some(5_000), Some(1_000_000)), Some(3_000), None, 3_000),
            (configured(Some(5_000), Some(1_000_000)), Some(30_000), None, 5_000),
            (configured(Some(5_000), Some(1_000_000)), None, Some(2_001), 2_000),
            // Nobody may look: Kafka's defaults, or what the user says.
            (configured(None, None), None, None, 1_048_588),
            (configured(None, None), Some(200_000_000), None, 200_000_000),
            (
                configured(Some(2_000_000_000), None),
                None,
                None,
                104_857_600 - 100 - 20,
            ),
            (
                configured(Some(2_000_000_000), Some(2_000_000_000)),
                None,
                None,
                1_000_000_000,
            ),
        ] {
            assert_eq!(
                largest(found, user, refused, 20),
                expected,
                "{found:?} {user:?} {refused:?}"
            );
        }
    }

    #[test]
    fn records_are_sent_alone_only_when_asking_again_did_not_help() {
        let refusals = Refusals::default();
        assert_eq!(refusals.begin(), (1, false));
        // A batch of three records.
        for size in [10, 20, 30] {
            refusals.note(1, false, "t", size);
        }
        assert_eq!(refusals.begin(), (2, false), "the limit is asked for again");
        refusals.note(2, false, "t", 20);
        refusals.note(2, false, "t", 30);
        assert_eq!(refusals.smallest("t"), None);
        assert_eq!(refusals.begin(), (3, true));
        refusals.note(3, true, "t", 30);
        assert_eq!(refusals.smallest("t"), Some(30));
        assert_eq!(refusals.smallest("other"), None);
        assert_eq!(refusals.begin(), (4, false));
        refusals.note(4, false, "t", 29);
        refusals.begin();
        refusals.note(5, false, "t", 29);
        assert_eq!(refusals.begin(), (6, true));
        refusals.note(6, true, "t", 29);
        assert_eq!(refusals.smallest("t"), Some(29));
    }
}
