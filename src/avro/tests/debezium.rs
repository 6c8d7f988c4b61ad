//! Whole records in Debezium's types. Values alone: src/avro/debezium/tests.rs.

use super::*;
use crate::avro::{ColumnRule, Reason};
use crate::envelope::RowChange;
use crate::pgoutput::OldTuple;
use crate::row::Rule;

fn facts(columns: &[(&str, bool, Option<&str>)]) -> CatalogFacts {
    let columns = columns.iter().map(|(name, not_null, default)| {
        let facts = ColumnFacts {
            not_null: *not_null,
            default: default.map(str::to_owned),
            toasted: false,
        };
        ((*name).to_owned(), facts)
    });
    CatalogFacts {
        columns: columns.collect(),
        ..CatalogFacts::default()
    }
}

fn encoder(relation: &Relation, facts: &CatalogFacts) -> TableEncoder {
    let settings = EncoderSettings {
        types: TypeDialect::Debezium,
        nullability: Nullability::Catalog,
        ..settings(EnvelopeKind::Debezium)
    };
    TableEncoder::compile_with(relation, &[], TOPIC, &settings, facts).unwrap()
}

/// Key, value and headers of each record of a change.
fn records(encoder: &TableEncoder, change: RowChange<'_>) -> Result<Vec<(Json, Option<Json>, Json)>, Reason> {
    let mut batch = Batch::new();
    encoder
        .encode(change, &transaction(), LSN, &mut 0, &mut batch)
        .map_err(|bad| bad.kind)?;
    let of = |record: Record<'_>| {
        let headers = record
            .headers
            .iter()
            .filter(|(name, _)| name.starts_with("__"))
            .map(|(name, value)| (name.to_owned(), json!(String::from_utf8_lossy(value))));
        (
            read(encoder.key_schema().unwrap(), 0, record.key.unwrap()),
            record.value.map(|value| read(encoder.value_schema(), 0, value)),
            Json::Object(headers.collect()),
        )
    };
    Ok(batch.records().map(of).collect())
}

