use super::*;
use apache_avro::schema_compatibility::SchemaCompatibility;

#[test]
fn the_value_schema_is_debeziums_with_our_fields_at_the_end() {
    let encoder = compile(&orders(), EnvelopeKind::Debezium);
    let schema: Json = serde_json::from_str(encoder.value_schema()).unwrap();
    let names = |fields: &Json| -> Vec<String> {
        fields
            .as_array()
            .unwrap()
            .iter()
            .map(|field| field["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(schema["name"], "Envelope");
    assert_eq!(schema["namespace"], "shop.public.orders");
    assert_eq!(
        names(&schema["fields"]),
        [
            "before",
            "after",
            "source",
            "transaction",
            "op",
            "ts_ms",
            "ts_us",
            "ts_ns",
            "unchanged"
        ]
    );
    assert_eq!(
        names(&schema["fields"][2]["type"]["fields"]),
        [
            "version",
            "connector",
            "name",
            "ts_ms",
            "snapshot",
            "db",
            "sequence",
            "ts_us",
            "ts_ns",
            "schema",
            "table",
            "txId",
            "lsn",
            "xmin",
            "origin",
            "origin_lsn",
            "commit_lsn",
            "ordinal"
        ]
    );
    assert_eq!(
        schema["fields"][0]["type"][1],
        json!({
            "type": "record", "name": "Value", "namespace": "shop.public.orders",
            "fields": [
                {"name": "id", "type": "int", "walferry.identity": true},
                {"name": "note", "type": ["null", "string"], "default": null, "walferry.identity": false},
                {"name": "body", "type": ["null", "string"], "default": null, "walferry.identity": false},
            ],
            "walferry.schema": "public", "walferry.table": "orders", "walferry.replica_identity": "default",
        })
    );
    assert_eq!(schema["fields"][1]["type"], json!(["null", "shop.public.orders.Value"]));
    assert_eq!(
        encoder.key_schema(),
        Some(
            r#"{"type":"record","name":"Key","namespace":"shop.public.orders","fields":[{"name":"id","type":"int"}]}"#
        )
    );
    assert_eq!(encoder.key_record_name(), Some("shop.public.orders.Key"));
    assert_eq!(encoder.value_record_name(), "shop.public.orders.Envelope");
}

#[test]
fn the_schema_is_a_function_of_the_relation_and_not_of_its_version() {
    let mut again = orders();
    again.version = 5;
    again.oid = 99_999;
    for envelope in [EnvelopeKind::Debezium, EnvelopeKind::Row] {
        assert_eq!(
            compile(&orders(), envelope).value_schema(),
            compile(&again, envelope).value_schema()
        );
    }
}

#[test]
fn a_not_null_column_is_plain_where_every_record_has_its_value() {
    let not_null = |toasted| ColumnFacts {
        not_null: true,
        toasted,
        default: None,
    };
    let facts = CatalogFacts {
        columns: [
            ("note".to_owned(), not_null(false)),
            ("body".to_owned(), not_null(true)),
        ]
        .into(),
        ..CatalogFacts::default()
    };
    let plain = |envelope, replica_identity| {
        let mut relation = orders();
        relation.replica_identity = replica_identity;
        let settings = EncoderSettings {
            nullability: Nullability::Catalog,
            ..settings(envelope)
        };
        let encoder = TableEncoder::compile_with(&relation, &[], TOPIC, &settings, &facts).unwrap();
        let schema: Json = serde_json::from_str(encoder.value_schema()).unwrap();
        let value = match envelope {
            EnvelopeKind::Debezium => &schema["fields"][0]["type"][1],
            EnvelopeKind::Row => &schema,
        };
        [1, 2].map(|column| value["fields"][column]["type"] == "string")
    };
    assert_eq!(plain(EnvelopeKind::Debezium, ReplicaIdentity::Default), [false, false]);
    assert_eq!(plain(EnvelopeKind::Debezium, ReplicaIdentity::Full), [true, true]);
    assert_eq!(plain(EnvelopeKind::Row, ReplicaIdentity::Default), [true, false]);
    assert_eq!(plain(EnvelopeKind::Row, ReplicaIdentity::Full), [true, true]);
}

#[test]
fn a_name_that_avro_forbids_stands_in_the_schema_as_a_property() {
    let mut relation = orders();
    relation.name = "größe \"x\"".into();
    relation.columns[1].name = "order-id".into();
    relation.columns[2].name = "order_u002Did".into();
    let encoder = TableEncoder::compile(&relation, "my-shop.public.t", &settings(EnvelopeKind::Row)).unwrap();
    let schema: Json = serde_json::from_str(encoder.value_schema()).unwrap();
    assert_eq!(schema["namespace"], "my_u002Dshop.public.t");
    assert_eq!(schema["walferry.table"], "größe \"x\"");
    assert_eq!(schema["fields"][0].get("walferry.name"), None);
    assert_eq!(schema["fields"][1]["name"], "order_u002Did");
    assert_eq!(schema["fields"][1]["walferry.name"], "order-id");
    assert_eq!(schema["fields"][2]["name"], "order_u005Fu002Did");
    assert_eq!(schema["fields"][2]["walferry.name"], "order_u002Did");
    Schema::parse_str(encoder.value_schema()).unwrap();
}

#[test]
fn every_schema_is_parsed_by_apache_avro() {
    let many = relation(
        [
            (16, "bool", -1),
            (17, "bytea", -1),
            (20, "int8", -1),
            (700, "float4", -1),
            (701, "float8", -1),
            (1700, "numeric", -1),
            (1700, "numeric", ((1000 << 16) | 1000) + 4),
            (1082, "date", -1),
            (1083, "time", -1),
            (1114, "timestamp", -1),
            (1184, "timestamptz", -1),
            (1266, "timetz", -1),
            (2950, "uuid", -1),
        ]
        .iter()
        .enumerate()
        .map(|(index, (oid, name, typmod))| Column {
            name: format!("c{index}"),
            ty: base(*oid, name),
            typmod: *typmod,
            identity: index < 2,
        })
        .collect(),
        &[1, 0],
        ReplicaIdentity::Full,
    );
    for envelope in [EnvelopeKind::Debezium, EnvelopeKind::Row] {
        let encoder = compile(&many, envelope);
        Schema::parse_str(encoder.value_schema()).unwrap();
        Schema::parse_str(encoder.key_schema().unwrap()).unwrap();
    }
    let messages = MessageEncoder::new(&settings(EnvelopeKind::Debezium));
    Schema::parse_str(messages.value_schema()).unwrap();
    Schema::parse_str(messages.key_schema().unwrap()).unwrap();
}

#[test]
fn adding_and_dropping_columns_is_compatible_in_both_directions() {
    let mut wider = orders();
    wider.columns.push(column("added", base(20, "int8"), false));
    let mut narrower = orders();
    narrower.columns.pop();
    for envelope in [EnvelopeKind::Debezium, EnvelopeKind::Row] {
        let schema = |relation: &Relation| Schema::parse_str(compile(relation, envelope).value_schema()).unwrap();
        let original = schema(&orders());
        for other in [schema(&wider), schema(&narrower)] {
            SchemaCompatibility::can_read(&original, &other).unwrap();
            SchemaCompatibility::can_read(&other, &original).unwrap();
        }
    }
}

#[test]
fn a_key_of_columns_that_are_not_there_is_refused() {
    let mut relation = orders();
    relation.key = vec![3];
    let error = TableEncoder::compile(&relation, TOPIC, &settings(EnvelopeKind::Row)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the key of table public.orders names column number 3, and there are 3"
    );
}

#[test]
fn a_topic_that_kafka_refuses_is_an_error_that_names_the_table() {
    let error = TableEncoder::compile(&orders(), &"x".repeat(250), &settings(EnvelopeKind::Row)).unwrap_err();
    assert_eq!(error.to_string(), "table public.orders has no usable topic");
    assert!(
        std::error::Error::source(&error)
            .unwrap()
            .to_string()
            .contains("250 characters")
    );
}
