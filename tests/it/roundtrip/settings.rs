//! The settings of servers, databases and roles change no byte.

use super::{publishing_values, tables};
use crate::harness::{Database, Kafka, Postgres, Record, Walferry, fresh, heavy, read_records};
use crate::workload::{pipeline, seed};
use fastrand::Rng;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(300);

/// Everything that an output function may look at, as far apart as it goes. The third column is the database's, which the roles'
/// own settings stand before.
const SETTINGS: &[(&str, &str, &str, &str)] = &[
    ("TimeZone", "UTC", "'America/St_Johns'", "'Asia/Kathmandu'"),
    ("DateStyle", "'ISO, YMD'", "'SQL, DMY'", "'German'"),
    ("IntervalStyle", "iso_8601", "postgres_verbose", "sql_standard"),
    ("bytea_output", "hex", "escape", "escape"),
    ("extra_float_digits", "3", "-15", "0"),
    ("lc_monetary", "'C'", "'de_DE.UTF-8'", "'de_DE.UTF-8'"),
    ("lc_numeric", "'C'", "'de_DE.UTF-8'", "'de_DE.UTF-8'"),
    ("lc_time", "'C'", "'de_DE.UTF-8'", "'de_DE.UTF-8'"),
    ("xmloption", "content", "document", "document"),
    ("xmlbinary", "base64", "hex", "hex"),
    ("search_path", "'pg_catalog'", "'public'", "'\"$user\"'"),
    ("quote_all_identifiers", "off", "on", "on"),
    ("client_encoding", "'UTF8'", "'LATIN1'", "'SQL_ASCII'"),
    ("default_text_search_config", "simple", "german", "french"),
    ("array_nulls", "on", "off", "off"),
    ("standard_conforming_strings", "on", "off", "on"),
    ("timezone_abbreviations", "'Default'", "'Australia'", "'India'"),
];

/// Two roles of opposite settings, in a database of a third kind.
async fn roles(database: &Database<'_>) -> [String; 2] {
    let roles = [fresh("calm"), fresh("hostile")];
    for role in &roles {
        database
            .execute(&format!("CREATE ROLE {role} LOGIN SUPERUSER REPLICATION"))
            .await;
    }
    for (name, calm, hostile, of_database) in SETTINGS {
        database
            .execute(&format!("ALTER ROLE {} SET {name} = {calm}", roles[0]))
            .await;
        database
            .execute(&format!("ALTER ROLE {} SET {name} = {hostile}", roles[1]))
            .await;
        database
            .execute(&format!("ALTER DATABASE {} SET {name} = {of_database}", database.name))
            .await;
    }
    roles
}

/// That the settings are what a session of this role has: else nothing would be proven.
async fn prints_otherwise(database: &Database<'_>, role: &str) {
    let (client, connection) = tokio_postgres::Config::new()
        .host("127.0.0.1")
        .port(database.postgres.port)
        .user(role)
        .dbname(&database.name)
        .connect(tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    let row = client
        .query_one(
            "SELECT timestamptz '2024-02-03 12:00+00'::text, interval '1 mon -1 day'::text, float8 '0.1'::text, \
             '-1234.5'::numeric::money::text, decode('00', 'hex')::text, 'pg_class'::regclass::text",
            &[],
        )
        .await
        .unwrap();
    let found: Vec<String> = (0..6).map(|at| row.get(at)).collect();
    let expected = [
        "03/02/2024 08:30:00 NST",
        "@ 1 mon -1 days",
        "0.1",
        "-1.234,50 €",
        "\\000",
        "\"pg_class\"",
    ];
    assert_eq!(found, expected);
}

fn bytes(record: &Record) -> (&Option<String>, String, &std::collections::BTreeMap<String, String>) {
    (&record.avro, format!("{:?}", record.key), &record.headers)
}

async fn settings_change_no_byte(version: u32) {
    let _alone = heavy().await;
    let (postgres, kafka) = (Postgres::shared(version), Kafka::shared());
    let database = postgres.database().await;
    let mut rng = Rng::with_seed(seed());
    let tables = tables::create(&database, version).await;
    let [calm, hostile] = roles(&database).await;
    prints_otherwise(&database, &hostile).await;
    for format in ["text", "binary"] {
        let mut runs = Vec::new();
        for role in [&calm, &hostile] {
            let name = pipeline();
            let config = publishing_values(&name, &database, &kafka, format)
                .text("postgres.user", role)
                .text("avro.envelope", "row");
            let mut walferry = Walferry::start(&config);
            walferry.ready(LONG).await;
            runs.push((name, walferry));
        }
        for table in &tables {
            database.execute(&format!("TRUNCATE {}", table.name)).await;
            table.fill(&database, &mut rng, 20).await;
        }
        for (name, walferry) in &mut runs {
            database.confirmed(name, LONG, || walferry.log()).await;
            assert_eq!(walferry.terminate(LONG).await.code, Some(0));
        }
        let mut compared = 0;
        for table in tables.iter().filter(|table| table.has_binary_form || format == "text") {
            let read = async |(name, _): &(String, Walferry)| {
                read_records(&kafka.address, &[format!("{name}.public.{}", table.name)]).await
            };
            let (one, other) = (read(&runs[0]).await, read(&runs[1]).await);
            assert_eq!(one.len(), other.len());
            for (one, other) in one.iter().zip(&other) {
                assert_eq!(one.value, other.value, "Postgres {version}, {format}, {}", table.name);
                assert!(
                    bytes(one) == bytes(other),
                    "Postgres {version}, {format}, {}: {:?}",
                    table.name,
                    one.key
                );
            }
            compared += one.len() * table.types.len();
        }
        eprintln!("settings: Postgres {version}, {format}: {compared} values, the same bytes");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_of_server_database_and_role_change_no_byte_of_postgres_14() {
    settings_change_no_byte(14).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_of_server_database_and_role_change_no_byte_of_postgres_18() {
    settings_change_no_byte(18).await;
}
