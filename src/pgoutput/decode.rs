//! Bytes → [`Message`].

use super::cursor::Cursor;
use super::error::{DecodeError, Fault, Field};
use super::message::{
    Begin, BeginPrepare, ColumnDescription, Commit, CommitPrepared, Delete, Insert, LogicalMessage, Message, OldTuple,
    Origin, Prepare, RelationMessage, RollbackPrepared, StreamAbort, StreamCommit, StreamPrepare, StreamStart,
    Truncate, TypeMessage, Update,
};
use super::tuple::Tuple;

/// What a message's form depends on beside its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Context {
    /// `proto_version`, as START_REPLICATION asked for.
    pub protocol_version: u32,
    /// Whether the last Stream Start has had no Stream Stop yet: then changes carry an xid.
    pub in_stream: bool,
    /// Whether START_REPLICATION asked for `streaming 'parallel'`, not `on`.
    pub parallel_streaming: bool,
}

/// Decodes one message: the payload of one XLogData, all of it.
pub fn decode(bytes: &[u8], context: Context) -> Result<Message<'_>, DecodeError> {
    let mut cursor = Cursor::new(bytes);
    let message = body(&mut cursor, context)?;
    cursor.finish()?;
    Ok(message)
}

fn body<'a>(cursor: &mut Cursor<'a>, context: Context) -> Result<Message<'a>, DecodeError> {
    let start = cursor.rest();
    let tag = cursor.u8(Field::Of("tag"))?;
    let (name, since) = match tag {
        b'I' => ("Insert", 1),
        b'U' => ("Update", 1),
        b'D' => ("Delete", 1),
        b'B' => ("Begin", 1),
        b'C' => ("Commit", 1),
        b'M' => ("Message", 1),
        b'O' => ("Origin", 1),
        b'R' => ("Relation", 1),
        b'Y' => ("Type", 1),
        b'T' => ("Truncate", 1),
        b'S' => ("Stream Start", 2),
        b'E' => ("Stream Stop", 2),
        b'c' => ("Stream Commit", 2),
        b'A' => ("Stream Abort", 2),
        b'b' => ("Begin Prepare", 3),
        b'P' => ("Prepare", 3),
        b'K' => ("Commit Prepared", 3),
        b'r' => ("Rollback Prepared", 3),
        b'p' => ("Stream Prepare", 3),
        _ => return Err(cursor.error_before(start, Field::Of("tag"), Fault::UnknownTag(tag))),
    };
    cursor.set_message(name);
    let negotiated = context.protocol_version;
    if negotiated < since {
        let fault = Fault::TagOfLaterVersion { tag, since, negotiated };
        return Err(cursor.error_before(start, Field::Of("tag"), fault));
    }
    Ok(match tag {
        b'I' => Message::Insert(insert(cursor, context)?),
        b'U' => Message::Update(update(cursor, context)?),
        b'D' => Message::Delete(delete(cursor, context)?),
        b'B' => Message::Begin(begin(cursor)?),
        b'C' => Message::Commit(commit(cursor)?),
        b'M' => Message::Message(logical_message(cursor, context)?),
        b'O' => Message::Origin(origin(cursor)?),
        b'R' => Message::Relation(relation(cursor, context)?),
        b'Y' => Message::Type(type_message(cursor, context)?),
        b'T' => Message::Truncate(truncate(cursor, context)?),
        b'S' => Message::StreamStart(stream_start(cursor)?),
        b'E' => Message::StreamStop,
        b'c' => Message::StreamCommit(stream_commit(cursor)?),
        b'A' => Message::StreamAbort(stream_abort(cursor, context)?),
        b'b' => Message::BeginPrepare(begin_prepare(cursor)?),
        b'P' => Message::Prepare(prepare(cursor)?),
        b'K' => Message::CommitPrepared(commit_prepared(cursor)?),
        b'r' => Message::RollbackPrepared(rollback_prepared(cursor)?),
        b'p' => Message::StreamPrepare(stream_prepare(cursor)?),
        _ => return Err(cursor.error_before(start, Field::Of("tag"), Fault::UnknownTag(tag))),
    })
}

/// The xid that changes carry inside a streamed block.
#[inline]
fn streamed_xid(cursor: &mut Cursor<'_>, context: Context) -> Result<Option<u32>, DecodeError> {
    if context.in_stream {
        cursor.u32(Field::Of("xid")).map(Some)
    } else {
        Ok(None)
    }
}

/// A flags byte of which no bit is defined.
fn no_flags(cursor: &mut Cursor<'_>) -> Result<u8, DecodeError> {
    cursor.byte(Field::Of("flags"), "0", |flags| (flags == 0).then_some(flags))
}

/// A byte that is 0 or 1.
fn flag(cursor: &mut Cursor<'_>, field: Field) -> Result<bool, DecodeError> {
    cursor.byte(field, "0 or 1", |flags| match flags {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    })
}

fn insert<'a>(cursor: &mut Cursor<'a>, context: Context) -> Result<Insert<'a>, DecodeError> {
    let xid = streamed_xid(cursor, context)?;
    let relation = cursor.u32(Field::Of("relation oid"))?;
    cursor.byte(Field::Of("tuple kind"), "'N'", |kind| (kind == b'N').then_some(()))?;
    Ok(Insert {
        xid,
        relation,
        new: Tuple::read(cursor)?,
    })
}

