//! The last quarter of an hour: state, lag and pace, sampled at intervals for whoever comes later.
//!
//! Times are of the clock that cannot be set: no sample moves with the wall clock.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::time::MissedTickBehavior;

use super::metrics::Metrics;
use super::state::{State, Status};
use crate::lsn::Lsn;

/// The time from one sample to the next.
pub const INTERVAL: Duration = Duration::from_secs(5);

/// So many samples are kept: 15 minutes of them.
pub const KEPT: usize = 180;

/// A table's rate is that of so many intervals: of a quiet one a single interval says little.
const RATE_INTERVALS: usize = 3;

/// What was, and what follows from it: the lag in seconds, and rates.
#[derive(Debug, Default)]
pub struct History {
    past: Mutex<Past>,
}

/// The samples, as `/status/history` shows them.
#[derive(Debug, PartialEq, Serialize)]
pub struct HistoryView {
    /// The time from one sample to the next; longer where the process did not run.
    pub interval_seconds: u64,
    /// How many samples are kept at most.
    pub kept: usize,
    /// The oldest first.
    pub samples: Vec<SampleView>,
}

/// One sample.
#[derive(Debug, PartialEq, Serialize)]
pub struct SampleView {
    /// How long ago it was taken.
    pub age_seconds: f64,
    /// What the pipeline was doing.
    pub state: &'static str,
    /// From the confirmed LSN to the end of the server's WAL; none until both were known.
    pub lag_bytes: Option<u64>,
    /// How long the oldest of that had been there.
    pub lag_seconds: Option<f64>,
    /// Handed to Kafka and not confirmed.
    pub in_flight_bytes: u64,
    /// Records handed to Kafka since the sample before; none of the first.
    pub records_per_second: Option<f64>,
}

/// What a sample is made of.
#[derive(Debug)]
struct Reading {
    state: State,
    place: Place,
    in_flight_bytes: u64,
    /// Records of each table since the start.
    totals: Vec<(String, u64)>,
}

/// Where the stream is.
#[derive(Debug, Clone, Copy)]
struct Place {
    wal_end: Lsn,
    confirmed: Lsn,
    /// How long ago the last confirmed transaction was committed.
    since_last_commit: Option<Duration>,
}

impl Place {
    fn of(status: &Status) -> Self {
        Place {
            wal_end: status.server_wal_end(),
            confirmed: status.confirmed_flush_lsn(),
            since_last_commit: status.since_last_commit(),
        }
    }

    fn lag_bytes(self) -> Option<u64> {
        let known = self.confirmed > Lsn::new(0) && self.wal_end > Lsn::new(0);
        known.then(|| self.wal_end.as_u64().saturating_sub(self.confirmed.as_u64()))
    }
}

#[derive(Debug)]
struct Sample {
    at: Instant,
    state: State,
    wal_end: Lsn,
    lag_bytes: Option<u64>,
    lag: Option<Duration>,
    in_flight_bytes: u64,
    records_per_second: Option<f64>,
}

#[derive(Debug, Default)]
struct Past {
    /// The oldest first.
    samples: VecDeque<Sample>,
    /// A sample that is kept no more, and whose end of the WAL is not confirmed yet: when the server's log was there.
    overdue: Option<(Lsn, Instant)>,
    /// The end of the server's WAL when it was first known.
    first_end: Option<Lsn>,
    /// Whether that was confirmed: from then on the samples tell how old what is not confirmed is.
    caught_up: bool,
    tables: HashMap<String, Totals>,
}

/// Records of one table: at the last sample, and at those before it for as long as the rate reaches back.
#[derive(Debug)]
struct Totals {
    at: VecDeque<(Instant, u64)>,
}

impl History {
    /// Takes a sample.
    pub fn take(&self, status: &Status, metrics: &Metrics) {
        let reading = Reading {
            state: status.state(),
            place: Place::of(status),
            in_flight_bytes: metrics.kafka.in_flight_bytes.get(),
            totals: metrics.tables.totals(),
        };
        self.lock().add(reading, Instant::now());
    }

    /// All samples.
    pub fn view(&self) -> HistoryView {
        self.lock().view(Instant::now())
    }

    /// How long what Kafka has not confirmed has been in the server's log; none until that is known.
    ///
    /// It is the age of the first sample whose end of the WAL is not confirmed. Of a log that was there before the process, the
    /// commit time of the last confirmed transaction tells, as soon as there is one.
    pub fn lag(&self, status: &Status) -> Option<Duration> {
        self.lock().lag(Place::of(status), Instant::now())
    }

