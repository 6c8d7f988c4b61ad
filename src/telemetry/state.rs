//! What the pipeline is doing, and where it is.
//!
//! The pipeline writes, whoever answers HTTP reads. Positions are atomics: they are written for every batch.

use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::errors::{RecentError, RecentErrors};
use super::snapshots::SnapshotBoard;
use crate::lsn::Lsn;
use crate::row::calendar::civil_of_unix_days;

/// What the pipeline is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Reaching for Postgres, Kafka or the registry, for the first time or again.
    Connecting,
    /// Somebody else streams from the slot: the standby of a pair.
    WaitingForSlot,
    /// Changes flow, or would if there were any.
    Streaming,
    /// What is in flight has reached its limit, and nothing more is read.
    BlockedByKafka,
    /// Told to stop; what is in flight is waited for.
    Draining,
    /// Stopped for good.
    Failed,
}

impl State {
    /// Every state, in the order of a life.
    pub const ALL: &'static [Self] = &[
        Self::Connecting,
        Self::WaitingForSlot,
        Self::Streaming,
        Self::BlockedByKafka,
        Self::Draining,
        Self::Failed,
    ];

    /// Its name in metrics, status and logs.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::WaitingForSlot => "waiting for slot",
            Self::Streaming => "streaming",
            Self::BlockedByKafka => "blocked by kafka",
            Self::Draining => "draining",
            Self::Failed => "failed",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

/// What is known of a running pipeline. Shared as an `Arc`.
#[derive(Debug)]
pub struct Status {
    name: String,
    slot: String,
    publication: String,
    started: Instant,
    started_at: SystemTime,
    received: AtomicU64,
    confirmed: AtomicU64,
    wal_end: AtomicU64,
    retained: AtomicU64,
    /// Commit time of the last confirmed transaction with records, in µs since 1970; 0 before the first.
    last_commit: AtomicI64,
    /// `delivery.max_in_flight` in bytes; 0 where nobody has said.
    in_flight_limit: AtomicU64,
    /// Milliseconds from `started` to the last heartbeat.
    heartbeat: AtomicU64,
    changing: Mutex<Changing>,
    snapshots: SnapshotBoard,
}

#[derive(Debug, Clone)]
struct Changing {
    state: State,
    reason: Option<String>,
    since: SystemTime,
    server_version: Option<String>,
    errors: RecentErrors,
    last_bad_row: Option<LastError>,
}

/// The last thing that went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastError {
    /// When.
    pub at: SystemTime,
    /// What, without secrets and without values of rows.
    pub text: String,
}

impl LastError {
    fn now(text: impl Into<String>) -> Self {
        LastError {
            at: SystemTime::now(),
            text: text.into(),
        }
    }
}

/// A consistent copy of everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The pipeline.
    pub name: String,
    /// Its slot.
    pub slot: String,
    /// Its publication.
    pub publication: String,
    /// What it is doing.
    pub state: State,
    /// Why, where there is more to say.
    pub reason: Option<String>,
    /// Since when it is doing that.
    pub since: SystemTime,
    /// When the process started it.
    pub started_at: SystemTime,
    /// As the server says it.
    pub server_version: Option<String>,
    /// The highest LSN received.
    pub received_lsn: Lsn,
    /// The LSN confirmed to Postgres.
    pub confirmed_flush_lsn: Lsn,
    /// The end of the server's WAL, as far as it was told.
    pub wal_end: Lsn,
    /// From the confirmed LSN to the end of the server's WAL.
    pub lag_bytes: u64,
    /// What the slot keeps on the server.
    pub retained_wal_bytes: u64,
    /// The last thing that went wrong.
    pub last_error: Option<LastError>,
    /// The last few, the newest first; what came again and again is there once.
    pub recent_errors: Vec<RecentError>,
    /// The last row that became a dead letter.
    pub last_bad_row: Option<LastError>,
}

