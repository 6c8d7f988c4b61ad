//! Which change is accepted at which compatibility level: the table of docs/records.md, against a real registry.

use super::{Pace, SETTLED, publish};
use crate::harness::{Config, Kafka, Postgres, Registry, fresh};
use crate::workload::pipeline;
use std::time::Duration;
use walferry::schema_registry::{Auth, OnIncompatible, Registry as Client, RegistrySettings};

/// A row of the table: the change, and what becomes of it at BACKWARD, FORWARD and FULL.
struct Row {
    change: &'static str,
    cells: [Cell; 3],
    /// Tables and what is done to them, `{t}` in both; a row is inserted before, and after each statement.
    samples: &'static [(&'static str, &'static [&'static str])],
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cell {
    Accepted,
    Refused,
    /// By the level alone; refused by its transitive one.
    ByTheLatest,
}
use Cell::{Accepted, ByTheLatest, Refused};

impl Cell {
    const fn text(self) -> &'static str {
        match self {
            Accepted => "accepted",
            Refused => "refused",
            ByTheLatest => "accepted; transitive: refused",
        }
    }
}

macro_rules! alter_type {
    ($($from:literal => $to:literal),+ $(,)?) => {
        &[$((
            concat!("CREATE TABLE {t} (id serial PRIMARY KEY, c ", $from, ")"),
            &[concat!("ALTER TABLE {t} ALTER c TYPE ", $to)],
        )),+]
    };
}

