//! Round trips, and bytes at random.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::super::*;
use super::encode::encode;
use super::golden::recorded;
use super::{CONTEXTS, context};
use crate::lsn::Lsn;

#[derive(Debug, Clone)]
enum OwnedDatum {
    Null,
    Unchanged,
    Text(Vec<u8>),
    Binary(Vec<u8>),
}

/// What one message of each kind can be made of.
#[derive(Debug, Clone)]
struct Parts {
    context: Context,
    numbers: [u32; 4],
    lsns: [u64; 2],
    times: [i64; 2],
    flags: [bool; 3],
    strings: [String; 2],
    columns: Vec<(bool, String, u32, i32)>,
    identity: u8,
    tuples: [Vec<OwnedDatum>; 2],
    content: Vec<u8>,
    relations: Vec<[u8; 4]>,
}

fn datum() -> impl Strategy<Value = OwnedDatum> {
    prop_oneof![
        Just(OwnedDatum::Null),
        Just(OwnedDatum::Unchanged),
        vec(any::<u8>(), 0..40).prop_map(OwnedDatum::Text),
        vec(any::<u8>(), 0..40).prop_map(OwnedDatum::Binary),
    ]
}

/// Text as a C string can hold it.
fn string() -> impl Strategy<Value = String> {
    "[^\0]{0,12}"
}

prop_compose! {
    fn parts()(
        context in select(&CONTEXTS),
        (numbers, lsns, times, flags) in any::<([u32; 4], [u64; 2], [i64; 2], [bool; 3])>(),
        strings in [string(), string()],
        columns in vec((any::<bool>(), string(), any::<u32>(), any::<i32>()), 0..12),
        identity in select(b"dnfi"),
        tuples in [vec(datum(), 0..12), vec(datum(), 0..12)],
        content in vec(any::<u8>(), 0..60),
        relations in vec(any::<[u8; 4]>(), 0..6),
    ) -> Parts {
        Parts { context, numbers, lsns, times, flags, strings, columns, identity, tuples, content, relations }
    }
}

fn tuple(columns: &[OwnedDatum]) -> TupleBuf {
    let mut buffer = TupleBuf::new();
    for column in columns {
        let datum = match column {
            OwnedDatum::Null => Datum::Null,
            OwnedDatum::Unchanged => Datum::Unchanged,
            OwnedDatum::Text(value) => Datum::Text(value),
            OwnedDatum::Binary(value) => Datum::Binary(value),
        };
        buffer.push(datum).unwrap();
    }
    buffer
}

/// Gives a message of each kind and form to `check`.
fn each_message(parts: &Parts, mut check: impl FnMut(Message<'_>)) {
    let Parts {
        context,
        numbers: [xid, oid, subxid, _],
        times: [time, later],
        flags: [one, two, _],
        ..
    } = *parts;
    let [lsn, end_lsn] = parts.lsns.map(Lsn::new);
    let [name, namespace] = [0, 1].map(|i: usize| parts.strings[i].as_str());
    let [new, old] = [0, 1].map(|i: usize| tuple(&parts.tuples[i]));
    let (new, old) = (new.as_tuple(), old.as_tuple());
    let streamed = context.in_stream.then_some(subxid);
    let column = |(identity, name, type_oid, typmod): &(bool, String, u32, i32)| {
        (u8::from(*identity), name.clone(), *type_oid, *typmod)
    };
    let columns: Vec<_> = parts.columns.iter().map(column).collect();

    check(Message::Begin(Begin {
        final_lsn: lsn,
        commit_time: time,
        xid,
    }));
    check(Message::Message(LogicalMessage {
        xid: streamed,
        transactional: one,
        lsn,
        prefix: name,
        content: &parts.content,
    }));
    check(Message::Commit(Commit {
        flags: 0,
        commit_lsn: lsn,
        end_lsn,
        commit_time: time,
    }));
    check(Message::Origin(Origin { commit_lsn: lsn, name }));
    check(Message::Relation(RelationMessage {
        xid: streamed,
        oid,
        namespace,
        name,
        replica_identity: parts.identity,
        columns: columns
            .iter()
            .map(|(flags, name, type_oid, typmod)| ColumnDescription {
                flags: *flags,
                name,
                type_oid: *type_oid,
                typmod: *typmod,
            })
            .collect(),
    }));
    check(Message::Type(TypeMessage {
        xid: streamed,
        oid,
        namespace,
        name,
    }));
    check(Message::Insert(Insert {
        xid: streamed,
        relation: oid,
        new,
    }));
    for old in [None, Some(OldTuple::Key(old)), Some(OldTuple::Full(old))] {
        check(Message::Update(Update {
            xid: streamed,
            relation: oid,
            old,
            new,
        }));
    }
    for old in [OldTuple::Key(old), OldTuple::Full(old)] {
        check(Message::Delete(Delete {
            xid: streamed,
            relation: oid,
            old,
        }));
    }
    let relations = parts.relations.as_flattened();
    check(Message::Truncate(Truncate {
        xid: streamed,
        cascade: one,
        restart_identity: two,
        relations,
    }));
    if context.protocol_version >= 2 {
        check(Message::StreamStart(StreamStart {
            xid,
            first_segment: one,
        }));
        check(Message::StreamStop);
        check(Message::StreamCommit(StreamCommit {
            xid,
            flags: 0,
            commit_lsn: lsn,
            end_lsn,
            commit_time: time,
        }));
        let long = context.protocol_version >= 4 && context.parallel_streaming;
        let (abort_lsn, abort_time) = (long.then_some(lsn), long.then_some(time));
        check(Message::StreamAbort(StreamAbort {
            xid,
            subxid,
            abort_lsn,
            abort_time,
        }));
    }
    if context.protocol_version >= 3 {
        let gid = name;
        check(Message::BeginPrepare(BeginPrepare {
            prepare_lsn: lsn,
            end_lsn,
            prepare_time: time,
            xid,
            gid,
        }));
        check(Message::Prepare(Prepare {
            flags: 0,
            prepare_lsn: lsn,
            end_lsn,
            prepare_time: time,
            xid,
            gid,
        }));
        check(Message::CommitPrepared(CommitPrepared {
            flags: 0,
            commit_lsn: lsn,
            end_lsn,
            commit_time: time,
            xid,
            gid,
        }));
        check(Message::RollbackPrepared(RollbackPrepared {
            flags: 0,
            prepare_end_lsn: lsn,
            rollback_end_lsn: end_lsn,
            prepare_time: time,
            rollback_time: later,
            xid,
            gid,
        }));
        check(Message::StreamPrepare(StreamPrepare {
            flags: 0,
            prepare_lsn: lsn,
            end_lsn,
            prepare_time: time,
            xid,
            gid,
        }));
    }
}

/// What is accepted, is accepted whole: written again it gives the same bytes.
fn nothing_is_accepted_in_part(bytes: &[u8]) -> Result<(), TestCaseError> {
    for context in CONTEXTS {
        if let Ok(message) = decode(bytes, context) {
            prop_assert_eq!(encode(&message), bytes, "{:?} in {:?}", message, context);
        }
    }
    Ok(())
}

/// A damage to a message.
#[derive(Debug, Clone)]
enum Mutation {
    Set(Index, u8),
    Overwrite(Index, Vec<u8>),
    Insert(Index, Vec<u8>),
    Remove(Index, usize),
    Repeat(Index, usize),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    // Numbers that lengths and counts are compared with.
    let boundary = select(vec![
        vec![0x80, 0, 0, 0],
        vec![0x7F, 0xFF, 0xFF, 0xFF],
        vec![0xFF; 4],
        vec![0, 0],
        vec![0x7F, 0xFF],
        vec![0xFF, 0xFF],
        vec![0x80, 0],
    ]);
    prop_oneof![
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Mutation::Set(at, byte)),
        (any::<Index>(), boundary).prop_map(|(at, bytes)| Mutation::Overwrite(at, bytes)),
        (any::<Index>(), vec(any::<u8>(), 1..9)).prop_map(|(at, bytes)| Mutation::Insert(at, bytes)),
        (any::<Index>(), 1..9_usize).prop_map(|(at, count)| Mutation::Remove(at, count)),
        (any::<Index>(), 1..40_usize).prop_map(|(at, count)| Mutation::Repeat(at, count)),
    ]
}

