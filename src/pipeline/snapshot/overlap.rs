//! Where the stream and the readers meet: what the stream changed while a chunk is read, and what it must not publish.

use std::collections::HashMap;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::lsn::Lsn;
use crate::snapshot::{Delivered, Verdict, Visibility, Window};

/// More than that is not remembered for one chunk.
const MOST_BYTES: usize = 64 * 1024 * 1024;

/// A range of a table: the table's oid, and the range's number.
pub(super) type RangeId = (u32, usize);

/// A chunk of which rows may be on their way.
struct Chunk {
    range: usize,
    window: Window,
    /// Of the changes in it those that leave a value out, as TOAST had not changed it: the topic does not have the whole row by them.
    incomplete: Window,
    /// How many transactions had been delivered when it was opened.
    opened: u64,
    /// Every transaction that its snapshot sees has its commit record before this.
    lsn: Lsn,
    /// The reader waits for the stream to get there.
    verdict: Option<oneshot::Sender<Verdict>>,
    since: Instant,
}

/// Which changes of a table without a key are not published: they are in the rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cut {
    /// All: it is not read yet.
    Everything,
    /// Those of the transactions that its snapshot sees, which committed before the position.
    Seen(Visibility, Lsn),
}

/// What became of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// The reader is answered once the stream is past it.
    Waiting,
    /// The reader was told to take another.
    TooOld,
}

/// Whether a change says all of its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::pipeline) enum Completeness {
    Complete,
    /// A value is left out that was stored apart and has not changed.
    Incomplete,
}

/// What is to become of a row of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Published,
    /// The topic has something newer.
    Superseded,
    /// The topic has something newer, but not all of it: it is read again.
    Owed,
}

/// What is to become of the rows of a chunk, by their keys.
pub(super) struct Fates<'a>(Option<&'a Chunk>);

impl Fates<'_> {
    /// Nothing supersedes them: the stream stands still.
    pub(super) const UNDISTURBED: Self = Fates(None);

    pub(super) fn of(&self, key: &[u8]) -> Fate {
        match self.0 {
            Some(chunk) if chunk.incomplete.supersedes(key) => Fate::Owed,
            Some(chunk) if chunk.window.supersedes(key) => Fate::Superseded,
            _ => Fate::Published,
        }
    }
}

/// See the module.
pub(in crate::pipeline) struct Overlap {
    delivered: Delivered,
    /// Everything that committed before is delivered.
    passed: Lsn,
    /// Before this changes come again that are published already, of which nothing is remembered.
    resumes: Lsn,
    /// Of each table that is being read, though there may be none just now.
    chunks: HashMap<u32, Vec<Chunk>>,
    cuts: HashMap<u32, Cut>,
}

impl Overlap {
    /// `suspects`: what was running when the session began, where commits wait for synchronous standbys.
    pub(super) fn new(resumes: Lsn, suspects: Option<&Visibility>) -> Self {
        let mut delivered = Delivered::new();
        if let Some(suspects) = suspects {
            delivered.suspect(suspects);
        }
        Overlap {
            delivered,
            passed: Lsn::ZERO,
            resumes,
            chunks: HashMap::new(),
            cuts: HashMap::new(),
        }
    }

    /// Whether this change is in the rows of a table without a key, read or still to be read.
    pub(in crate::pipeline) fn is_cut(&self, table: u32, xid: u32, commit_lsn: Lsn) -> bool {
        match self.cuts.get(&table) {
            None => false,
            Some(Cut::Everything) => true,
            Some(Cut::Seen(visibility, lsn)) => commit_lsn < *lsn && visibility.sees(xid),
        }
    }

    /// Whether changes of this table are to be remembered.
    pub(in crate::pipeline) fn is_watched(&self, table: u32) -> bool {
        !self.chunks.is_empty() && self.chunks.contains_key(&table)
    }

    /// The table is being read, or is not any more.
    pub(super) fn set_read(&mut self, table: u32, is_read: bool) {
        match is_read {
            true => drop(self.chunks.entry(table).or_default()),
            false => drop(self.chunks.remove(&table)),
        }
    }

