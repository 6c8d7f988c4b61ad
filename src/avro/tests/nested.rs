use proptest::prelude::*;

use super::types::{both, refused, round_trip};
use super::*;
use crate::envelope::RowChange;
use crate::relation::Attribute;
use crate::row::ValueError;
use crate::row::tests::bytes;

fn array_of(element: Arc<PgType>, oid: u32) -> Arc<PgType> {
    Arc::new(PgType {
        oid,
        schema: element.schema.clone(),
        name: format!("_{}", element.name),
        kind: TypeKind::Array {
            delimiter: if element.name == "box" { b';' } else { b',' },
            element,
        },
    })
}

fn composite(oid: u32, name: &str, attributes: &[(&str, Arc<PgType>, i32)]) -> Arc<PgType> {
    let attributes = attributes
        .iter()
        .zip(1..)
        .map(|((name, ty, typmod), number)| Attribute {
            name: (*name).into(),
            number,
            ty: ty.clone(),
            typmod: *typmod,
        });
    Arc::new(PgType {
        oid,
        schema: "public".into(),
        name: name.into(),
        kind: TypeKind::Composite {
            attributes: attributes.collect(),
        },
    })
}

fn texts() -> Arc<PgType> {
    array_of(text(), 1009)
}

/// `addr (street text, no int4, tags text[])`. The values that a server sent had an attribute more once, which was dropped.
fn address() -> Arc<PgType> {
    composite(
        16_804,
        "addr",
        &[("street", text(), -1), ("no", int4(), -1), ("tags", texts(), -1)],
    )
}

/// `person (name text, home addr, "größe" numeric(5,2))`.
fn person() -> Arc<PgType> {
    let size = base(1700, "numeric");
    composite(
        16_807,
        "person",
        &[
            ("name", text(), -1),
            ("home", address(), -1),
            ("größe", size, ((5 << 16) | 2) + 4),
        ],
    )
}

#[test]
fn arrays_keep_nulls_quotation_and_emptiness() {
    both(
        &texts(),
        -1,
        r#"{a,"b c",NULL,"NULL","","a\"b\\c","{x}","a,b"}"#,
        &bytes(concat!(
            "0000000100000001000000190000000800000001000000016100000003622063ffffffff000000044e554c4c",
            "00000000000000056122625c63000000037b787d00000003612c62"
        )),
        json!(["a", "b c", null, "NULL", "", "a\"b\\c", "{x}", "a,b"]),
    );
    both(&texts(), -1, "{}", &bytes("000000000000000000000019"), json!([]));
    both(
        &array_of(int4(), 1007),
        -1,
        "{1,NULL,-3}",
        &bytes("00000001000000010000001700000003000000010000000400000001ffffffff00000004fffffffd"),
        json!([1, null, -3]),
    );
    assert_eq!(round_trip(&texts(), -1, Datum::Null).unwrap(), Json::Null);
}

#[test]
fn the_elements_of_an_array_are_what_their_type_is() {
    both(
        &array_of(base(1700, "numeric"), 1231),
        ((5 << 16) | 2) + 4,
        "{1.50,NULL}",
        &bytes("0000000100000001000006a400000002000000010000000c000200000000000200011388ffffffff"),
        json!(["decimal 150", null]),
    );
    refused(
        &array_of(base(1700, "numeric"), 1231),
        ((5 << 16) | 2) + 4,
        t("{NaN}"),
        ValueError::NotFinite,
    );
    both(
        &array_of(base(603, "box"), 1020),
        -1,
        "{(1,1),(0,0);(2,2),(1,1)}",
        &bytes(concat!(
            "00000001000000000000025b0000000200000001",
            "000000203ff00000000000003ff000000000000000000000000000000000000000000000",
            "00000020400000000000000040000000000000003ff00000000000003ff0000000000000"
        )),
        json!(["(1,1),(0,0)", "(2,2),(1,1)"]),
    );
    let mood = Arc::new(PgType {
        oid: 60_002,
        schema: "public".into(),
        name: "mood".into(),
        kind: TypeKind::Enum,
    });
    both(
        &array_of(mood, 60_003),
        -1,
        "{sad,\"very happy\"}",
        &bytes(
            "00000001000000000000ea62000000020000000100000003736164 0000000a76657279206861707079"
                .replace(' ', "")
                .as_str(),
        ),
        json!(["sad", "very happy"]),
    );
    let domain = Arc::new(PgType {
        oid: 60_010,
        schema: "public".into(),
        name: "numbers".into(),
        kind: TypeKind::Domain {
            base: array_of(int4(), 1007),
            typmod: -1,
        },
    });
    both(
        &array_of(domain, 60_011),
        -1,
        "{\"{1,2}\",\"{}\"}",
        &bytes(concat!(
            "00000001000000000000ea6a0000000200000001",
            "000000240000000100000000000000170000000200000001000000040000000100000004",
            "00000002",
            "0000000c000000000000000000000017"
        )),
        json!([[1, 2], []]),
    );
}

