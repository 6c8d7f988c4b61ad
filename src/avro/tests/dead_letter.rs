use super::*;
use crate::avro::dead_letter::{LetterError, OldKind, StoredSubject};
use crate::envelope::{Op, Position, RowChange};
use crate::pgoutput::OldTuple;
use crate::relation::Attribute;
use crate::row::ValueError;

const POSITION: Position = Position {
    commit_lsn: Lsn::new(0x16_B374_D848),
    ordinal: 3,
};

/// `"gr\u{f6}"(n numeric(5,2), id int4, PRIMARY KEY (id, n))`, and a column of each kind of type.
fn relation_of_everything() -> Relation {
    let named = |oid: u32, name: &str, kind: TypeKind| {
        Arc::new(PgType {
            oid,
            schema: "public".into(),
            name: name.into(),
            kind,
        })
    };
    let price = named(
        70_001,
        "price",
        TypeKind::Domain {
            base: base(1700, "numeric"),
            typmod: ((12 << 16) | 2) + 4,
        },
    );
    let mood = named(70_002, "mood", TypeKind::Enum);
    let pair = named(
        70_003,
        "pair",
        TypeKind::Composite {
            attributes: vec![
                Attribute {
                    name: "a".into(),
                    number: 1,
                    ty: price,
                    typmod: -1,
                },
                Attribute {
                    name: "b".into(),
                    number: 2,
                    ty: mood,
                    typmod: -1,
                },
            ],
        },
    );
    let pairs = named(
        70_004,
        "_pair",
        TypeKind::Array {
            element: pair,
            delimiter: b',',
        },
    );
    let boxes = Arc::new(PgType {
        oid: 1020,
        schema: "pg_catalog".into(),
        name: "_box".into(),
        kind: TypeKind::Array {
            element: base(603, "box"),
            delimiter: b';',
        },
    });
    let range = named(70_005, "r", TypeKind::Range { subtype: int4() });
    let multirange = named(70_006, "mr", TypeKind::Multirange { subtype: int4() });
    let gone = named(70_007, "type 70007", TypeKind::Other);
    let mut columns = vec![column("n", base(1700, "numeric"), true), column("id", int4(), true)];
    columns[0].typmod = ((5 << 16) | 2) + 4;
    for (name, ty) in [
        ("pairs", pairs),
        ("boxes", boxes),
        ("range", range),
        ("multirange", multirange),
        ("gone", gone),
    ] {
        columns.push(column(name, ty, false));
    }
    let mut relation = relation(columns, &[1, 0], ReplicaIdentity::Index);
    relation.name = "größe".into();
    relation.version = 4;
    relation
}

fn letter<'a>(relation: &'a Relation, change: RowChange<'a>, transaction: &'a Transaction) -> DeadLetter<'a> {
    DeadLetter {
        subject: Subject::Row { relation, change },
        topic: TOPIC,
        transaction,
        lsn: LSN,
        position: POSITION,
        changes: 1,
        reason: "not_finite",
        error: "NaN and infinity have no place in a decimal",
        column: Some("n"),
        column_type: Some("numeric"),
        key: None,
    }
}

/// The letter's record, and whether it is complete.
fn write(letter: &DeadLetter<'_>, limit: usize) -> Result<(Batch, bool), DoesNotFit> {
    let mut batch = Batch::new();
    let mut encoder = DeadLetterEncoder::new(&settings(EnvelopeKind::Debezium));
    encoder.set_id(9);
    let complete = encoder.encode(letter, |_, _| Shown::AsSent, |_| limit, &mut batch)?;
    Ok((batch, complete))
}

fn value(batch: &Batch) -> Value {
    let record = batch.records().next().unwrap();
    let (header, mut body) = record.value.unwrap().split_at(5);
    assert_eq!(header, [0, 0, 0, 0, 9]);
    let encoder = DeadLetterEncoder::new(&settings(EnvelopeKind::Debezium));
    let schema = Schema::parse_str(encoder.value_schema()).unwrap();
    let reader = GenericDatumReader::builder(&schema).build().unwrap();
    let value = reader.read_value(&mut body).unwrap();
    assert_eq!(body, b"");
    value
}

