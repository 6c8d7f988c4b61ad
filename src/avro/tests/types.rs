use super::*;
use crate::envelope::RowChange;
use crate::row::ValueError;
use crate::row::tests::bytes as from_hexadecimal;

/// Encodes one value of a nullable column and reads it back.
pub(super) fn round_trip(ty: &Arc<PgType>, typmod: i32, datum: Datum<'_>) -> Result<Json, BadRow> {
    let mut value = column("v", ty.clone(), false);
    value.typmod = typmod;
    let encoder = compile(&relation(vec![value], &[], ReplicaIdentity::Default), EnvelopeKind::Row);
    let mut batch = Batch::new();
    let row = tuple(&[datum]);
    encoder.encode(
        RowChange::Insert { new: row.as_tuple() },
        &transaction(),
        LSN,
        &mut 0,
        &mut batch,
    )?;
    let record = batch.records().next().unwrap();
    Ok(read(encoder.value_schema(), 0x0102_0304, record.value.unwrap())["v"].clone())
}

pub(super) fn both(ty: &Arc<PgType>, typmod: i32, text: &str, binary: &[u8], expected: Json) {
    assert_eq!(
        round_trip(ty, typmod, t(text)).unwrap(),
        expected,
        "{} text {text}",
        ty.name
    );
    assert_eq!(
        round_trip(ty, typmod, Datum::Binary(binary)).unwrap(),
        expected,
        "{} binary {text}",
        ty.name
    );
}

pub(super) fn refused(ty: &Arc<PgType>, typmod: i32, datum: Datum<'_>, error: ValueError) {
    let bad = round_trip(ty, typmod, datum).unwrap_err();
    assert_eq!(bad.kind, Reason::Value(error), "{}", ty.name);
    assert_eq!(bad.column.as_deref(), Some("v"));
}

#[test]
fn booleans_and_integers() {
    both(&base(16, "bool"), -1, "t", &[1], json!(true));
    both(&base(16, "bool"), -1, "f", &[0], json!(false));
    both(&base(21, "int2"), -1, "-32768", &i16::MIN.to_be_bytes(), json!(-32_768));
    both(
        &base(23, "int4"),
        -1,
        "2147483647",
        &i32::MAX.to_be_bytes(),
        json!(2_147_483_647),
    );
    both(
        &base(20, "int8"),
        -1,
        "-9223372036854775808",
        &i64::MIN.to_be_bytes(),
        json!(i64::MIN),
    );
    both(
        &base(26, "oid"),
        -1,
        "4294967295",
        &u32::MAX.to_be_bytes(),
        json!(4_294_967_295u32),
    );
    both(
        &base(5069, "xid8"),
        -1,
        "9223372036854775807",
        &i64::MAX.to_be_bytes(),
        json!(i64::MAX),
    );
    refused(
        &base(5069, "xid8"),
        -1,
        t("9223372036854775808"),
        ValueError::OutOfRange,
    );
    refused(
        &base(5069, "xid8"),
        -1,
        Datum::Binary(&u64::MAX.to_be_bytes()),
        ValueError::OutOfRange,
    );
}

#[test]
fn floats_keep_every_special_value() {
    let (float4, float8) = (base(700, "float4"), base(701, "float8"));
    both(&float4, -1, "0.1", &0.1f32.to_be_bytes(), json!("0.1f"));
    both(&float4, -1, "-0", &(-0.0f32).to_be_bytes(), json!("-0.0f"));
    both(&float4, -1, "NaN", &f32::NAN.to_be_bytes(), json!("NaNf"));
    both(
        &float4,
        -1,
        "-Infinity",
        &f32::NEG_INFINITY.to_be_bytes(),
        json!("-inff"),
    );
    both(&float8, -1, "0.1", &0.1f64.to_be_bytes(), json!("0.1"));
    both(&float8, -1, "-0", &(-0.0f64).to_be_bytes(), json!("-0.0"));
    both(&float8, -1, "1e-307", &1e-307f64.to_be_bytes(), json!("1e-307"));
    both(&float8, -1, "NaN", &f64::NAN.to_be_bytes(), json!("NaN"));
    both(&float8, -1, "Infinity", &f64::INFINITY.to_be_bytes(), json!("inf"));
}

