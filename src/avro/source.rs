//! The `source` block: where a change comes from. Debezium 3's fields, then `commit_lsn` and `ordinal`.

use crate::envelope::SnapshotKind;
use crate::lsn::Lsn;

use super::EncoderSettings;
use super::binary::{decimal, long, put_bytes};
use super::stage::{Short, Writer};
use super::stamp::Stamp;

/// The block's schema. The types and defaults are those that Debezium's Avro has.
pub(super) const SCHEMA: &str = concat!(
    r#"{"type":"record","name":"Source","namespace":"io.debezium.connector.postgresql","fields":["#,
    r#"{"name":"version","type":"string"},"#,
    r#"{"name":"connector","type":"string"},"#,
    r#"{"name":"name","type":"string"},"#,
    r#"{"name":"ts_ms","type":"long"},"#,
    r#"{"name":"snapshot","type":["string","null"],"default":"false"},"#,
    r#"{"name":"db","type":"string"},"#,
    r#"{"name":"sequence","type":["null","string"],"default":null},"#,
    r#"{"name":"ts_us","type":["null","long"],"default":null},"#,
    r#"{"name":"ts_ns","type":["null","long"],"default":null},"#,
    r#"{"name":"schema","type":"string"},"#,
    r#"{"name":"table","type":"string"},"#,
    r#"{"name":"txId","type":["null","long"],"default":null},"#,
    r#"{"name":"lsn","type":["null","long"],"default":null},"#,
    r#"{"name":"xmin","type":["null","long"],"default":null},"#,
    r#"{"name":"origin","type":["null","string"],"default":null},"#,
    r#"{"name":"origin_lsn","type":["null","long"],"default":null},"#,
    r#"{"name":"commit_lsn","type":"long"},"#,
    r#"{"name":"ordinal","type":"long"}]}"#,
);

/// The branches of a union.
pub(super) const NULL: u8 = 0;
pub(super) const PRESENT: u8 = 2;

/// What stays the same from row to row, encoded once.
#[derive(Debug, Clone)]
pub(super) struct Source {
    /// `version`, `connector`, `name`.
    head: Vec<u8>,
    /// `snapshot`, `db`, of a change.
    middle: Vec<u8>,
    /// The same of a row that a snapshot found, initial and incremental.
    read: [Vec<u8>; 2],
    /// `schema`, `table`.
    table: Vec<u8>,
}

impl Source {
    pub(super) fn new(settings: &EncoderSettings, schema: &str, table: &str) -> Self {
        let strings = |parts: &[&str]| {
            let mut out = Vec::new();
            for part in parts {
                put_bytes(part.as_bytes(), &mut out);
            }
            out
        };
        let middle = |snapshot: &str| {
            let mut middle = vec![NULL]; // of `snapshot`'s union, the string
            middle.extend(strings(&[snapshot, &settings.database]));
            middle
        };
        Source {
            head: strings(&[&settings.version, "postgresql", &settings.pipeline]),
            middle: middle("false"),
            read: [SnapshotKind::Initial, SnapshotKind::Incremental].map(|kind| middle(kind.code())),
            table: strings(&[schema, table]),
        }
    }

    /// Writes the block of one change. `ts_*` are the commit's time.
    #[inline(always)]
    pub(super) fn put(
        &self,
        stamp: &Stamp,
        lsn: Lsn,
        ordinal: u64,
        snapshot: Option<SnapshotKind>,
        writer: &mut Writer<'_>,
    ) {
        let [initial, incremental] = &self.read;
        writer.bytes(&self.head);
        writer.short(&stamp.commit_millis);
        writer.bytes(match snapshot {
            None => &self.middle,
            Some(SnapshotKind::Initial) => initial,
            Some(SnapshotKind::Incremental) => incremental,
        });
        // `["<end of the commit before>","<LSN>"]`, decimal, as Debezium has it: at most 47 bytes.
        writer.small(|room| {
            let [branch, length, sequence @ ..] = room;
            *branch = PRESENT;
            let end = stamp.sequence.put(sequence, 0);
            let end = decimal(lsn.as_u64()).put(sequence, end);
            let end = CLOSED.put(sequence, end);
            *length = u8::try_from(end).unwrap_or_default().wrapping_shl(1);
            end.wrapping_add(2)
        });
        writer.short(&stamp.commit_micros);
        writer.bytes(&self.table);
        writer.small(|room| {
            let mut end = stamp.xid.put(room, 0);
            end = BRANCH.put(room, end);
            end = long(lsn.as_u64().cast_signed()).put(room, end);
            end = NULLS.put(room, end); // xmin, origin, origin_lsn
            end = stamp.commit_lsn.put(room, end);
            long(ordinal.cast_signed()).put(room, end)
        });
    }
}

/// How `source.sequence` ends.
const CLOSED: Short<2> = Short::new(*b"\"]");
const BRANCH: Short<1> = Short::new([PRESENT]);
const NULLS: Short<3> = Short::new([NULL; 3]);

/// `ts_us` and `ts_ns`, both in a union.
pub(super) fn micros_and_nanos(micros: i64) -> Short<22> {
    let mut out = Short::EMPTY;
    for time in [micros, micros.saturating_mul(1000)] {
        out.push(&[PRESENT]);
        out.push(long(time).as_bytes());
    }
    out
}

/// Microseconds to milliseconds, downwards also before 1970.
#[inline]
pub(super) fn millis(micros: i64) -> i64 {
    micros.div_euclid(1000)
}
