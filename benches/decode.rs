//! Decoding: messages a second on one core, from bytes in memory.
//!
//! `cargo bench --bench decode`

mod cpu_time;

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use walferry::pgoutput::{Context, Datum, Message, TupleBuf, decode};

const CONTEXT: Context = Context {
    protocol_version: 4,
    in_stream: false,
    parallel_streaming: false,
};

/// Ten columns, 160 bytes of tuple: two integers, a numeric, a boolean, three texts, a timestamp, a uuid, a NULL.
fn tuple() -> TupleBuf {
    let columns = [
        Datum::Text(b"1234567"),
        Datum::Text(b"42"),
        Datum::Text(b"1999.95"),
        Datum::Text(b"t"),
        Datum::Text(b"ada@example.org"),
        Datum::Text(b"Ada Lovelace"),
        Datum::Text(b"shipped"),
        Datum::Text(b"2024-02-29 12:34:56.789012"),
        Datum::Text(b"00112233-4455-6677-8899-aabbccddeeff"),
        Datum::Null,
    ];
    let mut tuple = TupleBuf::new();
    for column in columns {
        assert_eq!(tuple.push(column), Ok(()));
    }
    tuple
}

fn insert(relation: u32, tuple: &TupleBuf) -> Vec<u8> {
    [
        b"I",
        relation.to_be_bytes().as_slice(),
        b"N\0\x0a",
        tuple.as_tuple().as_bytes(),
    ]
    .concat()
}

fn update_of_everything(relation: u32, tuple: &TupleBuf) -> Vec<u8> {
    let columns = tuple.as_tuple().as_bytes();
    [
        b"U",
        relation.to_be_bytes().as_slice(),
        b"O\0\x0a",
        columns,
        b"N\0\x0a",
        columns,
    ]
    .concat()
}

fn relation(oid: u32) -> Vec<u8> {
    let mut bytes = [b"R", oid.to_be_bytes().as_slice(), b"public\0orders\0d\0\x0a"].concat();
    for name in [
        "id", "customer", "total", "paid", "email", "name", "state", "created", "token", "note",
    ] {
        bytes.push(u8::from(name == "id"));
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(&[0, 0, 0, 0, 25, 0xFF, 0xFF, 0xFF, 0xFF]);
    }
    bytes
}

fn begin() -> Vec<u8> {
    [b"B".as_slice(), &[1; 8], &[2; 8], &[3; 4]].concat()
}

fn commit() -> Vec<u8> {
    [b"C\0".as_slice(), &[1; 8], &[2; 8], &[3; 8]].concat()
}

/// Looks at each column, as an encoder would.
fn length_of_values(message: &Message<'_>) -> usize {
    let Message::Insert(insert) = message else { return 0 };
    let length = |datum| match datum {
        Datum::Null | Datum::Unchanged => 0,
        Datum::Text(value) | Datum::Binary(value) => value.len(),
    };
    insert.new.iter().map(length).sum()
}

fn decoding(criterion: &mut Criterion<cpu_time::CpuTime>) {
    let tuple = tuple();
    let row = insert(16384, &tuple);
    assert_eq!(tuple.as_tuple().as_bytes().len(), 159);

    let mut group = criterion.benchmark_group("decode");
    group.throughput(Throughput::Elements(1));
    group.bench_function("insert of ten columns", |b| {
        b.iter(|| decode(black_box(&row), CONTEXT).is_ok())
    });
    group.bench_function("insert of ten columns, each visited", |b| {
        b.iter(|| {
            decode(black_box(&row), CONTEXT)
                .as_ref()
                .map(length_of_values)
                .unwrap_or(0)
        });
    });
    let update = update_of_everything(16384, &tuple);
    group.bench_function("update of ten columns under full identity", |b| {
        b.iter(|| decode(black_box(&update), CONTEXT).is_ok());
    });
    let relation = relation(16384);
    group.bench_function("relation of ten columns", |b| {
        b.iter(|| decode(black_box(&relation), CONTEXT).is_ok())
    });

    // A transaction as walsender sends it: Begin, Relation, a thousand rows, Commit.
    let mut transaction = vec![begin(), relation];
    transaction.extend((0..1000).map(|_| row.clone()));
    transaction.push(commit());
    group.throughput(Throughput::Elements(1000));
    group.bench_function("transaction of a thousand inserts, each column visited", |b| {
        b.iter(|| {
            let values = |bytes: &Vec<u8>| {
                decode(black_box(bytes), CONTEXT)
                    .as_ref()
                    .map(length_of_values)
                    .unwrap_or(0)
            };
            transaction.iter().map(values).sum::<usize>()
        });
    });
    group.finish();
}

criterion_group!(name = benches; config = cpu_time::criterion(); targets = decoding);
criterion_main!(benches);
