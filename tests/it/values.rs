//! Values that other tools have carried wrongly: each with the value that must arrive, written out.

use crate::harness::{Config, Kafka, Postgres, Walferry, read_records};
use crate::records::{SOON, publish};
use crate::workload::pipeline;

/// Inserts literals of a type, and expects what the independent reader shows of each: on the first version and, in both
/// formats, on the last.
async fn arrive(ddl: &str, ty: &str, values: &[(&str, Option<&str>)]) {
    for (version, format) in [(10, "text"), (18, "text"), (18, "binary")] {
        if version == 10 && values.iter().any(|(literal, _)| literal.contains("numeric 'Infinity'")) {
            continue;
        }
        let (postgres, kafka) = (Postgres::shared(version), Kafka::shared());
        let database = postgres.database().await;
        database
            .execute(&format!("{ddl}; CREATE TABLE t (id int PRIMARY KEY, v {ty})"))
            .await;
        let name = pipeline();
        let config = Config::new(&name, &database, &kafka)
            .text("avro.envelope", "row")
            .set("replication.tables", "[\"public.t\"]")
            .text("replication.format", format);
        let statements: Vec<String> = values
            .iter()
            .enumerate()
            .map(|(id, (literal, _))| format!("INSERT INTO t (id, v) VALUES ({id}, {literal})"))
            .collect();
        let statements: Vec<&str> = statements.iter().map(String::as_str).collect();
        publish(&database, &config, &statements).await;
        let records = read_records(&kafka.address, &[format!("{name}.public.t")]).await;
        assert_eq!(records.len(), values.len());
        for (record, (literal, expected)) in records.iter().zip(values) {
            assert_eq!(record.column("v"), *expected, "{literal}, {format}, Postgres {version}");
        }
    }
}

// --- numbers -------------------------------------------------------------------------------------------------------------

