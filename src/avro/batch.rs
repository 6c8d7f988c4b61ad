//! The reused buffers of an encoder, and the records in them.

use std::fmt;
use std::ops::Range;

use crate::envelope::{Op, Position};

use super::nested::Buffers;
use super::stage::Stage;
use super::stamp::Stamp;

/// The most headers that a record has.
pub const MAX_HEADERS: usize = 7;

/// The most memory that a cleared batch keeps: more than nearly every row needs, and nothing against a row of a gigabyte.
const KEPT: usize = 4 * 1024 * 1024;

/// Records of one or more changes, in the order in which they are to be sent. Keeps its memory when cleared, within reason.
#[derive(Default)]
pub struct Batch {
    pub(super) bytes: Vec<u8>,
    pub(super) unchanged: Vec<usize>,
    pub(super) buffers: Buffers,
    pub(super) stamp: Stamp,
    pub(super) stage: Stage,
    records: Vec<Span>,
    headers: Vec<HeaderSpan>,
}

/// A header: its name, and where its value stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeaderSpan {
    pub(super) name: &'static str,
    pub(super) start: usize,
    pub(super) end: usize,
}

#[derive(Debug)]
struct Span {
    op: Op,
    key: Option<Range<usize>>,
    value: Option<Range<usize>>,
    headers: Range<usize>,
    position: Position,
}

/// How far a batch was filled.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    bytes: usize,
    records: usize,
    headers: usize,
}

/// Counts only: a row's values belong in no log.
impl fmt::Debug for Batch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Batch")
            .field("records", &self.records.len())
            .field("bytes", &self.bytes.len())
            .finish_non_exhaustive()
    }
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Self {
        Batch::default()
    }

    /// Forgets the records and keeps the memory, but not what a single huge row once took.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT);
        self.buffers.shrink_to(KEPT);
        self.records.clear();
        self.headers.clear();
    }

    /// How many records there are.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Bytes of all keys, values and header values.
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// The records, in the order in which they are to be sent.
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> + Clone {
        self.records.iter().map(|span| Record {
            op: span.op,
            key: span.key.as_ref().map(|range| self.slice(range)),
            value: span.value.as_ref().map(|range| self.slice(range)),
            headers: Headers {
                bytes: &self.bytes,
                spans: self.headers.get(span.headers.clone()).unwrap_or_default(),
            },
            position: span.position,
        })
    }

    #[inline]
    pub(super) fn slice(&self, range: &Range<usize>) -> &[u8] {
        self.bytes.get(range.clone()).unwrap_or_default()
    }

    pub(super) fn mark(&self) -> Mark {
        Mark {
            bytes: self.bytes.len(),
            records: self.records.len(),
            headers: self.headers.len(),
        }
    }

    pub(super) fn roll_back(&mut self, mark: Mark) {
        self.bytes.truncate(mark.bytes);
        self.records.truncate(mark.records);
        self.headers.truncate(mark.headers);
    }

    /// Adds a header to the record that is pushed next.
    #[inline]
    pub(super) fn header(&mut self, name: &'static str, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        write(&mut self.bytes);
        self.headers.push(HeaderSpan {
            name,
            start,
            end: self.bytes.len(),
        });
    }

    /// The same of several whose values are there.
    #[inline]
    pub(super) fn headers_at<const N: usize>(&mut self, headers: [HeaderSpan; N]) {
        self.headers.extend_from_slice(&headers);
    }

    /// Adds a record; its headers are those added since the record before.
    #[inline]
    pub(super) fn push(&mut self, op: Op, key: Option<Range<usize>>, value: Option<Range<usize>>, position: Position) {
        let first_header = self.records.last().map_or(0, |last| last.headers.end);
        let headers = first_header..self.headers.len();
        self.records.push(Span {
            op,
            key,
            value,
            headers,
            position,
        });
    }
}

/// A record, ready to be sent.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    /// What happened.
    pub op: Op,
    /// The key, in Confluent's wire format; `None`: no key.
    pub key: Option<&'a [u8]>,
    /// The value, in Confluent's wire format; `None`: a tombstone.
    pub value: Option<&'a [u8]>,
    /// The headers.
    pub headers: Headers<'a>,
    /// Where the change stands in the stream.
    pub position: Position,
}

/// Lengths only.
impl fmt::Debug for Record<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Record")
            .field("op", &self.op)
            .field("key", &self.key.map(<[u8]>::len))
            .field("value", &self.value.map(<[u8]>::len))
            .field("headers", &self.headers)
            .field("position", &self.position)
            .finish()
    }
}

/// A record's headers.
#[derive(Clone, Copy)]
pub struct Headers<'a> {
    bytes: &'a [u8],
    spans: &'a [HeaderSpan],
}

impl<'a> Headers<'a> {
    /// How many there are, at most [`MAX_HEADERS`].
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Name and value of each.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &'a [u8])> {
        let bytes = self.bytes;
        self.spans
            .iter()
            .map(move |span| (span.name, bytes.get(span.start..span.end).unwrap_or_default()))
    }

    /// The same as a slice, in space that the caller lends.
    pub fn as_slice<'s>(&self, space: &'s mut [(&'a str, &'a [u8]); MAX_HEADERS]) -> &'s [(&'a str, &'a [u8])] {
        for (place, header) in space.iter_mut().zip(self.iter()) {
            *place = header;
        }
        space.get(..self.len()).unwrap_or_default()
    }
}

impl fmt::Debug for Headers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.spans.iter().map(|span| span.name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_debug_output_has_a_value_of_the_row() {
        let mut batch = Batch::new();
        batch.bytes.extend_from_slice(b"hunter2");
        let position = Position {
            commit_lsn: crate::lsn::Lsn::ZERO,
            ordinal: 0,
        };
        batch.push(Op::Create, Some(0..3), Some(0..7), position);
        assert_eq!(format!("{batch:?}"), "Batch { records: 1, bytes: 7, .. }");
        let record = format!("{:?}", batch.records().next().unwrap());
        assert!(
            record.starts_with("Record { op: Create, key: Some(3), value: Some(7), headers: []"),
            "{record}"
        );
    }

    #[test]
    fn the_memory_of_a_huge_row_goes_with_it_and_that_of_others_is_kept() {
        let mut batch = Batch::new();
        batch.bytes.resize(100_000_000, b'x');
        batch.clear();
        assert_eq!(batch.bytes.capacity(), KEPT);
        batch.bytes.resize(KEPT / 2, b'x');
        batch.clear();
        assert_eq!(batch.bytes.capacity(), KEPT);
    }
}
