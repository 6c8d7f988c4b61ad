//! The decoder's inverse, for tests only: [`decode`](crate::pgoutput::decode) accepts exactly what this writes.
//!
//! It reads tuples and truncated relations through their iterators, so that those are tested along with the decoder. The fuzz target
//! includes this file.

use crate::pgoutput::{Datum, Message, OldTuple, Tuple};

/// The bytes of `message`.
pub fn encode(message: &Message<'_>) -> Vec<u8> {
    let mut out = Out(Vec::new());
    match message {
        Message::Begin(m) => {
            out.tag(b'B').u64(m.final_lsn.as_u64()).i64(m.commit_time).u32(m.xid);
        }
        Message::Message(m) => {
            out.tag(b'M')
                .xid(m.xid)
                .u8(m.transactional.into())
                .u64(m.lsn.as_u64())
                .string(m.prefix)
                .value(m.content);
        }
        Message::Commit(m) => {
            out.tag(b'C')
                .u8(m.flags)
                .u64(m.commit_lsn.as_u64())
                .u64(m.end_lsn.as_u64())
                .i64(m.commit_time);
        }
        Message::Origin(m) => {
            out.tag(b'O').u64(m.commit_lsn.as_u64()).string(m.name);
        }
        Message::Relation(m) => {
            out.tag(b'R')
                .xid(m.xid)
                .u32(m.oid)
                .string(m.namespace)
                .string(m.name)
                .u8(m.replica_identity);
            out.count(m.columns.len());
            for column in &m.columns {
                out.u8(column.flags)
                    .string(column.name)
                    .u32(column.type_oid)
                    .u32(column.typmod.cast_unsigned());
            }
        }
        Message::Type(m) => {
            out.tag(b'Y').xid(m.xid).u32(m.oid).string(m.namespace).string(m.name);
        }
        Message::Insert(m) => {
            out.tag(b'I').xid(m.xid).u32(m.relation).u8(b'N').tuple(m.new);
        }
        Message::Update(m) => {
            out.tag(b'U').xid(m.xid).u32(m.relation);
            if let Some(old) = m.old {
                out.old(old);
            }
            out.u8(b'N').tuple(m.new);
        }
        Message::Delete(m) => {
            out.tag(b'D').xid(m.xid).u32(m.relation).old(m.old);
        }
        Message::Truncate(m) => {
            let options = u8::from(m.cascade) | u8::from(m.restart_identity) << 1;
            out.tag(b'T')
                .xid(m.xid)
                .u32(m.relations().len().try_into().unwrap())
                .u8(options);
            for oid in m.relations() {
                out.u32(oid);
            }
        }
        Message::StreamStart(m) => {
            out.tag(b'S').u32(m.xid).u8(m.first_segment.into());
        }
        Message::StreamStop => {
            out.tag(b'E');
        }
        Message::StreamCommit(m) => {
            out.tag(b'c')
                .u32(m.xid)
                .u8(m.flags)
                .u64(m.commit_lsn.as_u64())
                .u64(m.end_lsn.as_u64())
                .i64(m.commit_time);
        }
        Message::StreamAbort(m) => {
            out.tag(b'A').u32(m.xid).u32(m.subxid);
            if let (Some(lsn), Some(time)) = (m.abort_lsn, m.abort_time) {
                out.u64(lsn.as_u64()).i64(time);
            }
        }
        Message::BeginPrepare(m) => {
            out.tag(b'b')
                .u64(m.prepare_lsn.as_u64())
                .u64(m.end_lsn.as_u64())
                .i64(m.prepare_time)
                .u32(m.xid)
                .string(m.gid);
        }
        Message::Prepare(m) => {
            out.tag(b'P')
                .u8(m.flags)
                .u64(m.prepare_lsn.as_u64())
                .u64(m.end_lsn.as_u64());
            out.i64(m.prepare_time).u32(m.xid).string(m.gid);
        }
        Message::CommitPrepared(m) => {
            out.tag(b'K')
                .u8(m.flags)
                .u64(m.commit_lsn.as_u64())
                .u64(m.end_lsn.as_u64());
            out.i64(m.commit_time).u32(m.xid).string(m.gid);
        }
        Message::RollbackPrepared(m) => {
            out.tag(b'r')
                .u8(m.flags)
                .u64(m.prepare_end_lsn.as_u64())
                .u64(m.rollback_end_lsn.as_u64());
            out.i64(m.prepare_time).i64(m.rollback_time).u32(m.xid).string(m.gid);
        }
        Message::StreamPrepare(m) => {
            out.tag(b'p')
                .u8(m.flags)
                .u64(m.prepare_lsn.as_u64())
                .u64(m.end_lsn.as_u64());
            out.i64(m.prepare_time).u32(m.xid).string(m.gid);
        }
    }
    out.0
}

struct Out(Vec<u8>);

impl Out {
    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    fn u8(&mut self, byte: u8) -> &mut Self {
        self.bytes(&[byte])
    }

    fn tag(&mut self, tag: u8) -> &mut Self {
        self.u8(tag)
    }

    fn u32(&mut self, number: u32) -> &mut Self {
        self.bytes(&number.to_be_bytes())
    }

    fn u64(&mut self, number: u64) -> &mut Self {
        self.bytes(&number.to_be_bytes())
    }

    fn i64(&mut self, number: i64) -> &mut Self {
        self.bytes(&number.to_be_bytes())
    }

    fn count(&mut self, count: usize) -> &mut Self {
        self.bytes(&i16::try_from(count).unwrap().to_be_bytes())
    }

    fn xid(&mut self, xid: Option<u32>) -> &mut Self {
        if let Some(xid) = xid {
            self.u32(xid);
        }
        self
    }

    fn string(&mut self, string: &str) -> &mut Self {
        self.bytes(string.as_bytes()).u8(0)
    }

    fn value(&mut self, value: &[u8]) -> &mut Self {
        self.bytes(&i32::try_from(value.len()).unwrap().to_be_bytes())
            .bytes(value)
    }

    fn old(&mut self, old: OldTuple<'_>) -> &mut Self {
        match old {
            OldTuple::Key(tuple) => self.u8(b'K').tuple(tuple),
            OldTuple::Full(tuple) => self.u8(b'O').tuple(tuple),
        }
    }

    fn tuple(&mut self, tuple: Tuple<'_>) -> &mut Self {
        self.count(tuple.len());
        let mut columns = 0;
        for datum in tuple {
            columns += 1;
            match datum {
                Datum::Null => self.u8(b'n'),
                Datum::Unchanged => self.u8(b'u'),
                Datum::Text(value) => self.u8(b't').value(value),
                Datum::Binary(value) => self.u8(b'b').value(value),
            };
        }
        assert_eq!(columns, tuple.len(), "the tuple's iterator ended early or late");
        self
    }
}
