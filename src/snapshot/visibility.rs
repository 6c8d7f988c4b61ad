//! What a snapshot of Postgres sees.
//!
//! Its text is that of the manual's section 9.27 ("Transaction ID and Snapshot Information Functions"), `xmin:xmax:xip_list`:
//! everything below xmin is over; nothing from xmax on had completed; between them the list has what was running. It names top-level
//! transactions alone, as the stream does.

#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::as_conversions)
)]

use std::collections::VecDeque;
use std::fmt;

/// A snapshot, `pg_current_snapshot()`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visibility {
    xmin: u64,
    xmax: u64,
    /// Ascending.
    running: Vec<u64>,
    on_standby: bool,
}

/// Text that is no snapshot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no snapshot: expected xmin:xmax:xip,xip with ascending transaction ids, such as 10:20:10,14,15")]
pub struct ParseVisibilityError(String);

impl Visibility {
    /// The snapshot in this text.
    ///
    /// # Errors
    /// It is something else.
    pub fn parse(text: &str) -> Result<Self, ParseVisibilityError> {
        Self::from_text(text).ok_or_else(|| ParseVisibilityError(text.to_owned()))
    }

    fn from_text(text: &str) -> Option<Self> {
        let number = |digits: &str| {
            let plausible = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            plausible.then(|| digits.parse::<u64>().ok()).flatten()
        };
        let mut parts = text.split(':');
        let (xmin, xmax, list) = (number(parts.next()?)?, number(parts.next()?)?, parts.next()?);
        let running: Vec<u64> = match list {
            "" => Vec::new(),
            _ => list.split(',').map(number).collect::<Option<_>>()?,
        };
        let plausible = parts.next().is_none()
            && 0 < xmin
            && xmin <= xmax
            && running.is_sorted_by(|a, b| a < b)
            && running.iter().all(|xid| (xmin..xmax).contains(xid));
        plausible.then_some(Visibility {
            xmin,
            xmax,
            running,
            on_standby: false,
        })
    }

    /// The same, taken on a standby: it names none of the running transactions, so of those from xmin on nothing is known, and none is
    /// taken to be seen.
    #[must_use]
    pub fn in_recovery(self) -> Self {
        // So that its text says it too: read again, it must not seem to see more.
        Visibility {
            xmin: self.xmin,
            xmax: self.xmin,
            running: Vec::new(),
            on_standby: true,
        }
    }

    /// Whether it sees what this transaction, if it committed, did.
    ///
    /// The stream has the low half of the full id. Ids in use are never more than half of the 32-bit circle apart, so the full one is
    /// the one nearest to xmax.
    pub fn sees(&self, xid: u32) -> bool {
        let Some(full) = self.full(xid) else {
            // Before the first transaction there was.
            return true;
        };
        full < self.xmin || (full < self.xmax && self.running.binary_search(&full).is_err())
    }

    /// The full id nearest to xmax with this low half; none if it lies below zero.
    fn full(&self, xid: u32) -> Option<u64> {
        let [.., a, b, c, d] = self.xmax.to_be_bytes();
        let distance = xid.wrapping_sub(u32::from_be_bytes([a, b, c, d])).cast_signed();
        self.xmax.checked_add_signed(i64::from(distance))
    }
}

impl fmt::Display for Visibility {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:", self.xmin, self.xmax)?;
        for (index, xid) in self.running.iter().enumerate() {
            match index {
                0 => write!(f, "{xid}")?,
                _ => write!(f, ",{xid}")?,
            }
        }
        Ok(())
    }
}

/// How many transactions [`Delivered`] remembers.
///
/// A transaction is delivered once its commit record is flushed, and seen once it has left the list of running ones, after it has
/// waited for the synchronous standbys. At most as many are between the two as there are connections, and whoever waits commits
/// nothing more. So one that waits is forgotten only if this many others which do not wait (`synchronous_commit` of `local` or
/// `off`) are delivered meanwhile.
const REMEMBERED: usize = 65_536;

/// The transactions that the stream delivered last.
#[derive(Debug, Clone, Default)]
pub struct Delivered {
    last: VecDeque<u32>,
    count: u64,
    /// What may have been delivered before anything was remembered: at most as many as there were connections.
    suspects: Vec<u32>,
}

impl Delivered {
    /// None yet.
    pub fn new() -> Self {
        Delivered::default()
    }

    /// An earlier session may have delivered any of the transactions that were running when this was taken, at the beginning of this
    /// one: one that waited for a synchronous standby then. From outside it looks like one that is at work still, so all of them count
    /// as delivered until they are seen or the stream brings them. One that runs for hours holds up every snapshot that long; so this is
    /// for servers with `synchronous_standby_names` alone. On others no commit waits.
    ///
    /// A snapshot lists what is running below xmax, which is one beyond the last id that completed. So one has to complete first:
    /// `txid_current()`, in a transaction of its own that is rolled back, since a commit might wait too.
    pub fn suspect(&mut self, snapshot: &Visibility) {
        let halves = snapshot.running.iter().map(|xid| {
            let [.., a, b, c, d] = xid.to_be_bytes();
            u32::from_be_bytes([a, b, c, d])
        });
        self.suspects.extend(halves);
    }

