//! What each message holds. Fields stand in the order of the wire.

use std::fmt;

use super::tuple::Tuple;
use crate::lsn::Lsn;

/// From 1970-01-01 to 2000-01-01, in microseconds.
const POSTGRES_EPOCH_UNIX_US: i64 = 946_684_800_000_000;

/// Microseconds since 2000-01-01 UTC, as on the wire, to microseconds since 1970-01-01 UTC; saturates.
pub fn unix_us(postgres_us: i64) -> i64 {
    postgres_us.saturating_add(POSTGRES_EPOCH_UNIX_US)
}

/// A message of pgoutput.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message<'a> {
    /// `B`: a transaction begins; it was committed before it was sent.
    Begin(Begin),
    /// `M`: what `pg_logical_emit_message` wrote.
    Message(LogicalMessage<'a>),
    /// `C`: the transaction is complete.
    Commit(Commit),
    /// `O`: where the transaction came from, if not from here.
    Origin(Origin<'a>),
    /// `R`: what a relation is from here on.
    Relation(RelationMessage<'a>),
    /// `Y`: the name of a type that is not built in.
    Type(TypeMessage<'a>),
    /// `I`: a new row.
    Insert(Insert<'a>),
    /// `U`: a changed row.
    Update(Update<'a>),
    /// `D`: a deleted row.
    Delete(Delete<'a>),
    /// `T`: emptied tables.
    Truncate(Truncate<'a>),
    /// `S`: a block of a transaction that has not committed yet begins.
    StreamStart(StreamStart),
    /// `E`: the block ends.
    StreamStop,
    /// `c`: a transaction that came in blocks has committed.
    StreamCommit(StreamCommit),
    /// `A`: a transaction that came in blocks, or a part of it, is void.
    StreamAbort(StreamAbort),
    /// `b`: a transaction begins that was prepared before it was sent.
    BeginPrepare(BeginPrepare<'a>),
    /// `P`: the prepared transaction is complete.
    Prepare(Prepare<'a>),
    /// `K`: COMMIT PREPARED.
    CommitPrepared(CommitPrepared<'a>),
    /// `r`: ROLLBACK PREPARED.
    RollbackPrepared(RollbackPrepared<'a>),
    /// `p`: a transaction that came in blocks has been prepared.
    StreamPrepare(StreamPrepare<'a>),
}

impl Message<'_> {
    /// The message's name in the manual, as a metric label.
    pub fn name(&self) -> &'static str {
        match self {
            Message::Begin(_) => "begin",
            Message::Message(_) => "message",
            Message::Commit(_) => "commit",
            Message::Origin(_) => "origin",
            Message::Relation(_) => "relation",
            Message::Type(_) => "type",
            Message::Insert(_) => "insert",
            Message::Update(_) => "update",
            Message::Delete(_) => "delete",
            Message::Truncate(_) => "truncate",
            Message::StreamStart(_) => "stream_start",
            Message::StreamStop => "stream_stop",
            Message::StreamCommit(_) => "stream_commit",
            Message::StreamAbort(_) => "stream_abort",
            Message::BeginPrepare(_) => "begin_prepare",
            Message::Prepare(_) => "prepare",
            Message::CommitPrepared(_) => "commit_prepared",
            Message::RollbackPrepared(_) => "rollback_prepared",
            Message::StreamPrepare(_) => "stream_prepare",
        }
    }
}

/// Begin. The same LSN and time as in the [`Commit`] to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Begin {
    /// LSN of the commit record.
    pub final_lsn: Lsn,
    /// When it was committed; µs since 2000-01-01 UTC.
    pub commit_time: i64,
    /// The transaction.
    pub xid: u32,
}

/// Commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Commit {
    /// Unused by the protocol so far: 0.
    pub flags: u8,
    /// LSN of the commit record.
    pub commit_lsn: Lsn,
    /// LSN after the commit record: what may be confirmed once the transaction is safe.
    pub end_lsn: Lsn,
    /// When it was committed; µs since 2000-01-01 UTC.
    pub commit_time: i64,
}

/// A logical decoding message. Its `Debug` shows the content's length, never the content.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LogicalMessage<'a> {
    /// The (sub)transaction, inside a streamed block.
    pub xid: Option<u32>,
    /// Whether it belongs to a transaction; otherwise it comes at once, between transactions.
    pub transactional: bool,
    /// LSN of the message.
    pub lsn: Lsn,
    /// Its prefix.
    pub prefix: &'a str,
    /// Its content, which need not be text.
    pub content: &'a [u8],
}

impl fmt::Debug for LogicalMessage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogicalMessage")
            .field("xid", &self.xid)
            .field("transactional", &self.transactional)
            .field("lsn", &self.lsn)
            .field("prefix", &self.prefix)
            .field("content", &format_args!("{} bytes", self.content.len()))
            .finish()
    }
}

/// Origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin<'a> {
    /// LSN of the commit on the server of origin.
    pub commit_lsn: Lsn,
    /// The origin's name.
    pub name: &'a str,
}

/// Relation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelationMessage<'a> {
    /// The (sub)transaction, inside a streamed block.
    pub xid: Option<u32>,
    /// `pg_class.oid`.
    pub oid: u32,
    /// The namespace; empty for pg_catalog.
    pub namespace: &'a str,
    /// The relation's name.
    pub name: &'a str,
    /// `pg_class.relreplident`: `d`, `n`, `f` or `i`.
    pub replica_identity: u8,
    /// The published columns, in the order of the tuples.
    pub columns: Vec<ColumnDescription<'a>>,
}

/// A column of a [`RelationMessage`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnDescription<'a> {
    /// 1: part of the replica identity; otherwise 0.
    pub flags: u8,
    /// Its name.
    pub name: &'a str,
    /// `pg_attribute.atttypid`.
    pub type_oid: u32,
    /// `pg_attribute.atttypmod`; -1: none.
    pub typmod: i32,
}

impl ColumnDescription<'_> {
    /// Whether the column is part of the replica identity (every one is, under FULL).
    pub fn is_identity(&self) -> bool {
        self.flags & 1 != 0
    }
}

/// Type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TypeMessage<'a> {
    /// The (sub)transaction, inside a streamed block.
    pub xid: Option<u32>,
    /// `pg_type.oid`.
    pub oid: u32,
    /// The namespace; empty for pg_catalog.
    pub namespace: &'a str,
    /// The type's name. Servers send a domain's base type under the domain's oid.
    pub name: &'a str,
}