impl Status {
    /// A pipeline that is connecting.
    pub fn new(name: &str, slot: &str, publication: &str) -> Self {
        let now = SystemTime::now();
        Self {
            name: name.to_owned(),
            slot: slot.to_owned(),
            publication: publication.to_owned(),
            started: Instant::now(),
            started_at: now,
            received: AtomicU64::new(0),
            confirmed: AtomicU64::new(0),
            wal_end: AtomicU64::new(0),
            retained: AtomicU64::new(0),
            last_commit: AtomicI64::new(0),
            in_flight_limit: AtomicU64::new(0),
            heartbeat: AtomicU64::new(0),
            changing: Mutex::new(Changing {
                state: State::Connecting,
                reason: None,
                since: now,
                server_version: None,
                errors: RecentErrors::default(),
                last_bad_row: None,
            }),
            snapshots: SnapshotBoard::default(),
        }
    }

    /// How far the snapshots are.
    pub fn snapshots(&self) -> &SnapshotBoard {
        &self.snapshots
    }

    /// Changes the state; the reason is for people. The time stays that of the last change of the state itself.
    pub fn set_state(&self, state: State, reason: Option<String>) {
        let mut changing = self.lock();
        if changing.state != state {
            changing.since = SystemTime::now();
        }
        changing.state = state;
        changing.reason = reason;
    }

    /// What the pipeline is doing.
    pub fn state(&self) -> State {
        self.lock().state
    }

    /// Something was received up to `lsn`.
    pub fn received(&self, lsn: Lsn) {
        self.received.fetch_max(lsn.as_u64(), Ordering::Relaxed);
    }

    /// Postgres was, or is about to be, told `lsn`.
    pub fn confirmed(&self, lsn: Lsn) {
        self.confirmed.fetch_max(lsn.as_u64(), Ordering::Relaxed);
    }

    /// The server's WAL ends at `lsn`, as a message of it or a query said.
    pub fn wal_end(&self, lsn: Lsn) {
        self.wal_end.fetch_max(lsn.as_u64(), Ordering::Relaxed);
    }

    /// The slot keeps this many bytes of WAL.
    pub fn set_retained_wal_bytes(&self, bytes: u64) {
        self.retained.store(bytes, Ordering::Relaxed);
    }

    /// Everything of a transaction that was committed at `time_us` (µs since 1970, by the server's clock) is in Kafka.
    pub fn delivered_commit(&self, time_us: i64) {
        self.last_commit.fetch_max(time_us, Ordering::Relaxed);
    }

    /// Nothing more is read where so many bytes are in flight.
    pub fn set_in_flight_limit(&self, bytes: u64) {
        self.in_flight_limit.store(bytes, Ordering::Relaxed);
    }

    /// The server's version, as it says it.
    pub fn set_server_version(&self, version: &str) {
        self.lock().server_version = Some(version.to_owned());
    }

    /// Something went wrong. The text holds no secret and no value of a row.
    pub fn set_last_error(&self, text: impl Into<String>) {
        self.lock().errors.add(text.into(), SystemTime::now());
    }

    /// A row became a dead letter. The text holds no value of it.
    pub fn set_last_bad_row(&self, text: impl Into<String>) {
        self.lock().last_bad_row = Some(LastError::now(text));
    }

    /// The pipeline's loop turns.
    pub fn heartbeat(&self) {
        let elapsed = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.heartbeat.fetch_max(elapsed, Ordering::Relaxed);
    }

    /// The time since the last heartbeat, or since the start.
    pub fn since_heartbeat(&self) -> Duration {
        self.started
            .elapsed()
            .saturating_sub(Duration::from_millis(self.heartbeat.load(Ordering::Relaxed)))
    }

    /// The highest LSN received.
    pub fn received_lsn(&self) -> Lsn {
        Lsn::new(self.received.load(Ordering::Relaxed))
    }

    /// The LSN confirmed to Postgres.
    pub fn confirmed_flush_lsn(&self) -> Lsn {
        Lsn::new(self.confirmed.load(Ordering::Relaxed))
    }