#[tokio::test(flavor = "multi_thread")]
async fn nan_infinities_and_minus_zero_of_floats_are_kept() {
    for ty in ["float8", "float4"] {
        arrive(
            "",
            ty,
            &[
                ("'NaN'", Some("NaN")),
                ("'Infinity'", Some("Infinity")),
                ("'-Infinity'", Some("-Infinity")),
                ("'-0'", Some("-0")),
                ("'0'", Some("0")),
                ("0.1", Some("0.1")),
            ],
        )
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_numeric_without_precision_has_exactly_postgress_digits_and_nan() {
    arrive(
        "",
        "numeric",
        &[
            ("'NaN'", Some("NaN")),
            ("1.10", Some("1.10")),
            ("-0.00", Some("0.00")),
            ("1e20", Some("100000000000000000000")),
            ("1e-20", Some("0.00000000000000000001")),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn infinite_numerics_are_words() {
    arrive(
        "",
        "numeric",
        &[
            ("numeric 'Infinity'", Some("Infinity")),
            ("numeric '-Infinity'", Some("-Infinity")),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_numeric_of_1000_digits_keeps_every_one() {
    let digits: String = "123456789".chars().cycle().take(1000).collect();
    let fraction = format!("-{digits}.{digits}");
    arrive(
        "",
        "numeric",
        &[
            (digits.as_str(), Some(digits.as_str())),
            (fraction.as_str(), Some(fraction.as_str())),
        ],
    )
    .await;
    let declared = format!("{}.{}", &digits[..500], &digits[..500]);
    arrive("", "numeric(1000,500)", &[(declared.as_str(), Some(declared.as_str()))]).await;
}

// --- dates and times -----------------------------------------------------------------------------------------------------

#[tokio::test(flavor = "multi_thread")]
async fn dates_of_every_era_are_days_since_1970_and_the_infinities_the_extremes() {
    arrive(
        "",
        "date",
        &[
            ("'infinity'", Some("infinity")),
            ("'-infinity'", Some("-infinity")),
            ("'4713-01-01 BC'", Some("days:-2440550")),
            ("'0001-12-31 BC'", Some("days:-719163")),
            ("'0001-01-01'", Some("0001-01-01")),
            ("'1582-10-04'", Some("1582-10-04")),
            ("'1582-10-14'", Some("1582-10-14")),
            ("'1582-10-15'", Some("1582-10-15")),
            ("'1969-12-31'", Some("1969-12-31")),
            ("'9999-12-31'", Some("9999-12-31")),
            ("'10000-01-01'", Some("days:2932897")),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn timestamps_of_every_era_are_microseconds_since_1970_and_the_infinities_the_extremes() {
    arrive(
        "",
        "timestamp",
        &[
            ("'infinity'", Some("infinity")),
            ("'-infinity'", Some("-infinity")),
            ("'4713-01-01 00:00 BC'", Some("micros:-210863520000000000")),
            ("'1582-10-14 23:59:59.999999'", Some("1582-10-14 23:59:59.999999")),
            ("'1969-12-31 23:59:59.999999'", Some("1969-12-31 23:59:59.999999")),
            ("'10000-01-01 00:00'", Some("micros:253402300800000000")),
            ("'294247-01-10 04:00:54.775806'", Some("micros:9223372036854775806")),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timestamptz_is_utc_and_a_timetz_keeps_its_offset() {
    arrive(
        "",
        "timestamptz",
        &[
            ("'2024-02-29 12:00:00+05:30'", Some("2024-02-29 06:30:00+00")),
            ("'1900-01-01 00:00:00-00:00:01'", Some("1900-01-01 00:00:01+00")),
            ("'-infinity'", Some("-infinity")),
        ],
    )
    .await;
    arrive(
        "",
        "timetz",
        &[
            ("'12:34:56.7+05:30'", Some("12:34:56.7+05:30")),
            ("'24:00-08'", Some("24:00:00-08")),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interval_keeps_months_days_and_microseconds_apart_and_each_its_sign() {
    arrive(
        "",
        "interval",
        &[
            ("'1 mon -1 day 00:00:01'", Some("P1M-1DT1S")),
            ("'-1 year -2 mons 3 days -04:05:06.7'", Some("P-1Y-2M3DT-4H-5M-6.7S")),
            ("'-00:00:00.5'", Some("PT-0.5S")),
            ("'40 days 25:00:00'", Some("P40DT25H")),
            ("'0'", Some("PT0S")),
        ],
    )
    .await;
}

// --- texts ---------------------------------------------------------------------------------------------------------------

#[tokio::test(flavor = "multi_thread")]
async fn json_is_passed_on_untouched() {
    let untouched = r#" {"a":1,  "a":2, "n":12345678901234567890.10, "u":"\u0000\u00fc", "e": 1E400} "#;
    let literal = format!("'{untouched}'");
    arrive("", "json", &[(literal.as_str(), Some(untouched))]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jsonb_is_postgress_text_with_every_digit() {
    arrive(
        "",
        "jsonb",
        &[(
            r#"'{"b":12345678901234567890.10, "a":1, "a":9007199254740993}'"#,
            Some(r#"{"a": 9007199254740993, "b": 12345678901234567890.10}"#),
        )],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn text_of_a_database_in_another_encoding_is_utf8() {
    for (version, format) in [(10, "text"), (14, "binary"), (18, "text"), (18, "binary")] {
        let (postgres, kafka) = (Postgres::shared(version), Kafka::shared());
        let database = postgres.database_with("ENCODING 'LATIN1' TEMPLATE template0").await;
        database
            .execute(
                "CREATE TYPE \"größe\" AS ENUM ('groß'); CREATE TYPE paar AS (\"für\" text, n int); CREATE EXTENSION hstore; \
                 CREATE TABLE \"täble\" (\"schlüssel\" text PRIMARY KEY, g \"größe\", list text[], p paar, h hstore, j json, v tsvector, b bytea)",
            )
            .await;
        let name = pipeline();
        let config = Config::new(&name, &database, &kafka)
            .text("avro.envelope", "row")
            .text("replication.format", format);
        // In its binary form an hstore has the lengths that its texts had before they were converted.
        let hstore = if format == "text" { "ø=>å" } else { "o=>a" };
        let insert = format!(
            "INSERT INTO \"täble\" VALUES ('ß', 'groß', '{{é,\"ä ö\"}}', ROW('ü', 1), '{hstore}', '\"æ\"', 'ç:1', 'ñ')"
        );
        publish(&database, &config, &[&insert]).await;
        let records = read_records(&kafka.address, &[format!("{name}.public.t_u00E4ble")]).await;
        assert_eq!(records[0].key.as_ref().unwrap()["schlüssel"].as_deref(), Some("ß"));
        for (column, expected) in [
            ("schlüssel", "ß"),
            ("g", "groß"),
            ("list", r#"["\u00e9", "\u00e4 \u00f6"]"#),
            ("p", r#"{"f_u00FCr": "\u00fc", "n": 1}"#),
            (
                "h",
                if format == "text" {
                    r#"{"\u00f8": "\u00e5"}"#
                } else {
                    r#"{"o": "a"}"#
                },
            ),
            ("v", "'ç':1"),
            ("j", "\"æ\""),
            // A literal is bytes of the server's encoding.
            ("b", "\\xf1"),
        ] {
            assert_eq!(
                records[0].column(column),
                Some(expected),
                "{column}, {format}, Postgres {version}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_are_the_same_however_the_server_prints_them() {
    // The shared servers print the escape form.
    arrive(
        "",
        "bytea",
        &[
            ("'\\x00ff5c27'", Some("\\x00ff5c27")),
            ("''", Some("\\x")),
            ("'\\x'", Some("\\x")),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bit_strings_keep_their_length() {
    arrive(
        "",
        "bit(9)",
        &[("B'000000001'", Some("000000001")), ("B'101000000'", Some("101000000"))],
    )
    .await;
    arrive(
        "",
        "varbit",
        &[
            ("B'0'", Some("0")),
            ("B''", Some("")),
            ("B'00000000'", Some("00000000")),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_null_never_turns_into_the_columns_default() {
    arrive(
        "",
        "int DEFAULT 5",
        &[("NULL", None), ("DEFAULT", Some("5")), ("0", Some("0"))],
    )
    .await;
    arrive(
        "",
        "text DEFAULT 'x'",
        &[("NULL", None), ("''", Some("")), ("'NULL'", Some("NULL"))],
    )
    .await;
}

// --- types that are made of others ---------------------------------------------------------------------------------------

#[tokio::test(flavor = "multi_thread")]
async fn an_array_of_enums_is_an_array_of_their_labels() {
    arrive(
        "CREATE TYPE mood AS ENUM ('ok', 'a b', 'NULL', '{}')",
        "mood[]",
        &[
            (
                "ARRAY['ok', NULL, 'NULL', 'a b', '{}']::mood[]",
                Some(r#"["ok", null, "NULL", "a b", "{}"]"#),
            ),
            ("'{}'", Some("[]")),
            ("NULL", None),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_domain_over_an_array_is_an_array() {
    arrive(
        "CREATE DOMAIN tags AS text[] CHECK (cardinality(VALUE) < 5); CREATE DOMAIN few AS tags",
        "few",
        &[
            ("ARRAY['a', 'b \"c\"', NULL]", Some(r#"["a", "b \"c\"", null]"#)),
            ("'{}'", Some("[]")),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_composite_with_a_dropped_attribute_has_those_that_are_left() {
    arrive(
        "CREATE TYPE place AS (street text, gone int, \"no.\" int); ALTER TYPE place DROP ATTRIBUTE gone",
        "place",
        &[
            (
                "ROW('High St \"1\"', 7)",
                Some(r#"{"no_u002E": 7, "street": "High St \"1\""}"#),
            ),
            ("ROW(NULL, NULL)", Some(r#"{"no_u002E": null, "street": null}"#)),
            ("NULL", None),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_label_that_an_enum_gets_while_running_arrives() {
    for (version, format) in [(10, "text"), (14, "binary"), (18, "auto")] {
        let (postgres, kafka) = (Postgres::shared(version), Kafka::shared());
        let database = postgres.database().await;
        database
            .execute("CREATE TYPE mood AS ENUM ('ok'); CREATE TABLE t (id int PRIMARY KEY, v mood, list mood[])")
            .await;
        let name = pipeline();
        let config = Config::new(&name, &database, &kafka)
            .text("avro.envelope", "row")
            .text("replication.format", format);
        let mut walferry = Walferry::start(&config);
        walferry.ready(SOON).await;
        for sql in [
            "INSERT INTO t VALUES (1, 'ok', '{ok}')",
            "ALTER TYPE mood ADD VALUE 'größer' BEFORE 'ok'",
            "INSERT INTO t VALUES (2, 'größer', '{ok,größer}')",
            "ALTER TYPE mood RENAME VALUE 'ok' TO 'fine'",
            "INSERT INTO t VALUES (3, 'fine', '{fine}')",
        ] {
            database.execute(sql).await;
            database.confirmed(&name, SOON, || walferry.log()).await;
        }
        let records = read_records(&kafka.address, &[format!("{name}.public.t")]).await;
        let found: Vec<_> = records
            .iter()
            .map(|r| (r.column("v").unwrap(), r.column("list").unwrap()))
            .collect();
        assert_eq!(
            found,
            [
                ("ok", r#"["ok"]"#),
                ("größer", r#"["ok", "gr\u00f6\u00dfer"]"#),
                ("fine", r#"["fine"]"#)
            ],
            "Postgres {version}"
        );
    }
}
