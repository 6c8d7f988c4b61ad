//! Bytes that servers sent, recorded by scripts/record-golden.

use std::collections::BTreeSet;

use super::super::*;
use super::encode::encode;
use super::{context, hex};
use crate::lsn::Lsn;

const FILES: [(u32, &str); 9] = [
    (10, include_str!("../../../tests/golden/pg10.txt")),
    (11, include_str!("../../../tests/golden/pg11.txt")),
    (12, include_str!("../../../tests/golden/pg12.txt")),
    (13, include_str!("../../../tests/golden/pg13.txt")),
    (14, include_str!("../../../tests/golden/pg14.txt")),
    (15, include_str!("../../../tests/golden/pg15.txt")),
    (16, include_str!("../../../tests/golden/pg16.txt")),
    (17, include_str!("../../../tests/golden/pg17.txt")),
    (18, include_str!("../../../tests/golden/pg18.txt")),
];

/// One server's messages under one set of options, in order.
struct Recording {
    major: u32,
    options: &'static str,
    messages: Vec<(&'static str, Vec<u8>)>,
}

impl Recording {
    fn decoded(&self) -> impl Iterator<Item = (Context, Message<'_>)> {
        self.messages
            .iter()
            .map(|(flags, bytes)| match decode(bytes, context(flags)) {
                Ok(message) => (context(flags), message),
                Err(error) => panic!("PostgreSQL {} ({}): {error}", self.major, self.options),
            })
    }

    fn binary(&self) -> bool {
        self.options.contains("binary true")
    }
}

fn recordings() -> Vec<Recording> {
    let mut recordings: Vec<Recording> = Vec::new();
    for (major, text) in FILES {
        for line in text.lines().skip(1) {
            if let Some(options) = line.strip_prefix("# ") {
                recordings.push(Recording {
                    major,
                    options,
                    messages: Vec::new(),
                });
            } else {
                let (flags, digits) = line.split_once(' ').unwrap();
                recordings.last_mut().unwrap().messages.push((flags, hex(digits)));
            }
        }
    }
    recordings
}

/// Every message of every file: its context's flags and its hexadecimal digits.
pub(super) fn recorded() -> Vec<(&'static str, &'static str)> {
    let lines = FILES.iter().flat_map(|(_, text)| text.lines());
    lines
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split_once(' ').unwrap())
        .collect()
}

#[test]
fn every_recorded_message_decodes_and_encodes_to_the_same_bytes() {
    for recording in recordings() {
        for ((_, bytes), (_, message)) in recording.messages.iter().zip(recording.decoded()) {
            assert_eq!(&encode(&message), bytes, "PostgreSQL {}: {message:?}", recording.major);
        }
    }
}

#[test]
fn every_strict_prefix_and_every_byte_too_many_is_refused() {
    for recording in recordings() {
        for (flags, bytes) in &recording.messages {
            let context = context(flags);
            for length in 0..bytes.len() {
                assert!(
                    decode(&bytes[..length], context).is_err(),
                    "{length} of {} bytes were accepted",
                    bytes.len()
                );
            }
            for extra in [0, b'n', 0xFF] {
                let longer = [bytes.as_slice(), &[extra]].concat();
                assert!(
                    decode(&longer, context).is_err(),
                    "a byte left over was accepted behind {bytes:02x?}"
                );
            }
        }
    }
}