    /// Records a second of each table, over the last samples.
    pub fn rates(&self) -> HashMap<String, f64> {
        let past = self.lock();
        let rates = past.tables.iter();
        rates
            .filter_map(|(name, totals)| Some((name.clone(), totals.rate()?)))
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, Past> {
        // Samples stand for themselves: a panic between two leaves nothing broken.
        self.past.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes samples for ever.
pub async fn record(history: Arc<History>, status: Arc<Status>, metrics: Metrics) {
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        history.take(&status, &metrics);
    }
}

impl Past {
    fn add(&mut self, reading: Reading, now: Instant) {
        let place = reading.place;
        if self.first_end.is_none() && place.wal_end > Lsn::new(0) {
            self.first_end = Some(place.wal_end);
        }
        self.caught_up |= self.first_end.is_some_and(|end| place.confirmed >= end);
        if self.overdue.is_some_and(|(end, _)| end <= place.confirmed) {
            self.overdue = None;
        }
        if self.samples.len() == KEPT
            && let Some(oldest) = self.samples.pop_front()
            && oldest.wal_end > place.confirmed
        {
            self.overdue.get_or_insert((oldest.wal_end, oldest.at));
        }
        let before = self.samples.back().map(|sample| sample.at);
        let records = self.count(reading.totals, before, now);
        let sample = Sample {
            at: now,
            state: reading.state,
            wal_end: place.wal_end,
            lag_bytes: place.lag_bytes(),
            lag: self.lag(place, now),
            in_flight_bytes: reading.in_flight_bytes,
            records_per_second: before.and_then(|before| per_second(records, now.saturating_duration_since(before))),
        };
        self.samples.push_back(sample);
    }

    /// Takes in each table's count; gives how many records there are more than at the sample before.
    fn count(&mut self, totals: Vec<(String, u64)>, before: Option<Instant>, now: Instant) -> u64 {
        let mut known = std::mem::take(&mut self.tables);
        let mut records = 0_u64;
        self.tables = totals
            .into_iter()
            .map(|(name, total)| {
                // A count that went back is another one: the table was forgotten, and came again.
                let mut totals = known
                    .remove(&name)
                    .filter(|known| known.last() <= total)
                    .unwrap_or_else(|| Totals::none(before));
                records = records.saturating_add(total.saturating_sub(totals.last()));
                totals.add(now, total);
                (name, totals)
            })
            .collect();
        records
    }

    fn lag(&self, place: Place, now: Instant) -> Option<Duration> {
        if place.lag_bytes()? == 0 {
            return Some(Duration::ZERO);
        }
        let overdue = self.overdue.filter(|(end, _)| *end > place.confirmed);
        let since = overdue.map(|(_, at)| at).or_else(|| {
            // The end of the WAL never goes back.
            let first = self.samples.partition_point(|sample| sample.wal_end <= place.confirmed);
            self.samples.get(first).map(|sample| sample.at)
        });
        let seen = since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        Some(match place.since_last_commit {
            Some(older) if !self.caught_up => seen.max(older),
            _ => seen,
        })
    }

    fn view(&self, now: Instant) -> HistoryView {
        let samples = self.samples.iter().map(|sample| SampleView {
            age_seconds: tenths(now.saturating_duration_since(sample.at).as_secs_f64()),
            state: sample.state.label(),
            lag_bytes: sample.lag_bytes,
            lag_seconds: sample.lag.map(|lag| tenths(lag.as_secs_f64())),
            in_flight_bytes: sample.in_flight_bytes,
            records_per_second: sample.records_per_second,
        });
        HistoryView {
            interval_seconds: INTERVAL.as_secs(),
            kept: KEPT,
            samples: samples.collect(),
        }
    }
}

impl Totals {
    /// Of a table that was not there at the sample before.
    fn none(before: Option<Instant>) -> Self {
        Totals {
            at: before.map(|before| (before, 0)).into_iter().collect(),
        }
    }

    fn last(&self) -> u64 {
        self.at.back().map_or(0, |(_, total)| *total)
    }

    fn add(&mut self, now: Instant, total: u64) {
        if self.at.len() > RATE_INTERVALS {
            self.at.pop_front();
        }
        self.at.push_back((now, total));
    }

    fn rate(&self) -> Option<f64> {
        let ((first, from), (last, to)) = self.at.front().zip(self.at.back())?;
        per_second(to.saturating_sub(*from), last.saturating_duration_since(*first))
    }
}

fn per_second(count: u64, elapsed: Duration) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "a rate is shown with a decimal")]
    let count = count as f64;
    (!elapsed.is_zero()).then(|| tenths(count / elapsed.as_secs_f64()))
}

