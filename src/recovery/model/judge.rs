//! Who knows everything, and holds it against the claims.

use std::collections::{BTreeMap, BTreeSet};

use super::super::{Gap, GapKind, Place, Reconciled, StateRecord};
use super::kafka::Kafka;
use super::server::{Commit, Line, Log, Server, line};
use super::walferry::{Facts, LIMITS};

/// The claim that does not hold.
pub(super) type Verdict = Result<(), String>;

macro_rules! claim {
    ($holds:expr, $($claim:tt)+) => {
        if !$holds {
            return Err(format!($($claim)+));
        }
    };
}
pub(super) use claim;

#[derive(Debug, Default)]
pub(super) struct Judge {
    /// Somebody moved the slot, or put another server there, and no pipeline has come to terms with it yet.
    pub(super) moved: bool,
    /// Changes that need not come: of before there was a slot, and of accepted gaps.
    forgiven: BTreeSet<u32>,
    /// Changes that may come again, after an accepted gap between histories that have nothing to do with each other.
    repeatable: BTreeSet<u32>,
    /// A gap of that kind was accepted: from one history to another and back, changes have no order.
    foreign: bool,
    /// Changes of transactions that took too long to be published whole.
    cut: BTreeSet<u32>,
}

impl Judge {
    fn unpublished<'a>(&'a self, kafka: &'a Kafka, commit: &'a Commit) -> impl Iterator<Item = u32> + 'a {
        let missing = |change: &u32| !kafka.published.contains_key(change) && !self.forgiven.contains(change);
        commit.changes.iter().copied().filter(missing)
    }

    /// The process went on.
    pub(super) fn reconciled(
        &mut self,
        server: &Server,
        kafka: &Kafka,
        facts: &Facts,
        record: Option<&StateRecord>,
        reconciled: &Reconciled,
    ) -> Verdict {
        let log = &server.logs[&facts.line];
        let slot = facts.slot.unwrap_or_default();
        let lost: Vec<(u64, u32)> = log
            .commits
            .iter()
            .filter(|commit| commit.start < slot)
            .flat_map(|commit| self.unpublished(kafka, commit).map(|change| (commit.start, change)))
            .collect();
        let mut same_history = true;
        match (record, &reconciled.accepted) {
            (None, _) => {}
            (Some(_), None) => claim!(lost.is_empty(), "{lost:?} will never come, and nobody says so"),
            (Some(_), Some(gap)) => match gap.kind {
                GapKind::Ahead { .. } => {
                    let outside = |at: u64| at < gap.from.as_u64() || gap.to.is_none_or(|to| at >= to.as_u64());
                    claim!(
                        !lost.iter().any(|(at, _)| outside(*at)),
                        "{lost:?} lie outside of the accepted gap {gap}"
                    );
                }
                _ => {
                    (same_history, self.foreign) = (false, true);
                    let again = log.commits.iter().filter(|commit| commit.start >= slot);
                    let again = again.flat_map(|commit| commit.changes.iter());
                    let again = again.filter(|change| kafka.published.contains_key(change));
                    self.repeatable.extend(again);
                }
            },
        }
        self.forgiven.extend(lost.iter().map(|(_, change)| change));
        // What was given up comes after all, if the slot was set back before a record said that it would not.
        let known = reconciled.place.end_lsn.max(reconciled.place.commit_lsn).as_u64();
        for commit in log.commits.iter().filter(|commit| commit.start >= slot.max(known)) {
            for change in &commit.changes {
                self.forgiven.remove(change);
            }
        }
        if let (Some(record), true) = (record, same_history) {
            let orphans = orphans(&server.logs[&line(&record.identity)], log, &kafka.published);
            let covered = |at: &u64| {
                let range = reconciled.orphaned;
                range.is_some_and(|(from, to)| (from.as_u64()..=to.as_u64()).contains(at))
            };
            let unknown = record.place.commit_lsn.is_zero();
            let said = reconciled.orphaned.is_some();
            claim!(
                orphans.iter().all(covered) && (orphans.is_empty() != said || unknown),
                "what committed at {orphans:?} is orphaned, and {:?} is said to be",
                reconciled.orphaned
            );
        }
        self.describes(log, kafka, reconciled.place)
    }

    /// The process did not go on.
    pub(super) fn refused(
        &self,
        server: &Server,
        kafka: &Kafka,
        facts: &Facts,
        record: Option<&StateRecord>,
        gap: &Gap,
    ) -> Verdict {
        if !facts.hold(server) {
            return Ok(());
        }
        claim!(self.moved, "nobody touched anything, and yet: {gap}");
        let Some(record) = record else {
            return Err(format!("nothing is recorded, and yet: {gap}"));
        };
        let log = &server.logs[&facts.line];
        let recorded = line(&record.identity);
        match gap.kind {
            GapKind::System { .. } | GapKind::Database { .. } => {
                claim!(recorded.0 != facts.line.0, "it is the same system: {gap}");
                return Ok(());
            }
            GapKind::Timeline { .. } => {
                let descends = log.history.iter().any(|switch| switch.timeline == recorded.1);
                claim!(recorded.1 != facts.line.1 && !descends, "it descends: {gap}");
                return Ok(());
            }
            GapKind::SetBack { .. } => return Err(format!("no log was set back: {gap}")),
            GapKind::NoSlot { .. } => claim!(facts.slot.is_none() && gap.to.is_none(), "there is a slot: {gap}"),
            GapKind::Ahead { .. } => claim!(
                facts.slot == gap.to.map(|to| to.as_u64()),
                "not the slot's place: {gap}"
            ),
        }
        let to = gap.to.map_or(u64::MAX, |to| to.as_u64());
        for commit in &log.commits {
            let missing = self.unpublished(kafka, commit).count();
            let inside = (gap.from.as_u64()..to).contains(&commit.start);
            claim!(
                commit.start >= gap.from.as_u64() || missing == 0,
                "what committed at {} is not in kafka and lies before {gap}",
                commit.start
            );
            // The last one of which anything is recorded may be a message, or be there in part.
            let excused = |change| self.forgiven.contains(change) || self.repeatable.contains(change);
            claim!(
                !inside
                    || missing == commit.changes.len()
                    || commit.start == record.place.commit_lsn.as_u64()
                    || commit.changes.iter().any(excused),
                "what committed at {} is in kafka and lies in {gap}",
                commit.start
            );
        }
        Ok(())
    }

    /// A transaction that did not end in time.
    pub(super) fn may_be_cut(&mut self, server: &Server, of: Line, place: Place) {
        let commits = server.logs[&of].commits.iter();
        let cut = commits.filter(|commit| commit.start == place.commit_lsn.as_u64());
        self.cut.extend(cut.flat_map(|commit| &commit.changes));
    }

    /// What holds after every step.
    pub(super) fn after_step(&self, server: &Server, kafka: &mut Kafka) -> Verdict {
        for transaction in std::mem::take(&mut kafka.fresh) {
            let changes = kafka.changes().filter(|(of, _)| *of == transaction).count();
            let most = usize::try_from(2 * LIMITS.changes).unwrap_or_default();
            claim!(changes < most, "{changes} changes in one transaction");
            match kafka.state_of(transaction) {
                Some(record) => self.describes(&server.logs[&line(&record.identity)], kafka, record.place)?,
                None => claim!(changes == 0, "changes were committed without their place"),
            }
        }
        if let (Some(record), Some(slot), false) = (&kafka.recorded, server.slot, self.moved) {
            let end = record.place.end_lsn.as_u64();
            claim!(slot <= end, "the slot is at {slot}, and what is recorded ends at {end}");
        }
        Ok(())
    }

    /// A place says precisely which changes of a log are published.
    fn describes(&self, log: &Log, kafka: &Kafka, place: Place) -> Verdict {
        for commit in &log.commits {
            let last = commit.start == place.commit_lsn.as_u64();
            let before = commit.start < place.end_lsn.max(place.commit_lsn).as_u64() || (last && place.partial == 0);
            let expected = match (before, last) {
                (true, _) => commit.changes.len(),
                (false, true) => usize::try_from(place.partial).unwrap_or(usize::MAX),
                (false, false) => 0,
            };
            for (at, change) in commit.changes.iter().enumerate() {
                let published = kafka.published.contains_key(change);
                let excused = match published {
                    true => self.repeatable.contains(change),
                    false => self.forgiven.contains(change),
                };
                claim!(
                    excused || published == (at < expected),
                    "by {place:?} {expected} changes of the commit at {} are published, but for change {at} that is {published}",
                    commit.start
                );
            }
        }
        Ok(())
    }

    /// What holds once everything has come to rest.
    pub(super) fn at_rest(&self, server: &Server, kafka: &Kafka) -> Verdict {
        for (change, times) in &kafka.published {
            claim!(
                *times == 1 || self.repeatable.contains(change),
                "change {change} was published {times} times"
            );
            claim!(
                !self.forgiven.contains(change),
                "change {change} was given up, and came"
            );
        }
        let mut order: BTreeMap<u32, (usize, &Commit)> = BTreeMap::new();
        for commit in &server.log().commits {
            for change in &commit.changes {
                order.insert(*change, (order.len(), commit));
                claim!(
                    kafka.published.contains_key(change) || self.forgiven.contains(change),
                    "change {change}, committed at {}, was never published",
                    commit.start
                );
            }
        }
        let mut last = None;
        let mut homes: BTreeMap<u64, usize> = BTreeMap::new();
        let settled = |change: &u32| !self.repeatable.contains(change);
        for (transaction, change) in kafka.changes().filter(|(_, change)| settled(change)) {
            let Some((position, commit)) = order.get(&change) else {
                continue;
            };
            claim!(
                last < Some(*position) || self.foreign,
                "change {change} came after a later one"
            );
            last = Some(*position);
            let small = u64::try_from(commit.changes.len()).is_ok_and(|changes| changes <= LIMITS.changes);
            let home = *homes.entry(commit.start).or_insert(transaction);
            claim!(
                home == transaction || !small || self.cut.contains(&change),
                "the transaction that committed at {} was published in parts",
                commit.start
            );
        }
        Ok(())
    }
}

/// Where the published changes committed that one log has and the other has not.
pub(super) fn orphans(recorded: &Log, now: &Log, published: &BTreeMap<u32, u32>) -> Vec<u64> {
    let kept: BTreeSet<u32> = now.commits.iter().flat_map(|commit| commit.changes.clone()).collect();
    let gone = |change: &u32| published.contains_key(change) && !kept.contains(change);
    let commits = recorded.commits.iter();
    commits
        .filter(|commit| commit.changes.iter().any(gone))
        .map(|commit| commit.start)
        .collect()
}