/// Insert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Insert<'a> {
    /// The (sub)transaction, inside a streamed block.
    pub xid: Option<u32>,
    /// `pg_class.oid`.
    pub relation: u32,
    /// The new row.
    pub new: Tuple<'a>,
}

/// Update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Update<'a> {
    /// The (sub)transaction, inside a streamed block.
    pub xid: Option<u32>,
    /// `pg_class.oid`.
    pub relation: u32,
    /// The old row, or its key if that changed.
    pub old: Option<OldTuple<'a>>,
    /// The new row.
    pub new: Tuple<'a>,
}

/// What the stream says of a row as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OldTuple<'a> {
    /// `K`: only the columns of the replica identity; the others are NULL.
    Key(Tuple<'a>),
    /// `O`: all columns, under REPLICA IDENTITY FULL.
    Full(Tuple<'a>),
}

impl<'a> OldTuple<'a> {
    /// The columns, whichever they are.
    pub fn tuple(&self) -> Tuple<'a> {
        match *self {
            OldTuple::Key(tuple) | OldTuple::Full(tuple) => tuple,
        }
    }
}

/// Delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delete<'a> {
    /// The (sub)transaction, inside a streamed block.
    pub xid: Option<u32>,
    /// `pg_class.oid`.
    pub relation: u32,
    /// The old row, or its key.
    pub old: OldTuple<'a>,
}

/// Truncate.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Truncate<'a> {
    /// The (sub)transaction, inside a streamed block.
    pub xid: Option<u32>,
    /// TRUNCATE … CASCADE.
    pub cascade: bool,
    /// TRUNCATE … RESTART IDENTITY.
    pub restart_identity: bool,
    /// Four bytes a relation.
    pub(super) relations: &'a [u8],
}

