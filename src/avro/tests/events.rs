use super::*;
use crate::envelope::{Op, RowChange};
use crate::pgoutput::OldTuple;

/// A record as a reader sees it.
#[derive(Debug, PartialEq)]
struct Seen {
    op: Op,
    key: Json,
    value: Json,
    headers: Vec<(&'static str, String)>,
    ordinal: u64,
}

fn encode_at(encoder: &TableEncoder, change: RowChange<'_>, ordinal: &mut u64) -> Result<Vec<Seen>, BadRow> {
    let mut batch = Batch::new();
    encoder.encode(change, &transaction(), LSN, ordinal, &mut batch)?;
    Ok(batch
        .records()
        .map(|record| {
            assert_eq!(record.position.commit_lsn, transaction().commit_lsn);
            Seen {
                op: record.op,
                key: record
                    .key
                    .map_or(Json::Null, |key| read(encoder.key_schema().unwrap(), 7, key)),
                value: record
                    .value
                    .map_or(Json::Null, |value| read(encoder.value_schema(), 0x0102_0304, value)),
                headers: record
                    .headers
                    .iter()
                    .map(|(name, value)| (name, String::from_utf8(value.to_vec()).unwrap()))
                    .collect(),
                ordinal: record.position.ordinal,
            }
        })
        .collect())
}

fn encode(encoder: &TableEncoder, change: RowChange<'_>) -> Result<Vec<Seen>, BadRow> {
    encode_at(encoder, change, &mut 4)
}

fn debezium(relation: &Relation) -> TableEncoder {
    compile(relation, EnvelopeKind::Debezium)
}

fn full_orders() -> Relation {
    let mut relation = orders();
    relation.replica_identity = ReplicaIdentity::Full;
    for column in &mut relation.columns {
        column.identity = true;
    }
    relation
}

fn tombstone(key: i32, ordinal: u64) -> Seen {
    Seen {
        op: Op::Delete,
        key: json!({"id": key}),
        value: Json::Null,
        headers: vec![
            ("walferry.commit_lsn", "16/B374D848".into()),
            ("walferry.ordinal", ordinal.to_string()),
        ],
        ordinal,
    }
}

#[test]
fn an_insert_is_one_create_with_every_field_of_the_envelope() {
    let row = tuple(&[t("1"), t("hello"), Datum::Null]);
    let mut ordinal = 4;
    let seen = encode_at(
        &debezium(&orders()),
        RowChange::Insert { new: row.as_tuple() },
        &mut ordinal,
    )
    .unwrap();
    assert_eq!(ordinal, 5);
    assert_eq!(
        seen,
        [Seen {
            op: Op::Create,
            key: json!({"id": 1}),
            value: json!({
                "before": null,
                "after": {"id": 1, "note": "hello", "body": null},
                "source": {
                    "version": "0.1.0", "connector": "postgresql", "name": "shop", "ts_ms": 1_709_208_000_123i64,
                    "snapshot": "false", "db": "shopdb", "sequence": "[\"94489280528\",\"97500057600\"]",
                    "ts_us": 1_709_208_000_123_456i64, "ts_ns": 1_709_208_000_123_456_000i64,
                    "schema": "public", "table": "orders", "txId": 731, "lsn": 97_500_057_600i64, "xmin": null,
                    "origin": null, "origin_lsn": null, "commit_lsn": 97_500_059_720i64, "ordinal": 4,
                },
                "transaction": null,
                "op": "c",
                "ts_ms": 1_709_208_000_200i64, "ts_us": 1_709_208_000_200_001i64,
                "ts_ns": 1_709_208_000_200_001_000i64,
                "unchanged": [],
            }),
            headers: vec![],
            ordinal: 4,
        }]
    );
}

#[test]
fn lsns_of_the_upper_half_are_carried_bit_for_bit() {
    let encoder = debezium(&orders());
    let row = tuple(&[t("1"), Datum::Null, Datum::Null]);
    let mut transaction = transaction();
    transaction.commit_lsn = Lsn::new(u64::MAX);
    transaction.previous_commit_lsn = None;
    let mut batch = Batch::new();
    let change = RowChange::Insert { new: row.as_tuple() };
    encoder
        .encode(change, &transaction, Lsn::new(u64::MAX - 1), &mut 0, &mut batch)
        .unwrap();
    let value = read(
        encoder.value_schema(),
        0x0102_0304,
        batch.records().next().unwrap().value.unwrap(),
    );
    assert_eq!(value["source"]["commit_lsn"], -1);
    assert_eq!(value["source"]["lsn"], -2);
    assert_eq!(value["source"]["sequence"], "[null,\"18446744073709551614\"]");
}

#[test]
fn an_update_without_an_old_row_has_no_before() {
    let row = tuple(&[t("1"), t("a"), t("b")]);
    let seen = encode(
        &debezium(&orders()),
        RowChange::Update {
            old: None,
            new: row.as_tuple(),
        },
    )
    .unwrap();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].op, Op::Update);
    assert_eq!(seen[0].value["op"], "u");
    assert_eq!(seen[0].value["before"], Json::Null);
    assert_eq!(seen[0].value["after"], json!({"id": 1, "note": "a", "body": "b"}));
}

