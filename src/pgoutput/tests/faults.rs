//! Bytes made by hand: what no server should send, and what the recorded ones did not.

use super::super::*;
use super::{context, hex};
use crate::lsn::Lsn;

#[track_caller]
fn refused(flags: &str, digits: &str, expected: &str) {
    let bytes = hex(digits);
    match decode(&bytes, context(flags)) {
        Ok(message) => panic!("{message:?} was accepted; expected: {expected}"),
        Err(error) => assert_eq!(error.to_string(), expected),
    }
}

#[test]
fn a_negative_length_or_count_is_refused() {
    // Insert, relation 1, one column of text with length -1; then the same in binary.
    refused(
        "1",
        "49 00000001 4E 0001 74 FFFFFFFF",
        "malformed pgoutput message (Insert), at offset 9, in column 1's length: -1 is negative",
    );
    refused(
        "1",
        "49 00000001 4E 0002 6E 62 FFFFFFFF",
        "malformed pgoutput message (Insert), at offset 10, in column 2's length: -1 is negative",
    );
    refused(
        "1",
        "49 00000001 4E FFFF",
        "malformed pgoutput message (Insert), at offset 6, in the column count: -1 is negative",
    );
    refused(
        "1",
        "54 FFFFFFFF 00",
        "malformed pgoutput message (Truncate), at offset 1, in the relation count: -1 is negative",
    );
    refused(
        "1",
        "52 00000001 7000 7400 64 8000",
        "malformed pgoutput message (Relation), at offset 10, in the column count: -32768 is negative",
    );
    refused(
        "1",
        "4D 00 0000000000000001 7000 FFFFFFFF",
        "malformed pgoutput message (Message), at offset 12, in the content length: -1 is negative",
    );
}

#[test]
fn a_length_or_count_beyond_the_message_is_refused() {
    refused(
        "1",
        "49 00000001 4E 0001 74 7FFFFFFF 61",
        "malformed pgoutput message (Insert), at offset 13, in column 1's value: 2147483647 bytes needed, 1 left",
    );
    refused(
        "1",
        "49 00000001 4E 7FFF 6E",
        "malformed pgoutput message (Insert), at offset 9, in column 2's kind: 1 bytes needed, 0 left",
    );
    refused(
        "1",
        "54 7FFFFFFF 00 00000001",
        "malformed pgoutput message (Truncate), at offset 6, in the relation oids: 8589934588 bytes needed, 4 left",
    );
    refused(
        "1",
        "52 00000001 7000 7400 64 7FFF 01 6100 00000017 FFFFFFFF",
        "malformed pgoutput message (Relation), at offset 23, in column 2's flags: 1 bytes needed, 0 left",
    );
    refused(
        "1",
        "4D 00 0000000000000001 7000 00000002 61",
        "malformed pgoutput message (Message), at offset 16, in the content: 2 bytes needed, 1 left",
    );
}

#[test]
fn an_empty_message_is_refused() {
    refused(
        "1",
        "",
        "malformed pgoutput message (unknown), at offset 0, in the tag: 1 bytes needed, 0 left",
    );
}

#[test]
fn an_unknown_tag_is_refused() {
    refused(
        "4",
        "5A",
        "malformed pgoutput message (unknown), at offset 0, in the tag: 0x5A ('Z') starts no message",
    );
    refused(
        "4",
        "00",
        "malformed pgoutput message (unknown), at offset 0, in the tag: 0x00 starts no message",
    );
}

#[test]
fn a_tag_of_a_later_version_than_was_negotiated_is_refused() {
    refused(
        "1",
        "53 00000001 01",
        "malformed pgoutput message (Stream Start), at offset 0, in the tag: \
         0x53 ('S') starts a message of protocol version 2, but version 1 was negotiated",
    );
    for tag in ["53", "45", "63", "41"] {
        assert!(matches!(
            decode(&hex(tag), context("1")).unwrap_err().fault,
            Fault::TagOfLaterVersion {
                since: 2,
                negotiated: 1,
                ..
            }
        ));
    }
    for tag in ["62", "50", "4B", "72", "70"] {
        assert!(matches!(
            decode(&hex(tag), context("2")).unwrap_err().fault,
            Fault::TagOfLaterVersion {
                since: 3,
                negotiated: 2,
                ..
            }
        ));
    }
}

