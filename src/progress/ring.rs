//! The queue itself: what was received, in order, with its end.

use std::collections::VecDeque;
use std::sync::Arc;

use super::ticket::OpenCommit;
use crate::lsn::Lsn;

#[derive(Debug)]
enum Entry {
    /// A transaction; its end is known from Commit on.
    Commit { commit: Arc<OpenCommit>, end: Option<Lsn> },
    /// A position that counts as soon as all before it does.
    Position(Lsn),
}

#[derive(Debug)]
pub(super) struct Ring {
    entries: VecDeque<Entry>,
    confirmed: Lsn,
    /// Commit LSN of the last confirmed transaction that published anything.
    published: Lsn,
    last_commit: Lsn,
    /// The last entry is a transaction without its Commit.
    open: bool,
    /// Scratch for the commit times of what was popped.
    popped: Vec<i64>,
}

impl Ring {
    pub(super) fn new(confirmed: Lsn) -> Self {
        Ring {
            entries: VecDeque::new(),
            confirmed,
            published: Lsn::ZERO,
            last_commit: Lsn::ZERO,
            open: false,
            popped: Vec::new(),
        }
    }

    pub(super) fn confirmed(&self) -> Lsn {
        self.confirmed
    }

    pub(super) fn published(&self) -> Lsn {
        self.published
    }

    pub(super) fn last_commit(&self) -> Lsn {
        self.last_commit
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn open(&mut self, commit_lsn: Lsn, commit: Arc<OpenCommit>) {
        self.last_commit = commit_lsn;
        self.open = true;
        self.entries.push_back(Entry::Commit { commit, end: None });
    }

    pub(super) fn seal(&mut self, end_lsn: Lsn) {
        if let Some(Entry::Commit { end, .. }) = self.entries.back_mut() {
            *end = Some(end_lsn);
        }
        self.open = false;
    }

    /// Whether the position was taken in. Positions in a row are one: the queue does not grow while idle.
    pub(super) fn push_position(&mut self, lsn: Lsn) -> bool {
        if self.open {
            return false;
        }
        match self.entries.back_mut() {
            Some(Entry::Position(last)) => *last = lsn.max(*last),
            _ => self.entries.push_back(Entry::Position(lsn)),
        }
        true
    }

    /// Pops the complete prefix; the new confirmed LSN and the last published commit LSN, if that advanced it.
    pub(super) fn pop_confirmed(&mut self) -> Option<(Lsn, Lsn, &[i64])> {
        let before = self.confirmed;
        self.popped.clear();
        while let Some(entry) = self.entries.front() {
            let end = match entry {
                Entry::Position(lsn) => *lsn,
                Entry::Commit { commit, end: Some(end) } if commit.is_complete() => {
                    if let Some((commit_lsn, commit_time_us)) = commit.published() {
                        self.published = commit_lsn;
                        self.popped.push(commit_time_us);
                    }
                    *end
                }
                Entry::Commit { .. } => break,
            };
            self.confirmed = self.confirmed.max(end);
            self.entries.pop_front();
        }
        (self.confirmed > before).then_some((self.confirmed, self.published, self.popped.as_slice()))
    }
}
