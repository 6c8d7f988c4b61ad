//! What has happened to the tables between two looks at them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::telemetry::snapshots::{SnapshotState, SnapshotView, TableSnapshot};

/// While tables are read, one says so this often.
const EVERY: Duration = Duration::from_secs(10);

/// Something to be told.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::cli) enum Event {
    /// A table is being read.
    Begun(TableSnapshot),
    /// A table is done, cancelled, or has failed.
    Ended(TableSnapshot),
    /// Nothing is read for now, for this reason.
    Paused(String),
    /// Reading goes on.
    Resumed,
    /// Time has passed.
    Progress(SnapshotView),
}

/// Remembers the last look.
#[derive(Debug, Default)]
pub(in crate::cli) struct Follower {
    seen: BTreeMap<String, Seen>,
    paused: Option<String>,
    /// When progress was told last, or there was none to tell yet.
    told: Option<Instant>,
}

/// What tells one reading of a table from the next, and its phases.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    ended: Option<SnapshotState>,
    started_at: Option<String>,
    finished_at: Option<String>,
}

impl Seen {
    fn of(table: &TableSnapshot) -> Self {
        Seen {
            ended: Some(table.state).filter(|state| state.has_ended()),
            started_at: table.started_at.clone(),
            finished_at: table.finished_at.clone(),
        }
    }
}

impl Follower {
    /// What is new in this view.
    pub(in crate::cli) fn look(&mut self, view: &SnapshotView, now: Instant) -> Vec<Event> {
        let mut events = Vec::new();
        if self.paused != view.paused {
            self.paused.clone_from(&view.paused);
            events.push(view.paused.clone().map_or(Event::Resumed, Event::Paused));
        }
        let seen = view.tables.iter().map(|table| (table.table.clone(), Seen::of(table)));
        let before = std::mem::replace(&mut self.seen, seen.collect());
        for table in &view.tables {
            let (now, before) = (self.seen.get(&table.table), before.get(&table.table));
            let Some(now) = now.filter(|now| Some(*now) != before) else {
                continue;
            };
            // A short one may have begun and ended since the last look.
            if now.started_at.is_some() && before.is_none_or(|before| before.started_at != now.started_at) {
                events.push(Event::Begun(table.clone()));
            }
            if now.ended.is_some() {
                events.push(Event::Ended(table.clone()));
            }
        }
        match (self.told, view.is_running()) {
            (_, false) => self.told = None,
            (None, true) => self.told = Some(now),
            (Some(told), true) => {
                // A pause is told once: nothing goes on in it.
                if now.saturating_duration_since(told) >= EVERY && view.paused.is_none() {
                    self.told = Some(now);
                    events.push(Event::Progress(view.clone()));
                }
            }
        }
        events
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{reading, view};
    use super::*;

    fn ended(table: &str, state: SnapshotState) -> TableSnapshot {
        TableSnapshot {
            state,
            finished_at: Some("2026-01-02T03:09:00Z".to_owned()),
            ..reading(table)
        }
    }

    fn waiting(table: &str) -> TableSnapshot {
        TableSnapshot {
            state: SnapshotState::Waiting,
            started_at: None,
            ..reading(table)
        }
    }

    #[test]
    fn a_table_is_told_of_when_it_begins_and_when_it_ends() {
        let mut follower = Follower::default();
        let now = Instant::now();
        assert_eq!(follower.look(&view(vec![waiting("a"), waiting("b")]), now), []);
        let begun = view(vec![reading("a"), waiting("b")]);
        assert_eq!(follower.look(&begun, now), [Event::Begun(reading("a"))]);
        assert_eq!(follower.look(&begun, now), []);
        // Rows alone are no news, nor is a session that ended under it.
        let more = TableSnapshot {
            rows: 2_000_000,
            state: SnapshotState::Waiting,
            ..reading("a")
        };
        assert_eq!(follower.look(&view(vec![more, waiting("b")]), now), []);
        let (a, b) = (ended("a", SnapshotState::Done), ended("b", SnapshotState::Failed));
        let both = view(vec![a.clone(), b.clone()]);
        assert_eq!(
            follower.look(&both, now),
            [Event::Ended(a), Event::Begun(b.clone()), Event::Ended(b)]
        );
        assert_eq!(follower.look(&both, now), []);
        // Asked for once more.
        assert_eq!(follower.look(&view(vec![waiting("a")]), now), []);
        assert_eq!(
            follower.look(&view(vec![reading("a")]), now),
            [Event::Begun(reading("a"))]
        );
    }

    #[test]
    fn one_that_is_cancelled_before_it_began_only_ends() {
        let mut follower = Follower::default();
        let cancelled = TableSnapshot {
            started_at: None,
            ..ended("a", SnapshotState::Cancelled)
        };
        assert_eq!(
            follower.look(&view(vec![cancelled.clone()]), Instant::now()),
            [Event::Ended(cancelled)]
        );
    }

    #[test]
    fn progress_is_told_every_ten_seconds_while_there_is_any() {
        let mut follower = Follower::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let running = view(vec![reading("a")]);
        let progress = [Event::Progress(running.clone())];
        follower.look(&running, at(0));
        assert_eq!(follower.look(&running, at(9)), []);
        assert_eq!(follower.look(&running, at(10)), progress);
        assert_eq!(follower.look(&running, at(19)), []);
        assert_eq!(follower.look(&running, at(25)), progress);
        let done = ended("a", SnapshotState::Done);
        assert_eq!(
            follower.look(&view(vec![done.clone()]), at(40)),
            [Event::Ended(done.clone())]
        );
        assert_eq!(follower.look(&view(vec![done]), at(80)), []);
        // The time between two snapshots is none of progress.
        assert_eq!(follower.look(&running, at(90)), []);
        assert_eq!(follower.look(&running, at(99)), []);
        assert_eq!(follower.look(&running, at(100)), progress);
    }

    #[test]
    fn a_pause_is_told_of_once_and_so_is_its_end() {
        let mut follower = Follower::default();
        let start = Instant::now();
        let running = view(vec![reading("a")]);
        let mut paused = running.clone();
        paused.paused = Some("asked for".to_owned());
        follower.look(&running, start);
        assert_eq!(follower.look(&paused, start), [Event::Paused("asked for".to_owned())]);
        assert_eq!(follower.look(&paused, start + EVERY * 3), []);
        assert_eq!(
            follower.look(&running, start + EVERY * 3).first(),
            Some(&Event::Resumed)
        );
    }
}