    /// The stream published a change.
    pub(in crate::pipeline) fn changed<'a>(
        &mut self,
        table: u32,
        xid: u32,
        completeness: Completeness,
        keys: impl Iterator<Item = &'a [u8]> + Clone,
    ) {
        for chunk in self.chunks.get_mut(&table).into_iter().flatten() {
            keys.clone().for_each(|key| chunk.window.changed(xid, key));
            if completeness == Completeness::Incomplete {
                keys.clone().for_each(|key| chunk.incomplete.changed(xid, key));
            }
        }
    }

    /// The stream published a TRUNCATE.
    pub(in crate::pipeline) fn truncated(&mut self, table: u32, xid: u32) {
        for chunk in self.chunks.get_mut(&table).into_iter().flatten() {
            chunk.window.truncated(xid);
        }
    }

    /// A transaction has ended.
    pub(in crate::pipeline) fn delivered(&mut self, xid: u32) {
        self.delivered.push(xid);
    }

    /// Everything that committed before `lsn` is delivered.
    pub(in crate::pipeline) fn passed(&mut self, lsn: Lsn) {
        self.passed = self.passed.max(lsn);
        if !self.chunks.is_empty() {
            self.answer();
        }
    }

    /// Where the stream is.
    pub(super) fn position(&self) -> Lsn {
        self.passed
    }

    pub(super) fn is_past(&self, lsn: Lsn) -> bool {
        self.passed >= lsn.max(self.resumes)
    }

    fn answer(&mut self) {
        let passed = self.passed;
        for chunk in self.chunks.values_mut().flatten().filter(|chunk| chunk.lsn <= passed) {
            if let Some(verdict) = chunk.verdict.take() {
                // A reader that is gone needs no answer.
                let _ = verdict.send(Verdict::Read);
            }
        }
    }

    /// A chunk is going to be read. One whose snapshot was too old stays open: where every commit waits for a standby, one that is opened
    /// anew would meet commits that were delivered meanwhile, and for ever.
    pub(super) fn open(&mut self, (table, range): RangeId) {
        if self.chunk((table, range)).is_some() {
            return;
        }
        self.chunks.entry(table).or_default().push(Chunk {
            range,
            window: Window::new(),
            incomplete: Window::new(),
            opened: self.delivered.count(),
            lsn: Lsn::new(u64::MAX),
            verdict: None,
            since: Instant::now(),
        });
    }

    fn chunk(&mut self, (table, range): RangeId) -> Option<&mut Chunk> {
        let mut chunks = self.chunks.get_mut(&table)?.iter_mut();
        chunks.find(|chunk| chunk.range == range)
    }

    /// The chunk's snapshot is taken.
    pub(super) fn taken(
        &mut self,
        range: RangeId,
        visibility: Visibility,
        lsn: Lsn,
        verdict: oneshot::Sender<Verdict>,
    ) -> Taken {
        let opened = self.chunk(range).map_or(0, |chunk| chunk.opened);
        if self.delivered.unseen_before(opened, &visibility).is_some() {
            let _ = verdict.send(Verdict::Again);
            return Taken::TooOld;
        }
        if let Some(chunk) = self.chunk(range) {
            chunk.incomplete.seen(visibility.clone());
            chunk.window.seen(visibility);
            (chunk.lsn, chunk.verdict) = (lsn, Some(verdict));
        }
        self.answer();
        Taken::Waiting
    }

    /// A snapshot of a table without a key, while the stream stands still: whether it is one to read by. What it sees is cut from the
    /// stream from now on.
    pub(super) fn cut(&mut self, table: u32, visibility: &Visibility, lsn: Lsn) -> Taken {
        if self.delivered.unseen_by(visibility).is_some() {
            return Taken::TooOld;
        }
        self.cuts.insert(table, Cut::Seen(visibility.clone(), lsn));
        Taken::Waiting
    }

    /// Sets, or takes away, what is cut from the stream.
    pub(super) fn set_cut(&mut self, table: u32, cut: Option<Cut>) {
        match cut {
            Some(cut) => drop(self.cuts.insert(table, cut)),
            None => drop(self.cuts.remove(&table)),
        }
    }

    /// Cuts that the confirmed stream has passed, which are taken away: nothing of theirs comes again.
    pub(super) fn confirmed(&mut self, confirmed: Lsn) -> bool {
        let before = self.cuts.len();
        self.cuts
            .retain(|_, cut| !matches!(cut, Cut::Seen(_, lsn) if *lsn <= confirmed));
        self.cuts.len() != before
    }

    /// The position of the range's rows, and what is to become of them.
    pub(super) fn fates(&self, (table, range): RangeId) -> Option<(Lsn, Fates<'_>)> {
        let mut chunks = self.chunks.get(&table)?.iter();
        let chunk = chunks.find(|chunk| chunk.range == range)?;
        Some((chunk.lsn, Fates(Some(chunk))))
    }

    /// The chunk is over.
    pub(super) fn close(&mut self, (table, range): RangeId) {
        if let Some(chunks) = self.chunks.get_mut(&table) {
            chunks.retain(|chunk| chunk.range != range);
        }
    }

    /// Chunks during which the stream changed more than is worth remembering.
    pub(super) fn overfull(&self) -> Vec<RangeId> {
        let chunks = self
            .chunks
            .iter()
            .flat_map(|(table, chunks)| chunks.iter().map(move |chunk| (table, chunk)));
        chunks
            .filter(|(_, chunk)| chunk.window.bytes() > MOST_BYTES)
            .map(|(table, chunk)| (*table, chunk.range))
            .collect()
    }

    /// Whether a reader has been waiting for the stream since before `since`.
    pub(super) fn has_waited(&self, since: Instant) -> bool {
        let mut chunks = self.chunks.values().flatten();
        chunks.any(|chunk| chunk.verdict.is_some() && chunk.since < since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: u32 = 16_400;

    fn visibility(text: &str) -> Visibility {
        Visibility::parse(text).unwrap()
    }

    fn overlap() -> Overlap {
        Overlap::new(Lsn::ZERO, None)
    }

    fn taken(overlap: &mut Overlap, text: &str, lsn: u64) -> (Taken, oneshot::Receiver<Verdict>) {
        let (verdict, given) = oneshot::channel();
        (
            overlap.taken((TABLE, 0), visibility(text), Lsn::new(lsn), verdict),
            given,
        )
    }

    #[test]
    fn rows_are_read_once_the_stream_is_past_what_their_snapshot_sees() {
        let mut overlap = overlap();
        overlap.open((TABLE, 0));
        let (found, mut given) = taken(&mut overlap, "10:10:", 0x100);
        assert_eq!(found, Taken::Waiting);
        overlap.passed(Lsn::new(0xf8));
        assert!(given.try_recv().is_err(), "a transaction that it sees may still come");
        overlap.passed(Lsn::new(0x100));
        assert_eq!(given.try_recv(), Ok(Verdict::Read));
    }

    #[test]
    fn a_snapshot_that_does_not_see_what_was_delivered_before_is_too_old() {
        let mut overlap = overlap();
        overlap.delivered(12);
        overlap.open((TABLE, 0));
        let (found, mut given) = taken(&mut overlap, "12:15:12", 0x100);
        assert_eq!((found, given.try_recv()), (Taken::TooOld, Ok(Verdict::Again)));
        // It commits while the window is open: what it changes is remembered.
        overlap.delivered(14);
        overlap.open((TABLE, 0));
        let (found, _given) = taken(&mut overlap, "14:15:14", 0x100);
        assert_eq!(found, Taken::Waiting);
        overlap.close((TABLE, 0));
        overlap.open((TABLE, 0));
        let (found, _given) = taken(&mut overlap, "15:15:", 0x100);
        assert_eq!(found, Taken::Waiting);
    }

    #[test]
    fn changes_that_the_snapshot_does_not_see_supersede_rows_until_the_chunk_is_over() {
        let mut overlap = overlap();
        overlap.open((TABLE, 0));
        overlap.open((TABLE, 1));
        overlap.changed(TABLE, 12, Completeness::Complete, [&b"seen"[..]].into_iter());
        overlap.changed(TABLE, 20, Completeness::Complete, [&b"late"[..]].into_iter());
        let (_, _given) = taken(&mut overlap, "15:15:", 0x100);
        let (lsn, fates) = overlap.fates((TABLE, 0)).unwrap();
        assert_eq!(lsn, Lsn::new(0x100));
        assert_eq!(
            (fates.of(b"late"), fates.of(b"seen")),
            (Fate::Superseded, Fate::Published)
        );
        overlap.close((TABLE, 0));
        assert!(overlap.fates((TABLE, 0)).is_none());
        assert_eq!(overlap.fates((TABLE, 1)).unwrap().1.of(b"seen"), Fate::Superseded);
    }

    #[test]
    fn a_row_of_which_the_stream_left_a_value_out_is_owed() {
        let mut overlap = overlap();
        overlap.open((TABLE, 0));
        for (xid, key) in [(12, &b"seen"[..]), (20, b"late")] {
            overlap.changed(TABLE, xid, Completeness::Incomplete, [key].into_iter());
        }
        let (_, _given) = taken(&mut overlap, "15:15:", 0x100);
        overlap.changed(TABLE, 21, Completeness::Complete, [&b"late"[..]].into_iter());
        let (_, fates) = overlap.fates((TABLE, 0)).unwrap();
        assert_eq!(fates.of(b"late"), Fate::Owed);
        assert_eq!(fates.of(b"seen"), Fate::Published, "it was read with the value");
    }

    #[test]
    fn changes_of_a_table_without_a_key_are_cut_as_long_as_its_rows_have_them() {
        let mut overlap = overlap();
        overlap.set_cut(TABLE, Some(Cut::Everything));
        assert!(overlap.is_cut(TABLE, 99, Lsn::new(0x90)));
        assert_eq!(
            overlap.cut(TABLE, &visibility("15:20:15"), Lsn::new(0x100)),
            Taken::Waiting
        );
        assert!(overlap.is_cut(TABLE, 16, Lsn::new(0x90)));
        assert!(
            !overlap.is_cut(TABLE, 15, Lsn::new(0x98)),
            "it commits later than it was seen"
        );
        assert!(!overlap.is_cut(TABLE, 20, Lsn::new(0x110)));
        assert!(!overlap.confirmed(Lsn::new(0xf8)));
        assert!(overlap.confirmed(Lsn::new(0x100)));
        assert!(!overlap.is_cut(TABLE, 16, Lsn::new(0x90)));
    }
}