const ROWS: &[Row] = &[
    Row {
        change: "add a column",
        cells: [Accepted; 3],
        samples: &[
            (
                "CREATE TABLE {t} (id serial PRIMARY KEY)",
                &["ALTER TABLE {t} ADD a int"],
            ),
            (
                "CREATE TABLE {t} (id serial PRIMARY KEY)",
                &["ALTER TABLE {t} ADD a numeric(10,2) NOT NULL DEFAULT 1"],
            ),
        ],
    },
    Row {
        change: "drop a column that is not part of the key",
        cells: [Accepted; 3],
        samples: &[(
            "CREATE TABLE {t} (id serial PRIMARY KEY, a int NOT NULL DEFAULT 1)",
            &["ALTER TABLE {t} DROP a"],
        )],
    },
    Row {
        change: "rename a column that is not part of the key",
        cells: [Accepted; 3],
        samples: &[(
            "CREATE TABLE {t} (id serial PRIMARY KEY, a int)",
            &["ALTER TABLE {t} RENAME a TO b"],
        )],
    },
    Row {
        change: "SET or DROP NOT NULL, a default, an index, a constraint that is no primary key",
        cells: [Accepted; 3],
        samples: &[(
            "CREATE TABLE {t} (id serial PRIMARY KEY, a int DEFAULT 1)",
            &[
                "ALTER TABLE {t} ALTER a SET NOT NULL, ALTER a SET DEFAULT 2, ADD UNIQUE (a, id)",
                "ALTER TABLE {t} ALTER a DROP NOT NULL",
            ],
        )],
    },
    Row {
        change: "a type that is the same in Avro: varchar(n) ↔ text, int2 ↔ int4, json ↔ jsonb, an enum's labels",
        cells: [Accepted; 3],
        samples: alter_type!["varchar(5)" => "text", "text" => "varchar(5)", "int2" => "int4", "int4" => "int2", "json" => "jsonb"],
    },
    Row {
        change: "text ↔ uuid",
        cells: [Accepted; 3],
        samples: alter_type!["text" => "uuid USING c::uuid", "uuid" => "text"],
    },
    Row {
        change: "a wider number: int4 → int8, float4, float8; int8 → float4, float8; float4 → float8",
        cells: [Accepted, Refused, Refused],
        samples: alter_type![
            "int4" => "int8", "int4" => "float4", "int4" => "float8", "int8" => "float4", "int8" => "float8", "float4" => "float8",
            "int4[]" => "int8[]",
        ],
    },
    Row {
        change: "a narrower number, the same the other way round",
        cells: [Refused, Accepted, Refused],
        samples: alter_type!["int8" => "int4", "float8" => "float4", "float8" => "int4", "float4" => "int8"],
    },
    Row {
        change: "numeric(p,s) with another p or s",
        cells: [Refused; 3],
        samples: alter_type![
            "numeric(10,2)" => "numeric(12,4)", "numeric(10,2)" => "numeric(12,2)", "numeric(10,2)[]" => "numeric(10,3)[]",
        ],
    },
    Row {
        change: "numeric(p,s) ↔ numeric, text, a number",
        cells: [Refused; 3],
        samples: alter_type![
            "numeric(10,2)" => "numeric", "numeric" => "numeric(10,2)", "numeric(10,2)" => "text",
            "text" => "numeric(10,2) USING c::numeric", "int4" => "numeric(10,2)", "numeric(10,2)" => "float8",
        ],
    },
    Row {
        change: "date, time, timestamp, timestamptz ↔ each other or a number",
        cells: [Refused; 3],
        samples: alter_type![
            "date" => "timestamp", "timestamp" => "date", "timestamp" => "timestamptz", "timestamptz" => "timestamp",
            "timestamp" => "bigint USING extract(epoch FROM c)::bigint", "bigint" => "timestamptz USING to_timestamp(c)",
            "date" => "int USING c - '1970-01-01'", "date" => "bigint USING c - '1970-01-01'", "time" => "bigint USING 1",
        ],
    },
    Row {
        change: "bytea ↔ text",
        cells: [Refused; 3],
        samples: alter_type!["bytea" => "text USING encode(c, 'hex')", "text" => "bytea USING c::bytea"],
    },
    Row {
        change: "any other change of type, such as int4 → text, bool → int4, T → T[]",
        cells: [Refused; 3],
        samples: alter_type![
            "int4" => "text", "text" => "int4 USING c::int4", "bool" => "int4 USING c::int4", "text" => "text[] USING ARRAY[c]",
            "timestamp" => "text", "float8" => "text",
        ],
    },
    Row {
        change: "the same changes of a key column: a wider number",
        cells: [Accepted, Refused, Refused],
        samples: &[(
            "CREATE TABLE {t} (id serial PRIMARY KEY)",
            &["ALTER TABLE {t} ALTER id TYPE int8"],
        )],
    },
    Row {
        change: "a primary key of other columns; a key column renamed",
        cells: [Refused; 3],
        samples: &[
            (
                "CREATE TABLE {t} (id serial, code serial, CONSTRAINT {t}_k PRIMARY KEY (id))",
                &["ALTER TABLE {t} DROP CONSTRAINT {t}_k, ADD PRIMARY KEY (code)"],
            ),
            (
                "CREATE TABLE {t} (id serial PRIMARY KEY)",
                &["ALTER TABLE {t} RENAME id TO number"],
            ),
        ],
    },
    Row {
        change: "a column more in the primary key",
        cells: [Refused, Accepted, Refused],
        samples: &[(
            "CREATE TABLE {t} (id serial, code serial, CONSTRAINT {t}_k PRIMARY KEY (id))",
            &["ALTER TABLE {t} DROP CONSTRAINT {t}_k, ADD PRIMARY KEY (id, code)"],
        )],
    },
    Row {
        change: "a column less in the primary key",
        cells: [Accepted, Refused, Refused],
        samples: &[(
            "CREATE TABLE {t} (id serial, code serial, CONSTRAINT {t}_k PRIMARY KEY (id, code))",
            &["ALTER TABLE {t} DROP CONSTRAINT {t}_k, ADD PRIMARY KEY (id)"],
        )],
    },
    Row {
        change: "the first primary key of a table that had none",
        cells: [Refused, Accepted, Refused],
        samples: &[(
            "CREATE TABLE {t} (id serial); ALTER TABLE {t} REPLICA IDENTITY FULL",
            &["ALTER TABLE {t} ADD PRIMARY KEY (id)"],
        )],
    },
    Row {
        change: "the primary key dropped, under REPLICA IDENTITY FULL",
        cells: [Accepted, Refused, Refused],
        samples: &[(
            "CREATE TABLE {t} (id serial, CONSTRAINT {t}_k PRIMARY KEY (id)); ALTER TABLE {t} REPLICA IDENTITY FULL",
            &["ALTER TABLE {t} DROP CONSTRAINT {t}_k"],
        )],
    },
    Row {
        change: "another REPLICA IDENTITY, with the same key",
        cells: [Accepted; 3],
        samples: &[(
            "CREATE TABLE {t} (id serial PRIMARY KEY, a int)",
            &["ALTER TABLE {t} REPLICA IDENTITY FULL"],
        )],
    },
    Row {
        change: "a composite type: ADD, DROP, RENAME ATTRIBUTE",
        cells: [Accepted; 3],
        samples: &[(
            "CREATE TYPE {t}_c AS (a int, b text); CREATE TABLE {t} (id serial PRIMARY KEY, c {t}_c)",
            &[
                "ALTER TYPE {t}_c ADD ATTRIBUTE d int; ALTER TABLE {t} SET (fillfactor = 90)",
                "ALTER TYPE {t}_c RENAME ATTRIBUTE d TO e; ALTER TABLE {t} SET (fillfactor = 80)",
                "ALTER TYPE {t}_c DROP ATTRIBUTE a; ALTER TABLE {t} SET (fillfactor = 70)",
            ],
        )],
    },
    Row {
        change: "a composite type renamed",
        cells: [Refused; 3],
        samples: &[(
            "CREATE TYPE {t}_c AS (a int); CREATE TABLE {t} (id serial PRIMARY KEY, c {t}_c)",
            &["ALTER TYPE {t}_c RENAME TO {t}_d; ALTER TABLE {t} SET (fillfactor = 90)"],
        )],
    },
    Row {
        change: "a column dropped, and later another of the same name with a type that the first cannot become",
        cells: [ByTheLatest; 3],
        samples: &[
            (
                "CREATE TABLE {t} (id serial PRIMARY KEY, a int)",
                &["ALTER TABLE {t} DROP a", "ALTER TABLE {t} ADD a text"],
            ),
            (
                "CREATE TABLE {t} (id serial PRIMARY KEY, a numeric(10,2))",
                &["ALTER TABLE {t} DROP a", "ALTER TABLE {t} ADD a numeric(12,4)"],
            ),
        ],
    },
];