fn apply(mutation: &Mutation, bytes: &mut Vec<u8>) {
    if bytes.is_empty() {
        return;
    }
    let position = |at: &Index| at.index(bytes.len());
    match mutation {
        Mutation::Set(at, byte) => {
            let at = position(at);
            bytes[at] = *byte;
        }
        Mutation::Overwrite(at, new) => {
            let at = position(at);
            let end = (at + new.len()).min(bytes.len());
            bytes.splice(at..end, new.iter().copied());
        }
        Mutation::Insert(at, new) => {
            let at = position(at);
            bytes.splice(at..at, new.iter().copied());
        }
        Mutation::Remove(at, count) => {
            let at = position(at);
            bytes.drain(at..(at + count).min(bytes.len()));
        }
        Mutation::Repeat(at, count) => {
            let at = position(at);
            let again = bytes[at..(at + count).min(bytes.len())].to_vec();
            bytes.splice(at..at, again);
        }
    }
}

proptest! {
    #[test]
    fn every_message_survives_its_bytes(parts in parts()) {
        each_message(&parts, |message| {
            let bytes = encode(&message);
            assert_eq!(decode(&bytes, parts.context).as_ref(), Ok(&message));
        });
    }

    #[test]
    fn arbitrary_bytes_are_refused_or_accepted_whole(bytes in vec(any::<u8>(), 0..200)) {
        nothing_is_accepted_in_part(&bytes)?;
    }

    #[test]
    fn arbitrary_bytes_behind_a_tag_are_refused_or_accepted_whole(
        tag in select(b"BMCORYIUDTSEcAbPKrp"),
        bytes in vec(prop_oneof![Just(0), Just(1), select(b"NKOntub"), any::<u8>()], 0..80),
    ) {
        nothing_is_accepted_in_part(&[&[tag], bytes.as_slice()].concat())?;
    }

    #[test]
    fn damaged_messages_are_refused_or_accepted_whole(
        line in any::<Index>(),
        mutations in vec(mutation(), 1..5),
    ) {
        let recorded = recorded();
        let (_, digits) = recorded[line.index(recorded.len())];
        let mut bytes = super::hex(digits);
        for mutation in &mutations {
            apply(mutation, &mut bytes);
        }
        nothing_is_accepted_in_part(&bytes)?;
    }
}

#[test]
fn recorded_messages_in_the_wrong_context_are_refused_or_accepted_whole() {
    for (flags, digits) in recorded() {
        let bytes = super::hex(digits);
        assert!(decode(&bytes, context(flags)).is_ok());
        nothing_is_accepted_in_part(&bytes).unwrap();
    }
}