#[test]
fn every_kind_of_message_that_a_version_has_was_recorded() {
    let version_1 = [
        "begin", "commit", "delete", "insert", "origin", "relation", "type", "update",
    ];
    let streamed = ["stream_abort", "stream_commit", "stream_start", "stream_stop"];
    let prepared = [
        "begin_prepare",
        "commit_prepared",
        "prepare",
        "rollback_prepared",
        "stream_prepare",
    ];
    for recording in recordings() {
        let mut expected = BTreeSet::from(version_1);
        if recording.major >= 11 {
            expected.insert("truncate");
        }
        if recording.options.contains("messages true") {
            expected.insert("message");
        }
        if recording.options.contains("streaming") {
            expected.extend(streamed);
        }
        if recording.options.contains("two_phase") {
            expected.extend(prepared);
        }
        let found: BTreeSet<_> = recording.decoded().map(|(_, message)| message.name()).collect();
        assert_eq!(found, expected, "PostgreSQL {}: {}", recording.major, recording.options);

        let in_stream: BTreeSet<_> = recording
            .decoded()
            .filter(|(context, _)| context.in_stream)
            .map(|(_, message)| message.name())
            .collect();
        let changes = ["delete", "insert", "message", "relation", "truncate", "type", "update"];
        let expected = if recording.options.contains("streaming") {
            BTreeSet::from(changes)
        } else {
            BTreeSet::new()
        };
        assert_eq!(
            in_stream, expected,
            "PostgreSQL {}: {}",
            recording.major, recording.options
        );
    }
    let options: Vec<_> = recordings()
        .iter()
        .map(|r| (r.major, r.options.split_once(':').unwrap().0))
        .collect();
    assert_eq!(
        options,
        [
            (10, "1"),
            (11, "1"),
            (12, "1"),
            (13, "1"),
            (14, "1"),
            (14, "1"),
            (14, "2"),
            (15, "1"),
            (15, "1"),
            (15, "3"),
            (16, "1"),
            (16, "1"),
            (16, "3"),
            (16, "4p"),
            (17, "1"),
            (17, "1"),
            (17, "3"),
            (17, "4p"),
            (18, "1"),
            (18, "1"),
            (18, "3"),
            (18, "4p"),
        ]
    );
}

#[test]
fn a_change_carries_an_xid_inside_a_streamed_block_and_only_there() {
    for recording in recordings() {
        for (context, message) in recording.decoded() {
            let xid = match &message {
                Message::Relation(m) => m.xid,
                Message::Type(m) => m.xid,
                Message::Insert(m) => m.xid,
                Message::Update(m) => m.xid,
                Message::Delete(m) => m.xid,
                Message::Truncate(m) => m.xid,
                Message::Message(m) => m.xid,
                _ => continue,
            };
            assert_eq!(xid.is_some(), context.in_stream, "{message:?}");
            assert!(xid.is_none_or(|xid| (700..10_000).contains(&xid)), "{message:?}");
        }
    }
}

/// `tuple` as text: NULL as `~`, an unchanged value as `=`, a long one as its length.
fn text(tuple: Tuple<'_>) -> String {
    let column = |datum| match datum {
        Datum::Null => "~".to_owned(),
        Datum::Unchanged => "=".to_owned(),
        Datum::Text(value) if value.len() > 100 => format!("({})", value.len()),
        Datum::Text(value) => String::from_utf8(value.to_vec()).unwrap(),
        Datum::Binary(value) => format!("binary {value:02x?}"),
    };
    tuple.iter().map(column).collect::<Vec<_>>().join("|")
}

/// Relations by oid as of the last Relation message, and the changes of the recording that stand outside streamed blocks,
/// each with its relation's name.
fn changes(recording: &Recording) -> Vec<(String, String)> {
    let mut names = std::collections::BTreeMap::new();
    let mut changes = Vec::new();
    for (context, message) in recording.decoded() {
        if context.in_stream {
            continue;
        }
        match message {
            Message::Relation(m) => {
                assert_eq!(m.namespace, "golden");
                names.insert(m.oid, m.name.to_owned());
            }
            Message::Insert(m) => changes.push((names[&m.relation].clone(), format!("I {}", text(m.new)))),
            Message::Update(m) => {
                let old = match m.old {
                    None => String::new(),
                    Some(OldTuple::Key(old)) => format!("K {} ", text(old)),
                    Some(OldTuple::Full(old)) => format!("O {} ", text(old)),
                };
                changes.push((names[&m.relation].clone(), format!("U {old}N {}", text(m.new))));
            }
            Message::Delete(m) => {
                let old = match m.old {
                    OldTuple::Key(old) => format!("K {}", text(old)),
                    OldTuple::Full(old) => format!("O {}", text(old)),
                };
                changes.push((names[&m.relation].clone(), format!("D {old}")));
            }
            Message::Truncate(m) => {
                let mut tables: Vec<_> = m.relations().map(|oid| names[&oid].as_str()).collect();
                tables.sort_unstable();
                changes.push((
                    tables.join(","),
                    format!("T cascade={} restart={}", m.cascade, m.restart_identity),
                ));
            }
            _ => {}
        }
    }
    changes
}

