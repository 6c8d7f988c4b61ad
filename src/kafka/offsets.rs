//! Which records of a partition are done.
//!
//! A consumer group's committed offset says that all before it are done. Those after it that are done too, because one between
//! them is not, stand as ranges in the commit's metadata, such as `12-40,42`. Brokers take 4096 bytes of metadata
//! (`offset.metadata.max.bytes`); ranges for which there is no room are forgotten, and their records are done again.

use std::collections::BTreeMap;
use std::fmt::Write;

/// Bytes of metadata that every broker takes.
const ROOM: usize = 4_000;

/// The records of one partition that are done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Offsets {
    /// All before this one are.
    next: i64,
    /// First → one after the last, of ranges beyond `next` that do not touch.
    beyond: BTreeMap<i64, i64>,
}

impl Offsets {
    /// All before `next`.
    pub(super) fn before(next: i64) -> Self {
        Offsets {
            next,
            beyond: BTreeMap::new(),
        }
    }

    /// From a commit; metadata of somebody else says nothing.
    pub(super) fn parse(next: i64, metadata: &str) -> Self {
        let mut offsets = Offsets::before(next);
        for range in metadata.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            if let (Ok(first), Ok(last)) = (first.parse(), last.parse::<i64>()) {
                offsets.done(first, last.saturating_add(1));
            }
        }
        offsets
    }

    pub(super) fn next(&self) -> i64 {
        self.next
    }

    pub(super) fn is_done(&self, offset: i64) -> bool {
        let range = self.beyond.range(..=offset).next_back();
        offset < self.next || range.is_some_and(|(_, after)| offset < *after)
    }

    /// Those from `first` up to but without `after` are done.
    pub(super) fn done(&mut self, first: i64, after: i64) {
        if first >= after || after <= self.next {
            return;
        }
        let (mut first, mut after) = (first.max(self.next), after);
        let touching: Vec<i64> = self
            .beyond
            .range(..=after)
            .filter(|(_, end)| **end >= first)
            .map(|(start, _)| *start)
            .collect();
        for start in touching {
            if let Some(end) = self.beyond.remove(&start) {
                first = first.min(start);
                after = after.max(end);
            }
        }
        if first <= self.next {
            self.next = after;
        } else {
            self.beyond.insert(first, after);
        }
    }

    /// What is committed beside [`next`](Self::next).
    pub(super) fn metadata(&self) -> String {
        let mut text = String::new();
        for (first, after) in &self.beyond {
            let before = text.len();
            let comma = if text.is_empty() { "" } else { "," };
            let _infallible = match after - 1 {
                last if last == *first => write!(text, "{comma}{first}"),
                last => write!(text, "{comma}{first}-{last}"),
            };
            if text.len() > ROOM {
                text.truncate(before);
                break;
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_beyond_the_first_that_is_not_stands_in_the_metadata() {
        let mut offsets = Offsets::before(10);
        for offset in [12, 13, 15, 9, 20] {
            offsets.done(offset, offset + 1);
        }
        assert_eq!((offsets.next(), offsets.metadata().as_str()), (10, "12-13,15,20"));
        assert_eq!(Offsets::parse(10, "12-13,15,20"), offsets);
        let done: Vec<i64> = (8..22).filter(|offset| offsets.is_done(*offset)).collect();
        assert_eq!(done, [8, 9, 12, 13, 15, 20]);
        offsets.done(14, 15);
        assert_eq!(offsets.metadata(), "12-15,20");
        offsets.done(10, 12);
        assert_eq!((offsets.next(), offsets.metadata().as_str()), (16, "20"));
        offsets.done(11, 25);
        assert_eq!((offsets.next(), offsets.metadata().as_str()), (25, ""));
    }

    #[test]
    fn metadata_of_somebody_else_says_nothing() {
        for metadata in ["", "hello", "5-", "-5", "3-1", "9999999999999999999-1", "x-y,,-"] {
            assert_eq!(Offsets::parse(7, metadata), Offsets::before(7), "{metadata}");
        }
        assert_eq!(Offsets::parse(7, "2-3"), Offsets::before(7));
        assert_eq!(Offsets::parse(7, "2-8").next(), 9);
    }

    #[test]
    fn metadata_has_room_on_every_broker_and_forgets_the_last() {
        let mut offsets = Offsets::before(0);
        for offset in 0..4_000 {
            offsets.done(1_000_000 + offset * 2, 1_000_001 + offset * 2);
        }
        let metadata = offsets.metadata();
        assert!(
            metadata.len() <= ROOM && metadata.len() > ROOM - 10,
            "{}",
            metadata.len()
        );
        let parsed = Offsets::parse(0, &metadata);
        assert!(parsed.is_done(1_000_000) && !parsed.is_done(1_000_001));
    }
}
