//! Values that cannot be carried: the list in docs/records.md, walked.

use super::tables::quoted;
use crate::harness::{Config, Database, Kafka, Postgres, Walferry};
use crate::workload::pipeline;
use std::time::Duration;
use walferry::row::ValueError;

const SOON: Duration = Duration::from_secs(60);

/// A line of the list.
#[derive(Clone)]
struct Refused {
    /// The column's type.
    ty: String,
    value: String,
    reason: String,
}

/// The table under "Values that cannot be carried": type, value and reason, each in backticks.
fn documented() -> Vec<Refused> {
    let text = include_str!("../../../docs/records.md");
    let (_, section) = text
        .split_once("\n### Values that cannot be carried\n")
        .expect("the section");
    let section = section.split("\n#").next().unwrap();
    let lines = section.lines().filter(|line| line.starts_with("| `"));
    lines
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
            let [ty, value, reason] = cells.as_slice() else {
                panic!("not three cells: {line}");
            };
            let plain = |cell: &str| cell.trim_matches('`').to_owned();
            Refused {
                ty: plain(ty),
                value: plain(value),
                reason: plain(reason),
            }
        })
        .collect()
}

/// What the error says of a reason.
fn sentence(label: &str) -> String {
    let all = [
        ValueError::Malformed,
        ValueError::InvalidUtf8,
        ValueError::OutOfRange,
        ValueError::NotFinite,
        ValueError::ArrayShape,
        ValueError::Attributes,
        ValueError::NoBinaryForm,
    ];
    let reason = all.iter().find(|reason| reason.label() == label);
    reason.unwrap_or_else(|| panic!("{label} is no reason")).to_string()
}

const TYPES: &str =
    "CREATE EXTENSION hstore; CREATE DOMAIN price AS numeric(5,2); CREATE TYPE pair AS (n numeric(5,2), list int[])";

/// One pipeline to its end: the row before is published, and the error names reason and column, but not the value.
async fn is_refused(database: &Database<'_>, kafka: &Kafka, format: &str, refused: &Refused, literal: &str) {
    let Refused { ty, value, reason } = refused;
    let what = format!("{ty} {value}, {format}, Postgres {}", database.postgres.version);
    database
        .execute(&format!(
            "DROP TABLE IF EXISTS t; CREATE TABLE t (id int PRIMARY KEY, \"größe\" {ty})"
        ))
        .await;
    let name = pipeline();
    let config = Config::new(&name, database, kafka).text("replication.format", format);
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    database.execute("INSERT INTO t VALUES (1, NULL)").await;
    database.confirmed(&name, SOON, || walferry.log()).await;
    database.execute(&format!("INSERT INTO t VALUES (2, {literal})")).await;
    let exit = walferry.end(SOON).await;
    assert_eq!(exit.code, Some(1), "{what}: {}", exit.stderr);
    exit.says(&["public.t", "größe", &sentence(reason)]);
    // That there is such a thing as NaN, the reason may say.
    assert!(
        value.contains("NaN") || !exit.stderr.contains(value.as_str()),
        "{what}: {}",
        exit.stderr
    );
    drop(walferry);
    database
        .execute(&format!("SELECT pg_drop_replication_slot('{name}')"))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_value_that_cannot_be_carried_is_a_bad_row_with_its_reason() {
    let list = documented();
    assert!(list.len() >= 12, "{} values are listed", list.len());
    let mut walks = Vec::new();
    for version in [14, 18] {
        for format in ["text", "binary"] {
            let list = list.clone();
            walks.push(async move {
                let (postgres, kafka) = (Postgres::shared(version), Kafka::shared());
                let database = postgres.database().await;
                database.execute(TYPES).await;
                for refused in &list {
                    is_refused(&database, &kafka, format, refused, &quoted(Some(&refused.value))).await;
                }
            });
        }
    }
    futures_util::future::join_all(walks).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn text_that_is_not_utf8_is_a_bad_row_wherever_it_stands() {
    let (postgres, kafka) = (Postgres::shared(16), Kafka::shared());
    let database = postgres.database_with("ENCODING 'SQL_ASCII' TEMPLATE template0").await;
    database.execute(TYPES).await;
    database
        .execute(r"CREATE TYPE label AS ENUM (E'gr\366\337e'); CREATE TYPE named AS (t text)")
        .await;
    for (ty, literal) in [
        ("text", r"E'gr\366\337e'"),
        ("varchar(9)[]", r"ARRAY[E'gr\366\337e']"),
        ("json", r#"E'"gr\366\337e"'"#),
        ("label", r"E'gr\366\337e'"),
        ("named", r"ROW(E'gr\366\337e')"),
        ("hstore", r"hstore('a', E'gr\366\337e')"),
        ("hstore", r"hstore(E'gr\366\337e', NULL)"),
        ("tsvector", r"E'''gr\366\337e'''::tsvector"),
    ] {
        for format in ["text", "binary"] {
            let refused = Refused {
                ty: ty.to_owned(),
                value: literal.to_owned(),
                reason: "invalid_utf8".to_owned(),
            };
            is_refused(&database, &kafka, format, &refused, literal).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_conversion_to_utf8_spoils_is_a_bad_row() {
    for (version, format, ty, value) in [
        (14, "text", "\"char\"", "ä"),
        (14, "binary", "hstore", "a=>é"),
        (18, "binary", "hstore", "aé=>NULL"),
        (18, "binary", "hstore[]", "{bé=>c}"),
    ] {
        let (postgres, kafka) = (Postgres::shared(version), Kafka::shared());
        let database = postgres.database_with("ENCODING 'LATIN1' TEMPLATE template0").await;
        database.execute("CREATE EXTENSION hstore").await;
        let refused = Refused {
            ty: ty.to_owned(),
            value: value.to_owned(),
            reason: "malformed".to_owned(),
        };
        is_refused(&database, &kafka, format, &refused, &quoted(Some(value))).await;
    }
}