#[test]
fn the_documents_table_is_this_one() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/records.md");
    let text = std::fs::read_to_string(path).unwrap();
    let written: Vec<&str> = text
        .split("| change | BACKWARD | FORWARD | FULL |\n|---|---|---|---|\n")
        .nth(1)
        .expect("the table")
        .lines()
        .take_while(|line| line.starts_with('|'))
        .collect();
    let expected: Vec<String> = ROWS
        .iter()
        .map(|row| {
            let [backward, forward, full] = row.cells.map(Cell::text);
            format!("| {} | {backward} | {forward} | {full} |", row.change)
        })
        .collect();
    assert_eq!(written, expected);
}

/// The schemas of a subject, oldest first.
async fn versions(registry: &Registry, subject: &str) -> Vec<String> {
    let mut schemas = Vec::new();
    for version in 1..=registry.versions(subject).await {
        schemas.push(registry.schema(subject, &version.to_string()).await.to_string());
    }
    schemas
}

fn client(registry: &Registry) -> Client {
    Client::new(RegistrySettings {
        urls: vec![registry.url.clone()],
        auth: Auth::None,
        ssl_ca: None,
        register: true,
        on_incompatible: OnIncompatible::Stop,
        timeout: Duration::from_secs(20),
    })
    .unwrap()
}

/// Whether the last of these schemas is taken after the others, at that level.
async fn is_accepted(registry: &Registry, schemas: &[String], level: &str) -> bool {
    let Some((last, before)) = schemas.split_last().filter(|(_, before)| !before.is_empty()) else {
        return true;
    };
    let subject = fresh("level");
    for schema in before {
        registry
            .register(&subject, &serde_json::from_str(schema).unwrap())
            .await;
    }
    registry.compatibility(&subject, level).await;
    let outcome = client(registry)
        .schema_id(&subject, last, &mut |error| panic!("{error}"))
        .await;
    let versions = registry.versions(&subject).await;
    match outcome {
        Ok(_) => assert_eq!(versions, schemas.len()),
        Err(error) => {
            assert!(error.is_incompatible(), "{error}");
            assert!(error.to_string().contains(&subject), "{error}");
            assert_eq!(versions, before.len(), "nothing was registered");
        }
    }
    versions == schemas.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_level_accepts_what_the_documents_table_says() {
    let (postgres, kafka, registry) = (Postgres::shared(18), Kafka::shared(), Registry::shared());
    let database = postgres.database().await;
    let name = pipeline();
    let mut statements = Vec::new();
    let samples: Vec<(&Row, String, &[&str])> = ROWS
        .iter()
        .flat_map(|row| row.samples.iter().map(move |sample| (row, sample)))
        .enumerate()
        .map(|(n, (row, (create, changes)))| (row, format!("l{n} {create}"), *changes))
        .collect();
    for (_, create, changes) in &samples {
        let (table, create) = create.split_once(' ').unwrap();
        database.execute(&create.replace("{t}", table)).await;
        let insert = format!("INSERT INTO {table} DEFAULT VALUES");
        statements.push(insert.clone());
        if create.contains("IDENTITY FULL") {
            // There the key is what the catalog says when the table is described.
            statements.push(SETTLED.to_owned());
        }
        for change in *changes {
            statements.push(change.replace("{t}", table));
            statements.push(insert.clone());
        }
    }
    let statements: Vec<&str> = statements.iter().map(String::as_str).collect();
    publish(
        &database,
        &Config::new(&name, &database, &kafka),
        Pace::Live,
        0,
        &statements,
    )
    .await;

    let mut judged = 0;
    let mut wrong = Vec::new();
    for (row, create, changes) in &samples {
        let table = create.split_once(' ').unwrap().0;
        let subjects = ["key", "value"].map(|kind| format!("{name}.public.{table}-{kind}"));
        let schemas = [
            versions(&registry, &subjects[0]).await,
            versions(&registry, &subjects[1]).await,
        ];
        for (level, cell) in ["BACKWARD", "FORWARD", "FULL"].into_iter().zip(row.cells) {
            for (level, accepts) in [
                (level.to_owned(), cell != Refused),
                (format!("{level}_TRANSITIVE"), cell == Accepted),
            ] {
                let accepted = is_accepted(&registry, &schemas[0], &level).await
                    && is_accepted(&registry, &schemas[1], &level).await;
                judged += 1;
                if accepted != accepts {
                    wrong.push(format!(
                        "{} ({create}; {changes:?}) at {level}: accepted is {accepted}",
                        row.change
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    eprintln!("{judged} changes judged at 6 levels, {} tables", samples.len());
}