#[test]
fn bytes_left_over_are_refused() {
    refused(
        "2",
        "45 00 00",
        "malformed pgoutput message (Stream Stop), at offset 1, in the end of the message: bytes left over: 2",
    );
}

#[test]
fn strings_end_with_nul_and_are_utf8() {
    refused(
        "1",
        "4F 0000000000000001 6162",
        "malformed pgoutput message (Origin), at offset 9, in the origin name: the string has no end",
    );
    refused(
        "1",
        "59 00000001 00 61FF00",
        "malformed pgoutput message (Type), at offset 6, in the type name: the string is not UTF-8",
    );
}

#[test]
fn bytes_that_the_manual_does_not_define_are_refused() {
    let rest = "0000000000000001 0000000000000002 0000000000000003";
    refused(
        "1",
        &format!("43 01 {rest}"),
        "malformed pgoutput message (Commit), at offset 1, in the flags: found 0x01, expected 0",
    );
    refused(
        "2",
        &format!("63 00000001 80 {rest}"),
        "malformed pgoutput message (Stream Commit), at offset 5, in the flags: found 0x80, expected 0",
    );
    refused(
        "2",
        "53 00000001 02",
        "malformed pgoutput message (Stream Start), at offset 5, in the first segment flag: found 0x02, expected 0 or 1",
    );
    refused(
        "1",
        "4D 02 0000000000000001 00 00000000",
        "malformed pgoutput message (Message), at offset 1, in the flags: found 0x02, expected 0 or 1",
    );
    refused(
        "1",
        "54 00000000 04",
        "malformed pgoutput message (Truncate), at offset 5, in the options: found 0x04, expected 0, 1, 2 or 3",
    );
    refused(
        "1",
        "52 00000001 00 7400 78 0000",
        "malformed pgoutput message (Relation), at offset 8, in the replica identity: found 0x78 ('x'), expected 'd', 'n', 'f' or 'i'",
    );
    refused(
        "1",
        "52 00000001 00 7400 64 0001 02 6100 00000017 FFFFFFFF",
        "malformed pgoutput message (Relation), at offset 11, in column 1's flags: found 0x02, expected 0 or 1",
    );
    refused(
        "1",
        "49 00000001 4B 0000",
        "malformed pgoutput message (Insert), at offset 5, in the tuple kind: found 0x4B ('K'), expected 'N'",
    );
    refused(
        "1",
        "55 00000001 4B 0000 4F 0000",
        "malformed pgoutput message (Update), at offset 8, in the kind of the new tuple: found 0x4F ('O'), expected 'N'",
    );
    refused(
        "1",
        "44 00000001 4E 0000",
        "malformed pgoutput message (Delete), at offset 5, in the tuple kind: found 0x4E ('N'), expected 'K' or 'O'",
    );
    refused(
        "1",
        "49 00000001 4E 0003 6E 75 78",
        "malformed pgoutput message (Insert), at offset 10, in column 3's kind: found 0x78 ('x'), expected 'n', 'u', 't' or 'b'",
    );
}

#[test]
fn an_error_shows_no_value_and_says_what_to_do() {
    let error = decode(b"I\0\0\0\x01N\0\x02t\0\0\0\x06secretx", context("1")).unwrap_err();
    assert_eq!(
        error,
        DecodeError {
            message: "Insert",
            offset: 19,
            field: Field::OfColumn {
                number: 2,
                name: "kind"
            },
            fault: Fault::UnexpectedByte {
                found: b'x',
                expected: "'n', 'u', 't' or 'b'"
            },
        }
    );
    assert!(!format!("{error} {error:?}").contains("secret"));
    assert!(error.hint().contains("newer release"));
}