#[test]
fn numeric_is_a_decimal_or_exactly_postgress_digits() {
    let numeric = base(1700, "numeric");
    let of = |precision: i32, scale: i32| (precision << 16 | (scale & 0x7ff)) + 4;
    // 1234.50: digits 1234, 5000; weight 0; scale 2
    both(
        &numeric,
        of(12, 2),
        "1234.50",
        &from_hexadecimal("000200000000000204d21388"),
        json!("decimal 123450"),
    );
    both(
        &numeric,
        of(12, 2),
        "-0.01",
        &from_hexadecimal("0001ffff400000020064"),
        json!("decimal -1"),
    );
    both(
        &numeric,
        of(12, 0),
        "0",
        &from_hexadecimal("0000000000000000"),
        json!("decimal 0"),
    );
    both(
        &numeric,
        -1,
        "1234.50",
        &from_hexadecimal("000200000000000204d21388"),
        json!("1234.50"),
    );
    both(
        &numeric,
        -1,
        "0.000",
        &from_hexadecimal("0000000000000003"),
        json!("0.000"),
    );
    both(&numeric, -1, "NaN", &from_hexadecimal("00000000c0000000"), json!("NaN"));
    both(
        &numeric,
        -1,
        "Infinity",
        &from_hexadecimal("00000000d0000000"),
        json!("Infinity"),
    );
    both(
        &numeric,
        -1,
        "-Infinity",
        &from_hexadecimal("00000000f0000000"),
        json!("-Infinity"),
    );
    both(
        &numeric,
        of(5, -2),
        "123400",
        &from_hexadecimal("0002000100000000000c0d48"),
        json!("123400"),
    );
    both(
        &numeric,
        of(3, 5),
        "0.00123",
        &from_hexadecimal("0002ffff00000005000c0bb8"),
        json!("0.00123"),
    );
    let thousand = "7".repeat(1000);
    let mut binary = from_hexadecimal("00fa00f900000000");
    binary.extend((0..250).flat_map(|_| 7777u16.to_be_bytes()));
    both(&numeric, -1, &thousand, &binary, json!(thousand));
    refused(&numeric, of(12, 2), t("NaN"), ValueError::NotFinite);
    refused(
        &numeric,
        of(12, 2),
        Datum::Binary(&from_hexadecimal("00000000c0000000")),
        ValueError::NotFinite,
    );
}

#[test]
fn money_is_passed_on_as_sent_and_has_no_binary_form() {
    let money = base(790, "money");
    assert_eq!(round_trip(&money, -1, t("-$1,234.50")).unwrap(), json!("-$1,234.50"));
    refused(
        &money,
        -1,
        Datum::Binary(&123_450i64.to_be_bytes()),
        ValueError::NoBinaryForm,
    );
}

#[test]
fn text_is_passed_on_untouched() {
    for (oid, name) in [
        (25, "text"),
        (1043, "varchar"),
        (1042, "bpchar"),
        (19, "name"),
        (142, "xml"),
        (60_001, "citext"),
    ] {
        both(
            &base(oid, name),
            -1,
            "größe 🦀  ",
            "größe 🦀  ".as_bytes(),
            json!("größe 🦀  "),
        );
        both(&base(oid, name), -1, "", b"", json!(""));
    }
    let document = r#"{"a": "\u0000", "n": 9007199254740993, "n": 1.50, "a":2}"#;
    both(&base(114, "json"), -1, document, document.as_bytes(), json!(document));
    both(
        &base(3802, "jsonb"),
        -1,
        document,
        format!("\u{1}{document}").as_bytes(),
        json!(document),
    );
    both(&base(18, "char"), -1, "x", b"x", json!("x"));
    both(&base(18, "char"), -1, "", &[0], json!(""));
    both(&base(18, "char"), -1, "\\344", &[0xe4], json!("\\344"));
    let mood = Arc::new(PgType {
        oid: 60_002,
        schema: "public".into(),
        name: "mood".into(),
        kind: TypeKind::Enum,
    });
    both(
        &mood,
        -1,
        "a label added while running",
        b"a label added while running",
        json!("a label added while running"),
    );
    refused(&text(), -1, Datum::Text(b"gr\xf6\xdfe"), ValueError::InvalidUtf8);
    refused(&text(), -1, Datum::Binary(b"gr\xf6\xdfe"), ValueError::InvalidUtf8);
}