#[test]
fn a_domain_over_an_array_is_an_array() {
    let domain = Arc::new(PgType {
        oid: 60_010,
        schema: "public".into(),
        name: "numbers".into(),
        kind: TypeKind::Domain {
            base: array_of(int4(), 1007),
            typmod: -1,
        },
    });
    both(
        &domain,
        -1,
        "{1,NULL,-3}",
        &bytes("00000001000000010000001700000003000000010000000400000001ffffffff00000004fffffffd"),
        json!([1, null, -3]),
    );
}

#[test]
fn arrays_of_another_shape_are_bad_rows() {
    let numbers = array_of(int4(), 1007);
    for text in ["[2:3]={1,2}", "{{1,2},{3,4}}", "[0:0][1:1]={{1}}"] {
        refused(&numbers, -1, t(text), ValueError::ArrayShape);
    }
    let shifted = "000000010000000000000017000000020000000200000004000000010000000400000002";
    refused(&numbers, -1, Datum::Binary(&bytes(shifted)), ValueError::ArrayShape);
    let square = "00000002000000000000001700000002000000010000000200000001";
    refused(&numbers, -1, Datum::Binary(&bytes(square)), ValueError::ArrayShape);
    assert_eq!(ValueError::ArrayShape.label(), "array_shape");
}

#[test]
fn a_composite_is_a_record_of_its_attributes() {
    both(
        &address(),
        -1,
        r#"("a ""b"" \\c",1,"{x,""y z"",NULL}")"#,
        &bytes(concat!(
            "0000000300000019000000086120226222205c630000001700000004",
            "00000001000003f100000024000000010000000100000019000000030000000100000001",
            "780000000379207affffffff"
        )),
        json!({"street": "a \"b\" \\c", "no": 1, "tags": ["x", "y z", null]}),
    );
    both(
        &address(),
        -1,
        "(,,{})",
        &bytes("0000000300000019ffffffff00000017ffffffff000003f10000000c000000000000000000000019"),
        json!({"street": null, "no": null, "tags": []}),
    );
    both(
        &address(),
        -1,
        "(\"\",2,)",
        &bytes("000000030000001900000000000000170000000400000002000003f1ffffffff"),
        json!({"street": "", "no": 2, "tags": null}),
    );
    both(&composite(60_020, "empty", &[]), -1, "()", &[0; 4], json!({}));
    both(
        &composite(60_021, "one", &[("a", int4(), -1)]),
        -1,
        "()",
        &bytes("0000000100000017ffffffff"),
        json!({"a": null}),
    );
}