impl<'a> Truncate<'a> {
    /// The oids of the relations that are published, in the order of the statement, then those that CASCADE adds.
    pub fn relations(&self) -> impl ExactSizeIterator<Item = u32> + use<'a> {
        let (oids, _) = self.relations.as_chunks();
        oids.iter().map(|&oid| u32::from_be_bytes(oid))
    }
}

impl fmt::Debug for Truncate<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Truncate")
            .field("xid", &self.xid)
            .field("cascade", &self.cascade)
            .field("restart_identity", &self.restart_identity)
            .field("relations", &self.relations().collect::<Vec<_>>())
            .finish()
    }
}

/// Stream Start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamStart {
    /// The top-level transaction.
    pub xid: u32,
    /// Whether this is its first block.
    pub first_segment: bool,
}

/// Stream Commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamCommit {
    /// The top-level transaction.
    pub xid: u32,
    /// Unused by the protocol so far: 0.
    pub flags: u8,
    /// LSN of the commit record.
    pub commit_lsn: Lsn,
    /// LSN after the commit record.
    pub end_lsn: Lsn,
    /// When it was committed; µs since 2000-01-01 UTC.
    pub commit_time: i64,
}

/// Stream Abort.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamAbort {
    /// The top-level transaction.
    pub xid: u32,
    /// What is void: a subtransaction, or the whole if it equals `xid`.
    pub subxid: u32,
    /// LSN of the abort, in version 4 under parallel streaming; zero if it was a crash that ended the transaction.
    pub abort_lsn: Option<Lsn>,
    /// When it was aborted, likewise; µs since 2000-01-01 UTC.
    pub abort_time: Option<i64>,
}

/// Begin Prepare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BeginPrepare<'a> {
    /// LSN of the prepare record.
    pub prepare_lsn: Lsn,
    /// LSN after it.
    pub end_lsn: Lsn,
    /// When it was prepared; µs since 2000-01-01 UTC.
    pub prepare_time: i64,
    /// The transaction.
    pub xid: u32,
    /// The name that PREPARE TRANSACTION gave it.
    pub gid: &'a str,
}

/// Prepare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prepare<'a> {
    /// Unused by the protocol so far: 0.
    pub flags: u8,
    /// LSN of the prepare record.
    pub prepare_lsn: Lsn,
    /// LSN after it.
    pub end_lsn: Lsn,
    /// When it was prepared; µs since 2000-01-01 UTC.
    pub prepare_time: i64,
    /// The transaction.
    pub xid: u32,
    /// The name that PREPARE TRANSACTION gave it.
    pub gid: &'a str,
}

/// Commit Prepared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitPrepared<'a> {
    /// Unused by the protocol so far: 0.
    pub flags: u8,
    /// LSN of the record of COMMIT PREPARED.
    pub commit_lsn: Lsn,
    /// LSN after it.
    pub end_lsn: Lsn,
    /// When it was committed; µs since 2000-01-01 UTC.
    pub commit_time: i64,
    /// The transaction.
    pub xid: u32,
    /// The name that PREPARE TRANSACTION gave it.
    pub gid: &'a str,
}

/// Rollback Prepared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RollbackPrepared<'a> {
    /// Unused by the protocol so far: 0.
    pub flags: u8,
    /// LSN after the prepare record.
    pub prepare_end_lsn: Lsn,
    /// LSN after the record of ROLLBACK PREPARED.
    pub rollback_end_lsn: Lsn,
    /// When it was prepared; µs since 2000-01-01 UTC.
    pub prepare_time: i64,
    /// When it was rolled back; µs since 2000-01-01 UTC.
    pub rollback_time: i64,
    /// The transaction.
    pub xid: u32,
    /// The name that PREPARE TRANSACTION gave it.
    pub gid: &'a str,
}

/// Stream Prepare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamPrepare<'a> {
    /// Unused by the protocol so far: 0.
    pub flags: u8,
    /// LSN of the prepare record.
    pub prepare_lsn: Lsn,
    /// LSN after it.
    pub end_lsn: Lsn,
    /// When it was prepared; µs since 2000-01-01 UTC.
    pub prepare_time: i64,
    /// The transaction.
    pub xid: u32,
    /// The name that PREPARE TRANSACTION gave it.
    pub gid: &'a str,
}