#[test]
fn debug_of_a_message_shows_lengths_and_not_values() {
    let bytes = b"U\0\0\0\x01O\0\x01t\0\0\0\x06secretN\0\x04b\0\0\0\x06secretnut\0\0\0\0";
    let message = decode(bytes, context("1")).unwrap();
    assert_eq!(
        format!("{message:?}"),
        "Update(Update { xid: None, relation: 1, old: Some(Full([Text(6 bytes)])), \
         new: [Binary(6 bytes), Null, Unchanged, Text(0 bytes)] })"
    );
    let message = decode(b"M\x01\0\0\0\0\0\0\0\x01p\0\0\0\0\x06secret", context("1")).unwrap();
    assert_eq!(
        format!("{message:?}"),
        "Message(LogicalMessage { xid: None, transactional: true, lsn: Lsn(0/1), prefix: \"p\", content: 6 bytes })"
    );
}

#[test]
fn stream_abort_has_lsn_and_time_in_version_4_under_parallel_streaming_only() {
    let long = hex("41 00000007 00000009 0000000100000002 FFFFFFFFFFFFFFFF");
    let abort = StreamAbort {
        xid: 7,
        subxid: 9,
        abort_lsn: Some(Lsn::new(0x1_0000_0002)),
        abort_time: Some(-1),
    };
    assert_eq!(decode(&long, context("4p")).unwrap(), Message::StreamAbort(abort));

    let short = &long[..9];
    let abort = StreamAbort {
        xid: 7,
        subxid: 9,
        abort_lsn: None,
        abort_time: None,
    };
    for flags in ["2", "3", "3p", "4"] {
        assert_eq!(decode(short, context(flags)).unwrap(), Message::StreamAbort(abort));
        assert_eq!(decode(&long, context(flags)).unwrap_err().fault, Fault::LeftOver(16));
    }
    assert_eq!(
        decode(short, context("4p")).unwrap_err().fault,
        Fault::Truncated { needed: 8, left: 0 }
    );
}

#[test]
fn the_namespace_pg_catalog_is_empty_on_the_wire() {
    let bytes = hex("52 000004E6 00 70675F616D00 6E 0001 00 6F696400 0000001A FFFFFFFF");
    let Message::Relation(relation) = decode(&bytes, context("1")).unwrap() else {
        panic!("not a Relation")
    };
    assert_eq!(
        (relation.namespace, relation.name, relation.replica_identity),
        ("", "pg_am", b'n')
    );
}

#[test]
fn unsigned_numbers_are_not_taken_for_signed() {
    let bytes = hex("42 FFFFFFFFFFFFFFFE 8000000000000000 FFFFFFFF");
    let begin = Begin {
        final_lsn: Lsn::new(u64::MAX - 1),
        commit_time: i64::MIN,
        xid: u32::MAX,
    };
    assert_eq!(decode(&bytes, context("1")).unwrap(), Message::Begin(begin));
}

#[test]
fn a_tuple_may_hold_as_many_columns_as_the_count_can_say() {
    let mut buffer = TupleBuf::new();
    for _ in 0..i16::MAX {
        buffer.push(Datum::Null).unwrap();
    }
    assert_eq!(buffer.push(Datum::Null), Err(TupleTooLarge));
    assert_eq!(buffer.as_tuple().len(), 32767);
    let bytes = [&[0x7F, 0xFF], buffer.as_tuple().as_bytes()].concat();
    assert_eq!(Tuple::parse(&bytes).unwrap(), buffer.as_tuple());
    buffer.clear();
    assert!(buffer.as_tuple().is_empty());
}

#[test]
fn a_lone_tuple_is_consumed_exactly() {
    let bytes = b"\0\x02t\0\0\0\x01an";
    let tuple = Tuple::parse(bytes).unwrap();
    assert_eq!(tuple.iter().collect::<Vec<_>>(), [Datum::Text(b"a"), Datum::Null]);
    assert_eq!(tuple.iter().len(), 2);
    assert_eq!(Tuple::parse(b"\0\x01nn").unwrap_err().fault, Fault::LeftOver(1));
    assert!(Tuple::parse(b"\0").is_err());
}

#[test]
fn times_move_from_the_postgres_epoch_to_that_of_unix() {
    assert_eq!(unix_us(0), 946_684_800_000_000);
    assert_eq!(unix_us(762_480_000_000_000), 1_709_164_800_000_000); // 2024-02-29 00:00:00 UTC
    assert_eq!(unix_us(i64::MAX), i64::MAX);
}
