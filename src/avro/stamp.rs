//! What all records of one transaction have in common, encoded once: its times, its id, its commit LSN.

use crate::envelope::Transaction;

use super::binary::{decimal, long, lsn_text};
use super::source::{NULL, PRESENT, micros_and_nanos, millis};
use super::stage::Short;

/// The common parts of the transaction that was stamped last.
#[derive(Debug)]
pub(super) struct Stamp {
    of: Option<Transaction>,
    /// `ts_ms` of the source: the commit's time.
    pub(super) commit_millis: Short<10>,
    /// `["<end of the commit before>","`: how `source.sequence` begins, as Debezium has it.
    pub(super) sequence: Short<32>,
    /// `ts_us` and `ts_ns` of the source.
    pub(super) commit_micros: Short<22>,
    /// `txId`.
    pub(super) xid: Short<11>,
    /// `commit_lsn` of the source.
    pub(super) commit_lsn: Short<10>,
    /// The envelope's `ts_ms`, `ts_us` and `ts_ns`: when the transaction was received.
    pub(super) received: Short<33>,
    /// The texts of headers.
    pub(super) texts: Texts,
}

/// The commit's LSN as `X/X`, the xid, and the commit's time in microseconds, one after the other.
#[derive(Debug, Clone, Copy)]
pub(super) struct Texts {
    pub(super) all: Short<48>,
    /// Where the first ends.
    pub(super) commit_lsn: usize,
    /// Where the second ends.
    pub(super) xid: usize,
}

impl Default for Stamp {
    fn default() -> Self {
        Stamp {
            of: None,
            commit_millis: Short::EMPTY,
            sequence: Short::EMPTY,
            commit_micros: Short::EMPTY,
            xid: Short::EMPTY,
            commit_lsn: Short::EMPTY,
            received: Short::EMPTY,
            texts: Texts {
                all: Short::EMPTY,
                commit_lsn: 0,
                xid: 0,
            },
        }
    }
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
        *self = Stamp {
            of: Some(*transaction),
            commit_millis: long(millis(transaction.commit_time_us)),
            commit_micros: micros_and_nanos(transaction.commit_time_us),
            commit_lsn: long(transaction.commit_lsn.as_u64().cast_signed()),
            ..Stamp::default()
        };
        match transaction.previous_commit_lsn {
            Some(previous) => {
                self.sequence.push(b"[\"");
                self.sequence.push(decimal(previous.as_u64()).as_bytes());
                self.sequence.push(b"\",\"");
            }
            None => self.sequence.push(b"[null,\""),
        }
        if transaction.xid == 0 {
            self.xid.push(&[NULL]);
        } else {
            self.xid.push(&[PRESENT]);
            self.xid.push(long(transaction.xid.into()).as_bytes());
        }
        self.received.push(&[PRESENT]);
        self.received.push(long(millis(transaction.now_us)).as_bytes());
        self.received.push(micros_and_nanos(transaction.now_us).as_bytes());
        self.texts.write(transaction);
    }
}

impl Texts {
    fn write(&mut self, transaction: &Transaction) {
        let all = &mut self.all;
        all.push(lsn_text(transaction.commit_lsn).as_bytes());
        self.commit_lsn = all.as_bytes().len();
        all.push(decimal(transaction.xid.into()).as_bytes());
        self.xid = all.as_bytes().len();
        if transaction.commit_time_us < 0 {
            all.push(b"-");
        }
        all.push(decimal(transaction.commit_time_us.unsigned_abs()).as_bytes());
    }

    /// The commit's LSN.
    pub(super) fn commit_lsn(&self) -> &[u8] {
        self.all.as_bytes().get(..self.commit_lsn).unwrap_or_default()
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
            assert_eq!(stamp.texts.commit_lsn(), b"16/B374D848");
            assert_eq!(stamp.texts.all.as_bytes(), b"16/B374D848731-1000001");
            assert_eq!((stamp.texts.commit_lsn, stamp.texts.xid), (11, 14));
            assert_eq!(stamp.sequence.as_bytes(), b"[null,\"");
            assert_eq!(stamp.xid.as_bytes(), [PRESENT, 0xb6, 0x0b]);
            stamp.set(&two);
            assert_eq!(stamp.texts.commit_lsn(), b"0/17");
            assert_eq!(stamp.sequence.as_bytes(), b"[\"97500059720\",\"");
            assert_eq!(stamp.xid.as_bytes(), [NULL]);
            assert_eq!(stamp.commit_lsn.as_bytes(), [0x2e]);
            assert_eq!(
                stamp.received.as_bytes(),
                [PRESENT, 0, PRESENT, 10, PRESENT, 0x90, 0x4e]
            );
        }
    }

    #[test]
    fn the_longest_parts_have_space() {
        let transaction = Transaction {
            xid: u32::MAX,
            commit_lsn: Lsn::new(u64::MAX),
            commit_time_us: i64::MIN,
            now_us: i64::MAX,
            previous_commit_lsn: Some(Lsn::new(u64::MAX)),
        };
        let mut stamp = Stamp::default();
        stamp.set(&transaction);
        assert_eq!(
            stamp.texts.all.as_bytes(),
            b"FFFFFFFF/FFFFFFFF4294967295-9223372036854775808"
        );
        assert_eq!(stamp.sequence.as_bytes(), b"[\"18446744073709551615\",\"");
        assert_eq!(stamp.xid.as_bytes(), [PRESENT, 0xfe, 0xff, 0xff, 0xff, 0x1f]);
        assert_eq!(stamp.commit_micros.as_bytes().len(), 22);
        assert_eq!(stamp.received.as_bytes().len(), 31);
    }
}