#[test]
fn an_unchanged_toast_value_is_null_and_named() {
    let row = tuple(&[t("1"), Datum::Null, Datum::Unchanged]);
    let seen = encode(
        &debezium(&orders()),
        RowChange::Update {
            old: None,
            new: row.as_tuple(),
        },
    )
    .unwrap();
    assert_eq!(seen[0].value["after"], json!({"id": 1, "note": null, "body": null}));
    assert_eq!(seen[0].value["unchanged"], json!(["body"]));
}

#[test]
fn unchanged_names_the_column_and_not_the_field() {
    let mut relation = orders();
    relation.columns[1].name = "a b".into();
    let row = tuple(&[t("1"), Datum::Unchanged, Datum::Unchanged]);
    let change = RowChange::Update {
        old: None,
        new: row.as_tuple(),
    };
    let seen = encode(&debezium(&relation), change).unwrap();
    assert_eq!(seen[0].value["unchanged"], json!(["a b", "body"]));
    let seen = encode(&compile(&relation, EnvelopeKind::Row), change).unwrap();
    assert_eq!(seen[0].headers[6], ("walferry.unchanged", r#"["a b","body"]"#.into()));
    assert_eq!(seen[0].value, json!({"id": 1, "a_u0020b": null, "body": null}));
}

#[test]
fn under_full_an_unchanged_value_is_filled_in_from_the_old_row() {
    let old = tuple(&[t("1"), t("a"), t("long")]);
    let new = tuple(&[t("1"), t("b"), Datum::Unchanged]);
    let change = RowChange::Update {
        old: Some(OldTuple::Full(old.as_tuple())),
        new: new.as_tuple(),
    };
    let seen = encode(&debezium(&full_orders()), change).unwrap();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].value["before"], json!({"id": 1, "note": "a", "body": "long"}));
    assert_eq!(seen[0].value["after"], json!({"id": 1, "note": "b", "body": "long"}));
    assert_eq!(seen[0].value["unchanged"], json!([]));
}

#[test]
fn a_changed_key_is_delete_tombstone_and_create() {
    let old = tuple(&[t("1"), Datum::Null, Datum::Null]);
    let new = tuple(&[t("2"), t("a"), Datum::Unchanged]);
    let change = RowChange::Update {
        old: Some(OldTuple::Key(old.as_tuple())),
        new: new.as_tuple(),
    };
    let mut ordinal = 4;
    let seen = encode_at(&debezium(&orders()), change, &mut ordinal).unwrap();
    assert_eq!(ordinal, 6);
    assert_eq!(seen.len(), 3);
    assert_eq!(
        (seen[0].op, &seen[0].key, seen[0].ordinal),
        (Op::Delete, &json!({"id": 1}), 4)
    );
    assert_eq!(seen[0].value["op"], "d");
    assert_eq!(seen[0].value["before"], json!({"id": 1, "note": null, "body": null}));
    assert_eq!(seen[0].value["after"], Json::Null);
    assert_eq!(seen[0].value["unchanged"], json!([]));
    assert_eq!(seen[0].value["source"]["ordinal"], 4);
    assert_eq!(seen[1], tombstone(1, 4));
    assert_eq!(
        (seen[2].op, &seen[2].key, seen[2].ordinal),
        (Op::Create, &json!({"id": 2}), 5)
    );
    assert_eq!(seen[2].value["op"], "c");
    assert_eq!(seen[2].value["before"], Json::Null);
    assert_eq!(seen[2].value["after"], json!({"id": 2, "note": "a", "body": null}));
    assert_eq!(seen[2].value["unchanged"], json!(["body"]));
    assert_eq!(seen[2].value["source"]["ordinal"], 5);
}

