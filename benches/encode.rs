//! Rows a second through the compiled encoder, and through apache-avro's `Value` in the same run.
//!
//! A row is an order of ten columns, about 160 bytes as Postgres sends it in text. `cargo bench --bench encode`.

#![allow(clippy::expect_used, clippy::panic, missing_docs, reason = "the input is a constant")]

mod cpu_time;

use std::hint::black_box;
use std::sync::Arc;

use apache_avro::Schema;
use apache_avro::types::Value;
use apache_avro::writer::datum::GenericDatumWriter;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

use walferry::avro::{Batch, EncoderSettings, EnvelopeKind, Nullability, TableEncoder, TypeDialect};
use walferry::envelope::{RowChange, Transaction};
use walferry::lsn::Lsn;
use walferry::pgoutput::{Datum, Tuple, TupleBuf};
use walferry::relation::{Attribute, Column, PgType, Relation, ReplicaIdentity, TypeKind};

/// Name, type and text of each column.
const COLUMNS: [(&str, u32, &str, i32, &str); 10] = [
    ("id", 20, "int8", -1, "1234567890"),
    ("quantity", 23, "int4", -1, "42"),
    ("customer", 25, "text", -1, "Wilhelmina van der Berg"),
    ("city", 25, "text", -1, "Leiden"),
    ("note", 25, "text", -1, "leave it with the neighbours"),
    ("price", 1700, "numeric", ((12 << 16) | 2) + 4, "123456.78"),
    ("placed_at", 1184, "timestamptz", -1, "2024-02-29 12:34:56.789012+00"),
    ("paid", 16, "bool", -1, "t"),
    ("weight", 701, "float8", -1, "12.375"),
    ("reference", 2950, "uuid", -1, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
];

/// Rows in a batch, which is cleared in between.
const ROWS: u64 = 100;

fn relation() -> Relation {
    let columns = COLUMNS
        .iter()
        .enumerate()
        .map(|(index, (name, oid, type_name, typmod, _))| Column {
            name: (*name).to_owned(),
            ty: Arc::new(PgType {
                oid: *oid,
                schema: "pg_catalog".to_owned(),
                name: (*type_name).to_owned(),
                kind: TypeKind::Base,
            }),
            typmod: *typmod,
            identity: index == 0,
        });
    Relation {
        oid: 16_400,
        version: 1,
        schema: "public".to_owned(),
        name: "orders".to_owned(),
        replica_identity: ReplicaIdentity::Default,
        columns: columns.collect(),
        key: vec![0],
    }
}

fn settings(envelope: EnvelopeKind) -> EncoderSettings {
    EncoderSettings {
        envelope,
        types: TypeDialect::Avro,
        nullability: Nullability::Optional,
        pipeline: "shop".to_owned(),
        database: "shop".to_owned(),
        tombstones: true,
        version: "0.1.0".to_owned(),
    }
}

fn encoder(envelope: EnvelopeKind) -> TableEncoder {
    TableEncoder::compile(&relation(), "shop.public.orders", &settings(envelope)).expect("the relation is sound")
}

fn text_row() -> TupleBuf {
    let mut row = TupleBuf::new();
    for (.., text) in COLUMNS {
        row.push(Datum::Text(text.as_bytes())).expect("the row is small");
    }
    row
}

fn binary_row() -> TupleBuf {
    let id = 1_234_567_890i64.to_be_bytes();
    let quantity = 42i32.to_be_bytes();
    let price = [0, 3, 0, 1, 0, 0, 0, 2, 0, 12, 0x0d, 0x80, 0x1e, 0x78]; // 12|3456|7800
    let placed_at = 762_525_296_789_012i64.to_be_bytes();
    let weight = 12.375f64.to_be_bytes();
    let reference = 0xa0ee_bc99_9c0b_4ef8_bb6d_6bb9_bd38_0a11_u128.to_be_bytes();
    let values: [&[u8]; 10] = [
        &id,
        &quantity,
        COLUMNS[2].4.as_bytes(),
        COLUMNS[3].4.as_bytes(),
        COLUMNS[4].4.as_bytes(),
        &price,
        &placed_at,
        &[1],
        &weight,
        &reference,
    ];
    let mut row = TupleBuf::new();
    for value in values {
        row.push(Datum::Binary(value)).expect("the row is small");
    }
    row
}

/// `id int8, tags text[], home (street text, no int4)`.
fn nested_encoder() -> TableEncoder {
    let base = |oid: u32, name: &str| {
        Arc::new(PgType {
            oid,
            schema: "pg_catalog".to_owned(),
            name: name.to_owned(),
            kind: TypeKind::Base,
        })
    };
    let attribute = |name: &str, number: i16, ty: Arc<PgType>| Attribute {
        name: name.to_owned(),
        number,
        ty,
        typmod: -1,
    };
    let tags = PgType {
        kind: TypeKind::Array {
            element: base(25, "text"),
            delimiter: b',',
        },
        ..PgType::clone(&base(1009, "_text"))
    };
    let home = PgType {
        kind: TypeKind::Composite {
            attributes: vec![
                attribute("street", 1, base(25, "text")),
                attribute("no", 2, base(23, "int4")),
            ],
        },
        ..PgType::clone(&base(16_804, "address"))
    };
    let columns = [
        ("id", base(20, "int8")),
        ("tags", Arc::new(tags)),
        ("home", Arc::new(home)),
    ];
    let relation = Relation {
        columns: columns
            .into_iter()
            .map(|(name, ty)| Column {
                name: name.to_owned(),
                ty,
                typmod: -1,
                identity: name == "id",
            })
            .collect(),
        ..relation()
    };
    let settings = settings(EnvelopeKind::Row);
    TableEncoder::compile(&relation, "shop.public.orders", &settings).expect("the relation is sound")
}

fn nested_text_row() -> TupleBuf {
    let mut row = TupleBuf::new();
    for text in ["1234567890", "{fragile,\"this side up\",NULL}", "(\"Oude Singel\",72)"] {
        row.push(Datum::Text(text.as_bytes())).expect("the row is small");
    }
    row
}

fn nested_binary_row() -> TupleBuf {
    let mut tags = Vec::new();
    for number in [1, 1, 25, 3, 1] {
        tags.extend_from_slice(&i32::to_be_bytes(number));
    }
    let mut home = 2i32.to_be_bytes().to_vec();
    let put = |oid: Option<i32>, value: &[u8], out: &mut Vec<u8>| {
        if let Some(oid) = oid {
            out.extend_from_slice(&oid.to_be_bytes());
        }
        out.extend_from_slice(&i32::try_from(value.len()).expect("the value is small").to_be_bytes());
        out.extend_from_slice(value);
    };
    put(None, b"fragile", &mut tags);
    put(None, b"this side up", &mut tags);
    tags.extend_from_slice(&(-1i32).to_be_bytes());
    put(Some(25), b"Oude Singel", &mut home);
    put(Some(23), &72i32.to_be_bytes(), &mut home);
    let mut row = TupleBuf::new();
    for value in [&1_234_567_890i64.to_be_bytes()[..], &tags, &home] {
        row.push(Datum::Binary(value)).expect("the row is small");
    }
    row
}

fn compiled(encoder: &TableEncoder, row: Tuple<'_>, batch: &mut Batch) {
    let transaction = Transaction {
        xid: 731,
        commit_lsn: Lsn::new(0x16_B374_D848),
        commit_time_us: 1_709_208_000_123_456,
        now_us: 1_709_208_000_200_001,
        previous_commit_lsn: Some(Lsn::new(0x16_0000_0010)),
    };
    batch.clear();
    let mut ordinal = 0;
    for _ in 0..ROWS {
        let change = RowChange::Insert { new: black_box(row) };
        encoder
            .encode(change, &transaction, Lsn::new(0x16_B374_D000), &mut ordinal, batch)
            .expect("the row is sound");
    }
    black_box(batch.byte_len());
}

/// The row as a `Value`, its text parsed by the same functions.
fn value(row: Tuple<'_>) -> Value {
    use walferry::row::{float, integer, numeric, temporal};
    let fields = COLUMNS.iter().zip(row.iter()).map(|((name, oid, ..), datum)| {
        let Datum::Text(text) = datum else {
            panic!("the row is text")
        };
        let value = match oid {
            20 => {
                return (
                    (*name).to_owned(),
                    Value::Long(integer::i64_from_text(text).expect("an int8")),
                );
            }
            23 => Value::Int(integer::i32_from_text(text).expect("an int4")),
            1700 => {
                let mut unscaled = Vec::new();
                numeric::decimal_from_text(text, 12, 2, &mut unscaled).expect("a numeric");
                Value::Decimal(unscaled.into())
            }
            1184 => Value::TimestampMicros(temporal::timestamptz_from_text(text).expect("a timestamptz")),
            16 => Value::Boolean(integer::bool_from_text(text).expect("a bool")),
            701 => Value::Double(float::f64_from_text(text).expect("a float8")),
            // A uuid too: as a string, it is the same bytes, and the cheaper way.
            _ => Value::String(std::str::from_utf8(text).expect("text").to_owned()),
        };
        ((*name).to_owned(), Value::Union(1, Box::new(value)))
    });
    Value::Record(fields.collect())
}

fn encode(criterion: &mut Criterion<cpu_time::CpuTime>) {
    let mut group = criterion.benchmark_group("encode");
    group.throughput(Throughput::Elements(ROWS));
    let (text, binary) = (text_row(), binary_row());
    for (name, envelope, row) in [
        ("row, text", EnvelopeKind::Row, &text),
        ("row, binary", EnvelopeKind::Row, &binary),
        ("debezium, text", EnvelopeKind::Debezium, &text),
        ("debezium, binary", EnvelopeKind::Debezium, &binary),
    ] {
        let encoder = encoder(envelope);
        let mut batch = Batch::new();
        group.bench_function(name, |bencher| {
            bencher.iter(|| compiled(&encoder, row.as_tuple(), &mut batch))
        });
    }
    let nested = nested_encoder();
    for (name, row) in [
        ("nested, text", nested_text_row()),
        ("nested, binary", nested_binary_row()),
    ] {
        let mut batch = Batch::new();
        group.bench_function(name, |bencher| {
            bencher.iter(|| compiled(&nested, row.as_tuple(), &mut batch))
        });
    }
    // The value alone, without key and headers.
    let schema = encoder(EnvelopeKind::Row)
        .value_schema()
        .replace(r#"{"type":"string","logicalType":"uuid"}"#, r#""string""#);
    let schema = Schema::parse_str(&schema).expect("the schema is sound");
    let writer = GenericDatumWriter::builder(&schema)
        .build()
        .expect("the schema is sound");
    let mut out = Vec::new();
    group.bench_function("apache-avro Value, text", |bencher| {
        bencher.iter(|| {
            out.clear();
            for _ in 0..ROWS {
                writer
                    .write_value(&mut out, value(black_box(text.as_tuple())))
                    .expect("the row is sound");
            }
            black_box(out.len());
        });
    });
    group.finish();
}

criterion_group!(name = benches; config = cpu_time::criterion(); targets = encode);
criterion_main!(benches);
