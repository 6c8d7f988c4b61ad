use proptest::prelude::*;

use super::*;
use crate::pgoutput::{Datum, Tuple};

type Row = Vec<Option<Vec<u8>>>;

/// The 19 bytes that the server begins with.
fn head() -> Vec<u8> {
    let mut bytes = SIGNATURE.to_vec();
    bytes.extend([0; 8]);
    bytes
}

/// One row as the server sends it in a message.
fn encoded(format: RowFormat, row: &Row) -> Vec<u8> {
    let mut data = Vec::new();
    match format {
        RowFormat::Text => {
            for (index, value) in row.iter().enumerate() {
                if index > 0 {
                    data.push(b'\t');
                }
                let Some(value) = value else {
                    data.extend(b"\\N");
                    continue;
                };
                for &byte in value {
                    match byte {
                        0x08 => data.extend(b"\\b"),
                        0x0C => data.extend(b"\\f"),
                        b'\n' => data.extend(b"\\n"),
                        b'\r' => data.extend(b"\\r"),
                        b'\t' => data.extend(b"\\t"),
                        0x0B => data.extend(b"\\v"),
                        b'\\' => data.extend(b"\\\\"),
                        other => data.push(other),
                    }
                }
            }
            data.push(b'\n');
        }
        RowFormat::Binary => {
            data.extend(u16::try_from(row.len()).unwrap().to_be_bytes());
            for value in row {
                match value {
                    None => data.extend((-1_i32).to_be_bytes()),
                    Some(value) => {
                        data.extend(u32::try_from(value.len()).unwrap().to_be_bytes());
                        data.extend(value);
                    }
                }
            }
        }
    }
    data
}

fn message(format: RowFormat, row: &Row, is_first: bool) -> Vec<u8> {
    let mut data = match (format, is_first) {
        (RowFormat::Binary, true) => head(),
        _ => Vec::new(),
    };
    data.extend(encoded(format, row));
    data
}

fn datum(format: RowFormat, value: &Option<Vec<u8>>) -> Datum<'_> {
    match (format, value) {
        (_, None) => Datum::Null,
        (RowFormat::Text, Some(value)) => Datum::Text(value),
        (RowFormat::Binary, Some(value)) => Datum::Binary(value),
    }
}

fn some(value: &[u8]) -> Option<Vec<u8>> {
    Some(value.to_vec())
}

/// The error of a fresh reader of two columns.
fn error(format: RowFormat, data: &[u8]) -> String {
    let mut tuple = b"before".to_vec();
    let error = RowReader::new(format, 2, vec![]).read(data, &mut tuple).unwrap_err();
    assert_eq!(tuple, b"before");
    error.to_string()
}

#[test]
fn a_line_of_text_becomes_the_streams_tuple() {
    let mut reader = RowReader::new(RowFormat::Text, 4, vec![2]);
    let mut tuple = Vec::new();
    let line = b"1\t\\N\ta\\tb\\\\N\\n\t\n";
    assert!(reader.read(line, &mut tuple).unwrap());
    assert_eq!(tuple, b"\0\x04t\0\0\0\x011nt\0\0\0\x06a\tb\\N\nt\0\0\0\0");
    assert_eq!(reader.key_of(line).unwrap(), ["a\tb\\N\n"]);
}

#[test]
fn a_binary_copy_has_a_header_rows_and_a_trailer() {
    let mut reader = RowReader::new(RowFormat::Binary, 1, vec![1]);
    let mut tuple = Vec::new();
    let first = message(RowFormat::Binary, &vec![some(&[0, 7]), some(b"7")], true);
    let second = message(RowFormat::Binary, &vec![None, some(b"8")], false);
    assert_eq!(reader.key_of(&first).unwrap(), ["7"]);
    assert!(reader.read(&first, &mut tuple).unwrap());
    assert_eq!(reader.key_of(&first).unwrap(), ["7"]);
    assert!(reader.read(&second, &mut tuple).unwrap());
    assert_eq!(reader.key_of(&second).unwrap(), ["8"]);
    assert_eq!(tuple, b"\0\x01b\0\0\0\x02\0\x07\0\x01n");
    assert!(!reader.read(&[0xFF, 0xFF], &mut tuple).unwrap());
    assert_eq!(tuple.len(), 12, "the trailer is no row");
    assert_eq!(
        reader.read(&second, &mut tuple).unwrap_err().to_string(),
        "malformed COPY data (binary), at offset 0: there is no row beyond the trailer"
    );
}

#[test]
fn a_binary_copy_without_rows_is_header_and_trailer() {
    let mut data = head();
    data.extend([0xFF, 0xFF]);
    let mut reader = RowReader::new(RowFormat::Binary, 2, vec![0]);
    assert!(!reader.read(&data, &mut Vec::new()).unwrap());
    assert_eq!(reader.key_of(&data).unwrap_err().fault, CopyFault::Trailer);
}

