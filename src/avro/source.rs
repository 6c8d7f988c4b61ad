//! The `source` block: where a change comes from. Debezium 3's fields, then `commit_lsn` and `ordinal`.

use crate::lsn::Lsn;

use super::EncoderSettings;
use super::binary::{put_bits, put_bytes, put_decimal, put_framed, put_long};
use super::stamp::{Part, Stamp};

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
    /// `snapshot`, `db`.
    middle: Vec<u8>,
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
        let mut middle = vec![NULL]; // of `snapshot`'s union, the string
        middle.extend(strings(&["false", &settings.database]));
        Source {
            head: strings(&[&settings.version, "postgresql", &settings.pipeline]),
            middle,
            table: strings(&[schema, table]),
        }
    }

    /// Appends the block of one change. `ts_*` are the commit's time.
    #[inline]
    pub(super) fn put(&self, stamp: &Stamp, lsn: Lsn, ordinal: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.head);
        out.extend_from_slice(stamp.part(Part::CommitMillis));
        out.extend_from_slice(&self.middle);
        out.push(PRESENT);
        // `["<end of the commit before>","<LSN>"]`, decimal, as Debezium has it.
        let _infallible = put_framed(out, |out| {
            out.extend_from_slice(stamp.part(Part::Sequence));
            put_decimal(lsn.as_u64(), out);
            out.extend_from_slice(b"\"]");
            Ok(())
        });
        out.extend_from_slice(stamp.part(Part::CommitMicros));
        out.extend_from_slice(&self.table);
        out.extend_from_slice(stamp.part(Part::Xid));
        out.push(PRESENT);
        put_bits(lsn.as_u64(), out);
        out.extend_from_slice(&[NULL, NULL, NULL]); // xmin, origin, origin_lsn
        out.extend_from_slice(stamp.part(Part::CommitLsn));
        put_bits(ordinal, out);
    }
}

/// Appends `ts_us` and `ts_ns`, both in a union.
#[inline]
pub(super) fn put_micros_and_nanos(micros: i64, out: &mut Vec<u8>) {
    out.push(PRESENT);
    put_long(micros, out);
    out.push(PRESENT);
    put_long(micros.saturating_mul(1000), out);
}

/// Microseconds to milliseconds, downwards also before 1970.
#[inline]
pub(super) fn millis(micros: i64) -> i64 {
    micros.div_euclid(1000)
}
