//! What is known of each table, with the time as an argument.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant, SystemTime};

use super::super::state::rfc3339;
use super::view::{SnapshotView, TableSnapshot};
use super::{SnapshotCause, SnapshotState};

/// Of the tables that have ended, so many are remembered: a database may have any number of them.
const ENDED_KEPT: usize = 1_000;

/// All tables.
#[derive(Debug, Default)]
pub(super) struct Board {
    pub(super) due: bool,
    paused: Option<String>,
    /// Counts up when a table is to be read and none is being read: what ended before is no part of the progress.
    round: u64,
    tables: BTreeMap<String, Table>,
    /// Those that have ended, the oldest first.
    ended: VecDeque<String>,
    /// Those of this round that have ended and are remembered no more.
    forgotten: u64,
    /// Their rows.
    forgotten_rows: u64,
}

#[derive(Debug)]
struct Table {
    cause: SnapshotCause,
    state: SnapshotState,
    estimate: Option<u64>,
    round: u64,
    rows: u64,
    superseded: u64,
    /// Rows of this reading that an earlier session has read.
    before: u64,
    /// Rows read since the process started, by all readings of this table.
    total: u64,
    /// The time spent on reading since it was begun, but for what `running` adds.
    spent: Duration,
    running: Option<Instant>,
    started_at: Option<SystemTime>,
    finished_at: Option<SystemTime>,
    reason: Option<String>,
}

impl Table {
    fn new(cause: SnapshotCause, estimate: Option<u64>, round: u64, total: u64) -> Self {
        Self {
            cause,
            state: SnapshotState::Waiting,
            estimate,
            round,
            rows: 0,
            superseded: 0,
            before: 0,
            total,
            spent: Duration::ZERO,
            running: None,
            started_at: None,
            finished_at: None,
            reason: None,
        }
    }

    /// The rows that are still to be read; none where nobody can tell.
    fn left(&self) -> Option<u64> {
        match self.state.has_ended() {
            true => Some(0),
            false => self.estimate.map(|estimate| estimate.saturating_sub(self.rows)),
        }
    }

    fn stop(&mut self, now: Instant) {
        if let Some(since) = self.running.take() {
            self.spent += now.saturating_duration_since(since);
        }
    }

    fn view(&self, name: &str, now: Instant) -> TableSnapshot {
        let running = self.running.map(|since| now.saturating_duration_since(since));
        let spent = self.spent + running.unwrap_or_default();
        let rate = rate(self.rows.saturating_sub(self.before), spent);
        let left = self.left().filter(|left| *left > 0);
        TableSnapshot {
            table: name.to_owned(),
            cause: self.cause,
            state: self.state,
            rows: self.rows,
            superseded: self.superseded,
            estimated_rows: self.estimate,
            percent: percent(self.state, self.rows, self.estimate),
            rows_per_second: rate,
            remaining_seconds: match (self.state, left, rate) {
                (SnapshotState::Reading, Some(left), Some(rate)) => remaining(left, rate),
                _ => None,
            },
            started_at: self.started_at.map(rfc3339),
            finished_at: self.finished_at.map(rfc3339),
            reason: self.reason.clone(),
        }
    }
}

impl Board {
    pub(super) fn waiting(&mut self, table: &str, cause: SnapshotCause, estimate: Option<u64>) {
        if self.tables.values().all(|known| known.state.has_ended()) {
            self.round += 1;
            (self.forgotten, self.forgotten_rows) = (0, 0);
        }
        self.ended.retain(|name| name != table);
        let total = self.tables.get(table).map_or(0, |known| known.total);
        let entry = Table::new(cause, estimate, self.round, total);
        self.tables.insert(table.to_owned(), entry);
    }

    pub(super) fn begun(&mut self, table: &str, before: u64, now: Instant, time: SystemTime) {
        let paused = self.paused.is_some();
        let Some(table) = self.tables.get_mut(table).filter(|table| !table.state.has_ended()) else {
            return;
        };
        table.stop(now);
        // What an earlier session has read but not recorded is read again, and its rate says nothing of this one's.
        table.rows = before;
        table.before = before;
        table.spent = Duration::ZERO;
        table.started_at.get_or_insert(time);
        (table.state, table.running) = match paused {
            true => (SnapshotState::Paused, None),
            false => (SnapshotState::Reading, Some(now)),
        };
    }