fn update<'a>(cursor: &mut Cursor<'a>, context: Context) -> Result<Update<'a>, DecodeError> {
    let xid = streamed_xid(cursor, context)?;
    let relation = cursor.u32(Field::Of("relation oid"))?;
    let kind = cursor.byte(Field::Of("tuple kind"), "'K', 'O' or 'N'", |kind| {
        matches!(kind, b'K' | b'O' | b'N').then_some(kind)
    })?;
    let first = Tuple::read(cursor)?;
    let old = match kind {
        b'K' => OldTuple::Key(first),
        b'O' => OldTuple::Full(first),
        _ => {
            return Ok(Update {
                xid,
                relation,
                old: None,
                new: first,
            });
        }
    };
    cursor.byte(Field::Of("kind of the new tuple"), "'N'", |kind| {
        (kind == b'N').then_some(())
    })?;
    Ok(Update {
        xid,
        relation,
        old: Some(old),
        new: Tuple::read(cursor)?,
    })
}

fn delete<'a>(cursor: &mut Cursor<'a>, context: Context) -> Result<Delete<'a>, DecodeError> {
    let xid = streamed_xid(cursor, context)?;
    let relation = cursor.u32(Field::Of("relation oid"))?;
    let full = cursor.byte(Field::Of("tuple kind"), "'K' or 'O'", |kind| match kind {
        b'K' => Some(false),
        b'O' => Some(true),
        _ => None,
    })?;
    let tuple = Tuple::read(cursor)?;
    Ok(Delete {
        xid,
        relation,
        old: if full {
            OldTuple::Full(tuple)
        } else {
            OldTuple::Key(tuple)
        },
    })
}

fn truncate<'a>(cursor: &mut Cursor<'a>, context: Context) -> Result<Truncate<'a>, DecodeError> {
    let xid = streamed_xid(cursor, context)?;
    let count = cursor.count32(Field::Of("relation count"))?;
    let (cascade, restart_identity) = cursor.byte(Field::Of("options"), "0, 1, 2 or 3", |options| {
        (options <= 3).then_some((options & 1 != 0, options & 2 != 0))
    })?;
    // A count that no memory holds saturates, and is more than is left.
    let relations = cursor.take(count.saturating_mul(4), Field::Of("relation oids"))?;
    Ok(Truncate {
        xid,
        cascade,
        restart_identity,
        relations,
    })
}

fn relation<'a>(cursor: &mut Cursor<'a>, context: Context) -> Result<RelationMessage<'a>, DecodeError> {
    let xid = streamed_xid(cursor, context)?;
    let oid = cursor.u32(Field::Of("relation oid"))?;
    let namespace = cursor.string(Field::Of("namespace"))?;
    let name = cursor.string(Field::Of("relation name"))?;
    let replica_identity = cursor.byte(Field::Of("replica identity"), "'d', 'n', 'f' or 'i'", |identity| {
        matches!(identity, b'd' | b'n' | b'f' | b'i').then_some(identity)
    })?;
    let count = cursor.count16(Field::Of("column count"))?;
    let mut columns = Vec::new();
    for number in 1..=usize::from(count) {
        let field = |name| Field::OfColumn { number, name };
        columns.push(ColumnDescription {
            flags: cursor.byte(field("flags"), "0 or 1", |flags| (flags <= 1).then_some(flags))?,
            name: cursor.string(field("name"))?,
            type_oid: cursor.u32(field("type oid"))?,
            typmod: cursor.i32(field("type modifier"))?,
        });
    }
    Ok(RelationMessage {
        xid,
        oid,
        namespace,
        name,
        replica_identity,
        columns,
    })
}

fn type_message<'a>(cursor: &mut Cursor<'a>, context: Context) -> Result<TypeMessage<'a>, DecodeError> {
    Ok(TypeMessage {
        xid: streamed_xid(cursor, context)?,
        oid: cursor.u32(Field::Of("type oid"))?,
        namespace: cursor.string(Field::Of("namespace"))?,
        name: cursor.string(Field::Of("type name"))?,
    })
}

fn logical_message<'a>(cursor: &mut Cursor<'a>, context: Context) -> Result<LogicalMessage<'a>, DecodeError> {
    let xid = streamed_xid(cursor, context)?;
    let transactional = flag(cursor, Field::Of("flags"))?;
    let lsn = cursor.lsn(Field::Of("LSN"))?;
    let prefix = cursor.string(Field::Of("prefix"))?;
    let length = cursor.count32(Field::Of("content length"))?;
    let content = cursor.take(length, Field::Of("content"))?;
    Ok(LogicalMessage {
        xid,
        transactional,
        lsn,
        prefix,
        content,
    })
}

fn origin<'a>(cursor: &mut Cursor<'a>) -> Result<Origin<'a>, DecodeError> {
    Ok(Origin {
        commit_lsn: cursor.lsn(Field::Of("commit LSN"))?,
        name: cursor.string(Field::Of("origin name"))?,
    })
}

