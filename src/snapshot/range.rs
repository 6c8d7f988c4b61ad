//! One range of a table, read chunk after chunk.

use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::sync::oneshot;

use super::copy::{RowFormat, RowReader};
use super::query::{ChunkQuery, LOG_END, shape};
use super::reader::{Assignment, Out, ReadError, ReaderSettings, Report, Rows, Verdict};
use super::visibility::Visibility;
use crate::lsn::Lsn;
use crate::replication::SqlClient;

/// A snapshot is not held for longer than that while the stream is waited for: vacuum waits for it.
const PATIENCE: Duration = Duration::from_secs(10);
/// After a snapshot that could not be used.
const PAUSE: Duration = Duration::from_millis(50);

/// How a range ended.
pub(super) enum Outcome {
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

/// A range that is being read, and by whom.
pub(super) struct Range<'a> {
    settings: &'a ReaderSettings,
    client: &'a SqlClient,
    assignment: &'a Assignment,
    out: &'a Out<'a>,
    /// Up to this key it is read.
    after: Option<Vec<String>>,
}

impl<'a> Range<'a> {
    pub(super) fn new(
        settings: &'a ReaderSettings,
        client: &'a SqlClient,
        assignment: &'a Assignment,
        out: &'a Out<'a>,
    ) -> Self {
        Range {
            settings,
            client,
            assignment,
            out,
            after: assignment.after.clone(),
        }
    }

    /// Reads it to its end.
    pub(super) async fn read(mut self) -> Result<Outcome, ReadError> {
        let is_one_chunk = self.assignment.key.is_empty() || self.assignment.only.is_some();
        loop {
            let (begin, begun) = oneshot::channel();
            let log_end = log_end(self.client).await?;
            self.out.say(Report::Ready { log_end, begin }).await?;
            begun.await.map_err(|_| ReadError::Over)?;
            let chunk = self.chunk().await?;
            if !matches!(chunk, Chunk::TooOld) {
                self.out.say(Report::Closed).await?;
            }
            match chunk {
                Chunk::Read(rows) if is_one_chunk || rows < self.settings.chunk_rows => return Ok(Outcome::Finished),
                Chunk::Read(_) => {}
                Chunk::TooOld | Chunk::Late => tokio::time::sleep(PAUSE).await,
                Chunk::Changed => return Ok(Outcome::Changed),
            }
        }
    }

    async fn chunk(&mut self) -> Result<Chunk, ReadError> {
        // The lock before the snapshot: a table that is rewritten or emptied between the two would look empty to the snapshot, though the
        // stream does not say so (manual, "Caveats" of MVCC). LOCK does not take the snapshot. A row security policy is an error, and not
        // rows that are missing.
        let begin = format!(
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL row_security = off;
             SET LOCAL lock_timeout = {}; SET LOCAL statement_timeout = {};
             LOCK TABLE ONLY {} IN ACCESS SHARE MODE",
            self.settings.lock_timeout.as_millis(),
            self.settings.statement_timeout.as_millis(),
            self.assignment.relation_name
        );
        self.client.batch_execute(&begin).await?;
        let shape = shape("$1::oid", "$2::oid");
        let query = format!(
            "SELECT pg_catalog.txid_current_snapshot()::text, {LOG_END}, {shape}, pg_catalog.pg_is_in_recovery()"
        );
        let row = self
            .client
            .query_one(&query, &[&self.assignment.relation, &self.assignment.table])
            .await?;
        let mut visibility = Visibility::parse(row.try_get(0)?)?;
        let lsn = lsn_of(row.try_get(1)?)?;
        let shape: Option<&str> = row.try_get(2)?;
        if row.try_get(3)? {
            visibility = visibility.in_recovery();
        }
        if shape != Some(self.assignment.shape.as_str()) {
            self.client.batch_execute("ROLLBACK").await?;
            return Ok(Chunk::Changed);
        }
        let (verdict, given) = oneshot::channel();
        self.out
            .say(Report::Taken {
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
            self.client.batch_execute("ROLLBACK").await?;
            return Ok(useless);
        }
        let rows = self.copy().await?;
        self.client.batch_execute("COMMIT").await?;
        Ok(Chunk::Read(rows))
    }

    async fn copy(&mut self) -> Result<u64, ReadError> {
        let assignment = self.assignment;
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
            after: self.after.as_deref(),
            before: assignment.before.as_deref(),
            only: assignment.only.as_deref(),
            limit: (!key.is_empty()).then_some(self.settings.chunk_rows),
            format: assignment.format,
            key_as_text: places.is_none() && !key.is_empty(),
        };
        let places = places.unwrap_or_else(|| (columns..columns.saturating_add(key.len())).collect());
        let mut reader = RowReader::new(assignment.format, columns, places);
        let mut stream = pin!(self.client.copy_out(&query.copy()).await?);
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
                self.after = Some(rows.last_key.clone()).filter(|key| !key.is_empty());
                self.out.say(Report::Rows(std::mem::take(&mut rows))).await?;
            }
            if ended {
                return Ok(read);
            }
        }
    }
}

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