    pub(super) fn rows(&mut self, table: &str, read: u64, superseded: u64) {
        if let Some(table) = self.tables.get_mut(table) {
            table.rows = table.rows.saturating_add(read);
            table.total = table.total.saturating_add(read);
            table.superseded = table.superseded.saturating_add(superseded);
        }
    }

    pub(super) fn ended(
        &mut self,
        name: &str,
        state: SnapshotState,
        reason: Option<String>,
        now: Instant,
        time: SystemTime,
    ) {
        let Some(table) = self.tables.get_mut(name).filter(|table| !table.state.has_ended()) else {
            return;
        };
        table.stop(now);
        table.state = state;
        table.reason = reason;
        table.finished_at = Some(time);
        self.ended.push_back(name.to_owned());
        while self.ended.len() > ENDED_KEPT {
            let oldest = self.ended.pop_front();
            if let Some(gone) = oldest.and_then(|oldest| self.tables.remove(&oldest))
                && gone.round == self.round
            {
                self.forgotten += 1;
                self.forgotten_rows = self.forgotten_rows.saturating_add(gone.rows);
            }
        }
    }

    pub(super) fn paused(&mut self, reason: Option<String>, now: Instant) {
        let (from, to) = match &reason {
            Some(_) => (SnapshotState::Reading, SnapshotState::Paused),
            None => (SnapshotState::Paused, SnapshotState::Reading),
        };
        for table in self.tables.values_mut().filter(|table| table.state == from) {
            table.stop(now);
            table.state = to;
            table.running = reason.is_none().then_some(now);
        }
        self.paused = reason;
    }

    pub(super) fn interrupted(&mut self, now: Instant) {
        for table in self.tables.values_mut().filter(|table| !table.state.has_ended()) {
            table.stop(now);
            table.state = SnapshotState::Waiting;
        }
    }

    pub(super) fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        let round = self.round;
        let (mut forgotten, mut rows) = (0, 0_u64);
        self.tables.retain(|name, table| {
            let kept = !table.state.has_ended() || keep(name);
            if !kept && table.round == round {
                forgotten += 1;
                rows = rows.saturating_add(table.rows);
            }
            kept
        });
        self.forgotten += forgotten;
        self.forgotten_rows = self.forgotten_rows.saturating_add(rows);
        let tables = &self.tables;
        self.ended.retain(|name| tables.contains_key(name));
    }

    pub(super) fn rows_read(&self) -> Vec<(String, u64)> {
        self.tables
            .iter()
            .filter(|(_, table)| table.started_at.is_some() || table.total > 0)
            .map(|(name, table)| (name.clone(), table.total))
            .collect()
    }

    pub(super) fn view(&self, now: Instant) -> Option<SnapshotView> {
        if !self.due && self.tables.is_empty() && self.round == 0 && self.paused.is_none() {
            return None;
        }
        let of_round = || self.tables.values().filter(|table| table.round == self.round);
        let count = |counted: usize| u64::try_from(counted).unwrap_or(u64::MAX);
        let ended = count(of_round().filter(|table| table.state.has_ended()).count());
        let rows = of_round().fold(self.forgotten_rows, |rows, table| rows.saturating_add(table.rows));
        let left = of_round()
            .map(Table::left)
            .try_fold(0_u64, |left, of_table| Some(left.saturating_add(of_table?)));
        let tables: Vec<TableSnapshot> = self.tables.iter().map(|(name, table)| table.view(name, now)).collect();
        let reading = tables.iter().filter(|table| table.state == SnapshotState::Reading);
        let rate: f64 = reading.filter_map(|table| table.rows_per_second).sum();
        let total = count(of_round().count()).saturating_add(self.forgotten);
        let ended = ended.saturating_add(self.forgotten);
        let state = match ended == total && total > 0 {
            true => SnapshotState::Done,
            false => SnapshotState::Reading,
        };
        Some(SnapshotView {
            due: self.due,
            paused: self.paused.clone(),
            tables_ended: ended,
            tables_total: total,
            rows,
            percent: percent(state, rows, left.map(|left| rows.saturating_add(left))),
            remaining_seconds: left
                .filter(|left| *left > 0 && rate > 0.0)
                .and_then(|left| remaining(left, rate)),
            tables,
        })
    }
}

