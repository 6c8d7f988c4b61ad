//! Rows that cannot be published: they stop the pipeline, or go to the dead-letter topic.
//!
//! A dead letter is its row's delivery. It has a ticket of the row's transaction, so nothing behind it is confirmed before Kafka
//! has it, and it takes the places that the row's changes would have taken, so every later change has the position that it
//! would have had.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::destination::Destination;
use super::way::Way;
use super::{Open, send, too_large};
use crate::avro::{BadRow, Batch, DeadLetter, DeadLetterEncoder, EncoderSettings, Shown, Subject};
use crate::envelope::Position;
use crate::kafka::{MAX_HEADER_OVERHEAD, MAX_OVERHEAD, TopicUse};
use crate::lsn::Lsn;
use crate::pgoutput::Datum;
use crate::pipeline::error::{PipelineError, chain};
use crate::telemetry::metrics::Metrics;

/// What becomes of a row that cannot be published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::pipeline) enum OnBadRow {
    Stop,
    DeadLetter {
        /// The topic of dead letters.
        topic: String,
    },
}

/// Why a change cannot be published.
#[derive(Debug)]
pub(super) enum Why {
    BadRow(BadRow),
    TooLarge {
        /// Bytes of its largest record, with all that Kafka adds.
        size: u64,
        /// What the topic takes.
        limit: u64,
    },
}

/// A change that cannot be published.
pub(super) struct Refused<'a> {
    /// `schema.table`, or the topic of logical messages.
    pub(super) label: &'a str,
    /// The topic that it was for.
    pub(super) topic: &'a str,
    pub(super) lsn: Lsn,
    pub(super) subject: Subject<'a>,
    /// The place of its first record.
    pub(super) position: Position,
    /// How many places it takes.
    pub(super) changes: u64,
    pub(super) key: Option<Vec<u8>>,
    pub(super) why: Why,
}

impl Refused<'_> {
    fn reason(&self) -> &'static str {
        match &self.why {
            Why::BadRow(bad) => bad.reason(),
            Why::TooLarge { .. } => "too_large",
        }
    }

    fn column(&self) -> (Option<&str>, Option<&str>) {
        match &self.why {
            Why::BadRow(bad) => (bad.column.as_deref(), bad.type_name.as_deref()),
            Why::TooLarge { .. } => (None, None),
        }
    }

    /// Why, in words.
    fn text(&self) -> String {
        match &self.why {
            Why::BadRow(bad) => chain(bad),
            Why::TooLarge { size, limit } => {
                format!("a record of {size} bytes, and topic {} takes {limit}", self.topic)
            }
        }
    }

    fn into_error(self) -> PipelineError {
        let position = self.position;
        match self.why {
            Why::BadRow(source) => PipelineError::BadRow { position, source },
            Why::TooLarge { size, limit } => PipelineError::TooLarge {
                table: self.label.to_owned(),
                position,
                topic: self.topic.to_owned(),
                size,
                limit,
            },
        }
    }
}

/// What becomes of bad rows, and who has been told of them.
pub(super) struct BadRows {
    letters: Option<Letters>,
    log: Log,
}

struct Letters {
    encoder: DeadLetterEncoder,
    destination: Destination,
}

impl BadRows {
    pub(super) fn new(policy: &OnBadRow, settings: &EncoderSettings, metrics: &Metrics) -> Self {
        let letters = match policy {
            OnBadRow::Stop => None,
            OnBadRow::DeadLetter { topic } => Some(Letters {
                encoder: DeadLetterEncoder::new(settings),
                destination: Destination::new(topic.clone(), topic.clone(), metrics),
            }),
        };
        BadRows {
            letters,
            log: Log::default(),
        }
    }

    /// What dead letters are counted under.
    pub(super) fn label(&self) -> Option<&str> {
        self.letters.as_ref().map(|letters| letters.destination.label.as_str())
    }

