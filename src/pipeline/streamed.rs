//! Transactions that Postgres streams while they run: which block is open, what is kept of them, what they described.
//!
//! Nothing of them is published before they commit, and then in the place that the stream gives them, like any other. An open one holds
//! nothing back: Postgres keeps the log from its begin, and sends all of it again after a reconnect, whatever was confirmed meanwhile.

use std::collections::HashMap;
use std::path::PathBuf;

use super::error::PipelineError;
use super::refusal::Refusal;
use super::source;
use crate::failpoint;
use crate::lsn::Lsn;
use crate::pgoutput::{Message, StreamAbort, StreamStart};
use crate::recovery::Identity;
use crate::spool::{Batch, Directory, Disorder, Limits, Reading, Record, Spool, SpoolError, Usage};
use crate::telemetry::metrics::StreamedMetrics;

/// What a Relation or Type message describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Subject {
    // Types first: a relation is described by their names.
    Type(u32),
    Relation(u32),
}

impl Subject {
    fn of(message: &Message<'_>) -> Option<Self> {
        match message {
            Message::Relation(relation) => Some(Subject::Relation(relation.oid)),
            Message::Type(described) => Some(Subject::Type(described.oid)),
            _ => None,
        }
    }
}

/// A Relation or Type message.
#[derive(Debug, Clone)]
pub(super) struct Description {
    /// Its place among all messages of the session.
    arrival: u64,
    pub(super) lsn: Lsn,
    /// As it came.
    pub(super) bytes: Vec<u8>,
    /// It came in a block, and so with an xid.
    pub(super) in_stream: bool,
}

impl Description {
    /// Without the tag, and without the xid that is in it in a block.
    fn content(&self) -> Option<&[u8]> {
        self.bytes.get(if self.in_stream { 5 } else { 1 }..)
    }
}

type Descriptions = HashMap<Subject, Description>;

/// The running transactions of a session.
pub(super) struct Streamed {
    /// None: none are streamed.
    spool: Option<Spool>,
    metrics: StreamedMetrics,
    /// The transaction whose block is open.
    block: Option<u32>,
    /// Messages so far.
    arrivals: u64,
    /// The newest of each subject that came since a running transaction may have described it differently.
    ///
    /// The server describes a relation once to the running transaction and once to all others, and takes it for known to all when the running
    /// one commits. If it described it anew to the others in between (another column list, a type's other name), their description is the
    /// present one still, though that of the running transaction is published later.
    descriptions: Descriptions,
    /// One that has committed is being published.
    publishing: bool,
}

/// A transaction that has committed and is being published.
pub(super) struct Committed {
    pub(super) end_lsn: Lsn,
    /// None while it is lent to the thread that reads.
    reading: Option<Reading>,
    /// What its messages so far described.
    described: Descriptions,
}

fn out_of_place(lsn: Lsn, found: &'static str) -> PipelineError {
    PipelineError::Unexpected { lsn, found }
}

/// Whether running transactions are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Streaming {
    /// Where the server has it, and there is a directory to keep them in.
    Auto,
    On,
    Off,
}

/// Whether running transactions are asked for, and where and how many are kept.
#[derive(Debug, Clone)]
pub(super) struct StreamingSettings {
    pub(super) streaming: Streaming,
    /// None: that of the system for temporary files.
    pub(super) directory: Option<PathBuf>,
    pub(super) limits: Limits,
}

/// Streamed from Postgres 14 on.
const SINCE: u32 = 140_000;

impl StreamingSettings {
    fn directory(&self) -> PathBuf {
        self.directory.clone().unwrap_or_else(std::env::temp_dir)
    }

    /// Nobody asked for streaming, or named a directory: in a container with a read-only file system it is left off.
    fn may_do_without(&self) -> bool {
        self.streaming == Streaming::Auto && self.directory.is_none()
    }