#[test]
fn composites_nest() {
    both(
        &person(),
        -1,
        r#"(Ann,"(""a """"b"""" \\\\c"",1,""{x,""""y \\\\""""z""""}"")",1.50)"#,
        &bytes(concat!(
            "000000030000001900000003416e6e000041a4000000490000000300000019000000086120226222205c63",
            "000000170000000400000001000003f10000002100000001000000000000001900000002000000010000000178",
            "000000047920227a000006a40000000c000200000000000200011388"
        )),
        json!({
            "name": "Ann",
            "home": {"street": "a \"b\" \\c", "no": 1, "tags": ["x", "y \"z"]},
            "gr_u00F6_u00DFe": "decimal 150"
        }),
    );
    let sent = r#"{"(Ann,\"(\"\"a \"\"\"\"b\"\"\"\" \\\\\\\\c\"\",1,\"\"{x,\"\"\"\"y \\\\\\\\\"\"\"\"z\"\"\"\"}\"\")\",1.50)",NULL}"#;
    assert_eq!(
        round_trip(&array_of(person(), 60_030), -1, t(sent)).unwrap(),
        json!([{
            "name": "Ann",
            "home": {"street": "a \"b\" \\c", "no": 1, "tags": ["x", "y \"z"]},
            "gr_u00F6_u00DFe": "decimal 150"
        }, null])
    );
    refused(&person(), -1, t("(\"a,b\",,NaN)"), ValueError::NotFinite);
}

#[test]
fn a_value_with_other_attributes_than_its_type_is_a_bad_row() {
    for text in ["(a,1)", "(a,1,{},2)", "()"] {
        refused(&address(), -1, t(text), ValueError::Attributes);
    }
    refused(&composite(60_020, "empty", &[]), -1, t("(1)"), ValueError::Attributes);
    let short = bytes("0000000200000019ffffffff00000017ffffffff");
    refused(&address(), -1, Datum::Binary(&short), ValueError::Attributes);
    // Three attributes, the second of them int8.
    let other = bytes("0000000300000019ffffffff00000014ffffffff000003f1ffffffff");
    refused(&address(), -1, Datum::Binary(&other), ValueError::Attributes);
    assert_eq!(ValueError::Attributes.label(), "attributes");
}

#[test]
fn a_record_is_defined_once_and_named_from_there_on() {
    let columns = vec![
        column("id", int4(), true),
        column("homes", array_of(address(), 60_031), false),
        column("owner", person(), false),
    ];
    let encoder = compile(
        &relation(columns, &[0], ReplicaIdentity::Default),
        EnvelopeKind::Debezium,
    );
    let text = encoder.value_schema();
    let schema: Json = serde_json::from_str(text).unwrap();
    let fields = &schema["fields"][0]["type"][1]["fields"];
    let tags = json!(["null", {"type": "array", "items": ["null", "string"]}]);
    assert_eq!(
        fields[1],
        json!({
            "name": "homes",
            "type": ["null", {"type": "array", "items": ["null", {
                "type": "record", "name": "addr", "namespace": "shop.public.orders.public",
                "fields": [
                    {"name": "street", "type": ["null", "string"], "default": null},
                    {"name": "no", "type": ["null", "int"], "default": null},
                    {"name": "tags", "type": tags, "default": null},
                ],
                "walferry.schema": "public", "walferry.type": "addr"
            }]}],
            "default": null, "walferry.identity": false
        })
    );
    assert_eq!(
        fields[2]["type"][1],
        json!({
            "type": "record", "name": "person", "namespace": "shop.public.orders.public",
            "fields": [
                {"name": "name", "type": ["null", "string"], "default": null},
                {"name": "home", "type": ["null", "shop.public.orders.public.addr"], "default": null},
                {
                    "name": "gr_u00F6_u00DFe", "default": null, "walferry.name": "größe",
                    "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}]
                },
            ],
            "walferry.schema": "public", "walferry.type": "person"
        })
    );
    Schema::parse_str(text).unwrap();
}