#[test]
fn changes_are_those_of_the_scenario() {
    for recording in recordings()
        .iter()
        .filter(|r| r.options.starts_with("1:") && !r.binary())
    {
        let changes = changes(recording);
        let of = |table: &str| -> Vec<&str> {
            changes
                .iter()
                .filter(|(name, _)| name == table)
                .map(|(_, change)| change.as_str())
                .collect()
        };
        assert_eq!(
            of("item")[..7],
            [
                "I 1|one|1.50|calm|n|~",
                "I 2|zwei|~|größer|~|(2100)",
                "U N 2|two|~|größer|~|=",
                "U K 1|~|~|~|~|~ N 3|one|1.50|calm|n|~",
                "D K 3|~|~|~|~|~",
                "I 10|from elsewhere|0.00|~|~|~",
                "I 11|after|1.00|~|~|~|2024-02-29 00:00:00+00",
            ],
            "PostgreSQL {}",
            recording.major
        );
        assert_eq!(
            of("full_row")[..4],
            ["I 1|x|(2100)", "I 2|~|", "U O 1|x|(2100) N 1|y|=", "D O 2|~|"],
            "PostgreSQL {}",
            recording.major
        );
        assert_eq!(
            of("by_index"),
            ["I 1|c|b", "U N 1|c|~", "U K ~|c|~ N 1|d|~", "D K ~|d|~"],
            "PostgreSQL {}",
            recording.major
        );
        assert_eq!(of("no_identity"), ["I 1|b"]);
        assert_eq!(of("no_columns"), ["I "]);
        assert_eq!(of("Größe \"x\""), ["I 7|ï"]);
        assert_eq!(
            of("kinds"),
            [
                "I t|-2|4|-8|1.5|NaN|12345.6789|text|\\x00ff|00112233-4455-6677-8899-aabbccddeeff|2024-02-29|24:00:00|12:00:00+05:30|\
              infinity|2024-02-29 12:34:56.789012+00|P1Y2DT-0.000003S|{\"a\": 1}|{\"b\": [null]}|{1,NULL}|10.0.0.0/8"
            ],
            "PostgreSQL {}",
            recording.major
        );
        let truncates = |tables| {
            of(tables)
                .into_iter()
                .filter(|change| change.starts_with('T'))
                .collect::<Vec<_>>()
        };
        if recording.major >= 11 {
            assert_eq!(truncates("full_row"), ["T cascade=false restart=false"]);
            assert_eq!(truncates("by_index,item"), ["T cascade=false restart=false"]);
            assert_eq!(truncates("child,parent")[0], "T cascade=true restart=true");
        }
        if recording.major >= 12 {
            // Stored generated columns are left out, unless PostgreSQL 18 is told to publish them.
            let row = if recording.major >= 18 { "I 21|42" } else { "I 21" };
            assert_eq!(of("generated"), [row], "PostgreSQL {}", recording.major);
        }
    }
}

#[test]
fn binary_values_are_those_that_typsend_writes() {
    let recordings = recordings();
    let binary: Vec<_> = recordings.iter().filter(|recording| recording.binary()).collect();
    assert_eq!(binary.len(), 8);
    for recording in binary {
        let (_, first) = recording
            .decoded()
            .find(|(_, message)| matches!(message, Message::Insert(_)))
            .unwrap();
        let Message::Insert(insert) = first else { unreachable!() };
        assert_eq!(
            insert.new.iter().collect::<Vec<_>>(),
            [
                Datum::Binary(&[0, 0, 0, 1]),
                Datum::Binary(b"one"),
                // 2 digits to base 10000, weight 0, positive, scale 2: 1, 5000.
                Datum::Binary(&[0, 2, 0, 0, 0, 0, 0, 2, 0, 1, 0x13, 0x88]),
                Datum::Binary(b"calm"),
                Datum::Binary(b"n"),
                Datum::Null,
            ],
            "PostgreSQL {}",
            recording.major
        );
    }
}