#[test]
fn a_row_without_columns_is_a_row() {
    let mut tuple = Vec::new();
    assert!(
        RowReader::new(RowFormat::Text, 0, vec![])
            .read(b"\n", &mut tuple)
            .unwrap()
    );
    let mut reader = RowReader::new(RowFormat::Binary, 0, vec![]);
    assert!(
        reader
            .read(&message(RowFormat::Binary, &vec![], true), &mut tuple)
            .unwrap()
    );
    assert_eq!(tuple, [0, 0, 0, 0]);
    // With one column the same line is an empty text.
    tuple.clear();
    assert!(
        RowReader::new(RowFormat::Text, 1, vec![])
            .read(b"\n", &mut tuple)
            .unwrap()
    );
    assert_eq!(tuple, b"\0\x01t\0\0\0\0");
}

#[test]
fn a_header_may_be_extended_and_have_flags_that_change_nothing() {
    let mut data = SIGNATURE.to_vec();
    data.extend([0, 0, 0x80, 1, 0, 0, 0, 3, b'e', b'x', b't']);
    data.extend(encoded(RowFormat::Binary, &vec![some(b"a")]));
    let mut tuple = Vec::new();
    let mut reader = RowReader::new(RowFormat::Binary, 1, vec![0]);
    assert!(reader.read(&data, &mut tuple).unwrap());
    assert_eq!(tuple, b"\0\x01b\0\0\0\x01a");
    assert_eq!(reader.key_of(&data).unwrap(), ["a"]);
}

#[test]
fn a_damaged_header_is_refused() {
    let with = |tail: &[u8]| [SIGNATURE, tail].concat();
    for (data, expected) in [
        (b"PGCOPY\n".to_vec(), "at offset 0: the signature is missing"),
        (
            encoded(RowFormat::Binary, &vec![None, None]),
            "at offset 0: the signature is missing",
        ),
        (
            with(&[0, 1, 0, 0, 0, 0, 0, 0]),
            "at offset 11: the flags 0x10000 are unknown",
        ),
        (with(&[0, 0]), "at offset 11: 4 bytes needed, 2 left"),
        (with(&[0, 0, 0, 0, 0, 0, 0]), "at offset 15: 4 bytes needed, 3 left"),
        (
            with(&[0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFE]),
            "at offset 15: the length -2 is negative",
        ),
        (
            with(&[0, 0, 0, 0, 0, 0, 0, 2, 9]),
            "at offset 19: 2 bytes needed, 1 left",
        ),
        (head(), "at offset 19: 2 bytes needed, 0 left"),
    ] {
        assert_eq!(
            error(RowFormat::Binary, &data),
            format!("malformed COPY data (binary), {expected}")
        );
    }
}

#[test]
fn a_damaged_binary_row_is_refused() {
    for (row, expected) in [
        (&[0, 3][..], "at offset 19: the row has 3 columns, and 2 were asked for"),
        (
            &[0x80, 0],
            "at offset 19: the row has -32768 columns, and 2 were asked for",
        ),
        (&[0, 2, 0, 0], "at offset 21, in column 1: 4 bytes needed, 2 left"),
        (
            &[0, 2, 0xFF, 0xFF, 0xFF, 0xFE],
            "at offset 21, in column 1: the length -2 is negative",
        ),
        (
            &[0, 2, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F, 0xFF, 0xFF, 0xFF, b'x'],
            "at offset 25, in column 2: 2147483647 bytes needed, 1 left",
        ),
        (
            &[0, 2, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, b'x'],
            "at offset 29: bytes left over: 1",
        ),
        (&[0xFF, 0xFF, 0], "at offset 21: bytes left over: 1"),
    ] {
        let data = [head().as_slice(), row].concat();
        assert_eq!(
            error(RowFormat::Binary, &data),
            format!("malformed COPY data (binary), {expected}")
        );
    }
}

#[test]
fn a_damaged_line_is_refused() {
    for (line, expected) in [
        (&b""[..], "at offset 0: the line has no end"),
        (b"a\tb", "at offset 3: the line has no end"),
        (b"a\nc\tb\n", "at offset 1: the line ends within the row"),
        (b"a\n", "at offset 0: the row has 1 columns, and 2 were asked for"),
        (
            b"a\tb\tc\td\n",
            "at offset 0: the row has 4 columns, and 2 were asked for",
        ),
        (
            b"a\tb\\x41\n",
            "at offset 3, in column 2: the backslash escapes nothing",
        ),
        (b"a\\\tb\n", "at offset 1, in column 1: the backslash escapes nothing"),
        (b"a\t\\N!\n", "at offset 2, in column 2: the backslash escapes nothing"),
    ] {
        assert_eq!(
            error(RowFormat::Text, line),
            format!("malformed COPY data (text), {expected}")
        );
    }
}