    /// Takes in what cannot be published: as a dead letter, or as the error that ends the pipeline. `shown` says of each column's
    /// values what may be written down.
    pub(super) async fn take(
        &mut self,
        refused: Refused<'_>,
        shown: impl Fn(usize, Datum<'_>) -> Shown,
        open: &Open,
        way: &Way,
        batch: &mut Batch,
    ) -> Result<(), PipelineError> {
        way.metrics.tables.bad_row(refused.label, refused.reason());
        let Some(Letters { encoder, destination }) = &mut self.letters else {
            return Err(refused.into_error());
        };
        if !destination.ready {
            let ids = way
                .prepare(destination, encoder.schemas(), TopicUse::DeadLetters)
                .await?;
            encoder.set_id(ids.value);
        }
        let (column, column_type) = refused.column();
        let text = refused.text();
        let mut letter = DeadLetter {
            subject: refused.subject,
            topic: refused.topic,
            transaction: &open.info,
            lsn: refused.lsn,
            position: refused.position,
            changes: refused.changes,
            reason: refused.reason(),
            error: &text,
            column,
            column_type,
            key: refused.key.as_deref(),
        };
        batch.clear();
        let key = letter.key.map_or(0, <[u8]>::len);
        let mut encoded = encoder.encode(&letter, &shown, room(destination.limit, key), batch);
        if encoded.is_err() && letter.key.is_some() {
            letter.key = None;
            encoded = encoder.encode(&letter, &shown, room(destination.limit, 0), batch);
        }
        let complete = encoded.map_err(|source| PipelineError::DeadLetter {
            table: refused.label.to_owned(),
            position: refused.position,
            topic: destination.topic.clone(),
            source,
        })?;
        self.log.tell(&refused, &text, &destination.topic, complete);
        way.status.set_last_bad_row(format!(
            "{text}; table {}, commit LSN {} ordinal {}",
            refused.label, refused.position.commit_lsn, refused.position.ordinal
        ));
        if let Some(Why::TooLarge { size, .. }) = too_large(&way.producer, batch, destination).await? {
            return Err(PipelineError::TooLarge {
                table: refused.label.to_owned(),
                position: refused.position,
                topic: destination.topic.clone(),
                size,
                limit: destination.limit,
            });
        }
        send(&way.producer, &way.status, batch, destination, open).await
    }

    /// Adds what was counted since the last call to the metrics.
    pub(super) fn flush_counts(&mut self) {
        if let Some(letters) = &mut self.letters {
            letters.destination.flush_counts();
        }
    }
}

/// The most bytes that a letter's value may have, by those of its headers.
fn room(limit: u64, key: usize) -> impl FnOnce(usize) -> usize {
    let headers = |count: u64| count.saturating_mul(MAX_HEADER_OVERHEAD);
    let fixed = MAX_OVERHEAD.saturating_add(headers(8));
    let limit = usize::try_from(limit.saturating_sub(fixed)).unwrap_or(usize::MAX);
    move |headers| limit.saturating_sub(key).saturating_sub(headers)
}

/// At most a line in this time for a table and a reason.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// The lines in the log, kept few: a table may have a bad row in every transaction.
#[derive(Default)]
struct Log {
    told: HashMap<(String, &'static str), Told>,
}

struct Told {
    last: Instant,
    since: u64,
}

impl Log {
    fn tell(&mut self, refused: &Refused<'_>, text: &str, topic: &str, complete: bool) {
        let Some(since) = self.since(refused.label, refused.reason(), Instant::now()) else {
            return;
        };
        let (column, column_type) = refused.column();
        tracing::warn!(
            table = refused.label,
            column,
            "type" = column_type,
            reason = refused.reason(),
            commit_lsn = %refused.position.commit_lsn,
            ordinal = refused.position.ordinal,
            topic,
            complete,
            not_logged_before = since,
            "a row cannot be published, and is in the dead-letter topic instead: {text}"
        );
    }

    /// How many were not told of since the last line, if it is time for another.
    fn since(&mut self, table: &str, reason: &'static str, now: Instant) -> Option<u64> {
        match self.told.get_mut(&(table.to_owned(), reason)) {
            Some(told) if now.duration_since(told.last) < LOG_INTERVAL => {
                told.since += 1;
                None
            }
            Some(told) => {
                told.last = now;
                Some(std::mem::take(&mut told.since))
            }
            None => {
                self.told
                    .insert((table.to_owned(), reason), Told { last: now, since: 0 });
                Some(0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_line_every_ten_seconds_with_the_number_of_those_between() {
        let mut log = Log::default();
        let start = Instant::now();
        let mut at = |table, reason, seconds| log.since(table, reason, start + Duration::from_secs(seconds));
        assert_eq!(at("a", "not_finite", 0), Some(0));
        assert_eq!(at("a", "not_finite", 1), None);
        assert_eq!(at("a", "too_large", 1), Some(0));
        assert_eq!(at("b", "not_finite", 1), Some(0));
        assert_eq!(at("a", "not_finite", 9), None);
        assert_eq!(at("a", "not_finite", 10), Some(2));
        assert_eq!(at("a", "not_finite", 20), Some(0));
    }

    #[test]
    fn the_room_for_a_letter_leaves_out_all_that_stands_beside_it() {
        assert_eq!(room(1_000_000, 100)(200), 1_000_000 - 84 - 80 - 300);
        assert_eq!(room(10, 0)(0), 0);
    }
}
