//! A connection that reads tables, chunk after chunk, and hands the rows over.
//!
//! It decides nothing: before each chunk it asks whether it may begin, and when it knows what the chunk's snapshot sees, whether
//! to go on. The answers come from whoever has the stream.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_postgres::error::SqlState;

use super::copy::{CopyError, RowFormat, RowReader};
use super::query::{ChunkQuery, KeyColumn};
use super::visibility::{ParseVisibilityError, Visibility};
use crate::lsn::Lsn;
use crate::replication::{ConnectError, PostgresSettings, ServerError, SqlClient, connect_sql};

/// Rows are handed over when they are as many bytes, or as many.
const BATCH_BYTES: usize = 64 * 1024;
const BATCH_ROWS: usize = 1_000;
/// A snapshot is not held for longer than that while the stream is waited for: vacuum waits for it.
const PATIENCE: Duration = Duration::from_secs(10);
/// After a snapshot that could not be used.
const PAUSE: Duration = Duration::from_millis(50);

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
    /// What [`shape()`] said when all of this was found out.
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
    bytes: Vec<u8>,
    ends: Vec<usize>,
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

    fn is_full(&self) -> bool {
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
struct Out<'a> {
    reader: usize,
    table: u32,
    range: usize,
    events: &'a mpsc::Sender<Event>,
}

impl Out<'_> {
    async fn say(&self, report: Report) -> Result<(), ReadError> {
        let event = Event {
            reader: self.reader,
            table: self.table,
            range: self.range,
            report,
        };
        self.events.send(event).await.map_err(|_| ReadError::Over)
    }
}

enum Outcome {
    Finished,
    Changed,
}

/// How a chunk ended.
enum Chunk {
    /// So many rows.
    Read(u64),
    /// Its snapshot was of no use: it was too old.
    TooOld,
    /// The stream did not get there in time.
    Late,
    Changed,
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
    let mut after = assignment.after.clone();
    let is_one_chunk = assignment.key.is_empty() || assignment.only.is_some();
    loop {
        let (begin, begun) = oneshot::channel();
        let log_end = log_end(client).await?;
        out.say(Report::Ready { log_end, begin }).await?;
        begun.await.map_err(|_| ReadError::Over)?;
        let chunk = chunk(settings, client, assignment, &mut after, out).await?;
        if !matches!(chunk, Chunk::TooOld) {
            out.say(Report::Closed).await?;
        }
        match chunk {
            Chunk::Read(rows) if is_one_chunk || rows < settings.chunk_rows => return Ok(Outcome::Finished),
            Chunk::Read(_) => {}
            Chunk::TooOld | Chunk::Late => tokio::time::sleep(PAUSE).await,
            Chunk::Changed => return Ok(Outcome::Changed),
        }
    }
}

/// The end of the log, behind everything that is committed.
const LOG_END: &str = "CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_last_wal_replay_lsn()
    ELSE pg_catalog.pg_current_wal_insert_lsn() END::text";

async fn log_end(client: &SqlClient) -> Result<Lsn, ReadError> {
    let row = client.query_one(&format!("SELECT {LOG_END}"), &[]).await?;
    lsn_of(row.try_get(0)?)
}

/// The position of the next record may lie behind a page's header, and what is written ends before that: no commit record begins in
/// between (`access/xlog_internal.h`, `SizeOfXLogLongPHD`).
fn lsn_of(text: Option<&str>) -> Result<Lsn, ReadError> {
    const PAGE: u64 = 8192;
    const LONGEST_HEADER: u64 = 40;
    let lsn: Lsn = text.and_then(|text| text.parse().ok()).ok_or(ReadError::LogEnd)?;
    let within = lsn.as_u64() % PAGE;
    Ok(match within <= LONGEST_HEADER {
        true => Lsn::new(lsn.as_u64().saturating_sub(within)),
        false => lsn,
    })
}

/// A query of what a table looks like, as far as reading it goes: name, columns, key, replica identity, what the publication says of
/// it. Two texts that are equal stand for the same. Both tables are expressions: the one that has the rows, and the published one.
pub fn shape(relation: &str, table: &str) -> String {
    format!(
        "(SELECT pg_catalog.string_agg(pg_catalog.concat_ws(' ',
                c.oid, c.relnamespace, c.relname, c.relreplident,
                (SELECT pg_catalog.string_agg(pg_catalog.concat_ws(' ', a.attname, a.atttypid, a.atttypmod, a.attisdropped,
                    pg_catalog.to_jsonb(a) ->> 'attgenerated'), ',' ORDER BY a.attnum)
                 FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0),
                (SELECT pg_catalog.string_agg(pg_catalog.concat_ws(' ', i.indexrelid, i.indkey, i.indisprimary, i.indisreplident,
                    i.indisvalid), ',' ORDER BY i.indexrelid)
                 FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid AND (i.indisprimary OR i.indisreplident)),
                (SELECT pg_catalog.string_agg(r.xmin::text, ',' ORDER BY r.xmin::text) FROM pg_catalog.pg_publication_rel r
                 WHERE r.prrelid = c.oid)
            ), ';' ORDER BY c.oid)
         FROM pg_catalog.pg_class c WHERE c.oid IN ({relation}, {table}))"
    )
}

