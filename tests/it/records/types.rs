//! Types: the same values whatever the settings, in both formats.

use super::{SOON, publish};
use crate::harness::{Config, Database, Kafka, Postgres, Record, Walferry, fresh, read_records};
use crate::workload::pipeline;

/// Column and type, then values as they are put in and as they must come out.
type Column = (&'static str, &'static [(&'static str, &'static str)]);

/// Every type that is read in both forms, on every server.
const NATIVE: &[Column] = &[
    ("boolean", &[("true", "t"), ("false", "f")]),
    ("smallint", &[("-32768", "-32768"), ("32767", "32767")]),
    (
        "integer",
        &[("-2147483648", "-2147483648"), ("2147483647", "2147483647")],
    ),
    (
        "bigint",
        &[
            ("-9223372036854775808", "-9223372036854775808"),
            ("9223372036854775807", "9223372036854775807"),
        ],
    ),
    ("oid", &[("0", "0"), ("4294967295", "4294967295")]),
    (
        "real",
        &[
            ("0.1", "0.1"),
            ("'NaN'", "NaN"),
            ("'-Infinity'", "-Infinity"),
            ("'-0'", "-0"),
            ("3.4028235e38", "3.4028235e+38"),
        ],
    ),
    (
        "double precision",
        &[
            ("0.1", "0.1"),
            ("0.30000000000000004", "0.30000000000000004"),
            ("'Infinity'", "Infinity"),
            ("5e-324", "5e-324"),
            ("1.7976931348623157e308", "1.7976931348623157e+308"),
        ],
    ),
    (
        "numeric(12,2)",
        &[("-1234567890.12", "-1234567890.12"), ("0", "0.00"), ("0.005", "0.01")],
    ),
    ("numeric(5,5)", &[("0.00001", "0.00001"), ("-0.99999", "-0.99999")]),
    (
        "numeric",
        &[
            ("12345678901234567890.1234567890", "12345678901234567890.1234567890"),
            ("'NaN'", "NaN"),
            ("1e30", "1000000000000000000000000000000"),
            ("0.000", "0.000"),
            ("1e-20", "0.00000000000000000001"),
        ],
    ),
    (
        "text",
        &[("''", ""), ("'渡し船 🚢'", "渡し船 🚢"), ("E'a\\tb\\\\'", "a\tb\\")],
    ),
    ("varchar(5)", &[("'a  '", "a  ")]),
    ("char(5)", &[("'a'", "a    ")]),
    ("name", &[("'größe'", "größe")]),
    ("\"char\"", &[("'x'", "x"), ("''", "")]),
    ("json", &[("'{\"a\":1,  \"a\":2}'", "{\"a\":1,  \"a\":2}")]),
    (
        "jsonb",
        &[("'{\"b\":1e2,\"a\":[null,\"ü\"]}'", "{\"a\": [null, \"ü\"], \"b\": 100}")],
    ),
    ("state", &[("'new'", "new"), ("'größer'", "größer")]),
    ("price", &[("12.5", "12.50")]),
    ("bytea", &[("''", "\\x"), ("'\\x00ff5c'", "\\x00ff5c")]),
    (
        "uuid",
        &[(
            "'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        )],
    ),
    (
        "date",
        &[
            ("'2024-02-29'", "2024-02-29"),
            ("'0001-01-01'", "0001-01-01"),
            ("'infinity'", "infinity"),
            ("'-infinity'", "-infinity"),
            // 366 days before 0001-01-01, which is 719162 days before 1970.
            ("'0001-01-01 BC'", "days:-719528"),
        ],
    ),
    (
        "time",
        &[
            ("'00:00'", "00:00:00"),
            ("'24:00'", "24:00:00"),
            ("'23:59:59.999999'", "23:59:59.999999"),
        ],
    ),
    (
        "timetz",
        &[
            ("'12:34:56.7+05:30'", "12:34:56.7+05:30"),
            ("'01:02:03-08'", "01:02:03-08"),
        ],
    ),
    (
        "timestamp",
        &[
            ("'2024-02-29 12:34:56.789012'", "2024-02-29 12:34:56.789012"),
            ("'1969-12-31 23:59:59.999999'", "1969-12-31 23:59:59.999999"),
            ("'infinity'", "infinity"),
            ("'-infinity'", "-infinity"),
        ],
    ),
    (
        "timestamptz",
        &[
            ("'2024-02-29 12:34:56+05:30'", "2024-02-29 07:04:56+00"),
            ("'1900-01-01 00:00:00+00'", "1900-01-01 00:00:00+00"),
            ("'infinity'", "infinity"),
        ],
    ),
];

/// Known by Postgres's text, which has settings to depend on.
const TEXT_ONLY: &[Column] = &[
    ("money", &[("'1234.5'", "$1,234.50")]),
    (
        "interval",
        &[
            ("'1 year 2 months -3 days 04:05:06.7'", "P1Y2M-3DT4H5M6.7S"),
            ("'0'", "PT0S"),
        ],
    ),
    ("inet", &[("'192.168.0.1/24'", "192.168.0.1/24"), ("'::1'", "::1")]),
    ("cidr", &[("'10.0.0.0/8'", "10.0.0.0/8")]),
    ("macaddr", &[("'08:00:2B:01:02:03'", "08:00:2b:01:02:03")]),
    ("bit(3)", &[("B'101'", "101")]),
    ("varbit", &[("B'01'", "01")]),
    ("int4range", &[("'[1,3]'", "[1,4)"), ("'empty'", "empty")]),
    (
        "tstzrange",
        &[("'[2024-01-01 00:00+00,)'", "[\"2024-01-01 00:00:00+00\",)")],
    ),
    ("tsvector", &[("'a:1 b'", "'a':1 'b'")]),
    ("point", &[("'(0.1,2)'", "(0.1,2)")]),
    ("pg_lsn", &[("'16/B374D848'", "16/B374D848")]),
];

const TYPES: &str = "CREATE TYPE state AS ENUM ('new', 'größer'); CREATE DOMAIN price AS numeric(8,2)";

fn table(columns: &[Column]) -> String {
    let columns: Vec<String> = columns
        .iter()
        .enumerate()
        .map(|(n, (ty, _))| format!("c{n} {ty}"))
        .collect();
    format!("CREATE TABLE t (id int PRIMARY KEY, {})", columns.join(", "))
}

/// Row `r` has each column's value number `r`, from the first again where a column has fewer; the last is all NULL.
fn rows(columns: &[Column]) -> usize {
    columns.iter().map(|(_, values)| values.len()).max().unwrap()
}

fn inserts(columns: &[Column]) -> Vec<String> {
    let count = rows(columns);
    let mut statements: Vec<String> = (0..count)
        .map(|r| {
            let values: Vec<&str> = columns.iter().map(|(_, values)| values[r % values.len()].0).collect();
            format!("INSERT INTO t VALUES ({r}, {})", values.join(", "))
        })
        .collect();
    statements.push(format!("INSERT INTO t (id) VALUES ({count})"));
    statements
}

#[track_caller]
fn have_come_out(columns: &[Column], records: &[Record], version: u32) {
    let count = rows(columns);
    assert_eq!(records.len(), count + 1);
    for (r, record) in records.iter().enumerate() {
        for (n, (ty, values)) in columns.iter().enumerate() {
            let expected = (r < count).then(|| values[r % values.len()].1);
            assert_eq!(
                record.column(&format!("c{n}")),
                expected,
                "{ty}, row {r}, Postgres {version}"
            );
        }
    }
}

/// A database whose own settings are foreign too.
async fn foreign_database(postgres: &Postgres) -> Database<'_> {
    let database = postgres.database().await;
    for setting in [
        "TimeZone = 'America/New_York'",
        "DateStyle = 'SQL, DMY'",
        "IntervalStyle = 'postgres_verbose'",
        "bytea_output = 'escape'",
        "extra_float_digits = -10",
    ] {
        database
            .execute(&format!("ALTER DATABASE {} SET {setting}", database.name))
            .await;
    }
    database.execute(TYPES).await;
    database
}

#[tokio::test(flavor = "multi_thread")]
async fn values_do_not_depend_on_settings_of_the_server_or_the_database() {
    for version in [10, 12, 18] {
        let (postgres, kafka) = (Postgres::shared(version), Kafka::shared());
        let database = foreign_database(&postgres).await;
        // Before 12 a float is printed with 17 digits, which are the same number.
        let columns: Vec<Column> = NATIVE.iter().chain(TEXT_ONLY).copied().collect();
        let columns: Vec<Column> = columns
            .into_iter()
            .filter(|(ty, _)| version >= 12 || *ty != "point")
            .collect();
        database.execute(&table(&columns)).await;
        let name = pipeline();
        let config = Config::new(&name, &database, &kafka)
            .text("avro.envelope", "row")
            .text("replication.format", "text");
        let statements = inserts(&columns);
        let statements: Vec<&str> = statements.iter().map(String::as_str).collect();
        publish(&database, &config, &statements).await;
        let records = read_records(&kafka.address, &[format!("{name}.public.t")]).await;
        have_come_out(&columns, &records, version);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn binary_and_text_give_the_same_bytes() {
    for version in [14, 16, 18] {
        let (postgres, kafka) = (Postgres::shared(version), Kafka::shared());
        let database = foreign_database(&postgres).await;
        let mut columns: Vec<Column> = NATIVE.to_vec();
        columns.push((
            "xid8",
            &[("'9223372036854775807'", "9223372036854775807"), ("'42'", "42")],
        ));
        columns.push(("numeric", &[("'Infinity'", "Infinity"), ("'-Infinity'", "-Infinity")]));
        if version >= 15 {
            columns.push(("numeric(5,-2)", &[("123456", "123500")]));
            columns.push(("numeric(3,5)", &[("0.00123", "0.00123")]));
        }
        database.execute(&table(&columns)).await;
        let (text, binary) = (pipeline(), pipeline());
        let config = |name: &str, format: &str| {
            Config::new(name, &database, &kafka)
                .text("avro.envelope", "row")
                .text("replication.format", format)
        };
        let mut other = Walferry::start(&config(&binary, "binary"));
        other.ready(SOON).await;
        let mut statements = inserts(&columns);
        statements.push("UPDATE t SET id = -1 WHERE id = 0".to_owned());
        statements.push("ALTER TABLE t REPLICA IDENTITY FULL".to_owned());
        statements.push("DELETE FROM t WHERE id = 1".to_owned());
        let refs: Vec<&str> = statements.iter().map(String::as_str).collect();
        publish(&database, &config(&text, "text"), &refs).await;
        database.confirmed(&binary, SOON, || other.log()).await;

        let texts = read_records(&kafka.address, &[format!("{text}.public.t")]).await;
        let binaries = read_records(&kafka.address, &[format!("{binary}.public.t")]).await;
        let count = rows(&columns) + 1;
        have_come_out(&columns, &texts[..count], version);
        assert_eq!(texts.len(), count + 3, "a changed key is two records");
        assert_eq!(binaries.len(), texts.len());
        for (one, other) in texts.iter().zip(&binaries) {
            assert_eq!(one.value, other.value, "Postgres {version}");
            assert_eq!(one.avro, other.avro, "Postgres {version}");
            assert_eq!(one.key, other.key, "Postgres {version}");
            assert_eq!(one.headers, other.headers, "Postgres {version}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_without_a_binary_reader_is_named_when_binary_is_insisted_on() {
    let (postgres, kafka) = (Postgres::shared(18), Kafka::shared());
    let database = postgres.database().await;
    database
        .execute("CREATE TABLE t (id int PRIMARY KEY, amount money)")
        .await;
    let config = Config::new(&fresh("wf"), &database, &kafka).text("replication.format", "binary");
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    database.execute("INSERT INTO t VALUES (1, '10.25')").await;
    let exit = walferry.end(SOON).await;
    assert_eq!(exit.code, Some(1), "{}", exit.stderr);
    exit.says(&["public.t", "amount", "money", "replication.format"]);
    assert!(!exit.stderr.contains("10.25"), "{}", exit.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_without_an_avro_form_stops_with_its_column_and_is_never_printed() {
    let (postgres, kafka) = (Postgres::shared(16), Kafka::shared());
    for (ty, value, format) in [
        ("numeric(5,2)", "'NaN'", "text"),
        ("numeric(5,2)", "'NaN'", "binary"),
        ("timestamp without time zone", "'294276-12-31 23:59:59'", "text"),
        ("timestamp with time zone", "'294276-12-31 23:59:59+00'", "binary"),
        ("xid8", "'18446744073709551615'", "text"),
        ("xid8", "'18446744073709551615'", "binary"),
    ] {
        let database = postgres.database().await;
        database
            .execute(&format!("CREATE TABLE t (id int PRIMARY KEY, \"größe\" {ty})"))
            .await;
        let name = pipeline();
        let config = Config::new(&name, &database, &kafka).text("replication.format", format);
        let mut walferry = Walferry::start(&config);
        walferry.ready(SOON).await;
        database.execute("INSERT INTO t VALUES (1, NULL)").await;
        database.confirmed(&name, SOON, || walferry.log()).await;
        database.execute(&format!("INSERT INTO t VALUES (2, {value})")).await;
        let exit = walferry.end(SOON).await;
        assert_eq!(exit.code, Some(1), "{ty}, {format}: {}", exit.stderr);
        let type_name = ty.split(['(', ' ']).next().unwrap();
        exit.says(&["public.t", "größe", type_name]);
        // That there is such a thing as NaN, the reason may say.
        let value = value.trim_matches('\'');
        assert!(value == "NaN" || !exit.stderr.contains(value), "{}", exit.stderr);
        let (_, rest) = exit.stderr.split_once("commit LSN ").expect("the change's position");
        let commit = rest.split_whitespace().next().unwrap();
        // Neither published nor confirmed: mended at the source, nothing is missing.
        assert!(
            database
                .is(&format!(
                    "(SELECT confirmed_flush_lsn <= '{commit}' FROM pg_replication_slots WHERE slot_name = '{name}')"
                ))
                .await,
            "{ty}, {format}"
        );
    }
}