#[test]
fn a_relation_lists_names_types_modifiers_and_identity() {
    for recording in recordings() {
        let relations: Vec<_> = recording
            .decoded()
            .filter_map(|(_, message)| {
                if let Message::Relation(relation) = message {
                    Some(relation)
                } else {
                    None
                }
            })
            .collect();
        let first = |name: &str| relations.iter().find(|relation| relation.name == name).unwrap();

        let item = first("item");
        assert_eq!(item.replica_identity, b'd');
        let columns: Vec<_> = item
            .columns
            .iter()
            .map(|c| (c.is_identity(), c.name, c.typmod))
            .collect();
        // numeric(10,2) has the modifier (10 << 16 | 2) + 4. A domain's modifier is its own, not the column's.
        assert_eq!(
            columns,
            [
                (true, "id", -1),
                (false, "name", -1),
                (false, "price", 655_366),
                (false, "mood", -1),
                (false, "note", -1),
                (false, "body", -1),
            ]
        );
        let types: Vec<_> = item.columns.iter().map(|c| c.type_oid).collect();
        let (mood, short) = (types[3], types[4]);
        assert_eq!(types, [23, 25, 1700, mood, short, 25]);
        let named: BTreeSet<_> = recording
            .decoded()
            .filter_map(|(_, message)| {
                if let Message::Type(t) = message {
                    Some((t.oid, t.namespace, t.name))
                } else {
                    None
                }
            })
            .collect();
        assert_eq!(
            named,
            BTreeSet::from([(mood, "golden", "mood"), (short, "", "varchar")])
        );

        let identity = |name| {
            (
                first(name).replica_identity,
                first(name).columns.iter().map(|c| c.flags).collect::<Vec<_>>(),
            )
        };
        assert_eq!(identity("full_row"), (b'f', vec![1, 1, 1]));
        assert_eq!(identity("by_index"), (b'i', vec![0, 1, 0]));
        assert_eq!(identity("no_identity"), (b'n', vec![0, 0]));
        assert_eq!(identity("no_columns"), (b'd', vec![]));
        let names: Vec<_> = first("Größe \"x\"").columns.iter().map(|c| c.name).collect();
        assert_eq!(names, ["a b", "naïve"]);

        let altered = relations
            .iter()
            .filter(|relation| relation.name == "item")
            .find(|relation| relation.columns.len() == 7)
            .unwrap();
        let added = altered.columns[6];
        assert_eq!((added.name, added.type_oid, added.typmod), ("added", 1184, 3));
    }
}

#[test]
fn transactions_are_framed_by_begin_and_commit() {
    for recording in recordings().iter().filter(|r| r.options.starts_with("1:")) {
        let mut open: Option<Begin> = None;
        for (_, message) in recording.decoded() {
            match message {
                Message::Begin(begin) => open = Some(begin),
                Message::Commit(commit) => {
                    // Where the recording left out the Begin, the one before it is still here.
                    if let Some(begin) = open.take().filter(|begin| begin.final_lsn == commit.commit_lsn) {
                        assert_eq!(begin.commit_time, commit.commit_time);
                        assert!(begin.xid >= 500);
                    }
                    assert!(commit.end_lsn > commit.commit_lsn);
                    assert!(commit.end_lsn.bytes_since(commit.commit_lsn) < 1000);
                    assert!(
                        unix_us(commit.commit_time) > 1_700_000_000_000_000
                            || unix_us(commit.commit_time) == 1_709_164_800_000_000
                    );
                }
                _ => {}
            }
        }
    }
}