async fn chunk(
    settings: &ReaderSettings,
    client: &SqlClient,
    assignment: &Assignment,
    after: &mut Option<Vec<String>>,
    out: &Out<'_>,
) -> Result<Chunk, ReadError> {
    // The lock before the snapshot: a table that is rewritten or emptied between the two would look empty to the snapshot, though the
    // stream does not say so (manual, "Caveats" of MVCC). LOCK does not take the snapshot. A row security policy is an error, and not
    // rows that are missing.
    let begin = format!(
        "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL row_security = off;
         SET LOCAL lock_timeout = {}; SET LOCAL statement_timeout = {};
         LOCK TABLE ONLY {} IN ACCESS SHARE MODE",
        settings.lock_timeout.as_millis(),
        settings.statement_timeout.as_millis(),
        assignment.relation_name
    );
    client.batch_execute(&begin).await?;
    let shape = shape("$1::oid", "$2::oid");
    let query =
        format!("SELECT pg_catalog.txid_current_snapshot()::text, {LOG_END}, {shape}, pg_catalog.pg_is_in_recovery()");
    let row = client
        .query_one(&query, &[&assignment.relation, &assignment.table])
        .await?;
    let mut visibility = Visibility::parse(row.try_get(0)?)?;
    let lsn = lsn_of(row.try_get(1)?)?;
    let shape: Option<&str> = row.try_get(2)?;
    if row.try_get(3)? {
        visibility = visibility.in_recovery();
    }
    if shape != Some(assignment.shape.as_str()) {
        client.batch_execute("ROLLBACK").await?;
        return Ok(Chunk::Changed);
    }
    let (verdict, given) = oneshot::channel();
    out.say(Report::Taken {
        visibility,
        lsn,
        verdict,
    })
    .await?;
    let useless = match tokio::time::timeout(PATIENCE, given).await {
        Err(_) => Some(Chunk::Late),
        Ok(given) => match given.map_err(|_| ReadError::Over)? {
            Verdict::Read => None,
            Verdict::Again => Some(Chunk::TooOld),
        },
    };
    if let Some(useless) = useless {
        client.batch_execute("ROLLBACK").await?;
        return Ok(useless);
    }
    let rows = copy(settings, client, assignment, after, out).await?;
    client.batch_execute("COMMIT").await?;
    Ok(Chunk::Read(rows))
}

async fn copy(
    settings: &ReaderSettings,
    client: &SqlClient,
    assignment: &Assignment,
    after: &mut Option<Vec<String>>,
    out: &Out<'_>,
) -> Result<u64, ReadError> {
    let columns = assignment.columns.len();
    let key = &assignment.key;
    let placed = key
        .iter()
        .map(|key| assignment.columns.iter().position(|name| *name == key.name));
    // In text the rows have the key's texts already, where it is published.
    let placed: Option<Vec<usize>> = placed.collect();
    let places = placed.filter(|_| assignment.format == RowFormat::Text);
    let query = ChunkQuery {
        relation: &assignment.relation_name,
        columns: &assignment.columns,
        key,
        row_filter: assignment.row_filter.as_deref(),
        asked: assignment.asked.as_deref(),
        after: after.as_deref(),
        before: assignment.before.as_deref(),
        only: assignment.only.as_deref(),
        limit: (!key.is_empty()).then_some(settings.chunk_rows),
        format: assignment.format,
        key_as_text: places.is_none() && !key.is_empty(),
    };
    let places = places.unwrap_or_else(|| (columns..columns.saturating_add(key.len())).collect());
    let mut reader = RowReader::new(assignment.format, columns, places);
    let mut stream = pin!(client.copy_out(&query.copy()).await?);
    let mut rows = Rows::default();
    let mut read = 0;
    let mut last = None;
    loop {
        let data = stream.next().await.transpose()?;
        let ended = data.is_none();
        if let Some(data) = data
            && reader.read(&data, &mut rows.bytes)?
        {
            read += 1;
            rows.ends.push(rows.bytes.len());
            last = Some(data);
        }
        if (rows.is_full() || ended)
            && let Some(data) = last.take()
        {
            rows.last_key = reader.key_of(&data)?;
            *after = Some(rows.last_key.clone()).filter(|key| !key.is_empty());
            out.say(Report::Rows(std::mem::take(&mut rows))).await?;
        }
        if ended {
            return Ok(read);
        }
    }
}