#[test]
fn bytea_is_the_same_under_both_outputs() {
    let bytea = base(17, "bytea");
    both(
        &bytea,
        -1,
        "\\xdeadbeef00",
        &[0xde, 0xad, 0xbe, 0xef, 0],
        json!("0xdeadbeef00"),
    );
    both(
        &bytea,
        -1,
        "\\336\\255\\276\\357\\000",
        &[0xde, 0xad, 0xbe, 0xef, 0],
        json!("0xdeadbeef00"),
    );
    both(&bytea, -1, "\\x", &[], json!("0x"));
}

#[test]
fn uuids_are_text_in_both_forms() {
    let text = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
    let binary = 0xa0ee_bc99_9c0b_4ef8_bb6d_6bb9_bd38_0a11_u128.to_be_bytes();
    both(&base(2950, "uuid"), -1, text, &binary, json!(format!("uuid {text}")));
}

#[test]
fn dates_and_times_at_their_ends() {
    let date = base(1082, "date");
    both(&date, -1, "2024-02-29", &8825i32.to_be_bytes(), json!(19_782));
    both(
        &date,
        -1,
        "4714-11-24 BC",
        &(-2_451_545i32).to_be_bytes(),
        json!(-2_440_588),
    );
    both(&date, -1, "infinity", &i32::MAX.to_be_bytes(), json!(i32::MAX));
    both(&date, -1, "-infinity", &i32::MIN.to_be_bytes(), json!(i32::MIN));
    both(
        &base(1083, "time"),
        -1,
        "24:00:00",
        &86_400_000_000i64.to_be_bytes(),
        json!(86_400_000_000i64),
    );
    let mut timetz = 45_296_500_000i64.to_be_bytes().to_vec();
    timetz.extend((-7200i32).to_be_bytes());
    both(
        &base(1266, "timetz"),
        -1,
        "12:34:56.5+02",
        &timetz,
        json!("12:34:56.5+02"),
    );
    let timestamp = base(1114, "timestamp");
    both(
        &timestamp,
        -1,
        "1969-12-31 23:59:59.999999",
        &(-946_684_800_000_001i64).to_be_bytes(),
        json!(-1),
    );
    both(&timestamp, -1, "infinity", &i64::MAX.to_be_bytes(), json!(i64::MAX));
    let timestamptz = base(1184, "timestamptz");
    both(
        &timestamptz,
        -1,
        "2000-01-01 00:00:00.5+00",
        &500_000i64.to_be_bytes(),
        json!(946_684_800_500_000i64),
    );
    both(
        &timestamptz,
        -1,
        "2000-01-01 05:45:00.5+05:45",
        &500_000i64.to_be_bytes(),
        json!(946_684_800_500_000i64),
    );
    both(&timestamptz, -1, "-infinity", &i64::MIN.to_be_bytes(), json!(i64::MIN));
    refused(
        &timestamptz,
        -1,
        t("294276-12-31 23:59:59.999999+00"),
        ValueError::OutOfRange,
    );
    refused(
        &timestamp,
        -1,
        Datum::Binary(&9_223_371_331_199_999_999i64.to_be_bytes()),
        ValueError::OutOfRange,
    );
}

#[test]
fn a_domain_is_its_base_type() {
    let price = Arc::new(PgType {
        oid: 60_003,
        schema: "public".into(),
        name: "price".into(),
        kind: TypeKind::Domain {
            base: base(1700, "numeric"),
            typmod: ((12 << 16) | 2) + 4,
        },
    });
    both(
        &price,
        -1,
        "1234.50",
        &from_hexadecimal("000200000000000204d21388"),
        json!("decimal 123450"),
    );
}

