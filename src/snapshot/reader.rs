//! A connection that reads tables, chunk after chunk, and hands the rows over.
//!
//! It decides nothing: before each chunk it asks whether it may begin, and when it knows what the chunk's snapshot sees, whether
//! to go on. The answers come from whoever has the stream.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_postgres::error::SqlState;

use super::copy::{CopyError, RowFormat};
use super::query::KeyColumn;
use super::range::{Outcome, Range};
use super::visibility::{ParseVisibilityError, Visibility};
use crate::lsn::Lsn;
use crate::replication::{ConnectError, PostgresSettings, ServerError, SqlClient, connect_sql};

/// Rows are handed over when they are as many bytes, or as many.
const BATCH_BYTES: usize = 64 * 1024;
const BATCH_ROWS: usize = 1_000;

/// A range of a table, read by its key, from where it was left to its end; or a whole table that has no key.
#[derive(Debug, Clone)]
pub struct Assignment {
    /// The published table, by oid.
    pub table: u32,
    /// Which of its ranges.
    pub range: usize,
    /// The table that has the rows: itself, or one of its partitions.
    pub relation: u32,
    /// Its name, quoted.
    pub relation_name: String,
    /// The published columns, in the order of the stream.
    pub columns: Vec<String>,
    /// The key's columns. None: it is read at once.
    pub key: Vec<KeyColumn>,
    /// The publication's row filter.
    pub row_filter: Option<String>,
    /// The condition that was asked for.
    pub asked: Option<String>,
    /// Behind this key.
    pub after: Option<Vec<String>>,
    /// Up to this key.
    pub before: Option<Vec<String>>,
    /// The row of this key, and no other.
    pub only: Option<Vec<String>>,
    /// What [`shape()`](super::shape) said when all of this was found out.
    pub shape: String,
    /// Text or binary.
    pub format: RowFormat,
}

/// How tables are read.
#[derive(Debug, Clone)]
pub struct ReaderSettings {
    /// Where.
    pub postgres: PostgresSettings,
    /// Rows of a chunk, at most.
    pub chunk_rows: u64,
    /// Limit of one chunk.
    pub statement_timeout: Duration,
    /// Limit of waiting for a table's lock.
    pub lock_timeout: Duration,
}

/// What a reader says, and of what.
#[derive(Debug)]
pub struct Event {
    /// Which of the readers.
    pub reader: usize,
    /// The published table.
    pub table: u32,
    /// Which of its ranges.
    pub range: usize,
    /// What it says.
    pub report: Report,
}

/// What a reader says.
#[derive(Debug)]
pub enum Report {
    /// A chunk could begin; the log ended here. It does once this is answered.
    Ready {
        /// Where the log ended.
        log_end: Lsn,
        /// The answer.
        begin: oneshot::Sender<()>,
    },
    /// The chunk's snapshot is taken.
    Taken {
        /// What it sees.
        visibility: Visibility,
        /// Every transaction that it sees has its commit record before this.
        lsn: Lsn,
        /// The answer.
        verdict: oneshot::Sender<Verdict>,
    },
    /// Rows of the chunk.
    Rows(Rows),
    /// The chunk is over: read whole, or not to be read.
    Closed,
    /// The range is over.
    Finished,
    /// The table is not what it was when the range was assigned.
    Changed,
    /// The range cannot be read now.
    Failed(ReadError),
}

/// Whether to read by a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The stream is past it: read.
    Read,
    /// Take another one: this is too old. What is remembered for the chunk stays remembered.
    Again,
}

/// Rows, as the TupleData of pgoutput.
#[derive(Debug, Default)]
pub struct Rows {
    pub(super) bytes: Vec<u8>,
    pub(super) ends: Vec<usize>,
    /// The key of the last one.
    pub last_key: Vec<String>,
}

impl Rows {
    /// How many.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Each one's TupleData.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |end| {
            let row = self.bytes.get(start..*end).unwrap_or_default();
            start = *end;
            row
        })
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= BATCH_BYTES || self.ends.len() >= BATCH_ROWS
    }
}

