//! One record: its value in either envelope, and its headers.

use std::ops::Range;

use crate::avro::EnvelopeKind;
use crate::avro::batch::{Batch, HeaderSpan};
use crate::avro::binary::{decimal, lsn_text, put_length};
use crate::avro::stage::Short;
use crate::envelope::{Op, Position};

use super::{Event, Fault, Side, TableEncoder};

/// The header of a row without unchanged values.
const NONE_UNCHANGED: Short<2> = Short::new(*b"[]");

impl TableEncoder {
    /// Appends a record with this key.
    #[inline]
    #[allow(clippy::too_many_arguments, reason = "the parts of one record")]
    pub(super) fn put_record(
        &self,
        op: Op,
        key: Option<Range<usize>>,
        before: Option<Side<'_>>,
        after: Option<Side<'_>>,
        event: Event<'_>,
        position: Position,
        out: &mut Batch,
    ) -> Result<(), Fault> {
        out.unchanged.clear();
        let start = out.bytes.len();
        let value = match self.envelope {
            EnvelopeKind::Debezium => {
                out.bytes.extend_from_slice(&self.value_header);
                self.put_envelope(op, before, after, event, position, out)?;
                Some(start..out.bytes.len())
            }
            EnvelopeKind::Row => {
                // A tombstone deletes what its key names; without a key the old row says which it was.
                let row = after.or_else(|| before.filter(|_| key.is_none()));
                if let Some(side) = row {
                    out.bytes.extend_from_slice(&self.value_header);
                    self.put_row(side, out)?;
                }
                let value = row.map(|_| start..out.bytes.len());
                self.put_headers(op, event, position, out);
                value
            }
        };
        out.push(op, key, value, position);
        Ok(())
    }

    #[inline]
    fn put_envelope(
        &self,
        op: Op,
        before: Option<Side<'_>>,
        after: Option<Side<'_>>,
        event: Event<'_>,
        position: Position,
        out: &mut Batch,
    ) -> Result<(), Fault> {
        for side in [before, after] {
            match side {
                None => out.bytes.push(0),
                Some(side) => {
                    out.bytes.push(2);
                    self.put_row(side, out)?;
                }
            }
        }
        let mut writer = out.stage.writer(&mut out.bytes);
        self.source
            .put(&out.stamp, event.lsn, position.ordinal, event.snapshot, &mut writer);
        writer.small(|room| {
            let [transaction, length, code, received @ ..] = room;
            *transaction = 0;
            *length = 2;
            *code = op.letter();
            out.stamp.received.put(received, 0).wrapping_add(3)
        });
        if !out.unchanged.is_empty() {
            let bytes = writer.flushed();
            put_length(out.unchanged.len(), bytes);
            for label in out.unchanged.iter().filter_map(|column| self.labels.get(*column)) {
                bytes.extend_from_slice(&label.encoded);
            }
        }
        writer.byte(0);
        writer.flush();
        Ok(())
    }

    /// Adds the headers of the `row` envelope.
    #[inline]
    fn put_headers(&self, op: Op, event: Event<'_>, position: Position, out: &mut Batch) {
        let texts = &out.stamp.texts;
        let mut writer = out.stage.writer(&mut out.bytes);
        let start = writer.len();
        // The values do not stand in the order of the headers: those that the transaction has in common are together.
        let (mut common, mut ordinal, mut lsn) = (0, 0, 0);
        writer.small(|room| {
            if let Some(first) = room.first_mut() {
                *first = op.letter();
            }
            common = texts.all.put(room, 1);
            ordinal = decimal(position.ordinal).put(room, common);
            lsn = lsn_text(event.lsn).put(room, ordinal);
            lsn
        });
        if out.unchanged.is_empty() {
            writer.short(&NONE_UNCHANGED);
        } else {
            self.put_unchanged_names(&out.unchanged, writer.flushed());
        }
        writer.flush();
        let end = out.bytes.len();
        let span = |name, from: usize, to: usize| HeaderSpan {
            name,
            start: start.wrapping_add(from),
            end: start.wrapping_add(to),
        };
        let commit_lsn = texts.commit_lsn.wrapping_add(1);
        let xid = texts.xid.wrapping_add(1);
        out.headers_at([
            span("walferry.op", 0, 1),
            span("walferry.commit_lsn", 1, commit_lsn),
            span("walferry.ordinal", common, ordinal),
            span("walferry.lsn", ordinal, lsn),
            span("walferry.xid", commit_lsn, xid),
            span("walferry.ts_us", xid, common),
            HeaderSpan {
                name: "walferry.unchanged",
                start: start.wrapping_add(lsn),
                end,
            },
        ]);
    }

    /// A JSON array of column names.
    fn put_unchanged_names(&self, unchanged: &[usize], bytes: &mut Vec<u8>) {
        bytes.push(b'[');
        for (index, label) in unchanged
            .iter()
            .filter_map(|column| self.labels.get(*column))
            .enumerate()
        {
            if index > 0 {
                bytes.push(b',');
            }
            bytes.extend_from_slice(serde_json::Value::from(label.column.as_str()).to_string().as_bytes());
        }
        bytes.push(b']');
    }
}