#[test]
fn any_other_type_is_postgress_text() {
    for (oid, name, value, binary) in [
        (869, "inet", "10.0.0.1/8", "02080004 0a000001"),
        (
            650,
            "cidr",
            "2001:db8::/32",
            "03200110 20010db8000000000000000000000000",
        ),
        (829, "macaddr", "08:00:2b:01:02:0f", "08002b01020f"),
        (774, "macaddr8", "08:00:2b:01:02:0f:ff:00", "08002b01020fff00"),
        (
            1186,
            "interval",
            "P1Y2M3DT4H5M6.7S",
            "000000036c966ee0 00000003 0000000e",
        ),
        (
            1186,
            "interval",
            "P-1M3DT-4H-5M-6.000001S",
            "fffffffc93743f7f 00000003 ffffffff",
        ),
        (1186, "interval", "infinity", "7fffffffffffffff 7fffffff 7fffffff"),
        (1560, "bit", "101000001", "00000009 a080"),
        (1562, "varbit", "", "00000000"),
        (600, "point", "(1.5,-0)", "3ff8000000000000 8000000000000000"),
        (
            718,
            "circle",
            "<(1,2),3>",
            "3ff0000000000000 4000000000000000 4008000000000000",
        ),
        (3220, "pg_lsn", "16/B374D848", "00000016b374d848"),
        (
            3614,
            "tsvector",
            "'a':1A,2 'it''s':5",
            "00000002 61000002c0010002 697427730000010005",
        ),
        (
            3615,
            "tsquery",
            "'a' & ( 'b' | 'c' )",
            "0000000502020203010000630001000062000100006100",
        ),
        (4072, "jsonpath", "$.\"a\"", "01242e226122"),
        (60_004, "ltree", "a.b", "01612e62"),
        (28, "xid", "4294967295", "ffffffff"),
    ] {
        both(
            &base(oid, name),
            -1,
            value,
            &from_hexadecimal(&binary.replace(' ', "")),
            json!(value),
        );
    }
    for (oid, name) in [(60_005, "cube"), (2205, "regclass"), (790, "money")] {
        assert_eq!(round_trip(&base(oid, name), -1, t("(1)")).unwrap(), json!("(1)"));
        refused(&base(oid, name), -1, Datum::Binary(&[0; 8]), ValueError::NoBinaryForm);
    }
    refused(&base(1186, "interval"), -1, t("1 mon"), ValueError::Malformed);
}

#[test]
fn ranges_are_postgress_text() {
    let range = Arc::new(PgType {
        oid: 3908,
        schema: "pg_catalog".into(),
        name: "tsrange".into(),
        kind: TypeKind::Range {
            subtype: base(1114, "timestamp"),
        },
    });
    let text = "[\"2024-01-01 00:00:00.5\",infinity]";
    let sent = from_hexadecimal("06000000080002b0d5d4f0e120000000087fffffffffffffff");
    both(&range, -1, text, &sent, json!(text));
    let multirange = Arc::new(PgType {
        oid: 4451,
        schema: "pg_catalog".into(),
        name: "int4multirange".into(),
        kind: TypeKind::Multirange { subtype: int4() },
    });
    let sent = "00000002000000110200000004000000010000000400000005000000110200000004000000070000000400000009";
    both(
        &multirange,
        -1,
        "{[1,5),[7,9)}",
        &from_hexadecimal(sent),
        json!("{[1,5),[7,9)}"),
    );
}

#[test]
fn null_is_null_in_every_type() {
    for (oid, name) in [
        (16, "bool"),
        (23, "int4"),
        (25, "text"),
        (1700, "numeric"),
        (2950, "uuid"),
        (1184, "timestamptz"),
    ] {
        assert_eq!(round_trip(&base(oid, name), -1, Datum::Null).unwrap(), Json::Null);
    }
}

#[test]
fn a_binary_stream_refuses_a_column_that_is_known_by_its_text_only() {
    let encoder = compile(
        &relation(
            vec![column("id", int4(), true), column("price", base(790, "money"), false)],
            &[0],
            ReplicaIdentity::Default,
        ),
        EnvelopeKind::Row,
    );
    assert_eq!(encoder.check_format(false), Ok(()));
    let error = encoder.check_format(true).unwrap_err();
    assert_eq!(
        error.to_string(),
        "column \"price\" of table public.orders has type money, whose binary form is not known"
    );
    assert_eq!(error.hint().unwrap(), "Use replication.format = \"text\".");
}