#[test]
fn a_changed_key_is_named_by_headers_on_either_side() {
    let encoder = encoder(
        &orders(),
        &facts(&[("note", true, None), ("body", false, Some("'x'::text"))]),
    );
    let (old, new) = (
        tuple(&[t("1"), Datum::Null, Datum::Null]),
        tuple(&[t("2"), t("n"), Datum::Unchanged]),
    );
    let change = RowChange::Update {
        old: Some(OldTuple::Key(old.as_tuple())),
        new: new.as_tuple(),
    };
    let records = records(&encoder, change).unwrap();
    let [(deleted, delete, to), (dead, None, dead_to), (created, create, from)] = &records[..] else {
        panic!("{records:?}")
    };
    assert_eq!(
        (deleted, dead, created),
        (&json!({"id": 1}), &json!({"id": 1}), &json!({"id": 2}))
    );
    assert_eq!(to, &json!({"__debezium.newkey": r#"{"id":2}"#}));
    assert_eq!(dead_to, to);
    assert_eq!(from, &json!({"__debezium.oldkey": r#"{"id":1}"#}));
    let before = &delete.as_ref().unwrap()["before"];
    assert_eq!(before, &json!({"id": 1, "note": "", "body": null}));
    let create = create.as_ref().unwrap();
    assert_eq!(
        create["after"],
        json!({"id": 2, "note": "n", "body": "__debezium_unavailable_value"})
    );
    assert_eq!(create["unchanged"], json!(["body"]));
}

#[test]
fn a_null_in_a_column_that_is_not_null_is_no_other_value() {
    let encoder = encoder(&orders(), &facts(&[("note", true, None)]));
    let new = tuple(&[t("1"), Datum::Null, Datum::Null]);
    let change = RowChange::Insert { new: new.as_tuple() };
    assert_eq!(records(&encoder, change).unwrap_err(), Reason::NullInNotNull);
    let whole = RowChange::Delete {
        old: OldTuple::Full(new.as_tuple()),
    };
    assert_eq!(
        records(&encoder, whole).unwrap_err(),
        Reason::NullInNotNull,
        "a NULL that was sent"
    );
}

#[test]
fn a_default_never_stands_for_a_null() {
    let encoder = encoder(&orders(), &facts(&[("note", false, Some("'x'::text"))]));
    let schema: Json = serde_json::from_str(encoder.value_schema()).unwrap();
    let note = &schema["fields"][0]["type"][1]["fields"][1];
    assert_eq!(
        note,
        &json!({"name": "note", "type": [{"type": "string", "connect.default": "x"}, "null"], "default": "x"})
    );
    let new = tuple(&[t("1"), Datum::Null, t("b")]);
    let change = RowChange::Insert { new: new.as_tuple() };
    let records = records(&encoder, change).unwrap();
    assert_eq!(
        records[0].1.as_ref().unwrap()["after"],
        json!({"id": 1, "note": null, "body": "b"})
    );
}

#[test]
fn names_are_adjusted_as_debezium_does_and_kept_apart_where_they_would_meet() {
    let names = |names: [&str; 2]| {
        let mut relation = orders();
        relation.columns[1].name = names[0].into();
        relation.columns[2].name = names[1].into();
        let encoder = encoder(&relation, &CatalogFacts::default());
        let schema: Json = serde_json::from_str(encoder.value_schema()).unwrap();
        Schema::parse_str(encoder.value_schema()).unwrap();
        let fields = &schema["fields"][0]["type"][1]["fields"];
        [1, 2].map(|at| fields[at]["name"].as_str().unwrap().to_owned())
    };
    assert_eq!(names(["1st", "größe"]), ["_1st", "gr__e"]);
    assert_eq!(names(["order-id", "order_id"]), ["order_u002Did", "order_id"]);
}

#[test]
fn rules_hold_for_columns_in_debeziums_types_too() {
    let settings = EncoderSettings {
        types: TypeDialect::Debezium,
        nullability: Nullability::Catalog,
        ..settings(EnvelopeKind::Debezium)
    };
    let rule = |rule| {
        Some(ColumnRule {
            pattern: "x".into(),
            rule,
        })
    };
    let rules = [None, rule(Rule::Exclude), rule(Rule::Fixed("***".into()))];
    let facts = facts(&[("note", true, Some("'x'::text")), ("body", true, None)]);
    let encoder = TableEncoder::compile_with(&orders(), &rules, TOPIC, &settings, &facts).unwrap();
    let new = tuple(&[t("1"), t("secret"), t("secret")]);
    let records_of = records(&encoder, RowChange::Insert { new: new.as_tuple() }).unwrap();
    assert_eq!(
        records_of[0].1.as_ref().unwrap()["after"],
        json!({"id": 1, "body": "***"})
    );
    let unchanged = tuple(&[t("1"), Datum::Unchanged, Datum::Unchanged]);
    let change = RowChange::Update {
        old: None,
        new: unchanged.as_tuple(),
    };
    let records = records(&encoder, change).unwrap();
    let value = records[0].1.as_ref().unwrap();
    assert_eq!(value["after"], json!({"id": 1, "body": "__debezium_unavailable_value"}));
    assert_eq!(value["unchanged"], json!(["body"]));
}

#[test]
fn the_row_envelope_has_debeziums_types_too() {
    let settings = EncoderSettings {
        types: TypeDialect::Debezium,
        nullability: Nullability::Optional,
        ..settings(EnvelopeKind::Row)
    };
    let mut relation = orders();
    relation.columns[1].ty = base(1184, "timestamptz");
    let facts = facts(&[("note", true, None)]);
    let encoder = TableEncoder::compile_with(&relation, &[], TOPIC, &settings, &facts).unwrap();
    let schema: Json = serde_json::from_str(encoder.value_schema()).unwrap();
    assert_eq!(schema["connect.name"], "shop.public.orders.Value");
    let zoned = json!({"type": "string", "connect.version": 1, "connect.name": "io.debezium.time.ZonedTimestamp"});
    assert_eq!(
        schema["fields"][1]["type"],
        json!(["null", zoned]),
        "optional, whatever the catalog says"
    );
    let (old, new) = (
        tuple(&[t("1"), Datum::Null, Datum::Null]),
        tuple(&[t("2"), t("2024-02-29 12:34:56+00"), Datum::Null]),
    );
    let change = RowChange::Update {
        old: Some(OldTuple::Key(old.as_tuple())),
        new: new.as_tuple(),
    };
    let records = records(&encoder, change).unwrap();
    let [(_, None, no_header), (key, Some(row), _)] = &records[..] else {
        panic!("{records:?}")
    };
    assert_eq!(no_header, &json!({}), "these headers belong to the envelope");
    assert_eq!(key, &json!({"id": 2}));
    assert_eq!(
        row,
        &json!({"id": 2, "note": "2024-02-29T12:34:56.000000Z", "body": null})
    );
}
