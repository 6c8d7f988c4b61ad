//! What all records of one transaction have in common, encoded once: its times, its id, its commit LSN.

use crate::envelope::Transaction;

use super::binary::{put_bits, put_decimal, put_long, put_lsn};
use super::source::{NULL, PRESENT, millis, put_micros_and_nanos};

/// A part of the stamp.
#[derive(Debug, Clone, Copy)]
pub(super) enum Part {
    /// `ts_ms` of the source: the commit's time.
    CommitMillis,
    /// `["<end of the commit before>","`: how `source.sequence` begins, as Debezium has it.
    Sequence,
    /// `ts_us` and `ts_ns` of the source.
    CommitMicros,
    /// `txId`.
    Xid,
    /// `commit_lsn` of the source.
    CommitLsn,
    /// The envelope's `ts_ms`, `ts_us` and `ts_ns`: when the transaction was received.
    Received,
    /// A header: the commit LSN, `X/X`.
    CommitLsnText,
    /// A header: the xid.
    XidText,
    /// A header: the commit's time, in microseconds.
    MicrosText,
}

/// How many parts there are.
const PARTS: usize = 9;

/// The parts of the transaction that was stamped last.
#[derive(Debug, Default)]
pub(super) struct Stamp {
    of: Option<Transaction>,
    bytes: Vec<u8>,
    /// Where each part ends.
    ends: [usize; PARTS],
}

impl Stamp {
    /// Makes the stamp that of this transaction, if it is not yet.
    #[inline]
    pub(super) fn set(&mut self, transaction: &Transaction) {
        if self.of.as_ref() != Some(transaction) {
            self.write(transaction);
        }
    }

    #[inline(never)]
    fn write(&mut self, transaction: &Transaction) {
        self.of = Some(*transaction);
        let out = &mut self.bytes;
        out.clear();
        let mut ends = self.ends.iter_mut();
        let mut end = |out: &Vec<u8>| {
            if let Some(end) = ends.next() {
                *end = out.len();
            }
        };
        put_long(millis(transaction.commit_time_us), out);
        end(out);
        match transaction.previous_commit_lsn {
            Some(previous) => {
                out.extend_from_slice(b"[\"");
                put_decimal(previous.as_u64(), out);
                out.extend_from_slice(b"\",\"");
            }
            None => out.extend_from_slice(b"[null,\""),
        }
        end(out);
        put_micros_and_nanos(transaction.commit_time_us, out);
        end(out);
        if transaction.xid == 0 {
            out.push(NULL);
        } else {
            out.push(PRESENT);
            put_long(transaction.xid.into(), out);
        }
        end(out);
        put_bits(transaction.commit_lsn.as_u64(), out);
        end(out);
        out.push(PRESENT);
        put_long(millis(transaction.now_us), out);
        put_micros_and_nanos(transaction.now_us, out);
        end(out);
        put_lsn(transaction.commit_lsn, out);
        end(out);
        put_decimal(transaction.xid.into(), out);
        end(out);
        if transaction.commit_time_us < 0 {
            out.push(b'-');
        }
        put_decimal(transaction.commit_time_us.unsigned_abs(), out);
        end(out);
    }

    /// One part's bytes.
    #[inline]
    pub(super) fn part(&self, part: Part) -> &[u8] {
        let (start, end) = match part {
            Part::CommitMillis => (0, self.ends[0]),
            Part::Sequence => (self.ends[0], self.ends[1]),
            Part::CommitMicros => (self.ends[1], self.ends[2]),
            Part::Xid => (self.ends[2], self.ends[3]),
            Part::CommitLsn => (self.ends[3], self.ends[4]),
            Part::Received => (self.ends[4], self.ends[5]),
            Part::CommitLsnText => (self.ends[5], self.ends[6]),
            Part::XidText => (self.ends[6], self.ends[7]),
            Part::MicrosText => (self.ends[7], self.ends[8]),
        };
        self.bytes.get(start..end).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lsn::Lsn;

    #[test]
    fn the_stamp_is_that_of_the_transaction_that_was_set_last() {
        let one = Transaction {
            xid: 731,
            commit_lsn: Lsn::new(0x16_B374_D848),
            commit_time_us: -1_000_001,
            now_us: 5,
            previous_commit_lsn: None,
        };
        let two = Transaction {
            xid: 0,
            commit_lsn: Lsn::new(0x17),
            commit_time_us: 2,
            now_us: 5,
            previous_commit_lsn: Some(one.commit_lsn),
        };
        let mut stamp = Stamp::default();
        for _ in 0..2 {
            stamp.set(&one);
            assert_eq!(stamp.part(Part::CommitLsnText), b"16/B374D848");
            assert_eq!(stamp.part(Part::XidText), b"731");
            assert_eq!(stamp.part(Part::MicrosText), b"-1000001");
            assert_eq!(stamp.part(Part::Sequence), b"[null,\"");
            assert_eq!(stamp.part(Part::Xid), [PRESENT, 0xb6, 0x0b]);
            stamp.set(&two);
            assert_eq!(stamp.part(Part::CommitLsnText), b"0/17");
            assert_eq!(stamp.part(Part::Sequence), b"[\"97500059720\",\"");
            assert_eq!(stamp.part(Part::Xid), [NULL]);
            assert_eq!(stamp.part(Part::CommitLsn), [0x2e]);
            assert_eq!(
                stamp.part(Part::Received),
                [PRESENT, 0, PRESENT, 10, PRESENT, 0x90, 0x4e]
            );
        }
    }
}