fn begin(cursor: &mut Cursor<'_>) -> Result<Begin, DecodeError> {
    Ok(Begin {
        final_lsn: cursor.lsn(Field::Of("final LSN"))?,
        commit_time: cursor.i64(Field::Of("commit time"))?,
        xid: cursor.u32(Field::Of("xid"))?,
    })
}

fn commit(cursor: &mut Cursor<'_>) -> Result<Commit, DecodeError> {
    Ok(Commit {
        flags: no_flags(cursor)?,
        commit_lsn: cursor.lsn(Field::Of("commit LSN"))?,
        end_lsn: cursor.lsn(Field::Of("end LSN"))?,
        commit_time: cursor.i64(Field::Of("commit time"))?,
    })
}

fn stream_start(cursor: &mut Cursor<'_>) -> Result<StreamStart, DecodeError> {
    Ok(StreamStart {
        xid: cursor.u32(Field::Of("xid"))?,
        first_segment: flag(cursor, Field::Of("first segment flag"))?,
    })
}

fn stream_commit(cursor: &mut Cursor<'_>) -> Result<StreamCommit, DecodeError> {
    Ok(StreamCommit {
        xid: cursor.u32(Field::Of("xid"))?,
        flags: no_flags(cursor)?,
        commit_lsn: cursor.lsn(Field::Of("commit LSN"))?,
        end_lsn: cursor.lsn(Field::Of("end LSN"))?,
        commit_time: cursor.i64(Field::Of("commit time"))?,
    })
}

fn stream_abort(cursor: &mut Cursor<'_>, context: Context) -> Result<StreamAbort, DecodeError> {
    let xid = cursor.u32(Field::Of("xid"))?;
    let subxid = cursor.u32(Field::Of("subtransaction xid"))?;
    let (abort_lsn, abort_time) = if context.protocol_version >= 4 && context.parallel_streaming {
        (
            Some(cursor.lsn(Field::Of("abort LSN"))?),
            Some(cursor.i64(Field::Of("abort time"))?),
        )
    } else {
        (None, None)
    };
    Ok(StreamAbort {
        xid,
        subxid,
        abort_lsn,
        abort_time,
    })
}

fn begin_prepare<'a>(cursor: &mut Cursor<'a>) -> Result<BeginPrepare<'a>, DecodeError> {
    Ok(BeginPrepare {
        prepare_lsn: cursor.lsn(Field::Of("prepare LSN"))?,
        end_lsn: cursor.lsn(Field::Of("end LSN"))?,
        prepare_time: cursor.i64(Field::Of("prepare time"))?,
        xid: cursor.u32(Field::Of("xid"))?,
        gid: cursor.string(Field::Of("gid"))?,
    })
}

fn prepare<'a>(cursor: &mut Cursor<'a>) -> Result<Prepare<'a>, DecodeError> {
    Ok(Prepare {
        flags: no_flags(cursor)?,
        prepare_lsn: cursor.lsn(Field::Of("prepare LSN"))?,
        end_lsn: cursor.lsn(Field::Of("end LSN"))?,
        prepare_time: cursor.i64(Field::Of("prepare time"))?,
        xid: cursor.u32(Field::Of("xid"))?,
        gid: cursor.string(Field::Of("gid"))?,
    })
}

fn commit_prepared<'a>(cursor: &mut Cursor<'a>) -> Result<CommitPrepared<'a>, DecodeError> {
    Ok(CommitPrepared {
        flags: no_flags(cursor)?,
        commit_lsn: cursor.lsn(Field::Of("commit LSN"))?,
        end_lsn: cursor.lsn(Field::Of("end LSN"))?,
        commit_time: cursor.i64(Field::Of("commit time"))?,
        xid: cursor.u32(Field::Of("xid"))?,
        gid: cursor.string(Field::Of("gid"))?,
    })
}

fn rollback_prepared<'a>(cursor: &mut Cursor<'a>) -> Result<RollbackPrepared<'a>, DecodeError> {
    Ok(RollbackPrepared {
        flags: no_flags(cursor)?,
        prepare_end_lsn: cursor.lsn(Field::Of("end LSN of the prepare"))?,
        rollback_end_lsn: cursor.lsn(Field::Of("end LSN of the rollback"))?,
        prepare_time: cursor.i64(Field::Of("prepare time"))?,
        rollback_time: cursor.i64(Field::Of("rollback time"))?,
        xid: cursor.u32(Field::Of("xid"))?,
        gid: cursor.string(Field::Of("gid"))?,
    })
}

fn stream_prepare<'a>(cursor: &mut Cursor<'a>) -> Result<StreamPrepare<'a>, DecodeError> {
    Ok(StreamPrepare {
        flags: no_flags(cursor)?,
        prepare_lsn: cursor.lsn(Field::Of("prepare LSN"))?,
        end_lsn: cursor.lsn(Field::Of("end LSN"))?,
        prepare_time: cursor.i64(Field::Of("prepare time"))?,
        xid: cursor.u32(Field::Of("xid"))?,
        gid: cursor.string(Field::Of("gid"))?,
    })
}