#[test]
fn an_origin_is_named_with_the_lsn_it_had_there() {
    for recording in recordings() {
        let origin = recording.decoded().find_map(|(_, m)| {
            if let Message::Origin(origin) = m {
                Some(origin)
            } else {
                None
            }
        });
        assert_eq!(
            origin,
            Some(Origin {
                commit_lsn: Lsn::new(0x1_0000_002A),
                name: "upstream"
            })
        );
    }
}

#[test]
fn logical_messages_come_within_and_beside_transactions() {
    for recording in recordings()
        .iter()
        .filter(|recording| recording.options.contains("messages true"))
    {
        let messages: Vec<_> = recording
            .decoded()
            .filter_map(|(_, message)| {
                if let Message::Message(m) = message {
                    Some(m)
                } else {
                    None
                }
            })
            .map(|m| (m.prefix, m.transactional, m.content))
            .collect();
        assert_eq!(
            messages,
            [
                ("beside", false, [0x00, 0xFF].as_slice()),
                ("within", true, b"transactional"),
                ("streamed", true, b"content"),
            ]
        );
    }
}

#[test]
fn streamed_blocks_end_in_commit_abort_or_prepare() {
    for recording in recordings()
        .iter()
        .filter(|recording| recording.options.contains("streaming"))
    {
        let mut started = BTreeSet::new();
        let mut open = false;
        let mut subtransactions = 0;
        for (context, message) in recording.decoded() {
            match &message {
                Message::StreamStart(_) => assert!(!std::mem::replace(&mut open, true), "a block within a block"),
                Message::StreamStop => assert!(std::mem::replace(&mut open, false), "a block ended twice"),
                _ => assert_eq!(context.in_stream, open, "{message:?}"),
            }
            match message {
                Message::StreamStart(start) if start.first_segment => {
                    assert!(started.insert(start.xid), "a first block came twice");
                }
                Message::StreamStart(start) => assert!(started.contains(&start.xid)),
                Message::StreamCommit(commit) => {
                    assert!(started.contains(&commit.xid));
                    assert!(commit.end_lsn > commit.commit_lsn);
                }
                Message::StreamAbort(abort) => {
                    assert!(started.contains(&abort.xid));
                    subtransactions += u32::from(abort.subxid != abort.xid);
                    assert_eq!(
                        abort.abort_lsn.is_some_and(|lsn| !lsn.is_zero()),
                        context.parallel_streaming
                    );
                    assert_eq!(
                        abort.abort_time.is_some_and(|time| time > 0),
                        context.parallel_streaming
                    );
                }
                _ => {}
            }
        }
        assert!(
            subtransactions > 0,
            "PostgreSQL {}: no subtransaction was aborted",
            recording.major
        );
    }
}

#[test]
fn prepared_transactions_carry_their_gid() {
    for recording in recordings()
        .iter()
        .filter(|recording| recording.options.contains("two_phase"))
    {
        let mut story = Vec::new();
        for (_, message) in recording.decoded() {
            let kind = message.name();
            match message {
                Message::BeginPrepare(m) => story.push((kind, m.gid, m.end_lsn > m.prepare_lsn)),
                Message::Prepare(m) => story.push((kind, m.gid, m.end_lsn > m.prepare_lsn)),
                Message::CommitPrepared(m) => story.push((kind, m.gid, m.end_lsn > m.commit_lsn)),
                Message::RollbackPrepared(m) => story.push((
                    kind,
                    m.gid,
                    m.rollback_end_lsn > m.prepare_end_lsn && m.rollback_time >= m.prepare_time,
                )),
                Message::StreamPrepare(m) => story.push((kind, m.gid, m.end_lsn > m.prepare_lsn)),
                _ => {}
            }
        }
        assert_eq!(
            story,
            [
                ("begin_prepare", "kept", true),
                ("prepare", "kept", true),
                ("commit_prepared", "kept", true),
                ("begin_prepare", "void größe", true),
                ("prepare", "void größe", true),
                ("rollback_prepared", "void größe", true),
                ("stream_prepare", "large", true),
                ("commit_prepared", "large", true),
            ],
            "PostgreSQL {}",
            recording.major
        );
    }
}