    /// Why a server of this version is not asked for them; nothing if it is.
    fn why_none(&self, server_version: u32) -> Result<Option<&'static str>, Refusal> {
        match self.streaming {
            Streaming::Off => Ok(Some(
                "large transactions come when they have committed (replication.streaming = \"off\")",
            )),
            Streaming::Auto if server_version < SINCE => {
                Ok(Some("the server sends large transactions when they have committed"))
            }
            Streaming::On if server_version < SINCE => Err(Refusal::NoStreaming {
                version: source::version_text(server_version),
            }),
            Streaming::Auto | Streaming::On => Ok(None),
        }
    }

    /// Where they would be kept, in words. Changes nothing.
    pub(super) async fn check(&self, server_version: u32) -> Result<String, PipelineError> {
        if let Some(why) = self.why_none(server_version)? {
            return Ok(format!("none: {why}"));
        }
        let directory = self.directory();
        let probed = directory.clone();
        match blocking(move || Directory::probe(&probed)).await {
            Ok(()) => Ok(format!(
                "large running transactions may wait in {}",
                directory.display()
            )),
            Err(error) if self.may_do_without() => Ok(format!(
                "none, so large transactions come when they have committed: {}",
                super::chain(&error)
            )),
            Err(error) => Err(error.into()),
        }
    }

    /// Where running transactions are to be kept; none if they are not to be streamed. What an earlier session kept is removed.
    pub(super) async fn spool(&self, server_version: u32, identity: &Identity) -> Result<Option<Spool>, PipelineError> {
        if self.why_none(server_version)?.is_some() {
            return Ok(None);
        }
        let (directory, system, slot) = (
            self.directory(),
            identity.system_identifier.clone(),
            identity.slot.clone(),
        );
        match blocking(move || Directory::open(&directory, &system, &slot)).await {
            Ok(directory) => Ok(Some(Spool::new(directory, self.limits))),
            Err(error) if self.may_do_without() => {
                tracing::warn!(
                    error = super::chain(&error),
                    "large transactions are not streamed while they run: give walferry a directory (replication.spool_dir), or set \
                     replication.streaming = \"off\""
                );
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SpoolError> + Send + 'static,
) -> Result<T, SpoolError> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or(Err(SpoolError::Interrupted))
}

impl Streamed {
    pub(super) fn new(spool: Option<Spool>, metrics: StreamedMetrics) -> Self {
        Streamed {
            spool,
            metrics,
            block: None,
            arrivals: 0,
            descriptions: HashMap::new(),
            publishing: false,
        }
    }

    /// Whether what comes belongs to a block.
    pub(super) fn in_block(&self) -> bool {
        self.block.is_some()
    }

    /// A message came.
    pub(super) fn arrived(&mut self) {
        self.arrivals += 1;
    }

    fn spool(&mut self, lsn: Lsn, found: &'static str) -> Result<&mut Spool, PipelineError> {
        self.spool.as_mut().ok_or(out_of_place(lsn, found))
    }

    /// A block begins.
    pub(super) fn start(&mut self, lsn: Lsn, start: &StreamStart) -> Result<(), PipelineError> {
        if self.block.is_some() {
            return Err(out_of_place(lsn, "Stream Start inside a block"));
        }
        let spool = self.spool(lsn, "Stream Start, which was not asked for,")?;
        spool.block(start.xid, start.first_segment).map_err(|disorder| {
            let found = match disorder {
                Disorder::Known => "a first block of a transaction that runs already",
                Disorder::Unknown => "a further block of a transaction that had no first one",
            };
            out_of_place(lsn, found)
        })?;
        self.block = Some(start.xid);
        Ok(())
    }

    /// A message inside a block.
    pub(super) async fn take_in(&mut self, lsn: Lsn, message: &Message<'_>, bytes: &[u8]) -> Result<(), PipelineError> {
        const OUTSIDE: &str = "a message of a block outside of one";
        let subxid = match message {
            Message::StreamStop => {
                self.block = None;
                failpoint::reached("streamed");
                return Ok(());
            }
            // Of the whole transaction, and without meaning here.
            Message::Origin(_) => return Ok(()),
            Message::Insert(insert) => insert.xid,
            Message::Update(update) => update.xid,
            Message::Delete(delete) => delete.xid,
            Message::Truncate(truncate) => truncate.xid,
            Message::Message(message) if message.transactional => message.xid,
            Message::Relation(relation) => relation.xid,
            Message::Type(described) => described.xid,
            other => return Err(out_of_place(lsn, other.name())),
        };
        let (Some(xid), Some(subxid)) = (self.block, subxid) else {
            return Err(out_of_place(lsn, OUTSIDE));
        };
        let record = Record {
            subxid,
            lsn,
            arrival: self.arrivals,
            message: bytes,
        };
        let spool = self.spool(lsn, OUTSIDE)?;
        if spool.append(xid, &record).is_err() {
            return Err(out_of_place(lsn, OUTSIDE));
        }
        while let Some(spill) = spool.overfull()? {
            let spilled = blocking(move || spill.write()).await?;
            spool.spilled(spilled);
            failpoint::reached("spooled");
        }
        Ok(())
    }

    /// A transaction, or a part of it, is void.
    pub(super) fn abort(&mut self, lsn: Lsn, abort: &StreamAbort) -> Result<(), PipelineError> {
        const UNKNOWN: &str = "Stream Abort of a transaction that had no block";
        let spool = self.spool(lsn, UNKNOWN)?;
        spool
            .abort(abort.xid, abort.subxid)
            .map_err(|_| out_of_place(lsn, UNKNOWN))?;
        self.forget_descriptions();
        Ok(())
    }

    /// A transaction has committed.
    pub(super) fn commit(&mut self, lsn: Lsn, xid: u32, end_lsn: Lsn) -> Result<Committed, PipelineError> {
        const UNKNOWN: &str = "Stream Commit of a transaction that had no block";
        let spool = self.spool(lsn, UNKNOWN)?;
        let reading = spool.commit(xid).map_err(|_| out_of_place(lsn, UNKNOWN))?;
        self.publishing = true;
        Ok(Committed {
            end_lsn,
            reading: Some(reading),
            described: HashMap::new(),
        })
    }

    /// A Relation or Type message came outside of a block.
    pub(super) fn described(&mut self, lsn: Lsn, message: &Message<'_>, bytes: &[u8]) {
        if self.spool.as_ref().is_none_or(Spool::is_empty) {
            return;
        }
        if let Some(subject) = Subject::of(message) {
            let description = Description {
                arrival: self.arrivals,
                lsn,
                bytes: bytes.to_owned(),
                in_stream: false,
            };
            self.descriptions.insert(subject, description);
        }
    }

    /// The transaction is published: what others than it described later, and differently, to be described once more.
    pub(super) fn published(&mut self, committed: Committed) -> Vec<Description> {
        let mut newer: Vec<(Subject, Description)> = Vec::new();
        for (subject, description) in committed.described {
            match self.descriptions.get(&subject) {
                Some(other) if other.arrival > description.arrival => {
                    if other.content() != description.content() {
                        newer.push((subject, other.clone()));
                    }
                }
                _ => drop(self.descriptions.insert(subject, description)),
            }
        }
        self.publishing = false;
        self.forget_descriptions();
        newer.sort_by_key(|(subject, _)| *subject);
        newer.into_iter().map(|(_, description)| description).collect()
    }

    fn forget_descriptions(&mut self) {
        if !self.publishing && self.spool.as_ref().is_none_or(Spool::is_empty) {
            self.descriptions.clear();
        }
    }

    /// Brings the metrics up to date.
    pub(super) fn count(&self) {
        let usage = self.spool.as_ref().map(Spool::usage).unwrap_or_default();
        self.show(usage);
    }

    fn show(&self, usage: Usage) {
        self.metrics
            .transactions
            .set(u64::try_from(usage.transactions).unwrap_or(u64::MAX));
        self.metrics.buffered_bytes.set(usage.memory);
        self.metrics.spooled_bytes.set(usage.files);
    }
}

impl Drop for Streamed {
    /// Nothing of it outlives the session.
    fn drop(&mut self) {
        self.show(Usage::default());
    }
}

impl Committed {
    /// The next records; none at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Batch>, SpoolError> {
        if let Some(reading) = self.reading.as_mut().filter(|reading| !reading.blocks()) {
            return reading.next_batch();
        }
        let Some(mut reading) = self.reading.take() else {
            return Err(SpoolError::Interrupted);
        };
        let (reading, batch) = blocking(move || {
            let batch = reading.next_batch()?;
            Ok((reading, batch))
        })
        .await?;
        self.reading = Some(reading);
        Ok(batch)
    }

    /// A message of it was published; if it is one, a description.
    pub(super) fn described(&mut self, record: &Record<'_>, message: &Message<'_>) {
        if let Some(subject) = Subject::of(message) {
            let description = Description {
                arrival: record.arrival,
                lsn: record.lsn,
                bytes: record.message.to_owned(),
                in_stream: true,
            };
            self.described.insert(subject, description);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pgoutput::RelationMessage;
    use crate::telemetry::Metrics;

    const LSN: Lsn = Lsn::new(0x10);

    fn streamed() -> Streamed {
        let directory = Directory::open(&std::env::temp_dir(), "0", &format!("t{:x}", fastrand::u64(..))).unwrap();
        let limits = Limits {
            memory: 1 << 20,
            files: None,
        };
        Streamed::new(Some(Spool::new(directory, limits)), Metrics::new().unwrap().streamed)
    }

    fn relation(xid: Option<u32>) -> Message<'static> {
        Message::Relation(RelationMessage {
            xid,
            oid: 16_400,
            namespace: "public",
            name: "t",
            replica_identity: b'd',
            columns: vec![],
        })
    }

    /// A block of a transaction that describes the relation so.
    async fn block(streamed: &mut Streamed, xid: u32, first_segment: bool, content: &str) {
        streamed.start(LSN, &StreamStart { xid, first_segment }).unwrap();
        streamed.arrived();
        let bytes = [&b"R"[..], &xid.to_be_bytes(), content.as_bytes()].concat();
        streamed.take_in(LSN, &relation(Some(xid)), &bytes).await.unwrap();
        streamed.take_in(LSN, &Message::StreamStop, b"E").await.unwrap();
    }

    /// Another transaction describes it so.
    fn describe(streamed: &mut Streamed, content: &str) {
        streamed.arrived();
        streamed.described(LSN, &relation(None), format!("R{content}").as_bytes());
    }

    async fn read(streamed: &mut Streamed, xid: u32) -> Committed {
        let mut committed = streamed.commit(LSN, xid, LSN).unwrap();
        while let Some(batch) = committed.next().await.unwrap() {
            for record in batch.records() {
                committed.described(&record, &relation(Some(xid)));
            }
        }
        committed
    }

    /// What is to be described once more when the transaction is published.
    async fn again(streamed: &mut Streamed, xid: u32) -> Vec<String> {
        let committed = read(streamed, xid).await;
        texts(&streamed.published(committed))
    }

    fn texts(descriptions: &[Description]) -> Vec<String> {
        let contents = descriptions.iter().map(|description| description.content().unwrap());
        contents
            .map(|content| String::from_utf8(content.to_vec()).unwrap())
            .collect()
    }

    #[tokio::test]
    async fn what_others_described_later_and_differently_is_described_once_more() {
        let mut streamed = streamed();
        block(&mut streamed, 7, true, "old").await;
        describe(&mut streamed, "new");
        assert_eq!(again(&mut streamed, 7).await, ["new"]);
        assert!(streamed.descriptions.is_empty(), "nothing runs that could differ");
    }

    #[tokio::test]
    async fn what_others_described_before_or_alike_is_not() {
        let mut streamed = streamed();
        block(&mut streamed, 7, true, "a").await;
        describe(&mut streamed, "a");
        assert_eq!(again(&mut streamed, 7).await, [""; 0]);
        block(&mut streamed, 7, true, "a").await;
        describe(&mut streamed, "b");
        block(&mut streamed, 7, false, "c").await;
        assert_eq!(again(&mut streamed, 7).await, [""; 0]);
    }

    #[tokio::test]
    async fn a_transaction_that_was_published_counts_among_the_others() {
        let mut streamed = streamed();
        block(&mut streamed, 7, true, "first").await;
        block(&mut streamed, 8, true, "second").await;
        assert_eq!(again(&mut streamed, 8).await, [""; 0]);
        assert_eq!(again(&mut streamed, 7).await, ["second"]);
    }

    #[tokio::test]
    async fn an_abort_while_another_is_published_forgets_nothing_of_that() {
        let mut streamed = streamed();
        block(&mut streamed, 7, true, "old").await;
        describe(&mut streamed, "new");
        block(&mut streamed, 8, true, "void").await;
        let committed = read(&mut streamed, 7).await;
        let abort = StreamAbort {
            xid: 8,
            subxid: 8,
            abort_lsn: None,
            abort_time: None,
        };
        streamed.abort(LSN, &abort).unwrap();
        assert_eq!(texts(&streamed.published(committed)), ["new"]);
    }

    #[tokio::test]
    async fn what_has_no_place_in_a_block_or_before_one_is_refused() {
        let mut streamed = streamed();
        let start = |xid, first_segment| StreamStart { xid, first_segment };
        let unexpected = |error: PipelineError| match error {
            PipelineError::Unexpected { found, .. } => found,
            other => panic!("{other}"),
        };
        assert_eq!(
            unexpected(streamed.start(LSN, &start(7, false)).unwrap_err()),
            "a further block of a transaction that had no first one"
        );
        assert!(streamed.commit(LSN, 7, LSN).is_err());
        streamed.start(LSN, &start(7, true)).unwrap();
        assert!(streamed.start(LSN, &start(8, true)).is_err());
        let begin = Message::Begin(crate::pgoutput::Begin {
            final_lsn: LSN,
            commit_time: 0,
            xid: 9,
        });
        assert_eq!(
            unexpected(streamed.take_in(LSN, &begin, b"B").await.unwrap_err()),
            "begin"
        );
        let mut off = Streamed::new(None, Metrics::new().unwrap().streamed);
        assert!(off.start(LSN, &start(7, true)).is_err());
    }
}