    /// The stream has delivered this one.
    pub fn push(&mut self, xid: u32) {
        self.suspects.retain(|suspect| *suspect != xid);
        if self.last.len() >= REMEMBERED {
            self.last.pop_front();
        }
        self.last.push_back(xid);
        self.count = self.count.saturating_add(1);
    }

    /// How many were delivered so far: what a window's opening is remembered by.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// A delivered transaction which this snapshot does not see.
    pub fn unseen_by(&self, snapshot: &Visibility) -> Option<u32> {
        self.unseen_before(self.count, snapshot)
    }

    /// One which this snapshot does not see among those that had been delivered when [`count`](Self::count) was `opened`. What came
    /// since is in the window: to ask for it too would never end on a server whose commits always wait for a standby.
    ///
    /// On a standby there is none: the stream there has only what was replayed, and what was replayed is seen, whether or not the
    /// snapshot's text can tell.
    pub fn unseen_before(&self, opened: u64, snapshot: &Visibility) -> Option<u32> {
        let since = usize::try_from(self.count.saturating_sub(opened)).unwrap_or(usize::MAX);
        let mut earlier = self.last.iter().rev().skip(since).chain(&self.suspects);
        match snapshot.on_standby {
            true => None,
            false => earlier.find(|xid| !snapshot.sees(**xid)).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn snapshot(text: &str) -> Visibility {
        Visibility::parse(text).unwrap()
    }

    #[test]
    fn what_was_over_is_seen_and_what_ran_or_came_later_is_not() {
        let snapshot = snapshot("10:20:10,14,15");
        let seen: Vec<u32> = (8..23).filter(|xid| snapshot.sees(*xid)).collect();
        assert_eq!(seen, [8, 9, 11, 12, 13, 16, 17, 18, 19]);
    }

    #[test]
    fn without_running_transactions_everything_below_xmax_is_seen() {
        let snapshot = snapshot("20:20:");
        assert!(snapshot.sees(19));
        assert!(!snapshot.sees(20));
    }

    #[test]
    fn on_a_standby_nothing_from_xmin_on_is_taken_to_be_seen() {
        let snapshot = snapshot("10:20:").in_recovery();
        assert!(snapshot.sees(9));
        assert!((10..30).all(|xid| !snapshot.sees(xid)));
        let again = Visibility::parse(&snapshot.to_string()).unwrap();
        assert!((0..30).all(|xid| again.sees(xid) == snapshot.sees(xid)));
    }

    #[test]
    fn an_id_of_the_epoch_before_is_older_and_one_of_the_next_is_newer() {
        let early = snapshot("4294967298:4294967310:4294967300");
        assert!(early.sees(u32::MAX), "the last of the epoch before");
        assert!(early.sees(3));
        assert!(!early.sees(4), "running");
        assert!(!early.sees(14), "xmax");
        let late = snapshot("4294967290:4294967295:");
        assert!(late.sees(4_294_967_294));
        assert!(!late.sees(3), "the first of the next epoch");
    }

    #[test]
    fn text_that_is_no_snapshot_is_refused() {
        for text in [
            "",
            "1",
            "1:2",
            "1:2:3:",
            "0:2:",
            "2:1:",
            ":2:",
            "1::",
            "1:2:2",
            "5:9:4",
            "5:9:6,",
            "5:9:,6",
            "5:9:7,6",
            "5:9:6,6",
            "5:9:6, 7",
            "+5:9:",
            "5:-9:",
            "5:18446744073709551616:",
        ] {
            assert!(Visibility::parse(text).is_err(), "{text:?} was accepted");
        }
        assert_eq!(
            Visibility::parse("1;2").unwrap_err().to_string(),
            "\"1;2\" is no snapshot: expected xmin:xmax:xip,xip with ascending transaction ids, such as 10:20:10,14,15"
        );
    }

    #[test]
    fn a_delivered_transaction_that_the_snapshot_does_not_see_is_found() {
        let mut delivered = Delivered::new();
        assert_eq!(delivered.unseen_by(&snapshot("10:20:14")), None);
        [12, 14, 13].into_iter().for_each(|xid| delivered.push(xid));
        assert_eq!(delivered.unseen_by(&snapshot("10:20:14")), Some(14));
        assert_eq!(delivered.unseen_by(&snapshot("20:20:")), None);
    }

    #[test]
    fn what_was_delivered_after_the_window_opened_does_not_make_a_snapshot_too_old() {
        let mut delivered = Delivered::new();
        delivered.push(12);
        let opened = delivered.count();
        delivered.push(14);
        assert_eq!(delivered.unseen_before(opened, &snapshot("10:20:14")), None);
        assert_eq!(delivered.unseen_before(opened, &snapshot("10:20:12")), Some(12));
    }

    #[test]
    fn on_a_standby_what_was_delivered_is_seen_whatever_the_text_says() {
        let mut delivered = Delivered::new();
        delivered.push(12);
        assert_eq!(delivered.unseen_by(&snapshot("10:20:").in_recovery()), None);
    }

    #[test]
    fn what_ran_at_a_restart_counts_as_delivered_until_it_is_seen_or_delivered() {
        let mut delivered = Delivered::new();
        delivered.suspect(&snapshot("4294967308:4294967320:4294967308,4294967310"));
        let later = snapshot("4294967308:4294967330:4294967308,4294967325");
        assert_eq!(delivered.unseen_before(0, &later), Some(12));
        delivered.push(12);
        assert_eq!(delivered.unseen_before(0, &later), None, "the window has it");
        assert_eq!(delivered.unseen_by(&later), Some(12));
        assert_eq!(delivered.unseen_by(&snapshot("4294967330:4294967330:")), None);
    }

    #[test]
    fn exactly_the_last_of_the_delivered_are_remembered() {
        let mut delivered = Delivered::new();
        let remembered = u32::try_from(REMEMBERED).unwrap();
        (10..10 + remembered).for_each(|xid| delivered.push(xid));
        let end = 10 + remembered;
        let first_runs = snapshot(&format!("10:{end}:10"));
        assert_eq!(delivered.unseen_by(&first_runs), Some(10));
        let opened = delivered.count();
        delivered.push(end);
        assert_eq!(
            delivered.unseen_before(opened, &first_runs),
            None,
            "the first is forgotten"
        );
        assert_eq!(delivered.unseen_by(&first_runs), Some(end));
        assert_eq!(delivered.last.len(), REMEMBERED);
    }

    fn any_snapshot() -> impl Strategy<Value = (u64, u64, Vec<u64>)> {
        // Near the bounds of epochs too.
        let xmin = prop_oneof![
            1_u64..1 << 40,
            (1_u64..1 << 8, 0_u64..64).prop_map(|(e, n)| (e << 32) - 32 + n)
        ];
        (xmin, 0_u64..1000, prop::collection::btree_set(0_u64..1000, 0..20)).prop_map(|(xmin, width, offsets)| {
            let xmax = xmin + width;
            let running = offsets
                .into_iter()
                .map(|offset| xmin + offset)
                .filter(|xid| *xid < xmax);
            (xmin, xmax, running.collect())
        })
    }

    fn text((xmin, xmax, running): &(u64, u64, Vec<u64>)) -> String {
        let list: Vec<String> = running.iter().map(u64::to_string).collect();
        format!("{xmin}:{xmax}:{}", list.join(","))
    }

    proptest! {
        #[test]
        fn every_snapshot_survives_its_text(parts in any_snapshot()) {
            let text = text(&parts);
            prop_assert_eq!(snapshot(&text).to_string(), text);
        }

        #[test]
        fn no_text_makes_it_panic(text in "[0-9:,]{0,30}|\\PC{0,20}", xid: u32) {
            if let Ok(snapshot) = Visibility::parse(&text) {
                snapshot.sees(xid);
                prop_assert_eq!(Visibility::parse(&snapshot.to_string()), Ok(snapshot));
            }
        }

        #[test]
        fn the_low_half_of_an_id_says_as_much_as_the_full_one(
            parts in any_snapshot(),
            distance in prop_oneof![-1200_i64..1200, -(1_i64 << 31)..1 << 31],
        ) {
            let snapshot = snapshot(&text(&parts));
            let (xmin, xmax, running) = parts;
            if let Some(full) = xmax.checked_add_signed(distance) {
                let expected = full < xmin || full < xmax && !running.contains(&full);
                prop_assert_eq!(snapshot.sees(u32::try_from(full & 0xFFFF_FFFF).unwrap()), expected, "{}", full);
            }
        }

        #[test]
        fn the_order_of_delivery_does_not_hide_what_is_unseen(
            parts in any_snapshot(),
            offsets in prop::collection::vec(0_u64..1200, 0..50),
            opened in 0_usize..50,
        ) {
            let snapshot = snapshot(&text(&parts));
            let xids: Vec<u32> =
                offsets.iter().map(|offset| u32::try_from((parts.0 + offset) & 0xFFFF_FFFF).unwrap()).collect();
            let mut delivered = Delivered::new();
            xids.iter().for_each(|xid| delivered.push(*xid));
            let earlier = &xids[..opened.min(xids.len())];
            let unseen = delivered.unseen_before(u64::try_from(opened).unwrap(), &snapshot);
            prop_assert_eq!(unseen.is_some(), earlier.iter().any(|xid| !snapshot.sees(*xid)));
            prop_assert!(unseen.is_none_or(|xid| earlier.contains(&xid) && !snapshot.sees(xid)));
        }
    }
}