#[test]
fn a_key_is_neither_null_nor_anything_but_text() {
    for format in [RowFormat::Text, RowFormat::Binary] {
        let reader = RowReader::new(format, 2, vec![1]);
        let fault = |value| {
            reader
                .key_of(&message(format, &vec![None, value], true))
                .unwrap_err()
                .fault
        };
        assert_eq!(fault(None), CopyFault::NullKey);
        assert_eq!(fault(some(&[0xC3])), CopyFault::NotUtf8);
    }
}

#[test]
fn a_key_has_its_own_order() {
    let reader = RowReader::new(RowFormat::Text, 3, vec![2, 0]);
    assert_eq!(reader.key_of(b"a\tb\tc\n").unwrap(), ["c", "a"]);
}

#[test]
fn no_error_shows_a_value() {
    let mut reader = RowReader::new(RowFormat::Text, 1, vec![0]);
    for line in [&b"secret\tsecret\n"[..], b"secret", b"secret\\q\n", b"secret\nsecret\n"] {
        let errors = [
            reader.read(line, &mut Vec::new()).unwrap_err(),
            reader.key_of(line).unwrap_err(),
        ];
        for error in errors {
            assert!(!format!("{error} {error:?}").contains("secret"), "{error}");
        }
    }
}

fn format() -> impl Strategy<Value = RowFormat> {
    prop_oneof![Just(RowFormat::Text), Just(RowFormat::Binary)]
}

/// Rows of one width; in what is text there is no zero byte.
fn rows() -> impl Strategy<Value = Vec<Row>> {
    let byte = prop_oneof![3 => 1_u8..=255, 1 => prop::sample::select(b"\\\t\n\rN\x08\x0B\x0Cbtnrv".to_vec())];
    let value = prop::option::weighted(0.8, prop::collection::vec(byte, 0..12));
    (0_usize..6).prop_flat_map(move |width| prop::collection::vec(prop::collection::vec(value.clone(), width), 0..6))
}

fn texts() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec("[^\\x00]{0,8}|[\\\\\t\nN]{0,4}", 1..4)
}

proptest! {
    #[test]
    fn every_row_comes_out_as_the_server_put_it_in(format in format(), rows in rows(), appended in 0_usize..3) {
        let width = rows.first().map_or(0, Vec::len);
        let columns = width.saturating_sub(appended);
        let mut reader = RowReader::new(format, columns, (columns..width).collect());
        for (index, row) in rows.iter().enumerate() {
            let mut tuple = b"before".to_vec();
            prop_assert!(reader.read(&message(format, row, index == 0), &mut tuple).unwrap());
            let read: Vec<Datum<'_>> = Tuple::parse(&tuple[6..]).unwrap().iter().collect();
            let expected: Vec<Datum<'_>> = row[..columns].iter().map(|value| datum(format, value)).collect();
            prop_assert_eq!(read, expected);
        }
    }

    #[test]
    fn every_key_comes_out_as_the_server_put_it_in(format in format(), keys in texts(), is_first: bool) {
        let row: Row = std::iter::once(None).chain(keys.iter().map(|text| some(text.as_bytes()))).collect();
        let reader = RowReader::new(format, 1, (1..row.len()).collect());
        prop_assert_eq!(reader.key_of(&message(format, &row, is_first)).unwrap(), keys);
    }

    #[test]
    fn a_row_that_is_cut_off_is_no_row(format in format(), rows in rows()) {
        for row in rows {
            let data = message(format, &row, true);
            for end in 0..data.len() {
                let mut tuple = b"before".to_vec();
                let mut reader = RowReader::new(format, row.len(), vec![]);
                prop_assert!(reader.read(&data[..end], &mut tuple).is_err(), "{} of {}", end, data.len());
                prop_assert_eq!(&tuple, b"before");
                prop_assert!(reader.key_of(&data[..end]).is_err());
            }
        }
    }

    #[test]
    fn no_bytes_make_it_panic(
        format in format(),
        columns in 0_usize..4,
        key in prop::collection::vec(0_usize..5, 0..3),
        has_head: bool,
        tail in prop::collection::vec(prop_oneof![Just(0_u8), Just(0xFF), 0_u8..4, any::<u8>()], 0..40),
    ) {
        let mut data = if has_head { head() } else { Vec::new() };
        data.extend(tail);
        let mut reader = RowReader::new(format, columns, key);
        let _ = reader.key_of(&data);
        for _ in 0..2 {
            let mut tuple = Vec::new();
            if reader.read(&data, &mut tuple) == Ok(true) {
                prop_assert!(Tuple::parse(&tuple).is_ok());
            }
        }
    }
}
