//! What the stream changes while a chunk is read.

use std::collections::HashMap;

use super::Visibility;

/// What an entry costs beside the key's bytes: the pointer, the length, the transaction, and the table's own share.
const ENTRY_BYTES: usize = 40;

/// The keys that the stream changed since the window was opened and that the chunk's snapshot does not see changed: what the topic has
/// of them is newer than the chunk's rows.
///
/// Of each key the last transaction is enough. Whoever changes a key waits until the one before has left the list of running
/// transactions, so a snapshot that sees the last sees those before it.
#[derive(Debug, Default)]
pub struct Window {
    keys: HashMap<Box<[u8]>, u32>,
    bytes: usize,
    truncations: Vec<u32>,
    snapshot: Option<Visibility>,
}

impl Window {
    /// A window that is opened now: what was delivered before is for [`Delivered`](super::Delivered) to judge.
    pub fn new() -> Self {
        Window::default()
    }

    /// The stream delivered a change of the row with this key. A change of the key itself is one of both keys.
    pub fn changed(&mut self, xid: u32, key: &[u8]) {
        if self.is_seen(xid) {
            return;
        }
        match self.keys.get_mut(key) {
            Some(last) => *last = xid,
            None => {
                self.bytes = self.bytes.saturating_add(Self::cost(key));
                self.keys.insert(key.into(), xid);
            }
        }
    }

    /// The stream delivered a TRUNCATE. None is in the midst of a chunk, as the reader holds a lock; but rows may be on their way still
    /// when the reader has let go of it.
    pub fn truncated(&mut self, xid: u32) {
        if !self.is_seen(xid) && !self.truncations.contains(&xid) {
            self.truncations.push(xid);
        }
    }

    /// The chunk is read under this snapshot. Called once: a snapshot that is too old is not told.
    pub fn seen(&mut self, snapshot: Visibility) {
        self.keys.retain(|_, xid| !snapshot.sees(*xid));
        self.truncations.retain(|xid| !snapshot.sees(*xid));
        self.bytes = self
            .keys
            .keys()
            .map(|key| Self::cost(key))
            .fold(0, usize::saturating_add);
        self.snapshot = Some(snapshot);
    }

    /// Whether the topic has something newer of this key than a row of the chunk.
    pub fn supersedes(&self, key: &[u8]) -> bool {
        !self.truncations.is_empty() || self.keys.contains_key(key)
    }

    /// How many keys are remembered.
    pub fn keys(&self) -> usize {
        self.keys.len()
    }

    /// How much memory they take, roughly.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn is_seen(&self, xid: u32) -> bool {
        self.snapshot.as_ref().is_some_and(|snapshot| snapshot.sees(xid))
    }

    fn cost(key: &[u8]) -> usize {
        key.len().saturating_add(ENTRY_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot() -> Visibility {
        Visibility::parse("10:20:15").unwrap()
    }

    #[test]
    fn before_the_snapshot_every_change_supersedes() {
        let mut window = Window::new();
        window.changed(12, b"a");
        assert!(window.supersedes(b"a"));
        assert!(!window.supersedes(b"b"));
    }

    #[test]
    fn the_snapshot_takes_away_the_keys_of_what_it_sees() {
        let mut window = Window::new();
        window.changed(12, b"seen");
        window.changed(15, b"running");
        window.changed(20, b"later");
        window.seen(snapshot());
        assert!(!window.supersedes(b"seen"));
        assert!(window.supersedes(b"running"));
        assert!(window.supersedes(b"later"));
    }

    #[test]
    fn after_the_snapshot_only_what_it_does_not_see_supersedes() {
        let mut window = Window::new();
        window.seen(snapshot());
        window.changed(12, b"seen");
        window.changed(15, b"running");
        assert!(!window.supersedes(b"seen"));
        assert!(window.supersedes(b"running"));
    }

    #[test]
    fn a_seen_change_does_not_undo_an_unseen_one_of_the_same_key() {
        let mut window = Window::new();
        window.seen(snapshot());
        window.changed(15, b"a");
        window.changed(12, b"a");
        assert!(window.supersedes(b"a"));
    }

    #[test]
    fn a_key_that_changes_often_costs_once() {
        let mut window = Window::new();
        for xid in 12..19 {
            window.changed(xid, b"abc");
        }
        assert_eq!((window.keys(), window.bytes()), (1, 3 + ENTRY_BYTES));
        window.changed(19, b"");
        assert_eq!((window.keys(), window.bytes()), (2, 3 + 2 * ENTRY_BYTES));
        window.seen(snapshot());
        assert_eq!((window.keys(), window.bytes()), (0, 0));
    }

    #[test]
    fn of_a_key_that_changed_often_the_last_transaction_counts() {
        let mut window = Window::new();
        window.changed(12, b"a");
        window.changed(15, b"a");
        window.seen(snapshot());
        assert!(window.supersedes(b"a"));
    }

    #[test]
    fn a_truncation_that_the_snapshot_does_not_see_supersedes_every_row() {
        let mut window = Window::new();
        window.truncated(12);
        assert!(window.supersedes(b"a"));
        window.seen(snapshot());
        assert!(!window.supersedes(b"a"), "the rows came after it");
        window.truncated(15);
        assert!(window.supersedes(b"a"));
    }
}