/// With one decimal, which is what people read.
pub(super) fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIVEN: Place = Place {
        wal_end: Lsn::new(0),
        confirmed: Lsn::new(0),
        since_last_commit: None,
    };

    fn place(wal_end: u64, confirmed: u64) -> Place {
        Place {
            wal_end: Lsn::new(wal_end),
            confirmed: Lsn::new(confirmed),
            ..GIVEN
        }
    }

    fn reading(place: Place, totals: &[(&str, u64)]) -> Reading {
        Reading {
            state: State::Streaming,
            place,
            in_flight_bytes: 7,
            totals: totals
                .iter()
                .map(|(name, total)| ((*name).to_owned(), *total))
                .collect(),
        }
    }

    /// A sample at each interval; gives the time of the last.
    fn past(places: &[Place]) -> (Past, Instant) {
        let mut past = Past::default();
        let mut now = Instant::now();
        for (index, place) in places.iter().enumerate() {
            if index > 0 {
                now += INTERVAL;
            }
            past.add(reading(*place, &[]), now);
        }
        (past, now)
    }

    fn seconds(lag: Option<Duration>) -> Option<u64> {
        lag.map(|lag| lag.as_secs())
    }

    #[test]
    fn a_lag_is_as_old_as_the_first_sample_that_is_not_confirmed() {
        let (past, now) = past(&[place(10, 10), place(20, 10), place(30, 10), place(40, 10)]);
        let lags: Vec<Option<u64>> = past.samples.iter().map(|sample| seconds(sample.lag)).collect();
        assert_eq!(lags, [Some(0), Some(0), Some(5), Some(10)]);
        assert_eq!(seconds(past.lag(place(40, 29), now)), Some(5));
        assert_eq!(seconds(past.lag(place(40, 30), now)), Some(0));
        assert_eq!(seconds(past.lag(place(99, 99), now + INTERVAL)), Some(0));
        // Newer than any sample.
        assert_eq!(seconds(past.lag(place(99, 40), now + INTERVAL)), Some(0));
    }

    #[test]
    fn nothing_is_known_of_the_lag_before_both_positions_are() {
        let (past, now) = past(&[place(0, 0), place(10, 0), place(0, 10)]);
        assert!(
            past.samples
                .iter()
                .all(|sample| sample.lag_bytes.is_none() && sample.lag.is_none())
        );
        assert_eq!(past.lag(GIVEN, now), None);
    }

    #[test]
    fn a_lag_goes_on_growing_when_its_first_sample_is_kept_no_more() {
        let mut places = vec![place(10, 10)];
        places.extend((1..=KEPT as u64 + 20).map(|step| place(10 + step, 10)));
        let (mut past, mut now) = past(&places);
        assert_eq!(past.samples.len(), KEPT);
        assert_eq!(seconds(past.lag(place(500, 10), now)), Some(5 * (KEPT as u64 + 19)));
        // What was overdue is confirmed: the samples that are there tell again.
        now += INTERVAL;
        let last = past.samples.back().unwrap().wal_end.as_u64();
        past.add(reading(place(last + 1, last), &[]), now);
        assert_eq!(past.overdue, None);
        assert_eq!(seconds(past.lag(place(last + 1, last), now)), Some(0));
    }

    #[test]
    fn a_log_that_was_there_before_is_as_old_as_its_last_confirmed_commit() {
        let hour = Some(Duration::from_secs(3_600));
        let behind = Place {
            since_last_commit: hour,
            ..place(1_000, 10)
        };
        let (mut past, now) = past(&[place(1_000, 10), behind]);
        let lags: Vec<Option<u64>> = past.samples.iter().map(|sample| seconds(sample.lag)).collect();
        assert_eq!(lags, [Some(0), Some(3_600)]);
        // Once that is confirmed, an old commit only says that there was none since.
        let idle = Place {
            since_last_commit: hour,
            ..place(1_010, 1_005)
        };
        past.add(reading(idle, &[]), now + INTERVAL);
        assert_eq!(seconds(past.lag(idle, now + INTERVAL * 2)), Some(5));
    }

    #[test]
    fn rates_are_of_the_last_samples_and_of_tables_that_are_there() {
        let mut past = Past::default();
        let mut now = Instant::now();
        let mut step = |totals: &[(&str, u64)]| {
            now += INTERVAL;
            past.add(reading(GIVEN, totals), now);
            let rate = |name: &str| past.tables.get(name).and_then(Totals::rate);
            (
                past.samples.back().unwrap().records_per_second,
                rate("public.a"),
                rate("public.b"),
            )
        };
        assert_eq!(step(&[("public.a", 1_000)]), (None, None, None));
        assert_eq!(step(&[("public.a", 1_050)]), (Some(10.0), Some(10.0), None));
        // One that is new has had nothing before.
        let both = step(&[("public.a", 1_050), ("public.b", 5)]);
        assert_eq!(both, (Some(1.0), Some(5.0), Some(1.0)));
        let both = step(&[("public.a", 1_050), ("public.b", 5)]);
        assert_eq!(both, (Some(0.0), Some(3.3), Some(0.5)));
        // Forgotten and met again, it counts from zero.
        let both = step(&[("public.a", 20), ("public.b", 5)]);
        assert_eq!(both, (Some(4.0), Some(4.0), Some(0.3)));
        assert_eq!(step(&[("public.b", 5)]), (Some(0.0), None, Some(0.0)));
    }

    #[test]
    fn samples_are_shown_with_their_age_and_bounded_in_number() {
        let (past, now) = past(&[place(2_048, 1_024); KEPT + 3]);
        let view = past.view(now + Duration::from_millis(1_250));
        assert_eq!((view.interval_seconds, view.kept, view.samples.len()), (5, KEPT, KEPT));
        assert_eq!(
            view.samples.last(),
            Some(&SampleView {
                age_seconds: 1.3,
                state: "streaming",
                lag_bytes: Some(1_024),
                lag_seconds: Some(5.0 * (KEPT as f64 + 2.0)),
                in_flight_bytes: 7,
                records_per_second: Some(0.0),
            })
        );
        assert_eq!(view.samples.first().unwrap().age_seconds, 896.3);
    }
}