#[test]
fn types_of_one_name_in_two_schemas_stay_apart() {
    let mut theirs = composite(60_040, "value", &[("a", int4(), -1)]);
    Arc::get_mut(&mut theirs).unwrap().schema = "a.b".into();
    let ours = composite(60_041, "value", &[("b", text(), -1)]);
    let columns = vec![column("x", theirs, false), column("y", ours, false)];
    let encoder = compile(&relation(columns, &[], ReplicaIdentity::Default), EnvelopeKind::Row);
    let schema: Json = serde_json::from_str(encoder.value_schema()).unwrap();
    assert_eq!(
        schema["fields"][0]["type"][1]["namespace"],
        "shop.public.orders.a_u002Eb"
    );
    assert_eq!(schema["fields"][0]["type"][1]["walferry.schema"], "a.b");
    assert_eq!(schema["fields"][1]["type"][1]["namespace"], "shop.public.orders.public");
    Schema::parse_str(encoder.value_schema()).unwrap();
}

#[test]
fn arrays_and_composites_can_be_keys() {
    let columns = vec![column("tags", texts(), true), column("home", address(), true)];
    let encoder = compile(&relation(columns, &[0, 1], ReplicaIdentity::Default), EnvelopeKind::Row);
    let row = tuple(&[t("{a,NULL}"), t("(x,1,)")]);
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
    let record = batch.records().next().unwrap();
    assert_eq!(
        read(encoder.key_schema().unwrap(), 7, record.key.unwrap()),
        json!({"tags": ["a", null], "home": {"street": "x", "no": 1, "tags": null}})
    );
}

#[test]
fn hstore_is_a_map_and_a_vector_an_array_of_floats() {
    both(
        &base(60_050, "hstore"),
        -1,
        r#"""=>"", "a"=>"1", "b\"\\"=>NULL, " x => "=>"\"""#,
        &bytes(concat!(
            "000000040000000000000000000000016100000001310000000362225cffffffff",
            "000000062078203d3e200000000122"
        )),
        json!({"": "", "a": "1", "b\"\\": null, " x => ": "\""}),
    );
    both(&base(60_050, "hstore"), -1, "", &[0; 4], json!({}));
    let expected = json!(["1.0f", "2.5f", "-3.0f"]);
    both(
        &base(60_051, "vector"),
        -1,
        "[1,2.5,-3]",
        &bytes("000300003f80000040200000c0400000"),
        expected.clone(),
    );
    both(
        &base(60_052, "halfvec"),
        -1,
        "[1,2.5,-3]",
        &bytes("000300003c004100c200"),
        expected,
    );
}

#[test]
fn a_bad_row_leaves_the_batch_as_it_was() {
    let encoder = compile(
        &relation(
            vec![column("v", array_of(address(), 60_031), false)],
            &[],
            ReplicaIdentity::Default,
        ),
        EnvelopeKind::Row,
    );
    let mut batch = Batch::new();
    let mut encode = |text: &str| {
        let row = tuple(&[t(text)]);
        let change = RowChange::Insert { new: row.as_tuple() };
        encoder
            .encode(change, &transaction(), LSN, &mut 0, &mut batch)
            .map(|()| batch.byte_len())
    };
    let first = encode("{\"(a,1,\\\"{\\\"\\\"x y\\\"\\\"}\\\")\"}").unwrap();
    assert!(encode("{\"(a,1,{})\",\"(a,x,{})\"}").is_err());
    let second = encode("{\"(a,1,\\\"{\\\"\\\"x y\\\"\\\"}\\\")\"}").unwrap();
    assert_eq!(second, 2 * first);
}

/// A text, quoted where it has to be, as `array_out` and `record_out` do it.
fn quoted(text: &str, special: &str, escape: impl Fn(char) -> [char; 2]) -> String {
    if !text.is_empty() && !text.eq_ignore_ascii_case("null") && !text.contains(|c| special.contains(c)) {
        return text.to_owned();
    }
    let mut out = String::from('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(escape(character)),
            _ => out.push(character),
        }
    }
    out.push('"');
    out
}

fn in_array(text: &str) -> String {
    quoted(text, "{}\"\\, \t\n\r\u{b}\u{c}", |c| ['\\', c])
}

fn in_record(text: &str) -> String {
    quoted(text, "()\"\\, \t\n\r\u{b}\u{c}", |c| [c, c])
}

