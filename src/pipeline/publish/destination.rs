//! Where a table's records go, and what they are counted by.

use std::sync::Arc;

use crate::envelope::Op;
use crate::telemetry::metrics::{Metrics, RecordOp, TableMetrics};

/// Where records go, and what they are counted by.
pub(super) struct Destination {
    pub(super) topic: String,
    /// `schema.table`, or the topic itself for logical messages.
    pub(super) label: String,
    pub(super) ready: bool,
    /// The largest record that the topic takes; known once it is ready.
    pub(super) limit: u64,
    /// A header that each record has beside its own.
    pub(super) stamp: Option<(&'static str, Vec<u8>)>,
    metrics: Arc<TableMetrics>,
    counts: [u64; RecordOp::ALL.len()],
    bytes: u64,
}

impl Destination {
    pub(super) fn new(topic: String, label: String, metrics: &Metrics) -> Self {
        let metrics = metrics.tables.table(&label);
        Destination {
            topic,
            label,
            ready: false,
            limit: 0,
            stamp: None,
            metrics,
            counts: [0; RecordOp::ALL.len()],
            bytes: 0,
        }
    }

    pub(super) fn stamp(&self) -> Option<(&'static str, &[u8])> {
        let (name, value) = self.stamp.as_ref()?;
        Some((name, value))
    }

    pub(super) fn add(&mut self, op: Op, bytes: usize) {
        if let Some(count) = self.counts.get_mut(record_op(op) as usize) {
            *count += 1;
        }
        self.bytes += u64::try_from(bytes).unwrap_or(u64::MAX);
    }

    pub(super) fn has_counts(&self) -> bool {
        self.counts.iter().any(|count| *count > 0)
    }

    pub(super) fn flush_counts(&mut self) {
        for (op, count) in RecordOp::ALL.iter().zip(&mut self.counts) {
            if *count > 0 {
                self.metrics
                    .add(*op, std::mem::take(count), std::mem::take(&mut self.bytes));
            }
        }
    }
}

/// A table that is described anew has a new destination; what the old one counted stays counted.
impl Drop for Destination {
    fn drop(&mut self) {
        self.flush_counts();
    }
}

fn record_op(op: Op) -> RecordOp {
    match op {
        Op::Create => RecordOp::Create,
        Op::Update => RecordOp::Update,
        Op::Delete => RecordOp::Delete,
        Op::Read => RecordOp::Read,
        Op::Truncate => RecordOp::Truncate,
        Op::Message => RecordOp::Message,
    }
}