#[test]
fn a_letter_holds_the_row_as_it_was_sent_and_why_it_is_here() {
    let relation = orders();
    let old = tuple(&[t("1"), Datum::Null, Datum::Null]);
    let new = tuple(&[t("2"), Datum::Binary(&[0xff]), Datum::Unchanged]);
    let change = RowChange::Update {
        old: Some(OldTuple::Key(old.as_tuple())),
        new: new.as_tuple(),
    };
    let transaction = transaction();
    let letter = DeadLetter {
        changes: 2,
        key: Some(b"key"),
        ..letter(&relation, change, &transaction)
    };
    let (batch, complete) = write(&letter, 10_000).unwrap();
    assert!(complete);
    let record = batch.records().next().unwrap();
    assert_eq!((record.op, record.key), (Op::Update, Some(&b"key"[..])));
    assert_eq!(record.position, POSITION);
    let headers: Vec<(&str, &str)> = record
        .headers
        .iter()
        .map(|(name, value)| (name, std::str::from_utf8(value).unwrap()))
        .collect();
    assert_eq!(
        headers,
        [
            ("walferry.reason", "not_finite"),
            ("walferry.table", "public.orders"),
            ("walferry.column", "n"),
            ("walferry.op", "u"),
            ("walferry.commit_lsn", "16/B374D848"),
            ("walferry.ordinal", "3"),
            ("walferry.complete", "true"),
        ]
    );
    let ty = |oid: u32, name: &str| {
        json!({"oid": oid, "schema": "pg_catalog", "name": name, "kind": "base",
               "of": null, "typmod": null, "delimiter": null, "attributes": null})
    };
    let datum = |kind: &str, value: Json| json!({"kind": kind, "value": value, "size": null});
    assert_eq!(
        as_json(&value(&batch)),
        json!({
            "pipeline": "shop", "version": "0.1.0", "database": "shopdb", "schema": "public", "table": "orders",
            "topic": TOPIC, "reason": "not_finite", "error": "NaN and infinity have no place in a decimal",
            "column": "n", "column_type": "numeric", "complete": true, "op": "u",
            "commit_lsn": 0x16_B374_D848_u64, "ordinal": 3, "changes": 2, "lsn": 0x16_B374_D000_u64, "xid": 731,
            "previous_commit_lsn": 0x16_0000_0010_u64,
            "commit_time": 1_709_208_000_123_456_u64, "received_time": 1_709_208_000_200_001_u64,
            "relation": {
                "oid": 16_400, "version": 1, "replica_identity": "default",
                "columns": [
                    {"name": "id", "type": ty(23, "int4"), "typmod": -1, "identity": true, "key": 0},
                    {"name": "note", "type": ty(25, "text"), "typmod": -1, "identity": false, "key": null},
                    {"name": "body", "type": ty(25, "text"), "typmod": -1, "identity": false, "key": null},
                ],
            },
            "old": {"kind": "key", "values": [
                datum("text", json!("0x31")), datum("null", Json::Null), datum("null", Json::Null),
            ]},
            "new": [
                datum("text", json!("0x32")), datum("binary", json!("0xff")), datum("unchanged", Json::Null),
            ],
            "message": null,
        })
    );
}