#[test]
fn an_old_key_that_is_the_same_is_one_update() {
    let old = tuple(&[t("1"), Datum::Null, Datum::Null]);
    let new = tuple(&[t("1"), t("a"), t("b")]);
    let change = RowChange::Update {
        old: Some(OldTuple::Key(old.as_tuple())),
        new: new.as_tuple(),
    };
    let seen = encode(&debezium(&orders()), change).unwrap();
    assert_eq!(seen.len(), 1);
    assert_eq!((seen[0].op, seen[0].ordinal), (Op::Update, 4));
    assert_eq!(seen[0].value["before"], json!({"id": 1, "note": null, "body": null}));
}

#[test]
fn a_toasted_key_is_taken_from_the_old_row_or_refused() {
    let mut relation = orders();
    relation.columns[0].ty = text();
    let encoder = debezium(&relation);
    let old = tuple(&[t("long key"), Datum::Null, Datum::Null]);
    let new = tuple(&[Datum::Unchanged, t("a"), t("b")]);
    let change = RowChange::Update {
        old: Some(OldTuple::Key(old.as_tuple())),
        new: new.as_tuple(),
    };
    let seen = encode(&encoder, change).unwrap();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].key, json!({"id": "long key"}));
    assert_eq!(
        seen[0].value["after"],
        json!({"id": "long key", "note": "a", "body": "b"})
    );
    let bad = encode(
        &encoder,
        RowChange::Update {
            old: None,
            new: new.as_tuple(),
        },
    )
    .unwrap_err();
    assert_eq!((bad.reason(), bad.column.as_deref()), ("key_not_sent", Some("id")));
}

#[test]
fn a_delete_is_followed_by_its_tombstone_when_asked_for() {
    let old = tuple(&[t("1"), Datum::Null, Datum::Null]);
    let change = RowChange::Delete {
        old: OldTuple::Key(old.as_tuple()),
    };
    let seen = encode(&debezium(&orders()), change).unwrap();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0].value["op"], "d");
    assert_eq!(seen[0].value["before"], json!({"id": 1, "note": null, "body": null}));
    assert_eq!(seen[0].value["after"], Json::Null);
    assert_eq!(seen[1], tombstone(1, 4));

    let quiet = EncoderSettings {
        tombstones: false,
        ..settings(EnvelopeKind::Debezium)
    };
    let mut encoder = TableEncoder::compile(&orders(), TOPIC, &quiet).unwrap();
    encoder.set_ids(Some(7), 0x0102_0304);
    assert_eq!(encode(&encoder, change).unwrap().len(), 1);
}

#[test]
fn without_a_key_nothing_is_a_tombstone() {
    let mut relation = full_orders();
    relation.key.clear();
    let old = tuple(&[t("1"), t("a"), Datum::Null]);
    let change = RowChange::Delete {
        old: OldTuple::Full(old.as_tuple()),
    };
    for envelope in [EnvelopeKind::Debezium, EnvelopeKind::Row] {
        let encoder = compile(&relation, envelope);
        assert_eq!(encoder.key_schema(), None);
        let seen = encode(&encoder, change).unwrap();
        assert_eq!(seen.len(), 1);
        assert_eq!((seen[0].op, &seen[0].key), (Op::Delete, &Json::Null));
        let row = if envelope == EnvelopeKind::Row {
            &seen[0].value
        } else {
            &seen[0].value["before"]
        };
        assert_eq!(row, &json!({"id": 1, "note": "a", "body": null}));
    }
}

#[test]
fn a_key_stands_in_key_order() {
    let mut relation = orders();
    relation.columns[2].identity = true;
    relation.key = vec![2, 0];
    let encoder = debezium(&relation);
    let row = tuple(&[t("1"), t("a"), t("b")]);
    let mut batch = Batch::new();
    encoder
        .encode(
            RowChange::Insert { new: row.as_tuple() },
            &transaction(),
            LSN,
            &mut 0,
            &mut batch,
        )
        .unwrap();
    assert_eq!(
        batch.records().next().unwrap().key,
        Some(&[0, 0, 0, 0, 7, 2, b'b', 2][..])
    );
}