    /// Bytes from the confirmed LSN to the end of the server's WAL; 0 until both are known.
    pub fn lag_bytes(&self) -> u64 {
        match (
            self.wal_end.load(Ordering::Relaxed),
            self.confirmed.load(Ordering::Relaxed),
        ) {
            (_, 0) => 0,
            (end, confirmed) => end.saturating_sub(confirmed),
        }
    }

    /// Bytes that the slot keeps on the server.
    pub fn retained_wal_bytes(&self) -> u64 {
        self.retained.load(Ordering::Relaxed)
    }

    /// The end of the server's WAL, as far as it was told.
    pub fn server_wal_end(&self) -> Lsn {
        Lsn::new(self.wal_end.load(Ordering::Relaxed))
    }

    /// How long ago the last confirmed transaction was committed; none before there is one.
    pub fn since_last_commit(&self) -> Option<Duration> {
        let micros = u64::try_from(self.last_commit.load(Ordering::Relaxed)).ok()?;
        let committed = UNIX_EPOCH.checked_add(Duration::from_micros(micros))?;
        (micros > 0).then(|| SystemTime::now().duration_since(committed).unwrap_or_default())
    }

    /// How many bytes may be in flight; none where nobody has said.
    pub fn in_flight_limit(&self) -> Option<u64> {
        Some(self.in_flight_limit.load(Ordering::Relaxed)).filter(|limit| *limit > 0)
    }

    /// A copy of everything.
    pub fn snapshot(&self) -> Snapshot {
        let changing = self.lock().clone();
        Snapshot {
            name: self.name.clone(),
            slot: self.slot.clone(),
            publication: self.publication.clone(),
            state: changing.state,
            reason: changing.reason,
            since: changing.since,
            started_at: self.started_at,
            server_version: changing.server_version,
            received_lsn: self.received_lsn(),
            confirmed_flush_lsn: self.confirmed_flush_lsn(),
            wal_end: self.server_wal_end(),
            lag_bytes: self.lag_bytes(),
            retained_wal_bytes: self.retained_wal_bytes(),
            last_error: changing.errors.last(),
            recent_errors: changing.errors.newest_first(),
            last_bad_row: changing.last_bad_row,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Changing> {
        // Fields are assigned one by one and stand for themselves: a panic between two leaves nothing broken.
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// RFC 3339 in UTC, to the second.
pub(super) fn rfc3339(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs());
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil_of_unix_days(i64::try_from(days).unwrap_or(i64::MAX));
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        second / 3_600,
        second / 60 % 60,
        second % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_never_go_back() {
        let status = Status::new("shop", "shop", "shop");
        status.received(Lsn::new(20));
        status.received(Lsn::new(10));
        assert_eq!(status.received_lsn(), Lsn::new(20));
        status.confirmed(Lsn::new(7));
        status.confirmed(Lsn::new(5));
        assert_eq!(status.confirmed_flush_lsn(), Lsn::new(7));
    }

    #[test]
    fn the_lag_is_unknown_until_something_is_confirmed() {
        let status = Status::new("shop", "shop", "shop");
        status.wal_end(Lsn::new(100));
        assert_eq!(status.lag_bytes(), 0);
        status.confirmed(Lsn::new(60));
        assert_eq!(status.lag_bytes(), 40);
        status.confirmed(Lsn::new(120));
        assert_eq!(status.lag_bytes(), 0);
    }

    #[test]
    fn a_new_reason_for_the_same_state_keeps_its_time() {
        let status = Status::new("shop", "shop", "shop");
        let since = status.snapshot().since;
        status.set_state(State::Connecting, Some("postgres is away".to_owned()));
        let snapshot = status.snapshot();
        assert_eq!(snapshot.since, since);
        assert_eq!(snapshot.reason.as_deref(), Some("postgres is away"));
        assert_eq!(snapshot.state.to_string(), "connecting");
    }

    #[test]
    fn times_are_written_in_utc() {
        let at = |seconds| rfc3339(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(at(1_735_689_599), "2024-12-31T23:59:59Z");
        assert_eq!(at(4_107_542_400), "2100-03-01T00:00:00Z");
    }
}