#[test]
fn what_is_read_back_is_the_same_relation_and_change() {
    let relation = relation_of_everything();
    let old = tuple(&[t("1.00"), t("7"), t("{}"), t("{}"), Datum::Null, Datum::Null, t("x")]);
    let new = tuple(&[
        t("2.00"),
        t("7"),
        t("{\"(1.5,glad)\"}"),
        Datum::Null,
        t("[1,2)"),
        Datum::Unchanged,
        t("y"),
    ]);
    let transaction = transaction();
    for change in [
        RowChange::Insert { new: new.as_tuple() },
        RowChange::Update {
            old: None,
            new: new.as_tuple(),
        },
        RowChange::Update {
            old: Some(OldTuple::Full(old.as_tuple())),
            new: new.as_tuple(),
        },
        RowChange::Delete {
            old: OldTuple::Full(old.as_tuple()),
        },
    ] {
        let letter = letter(&relation, change, &transaction);
        let (batch, _) = write(&letter, 10_000).unwrap();
        let stored = StoredLetter::from_value(value(&batch)).unwrap();
        assert_eq!((stored.pipeline.as_str(), stored.database.as_str()), ("shop", "shopdb"));
        assert_eq!((stored.position, stored.changes, stored.lsn), (POSITION, 1, LSN));
        assert_eq!(stored.transaction, transaction);
        assert_eq!(stored.reason, "not_finite");
        let StoredSubject::Row { relation: read, .. } = &stored.subject else {
            panic!("a row")
        };
        assert_eq!(**read, relation);
        let encoder = compile(&relation, EnvelopeKind::Debezium);
        let records = |change: RowChange<'_>| {
            let (mut batch, mut ordinal) = (Batch::new(), 3);
            encoder
                .encode(change, &transaction, LSN, &mut ordinal, &mut batch)
                .unwrap();
            let records = batch.records();
            records
                .map(|record| (record.key.map(<[u8]>::to_vec), record.value.map(<[u8]>::to_vec)))
                .collect::<Vec<_>>()
        };
        assert_eq!(records(stored.subject.change().unwrap()), records(change));
    }
}

#[test]
fn a_logical_message_is_read_back() {
    let transaction = Transaction {
        xid: 0,
        previous_commit_lsn: None,
        ..transaction()
    };
    let relation = orders();
    let letter = DeadLetter {
        subject: Subject::Message {
            prefix: "audit",
            content: b"\0\xff",
        },
        column: None,
        column_type: None,
        ..letter(&relation, RowChange::Truncate, &transaction)
    };
    let (batch, complete) = write(&letter, 10_000).unwrap();
    assert!(complete);
    let stored = StoredLetter::from_value(value(&batch)).unwrap();
    assert_eq!(stored.transaction, transaction);
    let StoredSubject::Message { prefix, content } = stored.subject else {
        panic!("a message")
    };
    assert_eq!((prefix.as_str(), content.as_slice()), ("audit", &b"\0\xff"[..]));
}

#[test]
fn a_letter_that_is_too_large_loses_its_largest_values_and_says_so() {
    let relation = orders();
    let (small, large) = ("s".repeat(300), "l".repeat(5_000));
    let new = tuple(&[t("1"), t(&large), t(&small)]);
    let transaction = transaction();
    let letter = letter(&relation, RowChange::Insert { new: new.as_tuple() }, &transaction);
    let (whole, complete) = write(&letter, usize::MAX).unwrap();
    assert!(complete);
    let size = |batch: &Batch| batch.records().next().unwrap().value.unwrap().len();
    for (limit, kinds) in [
        (size(&whole) + 40, ["text", "text", "text"]),
        (size(&whole) - 1, ["text", "cut", "text"]),
        (size(&whole) - 5_100, ["text", "cut", "cut"]),
    ] {
        let (batch, complete) = write(&letter, limit).unwrap();
        assert!(size(&batch) <= limit, "{} > {limit}", size(&batch));
        assert_eq!(complete, kinds == ["text"; 3]);
        let value = value(&batch);
        let json = as_json(&value);
        let found: Vec<&str> = json["new"]
            .as_array()
            .unwrap()
            .iter()
            .map(|datum| datum["kind"].as_str().unwrap())
            .collect();
        assert_eq!(found, kinds);
        assert_eq!(json["complete"], complete);
        if !complete {
            assert_eq!(json["new"][1], json!({"kind": "cut", "value": null, "size": 5_000}));
            assert_eq!(
                StoredLetter::from_value(value).unwrap_err(),
                LetterError::Cut { size: 5_000 }
            );
        }
    }
    let error = write(&letter, 100).unwrap_err();
    assert_eq!(error.limit, 100);
    assert!(error.size > 100 && error.size < size(&whole) - 5_000, "{error}");
}

