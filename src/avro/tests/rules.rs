//! Columns under rules.

use super::*;
use crate::envelope::{Op, RowChange};
use crate::pgoutput::OldTuple;
use crate::row::{Misfit, Rule, Salt};

/// `printf 'peppersecret' | sha256sum`, and the like.
const SECRET: &str = "744a9101f7182a6ae0d978121ff74e33cac8d2832579c0637c1c37e9bbb6c065";
const SEVEN: &str = "1b44481921a511e3b17e3200b40be11bd079c687d6209960a30c19e45b192723";
const EIGHT: &str = "e73af45c373fee35792c3061ce74756634b9c8e9f282ccdffd258d5e2e5725a6";

fn sha256() -> Rule {
    Rule::Sha256(Salt::new(b"pepper"))
}

fn ruled(relation: &Relation, rules: &[(usize, Rule)], envelope: EnvelopeKind) -> Result<TableEncoder, CompileError> {
    let mut by_column: Vec<Option<ColumnRule>> = vec![None; relation.columns.len()];
    for (column, rule) in rules {
        by_column[*column] = Some(ColumnRule {
            pattern: "public.orders.*".into(),
            rule: rule.clone(),
        });
    }
    let mut encoder = TableEncoder::compile_with_rules(relation, &by_column, TOPIC, &settings(envelope))?;
    encoder.set_ids(encoder.key_schema().is_some().then_some(7), 0x0102_0304);
    Ok(encoder)
}

/// Operation, key, and `before` and `after` or the row of each record.
fn records(encoder: &TableEncoder, change: RowChange<'_>) -> Vec<(Op, Json, Json)> {
    let mut batch = Batch::new();
    encoder.encode(change, &transaction(), LSN, &mut 0, &mut batch).unwrap();
    let records = batch.records().map(|record| {
        let key = record
            .key
            .map_or(Json::Null, |key| read(encoder.key_schema().unwrap(), 7, key));
        let value = record
            .value
            .map_or(Json::Null, |value| read(encoder.value_schema(), 0x0102_0304, value));
        let value = match value.get("source") {
            Some(_) => json!([value["before"], value["after"], value["unchanged"]]),
            None => value,
        };
        (record.op, key, value)
    });
    records.collect()
}

#[test]
fn an_excluded_column_is_in_no_schema_and_no_record() {
    let relation = relation(
        vec![
            column("gone", text(), false),
            column("id", int4(), true),
            column("note", text(), false),
            column("lost", base(790, "money"), false),
        ],
        &[1],
        ReplicaIdentity::Full,
    );
    for envelope in [EnvelopeKind::Debezium, EnvelopeKind::Row] {
        let encoder = ruled(&relation, &[(0, Rule::Exclude), (3, Rule::Exclude)], envelope).unwrap();
        assert!(!encoder.value_schema().contains("gone"), "{}", encoder.value_schema());
        assert!(!encoder.value_schema().contains("lost"));
        assert_eq!(
            encoder.check_format(true),
            Ok(()),
            "what is not read needs no binary form"
        );
        assert_eq!(
            [0, 1, 2, 3].map(|column| encoder.may_show(column)),
            [false, true, true, false]
        );
    }
    let encoder = ruled(
        &relation,
        &[(0, Rule::Exclude), (3, Rule::Exclude)],
        EnvelopeKind::Debezium,
    )
    .unwrap();
    let old = tuple(&[Datum::Unchanged, t("7"), t("a"), Datum::Null]);
    let new = tuple(&[Datum::Null, t("7"), Datum::Unchanged, t("$1")]);
    let change = RowChange::Update {
        old: Some(OldTuple::Full(old.as_tuple())),
        new: new.as_tuple(),
    };
    assert_eq!(
        records(&encoder, change),
        [(
            Op::Update,
            json!({"id": 7}),
            json!([{"id": 7, "note": "a"}, {"id": 7, "note": "a"}, []])
        )]
    );
}

#[test]
fn an_excluded_value_that_was_not_sent_is_not_said_to_be_unchanged() {
    for rule in [Rule::Exclude, sha256()] {
        let excluded = rule == Rule::Exclude;
        let encoder = ruled(&orders(), &[(2, rule)], EnvelopeKind::Debezium).unwrap();
        let new = tuple(&[t("7"), t("a"), Datum::Unchanged]);
        let change = RowChange::Update {
            old: None,
            new: new.as_tuple(),
        };
        let (_, _, value) = records(&encoder, change).remove(0);
        let unchanged = if excluded { json!([]) } else { json!(["body"]) };
        assert_eq!(value[2], unchanged);
    }
}