/// Why a range could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// No connection.
    #[error("cannot connect to postgres")]
    Connect(#[from] ConnectError),
    /// Postgres refused, or the connection broke.
    #[error("postgres did not read it")]
    Query(#[from] tokio_postgres::Error),
    /// What came is not what COPY sends.
    #[error("what COPY sent cannot be understood")]
    Copy(#[from] CopyError),
    /// What came is no snapshot.
    #[error("the snapshot cannot be understood")]
    Visibility(#[from] ParseVisibilityError),
    /// What came is no LSN.
    #[error("the end of the log cannot be understood")]
    LogEnd,
    /// Nobody takes the rows any more.
    #[error("the session is over")]
    Over,
}

impl ReadError {
    /// Whether it is read once somebody has done something.
    pub fn needs_somebody(&self) -> bool {
        match self {
            ReadError::Connect(error) => !error.is_transient(),
            ReadError::Query(error) => error.as_db_error().is_some_and(|error| {
                !ServerError::from_sql(error).is_transient() && *error.code() != SqlState::QUERY_CANCELED
            }),
            _ => false,
        }
    }

    /// What to do.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            ReadError::Query(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => Some(
                "GRANT SELECT ON the table to the role: on the table, not on its columns alone, since it is locked while it is read.",
            ),
            ReadError::Query(error) if error.code() == Some(&SqlState::QUERY_CANCELED) => {
                Some("Lower snapshot.chunk_rows, or raise snapshot.statement_timeout.")
            }
            ReadError::Query(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
                Some("Somebody else has locked the table; it is tried again.")
            }
            _ => None,
        }
    }
}

/// A reader at work. Dropped, it stops at once.
#[derive(Debug)]
pub struct Reader {
    assignments: mpsc::Sender<Assignment>,
    task: JoinHandle<()>,
}

impl Reader {
    /// Starts one that says what it has to say under this number.
    pub fn start(number: usize, settings: Arc<ReaderSettings>, events: mpsc::Sender<Event>) -> Self {
        let (assignments, received) = mpsc::channel(1);
        let task = tokio::spawn(work(number, settings, received, events));
        Reader { assignments, task }
    }

    /// Gives it a range; whether it takes it. One that says [`Report::Finished`], [`Report::Changed`] or [`Report::Failed`] takes the
    /// next.
    pub fn assign(&self, assignment: Assignment) -> bool {
        self.assignments.try_send(assignment).is_ok()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn work(
    reader: usize,
    settings: Arc<ReaderSettings>,
    mut assignments: mpsc::Receiver<Assignment>,
    events: mpsc::Sender<Event>,
) {
    let mut client = None;
    while let Some(assignment) = assignments.recv().await {
        let out = Out {
            reader,
            table: assignment.table,
            range: assignment.range,
            events: &events,
        };
        let report = match read(&settings, &mut client, &assignment, &out).await {
            Ok(Outcome::Finished) => Report::Finished,
            Ok(Outcome::Changed) => Report::Changed,
            Err(ReadError::Over) => return,
            Err(error) => {
                // A transaction may be open there.
                client = None;
                Report::Failed(error)
            }
        };
        if out.say(report).await.is_err() {
            return;
        }
    }
}

/// Where an assignment's events go.
pub(super) struct Out<'a> {
    reader: usize,
    table: u32,
    range: usize,
    events: &'a mpsc::Sender<Event>,
}

impl Out<'_> {
    pub(super) async fn say(&self, report: Report) -> Result<(), ReadError> {
        let event = Event {
            reader: self.reader,
            table: self.table,
            range: self.range,
            report,
        };
        self.events.send(event).await.map_err(|_| ReadError::Over)
    }
}

async fn read(
    settings: &ReaderSettings,
    client: &mut Option<SqlClient>,
    assignment: &Assignment,
    out: &Out<'_>,
) -> Result<Outcome, ReadError> {
    let connected = match client.take().filter(|client| !client.is_closed()) {
        Some(connected) => connected,
        None => connect_sql(&settings.postgres).await?,
    };
    let client = &*client.insert(connected);
    Range::new(settings, client, assignment, out).read().await
}