#[test]
fn a_value_that_is_not_to_be_shown_is_hidden_or_masked_in_both_rows() {
    let relation = orders();
    let new = tuple(&[t("1"), t("secret"), Datum::Null]);
    let old = tuple(&[t("1"), t("secret"), t("b")]);
    let transaction = transaction();
    let change = RowChange::Update {
        old: Some(OldTuple::Full(old.as_tuple())),
        new: new.as_tuple(),
    };
    let letter = letter(&relation, change, &transaction);
    let mut batch = Batch::new();
    let mut encoder = DeadLetterEncoder::new(&settings(EnvelopeKind::Debezium));
    encoder.set_id(9);
    let shown = |column: usize, datum: Datum<'_>| match (column, datum) {
        (1, _) => Shown::Nothing,
        (2, Datum::Text(_)) => Shown::Masked(b"***".to_vec()),
        _ => Shown::AsSent,
    };
    let complete = encoder.encode(&letter, shown, |_| 10_000, &mut batch);
    assert_eq!(complete, Ok(true));
    let bytes = batch.records().next().unwrap().value.unwrap().to_vec();
    assert!(!bytes.windows(6).any(|window| window == b"secret"));
    let json = as_json(&value(&batch));
    let hidden = json!({"kind": "hidden", "value": null, "size": null});
    assert_eq!((&json["new"][1], &json["old"]["values"][1]), (&hidden, &hidden));
    assert_eq!(json["new"][2]["kind"], "null");
    let masked = json!({"kind": "masked", "value": "0x2a2a2a", "size": null});
    assert_eq!(json["old"]["values"][2], masked);
    let stored = StoredLetter::from_value(value(&batch)).unwrap();
    let StoredSubject::Row {
        old: Some((kind, old)),
        masked,
        hidden,
        ..
    } = stored.subject
    else {
        panic!("a row")
    };
    assert_eq!(kind, OldKind::Full);
    let found: Vec<Datum<'_>> = old.as_tuple().iter().collect();
    assert_eq!(found, [t("1"), Datum::Null, t("***")]);
    assert_eq!((Vec::from_iter(masked), Vec::from_iter(hidden)), (vec![2], vec![1]));
}

#[test]
fn a_refused_change_takes_the_places_that_it_would_have_taken() {
    let mut relation = relation(
        vec![column("n", base(1700, "numeric"), true), column("v", int4(), false)],
        &[0],
        ReplicaIdentity::Default,
    );
    relation.columns[0].typmod = ((5 << 16) | 2) + 4;
    let encoder = compile(&relation, EnvelopeKind::Debezium);
    let places = |old: Option<&[Datum<'_>]>, new: &[Datum<'_>]| {
        let (old, new) = (old.map(tuple), tuple(new));
        let change = RowChange::Update {
            old: old.as_ref().map(|old| OldTuple::Key(old.as_tuple())),
            new: new.as_tuple(),
        };
        let mut batch = Batch::new();
        let places = encoder.places(change, &mut batch);
        assert_eq!(batch.byte_len(), 0);
        let key = encoder.key_of(change, &mut batch);
        assert_eq!(batch.byte_len(), 0);
        (places, key.is_some())
    };
    let bad = t("many");
    // The value is at fault: the keys are compared as they are encoded.
    assert_eq!(places(None, &[t("1.00"), bad]), (1, true));
    assert_eq!(places(Some(&[t("1.00"), Datum::Null]), &[t("2.00"), bad]), (2, true));
    assert_eq!(places(Some(&[t("1.0"), Datum::Null]), &[t("1.00"), bad]), (1, true));
    // A key is at fault: they are compared as they were sent.
    assert_eq!(places(Some(&[t("1.00"), Datum::Null]), &[t("NaN"), t("1")]), (2, false));
    assert_eq!(places(Some(&[t("NaN"), Datum::Null]), &[t("1.00"), t("1")]), (2, true));
    assert_eq!(places(Some(&[t("NaN"), Datum::Null]), &[t("NaN"), t("1")]), (1, false));
    assert_eq!(
        places(Some(&[t("NaN"), Datum::Null]), &[Datum::Unchanged, bad]),
        (1, false)
    );
    let new = tuple(&[t("NaN"), t("1")]);
    let error = encoder.encode(
        RowChange::Insert { new: new.as_tuple() },
        &transaction(),
        LSN,
        &mut 0,
        &mut Batch::new(),
    );
    assert_eq!(error.unwrap_err().kind, Reason::Value(ValueError::NotFinite));
}