fn sent(value: Option<&[u8]>, out: &mut Vec<u8>) {
    match value {
        None => out.extend((-1i32).to_be_bytes()),
        Some(value) => {
            out.extend(i32::try_from(value.len()).unwrap().to_be_bytes());
            out.extend(value);
        }
    }
}

fn array_sent(oid: u32, elements: &[Option<Vec<u8>>]) -> Vec<u8> {
    let mut out = Vec::new();
    let dimensions = u32::from(!elements.is_empty());
    for number in [dimensions, 1, oid] {
        out.extend(number.to_be_bytes());
    }
    if !elements.is_empty() {
        out.extend(u32::try_from(elements.len()).unwrap().to_be_bytes());
        out.extend(1u32.to_be_bytes());
    }
    for element in elements {
        sent(element.as_deref(), &mut out);
    }
    out
}

type Address = (Option<String>, Option<i32>, Option<Vec<Option<String>>>);

fn list(items: &[Option<String>]) -> String {
    let items: Vec<_> = items
        .iter()
        .map(|item| item.as_deref().map_or("NULL".to_owned(), in_array))
        .collect();
    format!("{{{}}}", items.join(","))
}

fn address_text((street, number, tags): &Address) -> String {
    let attributes = [
        street.clone(),
        number.map(|number| number.to_string()),
        tags.as_deref().map(list),
    ];
    let attributes = attributes.map(|attribute| attribute.as_deref().map_or(String::new(), in_record));
    format!("({})", attributes.join(","))
}

fn address_sent((street, number, tags): &Address) -> Vec<u8> {
    let tags = tags.as_ref().map(|tags| {
        let tags: Vec<_> = tags.iter().map(|tag| tag.clone().map(String::into_bytes)).collect();
        array_sent(25, &tags)
    });
    let mut out = 3u32.to_be_bytes().to_vec();
    for (oid, value) in [
        (25u32, street.clone().map(String::into_bytes)),
        (23, number.map(|number| number.to_be_bytes().to_vec())),
        (1009, tags),
    ] {
        out.extend(oid.to_be_bytes());
        sent(value.as_deref(), &mut out);
    }
    out
}

proptest! {
    #[test]
    fn arrays_of_composites_with_arrays_are_the_same_in_both_forms(
        addresses in prop::collection::vec(
            prop::option::of((
                prop::option::of("(NULL|[\"\\\\(){}, \nö]|\\PC){0,5}"),
                any::<Option<i32>>(),
                prop::option::of(prop::collection::vec(prop::option::of("(NULL|[\"\\\\(){}, \nö]|\\PC){0,5}"), 0..4)),
            )),
            0..4,
        ),
    ) {
        let ty = array_of(address(), 60_031);
        let text = list(&addresses.iter().map(|address| address.as_ref().map(address_text)).collect::<Vec<_>>());
        let binary = array_sent(16_804, &addresses.iter().map(|address| address.as_ref().map(address_sent)).collect::<Vec<_>>());
        let expected: Json = addresses
            .iter()
            .map(|address| address.as_ref().map(|(street, no, tags)| json!({"street": street, "no": no, "tags": tags})))
            .map(|address| address.unwrap_or(Json::Null))
            .collect();
        prop_assert_eq!(round_trip(&ty, -1, t(&text)).unwrap(), expected.clone());
        prop_assert_eq!(round_trip(&ty, -1, Datum::Binary(&binary)).unwrap(), expected);
    }

    #[test]
    fn no_bytes_make_a_nested_value_panic(noise: Vec<u8>, text in "[{}()\"\\\\,a1N]{0,24}") {
        for ty in [array_of(person(), 60_030), person(), base(60_050, "hstore"), base(60_051, "vector")] {
            let _ = round_trip(&ty, -1, Datum::Text(&noise));
            let _ = round_trip(&ty, -1, Datum::Text(text.as_bytes()));
            let _ = round_trip(&ty, -1, Datum::Binary(&noise));
        }
    }
}