/// The share of the rows that are read. The estimate is one: what is not done is never shown as a whole.
fn percent(state: SnapshotState, rows: u64, estimate: Option<u64>) -> Option<f64> {
    const NEARLY: f64 = 99.9;
    if state == SnapshotState::Done {
        return Some(100.0);
    }
    let estimate = estimate.filter(|estimate| *estimate > 0)?;
    let share = number(rows) / number(estimate) * 100.0;
    Some(tenths(share.min(NEARLY)))
}

/// Rows a second; none before there are any, or in too short a time to tell.
fn rate(rows: u64, spent: Duration) -> Option<f64> {
    const SHORTEST: Duration = Duration::from_millis(10);
    (rows > 0 && spent >= SHORTEST).then(|| tenths(number(rows) / spent.as_secs_f64()))
}

/// Whole seconds, rounded up; none where that is longer than anything is known for.
fn remaining(rows: u64, rate: f64) -> Option<u64> {
    let left = Duration::try_from_secs_f64(number(rows) / rate).ok()?;
    Some(left.as_secs() + u64::from(left.subsec_nanos() > 0))
}

fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[expect(clippy::cast_precision_loss, reason = "shares and rates are shown with a decimal")]
fn number(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn time(count: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + seconds(count)
    }

    /// A board on which the tables wait to be read, and the time when that began.
    fn board(tables: &[(&str, Option<u64>)]) -> (Board, Instant) {
        let mut board = Board::default();
        for (table, estimate) in tables {
            board.waiting(table, SnapshotCause::Initial, *estimate);
        }
        (board, Instant::now())
    }

    fn shown(board: &Board, table: &str, now: Instant) -> TableSnapshot {
        let view = board.view(now).unwrap();
        view.tables.into_iter().find(|shown| shown.table == table).unwrap()
    }

    fn end(board: &mut Board, table: &str, now: Instant) {
        board.ended(table, SnapshotState::Done, None, now, time(0));
    }

    #[test]
    fn there_is_nothing_to_show_before_a_snapshot_is_due() {
        let mut board = Board::default();
        let now = Instant::now();
        board.begun("public.a", 0, now, time(0));
        board.rows("public.a", 5, 0);
        end(&mut board, "public.a", now);
        assert_eq!(board.view(now), None);
        board.due = true;
        let view = board.view(now).unwrap();
        assert_eq!(
            (view.due, view.tables_total, view.tables.len()),
            (true, 0, 0),
            "{view:?}"
        );
    }

    #[test]
    fn the_remaining_time_is_that_of_the_rows_left_at_the_rate_so_far() {
        let (mut board, start) = board(&[("public.a", Some(1_000))]);
        let waiting = shown(&board, "public.a", start);
        assert_eq!(
            (
                waiting.state,
                waiting.percent,
                waiting.rows_per_second,
                waiting.started_at
            ),
            (SnapshotState::Waiting, Some(0.0), None, None)
        );
        board.begun("public.a", 0, start, time(5));
        board.rows("public.a", 200, 3);
        board.rows("public.a", 50, 1);
        let reading = shown(&board, "public.a", start + seconds(10));
        assert_eq!(
            reading,
            TableSnapshot {
                table: "public.a".to_owned(),
                cause: SnapshotCause::Initial,
                state: SnapshotState::Reading,
                rows: 250,
                superseded: 4,
                estimated_rows: Some(1_000),
                percent: Some(25.0),
                rows_per_second: Some(25.0),
                remaining_seconds: Some(30),
                started_at: Some("1970-01-01T00:00:05Z".to_owned()),
                finished_at: None,
                reason: None,
            }
        );
    }

    #[test]
    fn what_an_earlier_session_has_read_counts_for_the_share_but_not_for_the_rate() {
        let (mut board, start) = board(&[("public.a", Some(1_000))]);
        board.begun("public.a", 500, start, time(0));
        board.rows("public.a", 100, 0);
        let reading = shown(&board, "public.a", start + seconds(10));
        assert_eq!(
            (
                reading.rows,
                reading.percent,
                reading.rows_per_second,
                reading.remaining_seconds
            ),
            (600, Some(60.0), Some(10.0), Some(40))
        );
        // The next session begins where the record says, which is before what this one had read.
        board.interrupted(start + seconds(10));
        assert_eq!(
            shown(&board, "public.a", start + seconds(60)).state,
            SnapshotState::Waiting
        );
        board.begun("public.a", 550, start + seconds(60), time(60));
        let again = shown(&board, "public.a", start + seconds(61));
        assert_eq!(
            (again.rows, again.rows_per_second, again.started_at.as_deref()),
            (550, None, Some("1970-01-01T00:00:00Z"))
        );
        assert_eq!(board.rows_read(), [("public.a".to_owned(), 100)]);
    }

    #[test]
    fn all_tables_together_have_a_share_and_a_remaining_time() {
        let (mut board, start) = board(&[
            ("public.a", Some(1_000)),
            ("public.b", Some(500)),
            ("public.c", Some(500)),
        ]);
        board.begun("public.a", 0, start, time(0));
        board.begun("public.b", 0, start, time(0));
        board.rows("public.a", 200, 0);
        board.rows("public.b", 300, 0);
        let now = start + seconds(10);
        let of = |board: &Board| {
            let view = board.view(now).unwrap();
            (view.rows, view.percent, view.remaining_seconds)
        };
        assert_eq!(of(&board), (500, Some(25.0), Some(30)));
        // It had fewer rows than the catalog said, and what it had not is no longer to be read.
        end(&mut board, "public.b", now);
        assert_eq!(of(&board), (500, Some(27.8), Some(65)));
        board.waiting("public.d", SnapshotCause::Asked, None);
        assert_eq!(of(&board), (500, None, None));
        for table in ["public.a", "public.c", "public.d"] {
            end(&mut board, table, now);
        }
        assert_eq!(of(&board), (500, Some(100.0), None));
        board.retain(|_| false);
        assert_eq!(of(&board), (500, Some(100.0), None));
    }

    #[test]
    fn an_estimate_that_was_too_low_is_never_shown_as_a_whole_or_as_a_time() {
        let (mut board, start) = board(&[("public.a", Some(100)), ("public.b", None), ("public.c", Some(0))]);
        for table in ["public.a", "public.b", "public.c"] {
            board.begun(table, 0, start, time(0));
            board.rows(table, 100, 0);
        }
        let now = start + seconds(1);
        let of = |table| {
            let shown = shown(&board, table, now);
            (shown.percent, shown.remaining_seconds)
        };
        assert_eq!(of("public.a"), (Some(99.9), None));
        assert_eq!(of("public.b"), (None, None));
        assert_eq!(of("public.c"), (None, None));
        end(&mut board, "public.b", now);
        assert_eq!(shown(&board, "public.b", now).percent, Some(100.0));
    }

    #[test]
    fn a_pause_is_no_time_of_reading() {
        let (mut board, start) = board(&[("public.a", Some(1_000)), ("public.b", None)]);
        board.begun("public.a", 0, start, time(0));
        board.rows("public.a", 100, 0);
        board.paused(Some("asked for".to_owned()), start + seconds(10));
        let now = start + seconds(1_000);
        // One that is begun in a pause is paused too.
        board.begun("public.b", 0, now, time(0));
        let view = board.view(now).unwrap();
        assert_eq!(view.paused.as_deref(), Some("asked for"));
        let states: Vec<SnapshotState> = view.tables.iter().map(|table| table.state).collect();
        assert_eq!(states, [SnapshotState::Paused; 2]);
        assert_eq!(view.tables.first().unwrap().remaining_seconds, None);
        board.paused(None, now);
        board.rows("public.a", 100, 0);
        let reading = shown(&board, "public.a", now + seconds(10));
        assert_eq!(
            (reading.state, reading.rows_per_second, reading.remaining_seconds),
            (SnapshotState::Reading, Some(10.0), Some(80))
        );
    }

    #[test]
    fn a_table_ends_once() {
        let (mut board, start) = board(&[("public.a", None)]);
        board.begun("public.a", 0, start, time(0));
        board.ended(
            "public.a",
            SnapshotState::Failed,
            Some("no right to read it".to_owned()),
            start,
            time(7),
        );
        end(&mut board, "public.a", start);
        board.begun("public.a", 0, start, time(9));
        board.interrupted(start);
        let failed = shown(&board, "public.a", start);
        assert_eq!(
            (failed.state, failed.reason.as_deref(), failed.finished_at.as_deref()),
            (
                SnapshotState::Failed,
                Some("no right to read it"),
                Some("1970-01-01T00:00:07Z")
            )
        );
    }

    #[test]
    fn progress_counts_the_tables_of_the_present_round() {
        let (mut board, now) = board(&[("public.a", None), ("public.b", None)]);
        let counts = |board: &Board| {
            let view = board.view(now).unwrap();
            (view.tables_ended, view.tables_total, view.tables.len())
        };
        assert_eq!(counts(&board), (0, 2, 2));
        end(&mut board, "public.a", now);
        assert_eq!(counts(&board), (1, 2, 2));
        end(&mut board, "public.b", now);
        // Another table, and one of them again, when nothing is being read any more.
        board.waiting("public.c", SnapshotCause::Asked, None);
        board.waiting("public.b", SnapshotCause::Asked, None);
        assert_eq!(counts(&board), (0, 2, 3));
        assert_eq!(shown(&board, "public.b", now).state, SnapshotState::Waiting);
    }

    #[test]
    fn the_rows_of_a_table_that_is_read_again_go_on_counting() {
        let (mut board, now) = board(&[("public.a", None)]);
        board.begun("public.a", 0, now, time(0));
        board.rows("public.a", 10, 0);
        end(&mut board, "public.a", now);
        board.waiting("public.a", SnapshotCause::Asked, None);
        board.begun("public.a", 0, now, time(0));
        board.rows("public.a", 1, 0);
        assert_eq!(board.rows_read(), [("public.a".to_owned(), 11)]);
        assert_eq!(shown(&board, "public.a", now).rows, 1);
    }

    #[test]
    fn of_many_tables_that_have_ended_the_oldest_are_forgotten_but_counted() {
        let mut board = Board::default();
        let now = Instant::now();
        let names: Vec<String> = (0..ENDED_KEPT + 5).map(|index| format!("public.t{index}")).collect();
        for name in &names {
            board.waiting(name, SnapshotCause::Initial, None);
        }
        for name in &names {
            end(&mut board, name, now);
        }
        let view = board.view(now).unwrap();
        assert_eq!(view.tables.len(), ENDED_KEPT);
        let all = u64::try_from(names.len()).unwrap();
        assert_eq!((view.tables_ended, view.tables_total), (all, all));
        assert!(!view.tables.iter().any(|table| table.table == "public.t0"));
    }

    #[test]
    fn a_name_that_is_gone_is_forgotten_unless_it_is_being_read() {
        let (mut board, now) = board(&[("public.a", None), ("public.b", None)]);
        board.begun("public.a", 0, now, time(0));
        end(&mut board, "public.b", now);
        board.retain(|_| false);
        let view = board.view(now).unwrap();
        assert_eq!(
            view.tables.iter().map(|table| table.table.as_str()).collect::<Vec<_>>(),
            ["public.a"]
        );
        assert_eq!((view.tables_ended, view.tables_total), (1, 2));
        assert!(board.ended.is_empty());
    }
}