#[test]
fn a_masked_column_is_a_string_in_before_and_after_and_null_stays_null() {
    let mut relation = orders();
    relation.replica_identity = ReplicaIdentity::Full;
    relation.columns[2].ty = int4();
    let rules = [(1, sha256()), (2, Rule::Fixed("***".into()))];
    let encoder = ruled(&relation, &rules, EnvelopeKind::Debezium).unwrap();
    let old = tuple(&[t("7"), t("secret"), t("42")]);
    let new = tuple(&[t("7"), Datum::Null, Datum::Null]);
    let change = RowChange::Update {
        old: Some(OldTuple::Full(old.as_tuple())),
        new: new.as_tuple(),
    };
    assert_eq!(
        records(&encoder, change),
        [(
            Op::Update,
            json!({"id": 7}),
            json!([{"id": 7, "note": SECRET, "body": "***"}, {"id": 7, "note": null, "body": null}, []])
        )]
    );
    let schema: Json = serde_json::from_str(encoder.value_schema()).unwrap();
    let fields = &schema["fields"][0]["type"][1]["fields"];
    assert_eq!(fields[1]["type"], json!(["null", "string"]));
    assert_eq!(fields[2]["type"], json!(["null", "string"]));
}

#[test]
fn a_masked_key_is_the_same_in_key_before_and_after_and_a_changed_one_is_a_changed_key() {
    let encoder = ruled(&orders(), &[(0, sha256())], EnvelopeKind::Debezium).unwrap();
    let schema: Json = serde_json::from_str(encoder.key_schema().unwrap()).unwrap();
    assert_eq!(schema["fields"][0], json!({"name": "id", "type": "string"}));
    let (seven, eight) = (7i32.to_be_bytes(), 8i32.to_be_bytes());
    for (old_id, new_id) in [(t("7"), t("8")), (Datum::Binary(&seven), Datum::Binary(&eight))] {
        let old = tuple(&[old_id, Datum::Null, Datum::Null]);
        let new = tuple(&[new_id, Datum::Null, Datum::Null]);
        let change = RowChange::Update {
            old: Some(OldTuple::Key(old.as_tuple())),
            new: new.as_tuple(),
        };
        let row = |id: &str| json!({"id": id, "note": null, "body": null});
        assert_eq!(
            records(&encoder, change),
            [
                (Op::Delete, json!({"id": SEVEN}), json!([row(SEVEN), null, []])),
                (Op::Delete, json!({"id": SEVEN}), Json::Null),
                (Op::Create, json!({"id": EIGHT}), json!([null, row(EIGHT), []])),
            ]
        );
        let same = RowChange::Update {
            old: Some(OldTuple::Key(new.as_tuple())),
            new: new.as_tuple(),
        };
        assert_eq!(records(&encoder, same)[0].0, Op::Update);
    }
}

#[test]
fn a_column_made_text_takes_what_its_type_in_avro_cannot() {
    let numeric = column("note", base(1700, "numeric"), false);
    let mut relation = orders();
    relation.columns[1] = Column {
        typmod: ((10 << 16) | 2) + 4,
        ..numeric
    };
    let printed = Rule::Printed { truncate: None };
    let encoder = ruled(&relation, &[(1, printed)], EnvelopeKind::Row).unwrap();
    assert!(encoder.may_show(1));
    for nan in [t("NaN"), Datum::Binary(&[0, 0, 0, 0, 0xc0, 0, 0, 0])] {
        let new = tuple(&[t("7"), nan, Datum::Null]);
        assert_eq!(
            records(&encoder, RowChange::Insert { new: new.as_tuple() })[0].2,
            json!({"id": 7, "note": "NaN", "body": null})
        );
    }
}

#[test]
fn text_is_truncated_by_characters() {
    let encoder = ruled(&orders(), &[(1, Rule::Truncated { characters: 3 })], EnvelopeKind::Row).unwrap();
    let new = tuple(&[t("7"), t("größe"), Datum::Null]);
    assert_eq!(
        records(&encoder, RowChange::Insert { new: new.as_tuple() })[0].2,
        json!({"id": 7, "note": "grö", "body": null})
    );
    assert!(!encoder.may_show(1));
}

#[test]
fn a_rule_that_does_not_fit_names_pattern_column_table_and_type() {
    let error = ruled(&orders(), &[(0, Rule::Exclude)], EnvelopeKind::Row).unwrap_err();
    assert_eq!(
        error,
        CompileError::Rule {
            pattern: "public.orders.*".into(),
            table: "public.orders".into(),
            column: "id".into(),
            type_name: "int4".into(),
            source: Misfit::ExcludedKey,
        }
    );
    let mut relation = orders();
    relation.columns[1].ty = base(790, "money");
    let encoder = ruled(&relation, &[(1, sha256())], EnvelopeKind::Row).unwrap();
    assert_eq!(encoder.check_format(false), Ok(()));
    assert!(matches!(
        encoder.check_format(true),
        Err(CompileError::Rule {
            source: Misfit::NotPrinted,
            ..
        })
    ));
}

#[test]
fn an_error_about_a_ruled_column_has_nothing_of_its_value() {
    let encoder = ruled(&orders(), &[(1, Rule::Truncated { characters: 3 })], EnvelopeKind::Row).unwrap();
    let new = tuple(&[t("7"), Datum::Text(b"hunter2\xff"), Datum::Null]);
    let change = RowChange::Insert { new: new.as_tuple() };
    let error = encoder
        .encode(change, &transaction(), LSN, &mut 0, &mut Batch::new())
        .unwrap_err();
    assert_eq!(
        (error.column.as_deref(), error.reason()),
        (Some("note"), "invalid_utf8")
    );
    assert!(!format!("{error:?} {error}").contains("hunter2"));
}