#[test]
fn under_using_index_a_key_outside_of_the_identity_is_told_and_not_guessed() {
    // The key is `id`, the identity `note`.
    let mut relation = orders();
    relation.replica_identity = ReplicaIdentity::Index;
    relation.columns[0].identity = false;
    relation.columns[1].identity = true;
    let encoder = debezium(&relation);
    let old = tuple(&[Datum::Null, t("a"), Datum::Null]);
    let new = tuple(&[t("1"), t("b"), Datum::Null]);
    let update = RowChange::Update {
        old: Some(OldTuple::Key(old.as_tuple())),
        new: new.as_tuple(),
    };
    let seen = encode(&encoder, update).unwrap();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].value["before"], json!({"id": null, "note": "a", "body": null}));
    let bad = encode(
        &encoder,
        RowChange::Delete {
            old: OldTuple::Key(old.as_tuple()),
        },
    )
    .unwrap_err();
    assert_eq!(
        (bad.reason(), bad.column.as_deref()),
        ("key_not_in_identity", Some("id"))
    );
}

#[test]
fn the_identity_of_an_index_is_the_key() {
    let mut relation = orders();
    relation.replica_identity = ReplicaIdentity::Index;
    relation.columns[0].identity = false;
    relation.columns[1].identity = true;
    relation.key = vec![1];
    let old = tuple(&[Datum::Null, t("a"), Datum::Null]);
    let seen = encode(
        &debezium(&relation),
        RowChange::Delete {
            old: OldTuple::Key(old.as_tuple()),
        },
    )
    .unwrap();
    assert_eq!(seen[0].key, json!({"note": "a"}));
    assert_eq!(seen[0].value["before"], json!({"id": null, "note": "a", "body": null}));
}

#[test]
fn a_truncate_has_neither_key_nor_row() {
    let seen = encode(&debezium(&orders()), RowChange::Truncate).unwrap();
    assert_eq!(seen.len(), 1);
    assert_eq!((seen[0].op, &seen[0].key), (Op::Truncate, &Json::Null));
    assert_eq!(seen[0].value["op"], "t");
    assert_eq!(
        (&seen[0].value["before"], &seen[0].value["after"]),
        (&Json::Null, &Json::Null)
    );
    let seen = encode(&compile(&orders(), EnvelopeKind::Row), RowChange::Truncate).unwrap();
    assert_eq!((&seen[0].key, &seen[0].value), (&Json::Null, &Json::Null));
    assert_eq!(seen[0].headers[0], ("walferry.op", "t".into()));
}

#[test]
fn the_row_envelope_has_the_rest_in_headers() {
    let encoder = compile(&orders(), EnvelopeKind::Row);
    let row = tuple(&[t("1"), t("a"), Datum::Null]);
    let seen = encode(&encoder, RowChange::Insert { new: row.as_tuple() }).unwrap();
    assert_eq!(
        seen,
        [Seen {
            op: Op::Create,
            key: json!({"id": 1}),
            value: json!({"id": 1, "note": "a", "body": null}),
            headers: vec![
                ("walferry.op", "c".into()),
                ("walferry.commit_lsn", "16/B374D848".into()),
                ("walferry.ordinal", "4".into()),
                ("walferry.lsn", "16/B374D000".into()),
                ("walferry.xid", "731".into()),
                ("walferry.ts_us", "1709208000123456".into()),
                ("walferry.unchanged", "[]".into()),
            ],
            ordinal: 4,
        }]
    );
}

#[test]
fn in_the_row_envelope_a_delete_is_a_tombstone_with_headers() {
    let encoder = compile(&orders(), EnvelopeKind::Row);
    let old = tuple(&[t("1"), Datum::Null, Datum::Null]);
    let seen = encode(
        &encoder,
        RowChange::Delete {
            old: OldTuple::Key(old.as_tuple()),
        },
    )
    .unwrap();
    assert_eq!(seen.len(), 1);
    assert_eq!((&seen[0].key, &seen[0].value), (&json!({"id": 1}), &Json::Null));
    assert_eq!(seen[0].headers.len(), 7);
    assert_eq!(seen[0].headers[0], ("walferry.op", "d".into()));

    let new = tuple(&[t("2"), t("a"), Datum::Null]);
    let change = RowChange::Update {
        old: Some(OldTuple::Key(old.as_tuple())),
        new: new.as_tuple(),
    };
    let seen = encode(&encoder, change).unwrap();
    let summary: Vec<_> = seen
        .iter()
        .map(|seen| (seen.op, &seen.key, seen.value.is_null(), seen.ordinal))
        .collect();
    assert_eq!(
        summary,
        [
            (Op::Delete, &json!({"id": 1}), true, 4),
            (Op::Create, &json!({"id": 2}), false, 5)
        ]
    );
}

#[test]
fn a_bad_row_leaves_batch_and_ordinal_as_they_were_and_names_no_value() {
    let encoder = debezium(&orders());
    let good = tuple(&[t("1"), t("a"), t("b")]);
    let bad = tuple(&[t("2"), t("a"), Datum::Text(b"secret \xff")]);
    let mut batch = Batch::new();
    let mut ordinal = 0;
    let insert = |row| RowChange::Insert { new: row };
    encoder
        .encode(insert(good.as_tuple()), &transaction(), LSN, &mut ordinal, &mut batch)
        .unwrap();
    let before = batch.byte_len();
    let error = encoder
        .encode(insert(bad.as_tuple()), &transaction(), LSN, &mut ordinal, &mut batch)
        .unwrap_err();
    assert_eq!((batch.len(), batch.byte_len(), ordinal), (1, before, 1));
    assert_eq!(error.reason(), "invalid_utf8");
    assert_eq!(
        error.to_string(),
        "a row of table public.orders cannot be converted: column \"body\" of type text"
    );
    assert_eq!(
        std::error::Error::source(&error).unwrap().to_string(),
        "the text is not valid UTF-8"
    );
    assert!(!format!("{error:?}").contains("secret"));
}

#[test]
fn what_cannot_be_is_refused() {
    let encoder = debezium(&orders());
    let short = tuple(&[t("1")]);
    assert_eq!(
        encode(&encoder, RowChange::Insert { new: short.as_tuple() })
            .unwrap_err()
            .reason(),
        "column_count"
    );
    let no_key = tuple(&[Datum::Null, t("a"), t("b")]);
    assert_eq!(
        encode(&encoder, RowChange::Insert { new: no_key.as_tuple() })
            .unwrap_err()
            .reason(),
        "null_in_key"
    );
    let old = tuple(&[t("1"), Datum::Unchanged, Datum::Null]);
    let change = RowChange::Delete {
        old: OldTuple::Full(old.as_tuple()),
    };
    assert_eq!(encode(&encoder, change).unwrap_err().reason(), "old_value_not_sent");
}

#[test]
fn a_cleared_batch_starts_anew() {
    let encoder = compile(&orders(), EnvelopeKind::Row);
    let row = tuple(&[t("1"), t("a"), t("b")]);
    let mut batch = Batch::new();
    for _ in 0..3 {
        batch.clear();
        assert!(batch.is_empty());
        let change = RowChange::Insert { new: row.as_tuple() };
        encoder.encode(change, &transaction(), LSN, &mut 0, &mut batch).unwrap();
        encoder.encode(change, &transaction(), LSN, &mut 1, &mut batch).unwrap();
        let records: Vec<_> = batch.records().collect();
        assert_eq!(records.len(), 2);
        assert_eq!(records[0].value, records[1].value);
        let mut space = [("", &b""[..]); MAX_HEADERS];
        assert_eq!(records[1].headers.as_slice(&mut space)[0], ("walferry.op", &b"c"[..]));
    }
}

#[test]
fn a_logical_message_has_debeziums_shape() {
    let mut encoder = MessageEncoder::new(&settings(EnvelopeKind::Row));
    encoder.set_ids(Some(8), 9);
    assert_eq!(encoder.topic(), "shop.message");
    let mut batch = Batch::new();
    let mut ordinal = 4;
    encoder.encode("audit", &[0, 0xff], &transaction(), LSN, &mut ordinal, &mut batch);
    assert_eq!(ordinal, 5);
    let record = batch.records().next().unwrap();
    assert_eq!((record.op, record.position.ordinal), (Op::Message, 4));
    assert_eq!(
        read(encoder.key_schema().unwrap(), 8, record.key.unwrap()),
        json!({"prefix": "audit"})
    );
    let value = read(encoder.value_schema(), 9, record.value.unwrap());
    assert_eq!(value["op"], "m");
    assert_eq!(value["ts_ms"], 1_709_208_000_200i64);
    assert_eq!(value["message"], json!({"prefix": "audit", "content": "0x00ff"}));
    assert_eq!(value["source"]["schema"], "");
    assert_eq!(value["source"]["ordinal"], 4);
}

#[test]
fn a_message_outside_of_a_transaction_has_no_xid() {
    let mut encoder = MessageEncoder::new(&settings(EnvelopeKind::Debezium));
    encoder.set_ids(Some(8), 9);
    let mut outside = transaction();
    outside.xid = 0;
    let mut batch = Batch::new();
    encoder.encode("audit", b"", &outside, LSN, &mut 0, &mut batch);
    let value = read(
        encoder.value_schema(),
        9,
        batch.records().next().unwrap().value.unwrap(),
    );
    assert_eq!(value["source"]["txId"], Json::Null);
}
