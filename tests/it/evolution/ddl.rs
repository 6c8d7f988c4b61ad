//! ALTER, DROP, CREATE and RENAME between rows, in the middle of transactions and in savepoints that are rolled back.

use super::{Pace, line, publish};
use crate::harness::{Config, Database, Kafka, Postgres, Registry, read_events, read_records};
use crate::workload::pipeline;
use std::collections::BTreeMap;

/// What happens to one table (or several), and what arrives.
struct Case {
    setup: &'static str,
    /// `{pub}` is the publication.
    steps: &'static [&'static str],
    /// The lines of each topic, named by schema and table.
    topics: &'static [(&'static str, &'static [&'static str])],
}

const CASES: &[Case] = &[
    Case {
        setup: "CREATE TABLE add_column (id int PRIMARY KEY, a text)",
        steps: &[
            "INSERT INTO add_column VALUES (1, 'x')",
            "ALTER TABLE add_column ADD b int",
            "INSERT INTO add_column VALUES (2, 'y', 2)",
            "ALTER TABLE add_column ADD c text NOT NULL DEFAULT 'd'",
            "INSERT INTO add_column VALUES (3, 'z', 3)",
            "UPDATE add_column SET a = 'w' WHERE id = 1",
        ],
        topics: &[(
            "public.add_column",
            &[
                "c id=1 | id:int=1 a:string?=x",
                "c id=2 | id:int=2 a:string?=y b:int?=2",
                "c id=3 | id:int=3 a:string?=z b:int?=3 c:string?=d",
                "u id=1 | id:int=1 a:string?=w b:int?=NULL c:string?=d",
            ],
        )],
    },
    Case {
        setup: "CREATE TABLE drop_column (id int PRIMARY KEY, a text, b int)",
        steps: &[
            "INSERT INTO drop_column VALUES (1, 'x', 1)",
            "ALTER TABLE drop_column DROP a",
            "INSERT INTO drop_column VALUES (2, 2)",
            "ALTER TABLE drop_column ADD a int",
            "INSERT INTO drop_column VALUES (3, 3, 3)",
            "UPDATE drop_column SET b = 9 WHERE id = 1",
        ],
        topics: &[(
            "public.drop_column",
            &[
                "c id=1 | id:int=1 a:string?=x b:int?=1",
                "c id=2 | id:int=2 b:int?=2",
                "c id=3 | id:int=3 b:int?=3 a:int?=3",
                "u id=1 | id:int=1 b:int?=9 a:int?=NULL",
            ],
        )],
    },
    Case {
        setup: "CREATE TABLE rename_column (id int PRIMARY KEY, a text, b text)",
        steps: &[
            "INSERT INTO rename_column VALUES (1, 'x', 'y')",
            "ALTER TABLE rename_column RENAME a TO c",
            "INSERT INTO rename_column VALUES (2, 'x', 'y')",
            // Two columns change places by name alone.
            "BEGIN; ALTER TABLE rename_column RENAME b TO t; ALTER TABLE rename_column RENAME c TO b; \
             ALTER TABLE rename_column RENAME t TO c; INSERT INTO rename_column VALUES (3, 'x', 'y'); COMMIT",
            "ALTER TABLE rename_column RENAME id TO number",
            "DELETE FROM rename_column WHERE number = 2",
        ],
        topics: &[(
            "public.rename_column",
            &[
                "c id=1 | id:int=1 a:string?=x b:string?=y",
                "c id=2 | id:int=2 c:string?=x b:string?=y",
                "c id=3 | id:int=3 b:string?=x c:string?=y",
                "d number=2 | -",
            ],
        )],
    },
    Case {
        setup: "CREATE TABLE not_null (id int PRIMARY KEY, a int)",
        steps: &[
            "INSERT INTO not_null VALUES (1, 1)",
            "ALTER TABLE not_null ALTER a SET NOT NULL",
            "INSERT INTO not_null VALUES (2, 2)",
            "ALTER TABLE not_null ALTER a DROP NOT NULL",
            "INSERT INTO not_null VALUES (3, NULL)",
        ],
        topics: &[(
            "public.not_null",
            &[
                "c id=1 | id:int=1 a:int?=1",
                "c id=2 | id:int=2 a:int?=2",
                "c id=3 | id:int=3 a:int?=NULL",
            ],
        )],
    },
    Case {
        setup: "CREATE TABLE new_key (id int CONSTRAINT new_key_pk PRIMARY KEY, code text NOT NULL, v int)",
        steps: &[
            "INSERT INTO new_key VALUES (1, 'a', 1)",
            "ALTER TABLE new_key DROP CONSTRAINT new_key_pk, ADD CONSTRAINT new_key_pk PRIMARY KEY (code)",
            "UPDATE new_key SET v = 2",
            "UPDATE new_key SET code = 'b'",
            "ALTER TABLE new_key DROP CONSTRAINT new_key_pk, ADD CONSTRAINT new_key_pk PRIMARY KEY (id, code)",
            "DELETE FROM new_key",
        ],
        topics: &[(
            "public.new_key",
            &[
                "c id=1 | id:int=1 code:string?=a v:int?=1",
                "u code=a | id:int?=1 code:string=a v:int?=2",
                "d code=a | -",
                "c code=b | id:int?=1 code:string=b v:int?=2",
                "d code=b,id=1 | -",
            ],
        )],
    },
    Case {
        setup: "CREATE TABLE rename_table (id int PRIMARY KEY, a text)",
        steps: &[
            "INSERT INTO rename_table VALUES (1, 'first')",
            "ALTER TABLE rename_table RENAME TO renamed_table",
            "INSERT INTO renamed_table VALUES (2, 'first')",
            "CREATE TABLE rename_table (key text PRIMARY KEY); ALTER PUBLICATION {pub} ADD TABLE rename_table",
            "INSERT INTO rename_table VALUES ('second')",
            "UPDATE renamed_table SET a = 'still the first' WHERE id = 1",
        ],
        topics: &[
            (
                "public.rename_table",
                &["c id=1 | id:int=1 a:string?=first", "c key=second | key:string=second"],
            ),
            (
                "public.renamed_table",
                &[
                    "c id=2 | id:int=2 a:string?=first",
                    "u id=1 | id:int=1 a:string?=still the first",
                ],
            ),
        ],
    },
    Case {
        setup: "CREATE TABLE swap_a (id int PRIMARY KEY, a text); CREATE TABLE swap_b (id int PRIMARY KEY, b int)",
        steps: &[
            "INSERT INTO swap_a VALUES (1, 'a'); INSERT INTO swap_b VALUES (1, 1)",
            "BEGIN; ALTER TABLE swap_a RENAME TO swap_c; ALTER TABLE swap_b RENAME TO swap_a; \
             ALTER TABLE swap_c RENAME TO swap_b; INSERT INTO swap_a VALUES (2, 2); INSERT INTO swap_b VALUES (2, 'b'); COMMIT",
        ],
        topics: &[
            (
                "public.swap_a",
                &["c id=1 | id:int=1 a:string?=a", "c id=2 | id:int=2 b:int?=2"],
            ),
            (
                "public.swap_b",
                &["c id=1 | id:int=1 b:int?=1", "c id=2 | id:int=2 a:string?=b"],
            ),
        ],
    },
    Case {
        setup: "CREATE TABLE drop_table (id int PRIMARY KEY, a text)",
        steps: &[
            "INSERT INTO drop_table VALUES (1, 'first')",
            "DROP TABLE drop_table",
            "CREATE TABLE drop_table (id bigint PRIMARY KEY, b numeric(6,2)); ALTER PUBLICATION {pub} ADD TABLE drop_table",
            "INSERT INTO drop_table VALUES (1, 1.5)",
            "BEGIN; INSERT INTO drop_table VALUES (2, 2.5); DROP TABLE drop_table; \
             CREATE TABLE drop_table (id text PRIMARY KEY); ALTER PUBLICATION {pub} ADD TABLE drop_table; \
             INSERT INTO drop_table VALUES ('three'); COMMIT",
        ],
        topics: &[(
            "public.drop_table",
            &[
                "c id=1 | id:int=1 a:string?=first",
                "c id=1 | id:long=1 b:decimal(6,2)?=1.50",
                "c id=2 | id:long=2 b:decimal(6,2)?=2.50",
                "c id=three | id:string=three",
            ],
        )],
    },
    Case {
        setup: "CREATE SCHEMA other; CREATE TABLE set_schema (id int PRIMARY KEY)",
        steps: &[
            "INSERT INTO set_schema VALUES (1)",
            "ALTER TABLE set_schema SET SCHEMA other",
            "INSERT INTO other.set_schema VALUES (2)",
            "ALTER SCHEMA other RENAME TO another; CREATE SCHEMA other",
            // Nothing but the schema's name has changed, and the stream does not describe the table again for that.
            "ALTER TABLE another.set_schema ADD a int",
            "INSERT INTO another.set_schema VALUES (3, 3)",
            "ALTER TABLE another.set_schema SET SCHEMA public",
            "INSERT INTO public.set_schema VALUES (4, 4)",
        ],
        topics: &[
            (
                "public.set_schema",
                &["c id=1 | id:int=1", "c id=4 | id:int=4 a:int?=4"],
            ),
            ("other.set_schema", &["c id=2 | id:int=2"]),
            ("another.set_schema", &["c id=3 | id:int=3 a:int?=3"]),
        ],
    },
    Case {
        setup: "CREATE TYPE label_mood AS ENUM ('well'); CREATE TABLE enum_label (id int PRIMARY KEY, m label_mood, ms label_mood[])",
        steps: &[
            "INSERT INTO enum_label VALUES (1, 'well', '{well}')",
            "ALTER TYPE label_mood ADD VALUE 'better' BEFORE 'well'",
            "INSERT INTO enum_label VALUES (2, 'better', '{well,better}')",
            "ALTER TYPE label_mood RENAME VALUE 'well' TO 'fine'",
            "UPDATE enum_label SET id = 3 WHERE id = 1",
            "ALTER TYPE label_mood RENAME TO label_humour",
            "INSERT INTO enum_label VALUES (4, 'fine', NULL)",
        ],
        topics: &[(
            "public.enum_label",
            &[
                "c id=1 | id:int=1 m:string?=well ms:[string]?=[\"well\"]",
                "c id=2 | id:int=2 m:string?=better ms:[string]?=[\"well\", \"better\"]",
                "d id=1 | -",
                "c id=3 | id:int=3 m:string?=fine ms:[string]?=[\"fine\"]",
                "c id=4 | id:int=4 m:string?=fine ms:[string]?=NULL",
            ],
        )],
    },
    Case {
        setup: "CREATE TABLE in_transaction (id int PRIMARY KEY, a text)",
        steps: &[
            "BEGIN; INSERT INTO in_transaction VALUES (1, 'x'); ALTER TABLE in_transaction ADD b int; \
             INSERT INTO in_transaction VALUES (2, 'x', 2); ALTER TABLE in_transaction DROP a; \
             INSERT INTO in_transaction VALUES (3, 3); ALTER TABLE in_transaction ALTER b TYPE bigint; \
             UPDATE in_transaction SET b = 9223372036854775807 WHERE id = 1; ALTER TABLE in_transaction RENAME b TO c; \
             DELETE FROM in_transaction WHERE id = 2; INSERT INTO in_transaction VALUES (4, 4); COMMIT",
        ],
        topics: &[(
            "public.in_transaction",
            &[
                "c id=1 | id:int=1 a:string?=x",
                "c id=2 | id:int=2 a:string?=x b:int?=2",
                "c id=3 | id:int=3 b:int?=3",
                "u id=1 | id:int=1 b:long?=9223372036854775807",
                "d id=2 | -",
                "c id=4 | id:int=4 c:long?=4",
            ],
        )],
    },
    Case {
        setup: "CREATE TABLE in_savepoint (id int PRIMARY KEY, a text)",
        steps: &[
            "BEGIN; INSERT INTO in_savepoint VALUES (1, 'x'); SAVEPOINT one; ALTER TABLE in_savepoint ADD b int; \
             INSERT INTO in_savepoint VALUES (2, 'x', 2); ROLLBACK TO one; INSERT INTO in_savepoint VALUES (3, 'x'); COMMIT",
            "INSERT INTO in_savepoint VALUES (4, 'x')",
            "BEGIN; SAVEPOINT one; ALTER TABLE in_savepoint ADD b int; SAVEPOINT two; ALTER TABLE in_savepoint DROP a; \
             INSERT INTO in_savepoint VALUES (5, 5); ROLLBACK TO two; INSERT INTO in_savepoint VALUES (6, 'x', 6); \
             RELEASE one; INSERT INTO in_savepoint VALUES (7, 'x', 7); COMMIT",
            "BEGIN; SAVEPOINT one; ALTER TABLE in_savepoint RENAME TO never_so_named; \
             INSERT INTO never_so_named VALUES (8, 'x', 8); ROLLBACK TO one; INSERT INTO in_savepoint VALUES (9, 'x', 9); COMMIT",
            "BEGIN; ALTER TABLE in_savepoint DROP b; INSERT INTO in_savepoint VALUES (10, 'x'); ROLLBACK",
            "INSERT INTO in_savepoint VALUES (11, 'x', 11)",
        ],
        topics: &[(
            "public.in_savepoint",
            &[
                "c id=1 | id:int=1 a:string?=x",
                "c id=3 | id:int=3 a:string?=x",
                "c id=4 | id:int=4 a:string?=x",
                "c id=6 | id:int=6 a:string?=x b:int?=6",
                "c id=7 | id:int=7 a:string?=x b:int?=7",
                "c id=9 | id:int=9 a:string?=x b:int?=9",
                "c id=11 | id:int=11 a:string?=x b:int?=11",
            ],
        )],
    },
];

/// Type before, a value in it, type and expression after, what is found in Kafka before and after.
const TYPES: &[(&str, &str, &str, &str, &str)] = &[
    ("int4", "7", "int8", "int?=7", "long?=7"),
    ("int8", "7", "int4", "long?=7", "int?=7"),
    ("int2", "7", "int4", "int?=7", "int?=7"),
    ("int4", "7", "float8", "int?=7", "double?=7"),
    ("float4", "1.5", "float8", "float?=1.5", "double?=1.5"),
    ("float8", "1.5", "float4", "double?=1.5", "float?=1.5"),
    ("varchar(5)", "'abc'", "text", "string?=abc", "string?=abc"),
    ("text", "'abc'", "varchar(9)", "string?=abc", "string?=abc"),
    (
        "numeric(10,2)",
        "1.25",
        "numeric(12,4)",
        "decimal(10,2)?=1.25",
        "decimal(12,4)?=1.2500",
    ),
    (
        "numeric(10,2)",
        "1.25",
        "numeric",
        "decimal(10,2)?=1.25",
        "string?=1.25",
    ),
    ("numeric", "1.25", "numeric(5,3)", "string?=1.25", "decimal(5,3)?=1.250"),
    ("int4", "7", "numeric(5,1)", "int?=7", "decimal(5,1)?=7.0"),
    ("int4", "7", "text", "int?=7", "string?=7"),
    ("text", "'7'", "int4 USING c::int4", "string?=7", "int?=7"),
    (
        "text",
        "'6f1a3c9e-0b2d-4e5f-8a7b-9c0d1e2f3a4b'",
        "uuid USING c::uuid",
        "string?=6f1a3c9e-0b2d-4e5f-8a7b-9c0d1e2f3a4b",
        "uuid?=6f1a3c9e-0b2d-4e5f-8a7b-9c0d1e2f3a4b",
    ),
    (
        "timestamp",
        "'2024-02-29 12:00'",
        "timestamptz USING c AT TIME ZONE 'UTC'",
        "local-timestamp-micros?=2024-02-29 12:00:00",
        "timestamp-micros?=2024-02-29 12:00:00+00",
    ),
    (
        "timestamp",
        "'1970-01-01 00:00:01'",
        "bigint USING extract(epoch FROM c)::bigint",
        "local-timestamp-micros?=1970-01-01 00:00:01",
        "long?=1",
    ),
    (
        "date",
        "'1970-01-03'",
        "int USING c - '1970-01-01'",
        "date?=1970-01-03",
        "int?=2",
    ),
    (
        "date",
        "'1970-01-03'",
        "timestamp",
        "date?=1970-01-03",
        "local-timestamp-micros?=1970-01-03 00:00:00",
    ),
    (
        "bytea",
        "'\\x6162'",
        "text USING convert_from(c, 'UTF8')",
        "bytes?=\\x6162",
        "string?=ab",
    ),
    ("text", "'a'", "text[] USING ARRAY[c]", "string?=a", "[string]?=[\"a\"]"),
    (
        "int4[]",
        "'{1,NULL}'",
        "int8[]",
        "[int]?=[1, null]",
        "[long]?=[1, null]",
    ),
    (
        "json",
        "'{\"a\": 1.0}'",
        "jsonb",
        "string?={\"a\": 1.0}",
        "string?={\"a\": 1.0}",
    ),
    ("bool", "true", "int USING c::int", "boolean?=t", "int?=1"),
];

async fn changes(version: u32, pace: Pace) {
    let (postgres, kafka) = (Postgres::shared(version), Kafka::shared());
    let database = postgres.database().await;
    let name = pipeline();
    database.execute("CREATE TABLE noise (id bigserial PRIMARY KEY)").await;
    let mut steps: Vec<String> = Vec::new();
    for case in CASES {
        database.execute(case.setup).await;
        steps.extend(case.steps.iter().map(|step| step.replace("{pub}", &name)));
    }
    for (n, (before, value, after, ..)) in TYPES.iter().enumerate() {
        let table = format!("type_{n}");
        database
            .execute(&format!("CREATE TABLE {table} (id int PRIMARY KEY, c {before})"))
            .await;
        steps.push(format!("INSERT INTO {table} VALUES (1, {value})"));
        steps.push(format!("ALTER TABLE {table} ALTER c TYPE {after}"));
        // The row as it is now, with its value converted.
        steps.push(format!("UPDATE {table} SET id = 2"));
    }
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    let between = 10_000_u32.div_ceil(u32::try_from(steps.len()).unwrap());
    let config = Config::new(&name, &database, &kafka).text("avro.envelope", "row");
    publish(&database, &config, pace, between, &steps).await;

    let mut expected: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (topic, lines) in CASES.iter().flat_map(|case| case.topics) {
        expected.insert(format!("{name}.{topic}"), lines.iter().map(|&l| l.to_owned()).collect());
    }
    for (n, (.., before, after)) in TYPES.iter().enumerate() {
        let lines = [
            format!("c id=1 | id:int=1 c:{before}"),
            "d id=1 | -".to_owned(),
            format!("c id=2 | id:int=2 c:{after}"),
        ];
        expected.insert(format!("{name}.public.type_{n}"), lines.to_vec());
    }
    let topics: Vec<String> = expected.keys().cloned().collect();
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for record in read_records(&kafka.address, &topics).await {
        found.entry(record.topic.clone()).or_default().push(line(&record));
    }
    for (topic, lines) in &expected {
        assert_eq!(found.get(topic), Some(lines), "{topic}, {pace:?}, Postgres {version}");
    }
    // What was never published under its name has no topic.
    let mut all = kafka.topics(&format!("{name}.")).await;
    all.retain(|topic| !topic.ends_with(".noise"));
    assert_eq!(all, topics, "{pace:?}, Postgres {version}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_record_is_what_was_true_at_its_commit() {
    for version in [10, 14, 18] {
        changes(version, Pace::Live).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_transactions_behind_each_record_is_what_was_true_at_its_commit() {
    for version in [11, 15, 18] {
        changes(version, Pace::Behind).await;
    }
}

/// Before and after of each event, and its key.
async fn identities(database: &Database<'_>, version: u32, pace: Pace) {
    let (kafka, registry) = (Kafka::shared(), Registry::shared());
    database
        .execute(
            "CREATE TABLE t (id int PRIMARY KEY, code text NOT NULL CONSTRAINT t_code UNIQUE, v int); \
             CREATE TABLE noise (id bigserial PRIMARY KEY)",
        )
        .await;
    let name = pipeline();
    let steps = [
        "INSERT INTO t VALUES (1, 'a', 1)",
        "UPDATE t SET v = 2",
        "ALTER TABLE t REPLICA IDENTITY FULL",
        "UPDATE t SET v = 3",
        "ALTER TABLE t REPLICA IDENTITY USING INDEX t_code",
        "UPDATE t SET code = 'b'",
        "ALTER TABLE t REPLICA IDENTITY NOTHING",
        "INSERT INTO t VALUES (9, 'z', 9)",
        "ALTER TABLE t REPLICA IDENTITY DEFAULT",
        "UPDATE t SET id = 2 WHERE id = 1",
        // In the middle of a transaction.
        "BEGIN; UPDATE t SET v = 4 WHERE id = 2; ALTER TABLE t REPLICA IDENTITY FULL; UPDATE t SET v = 5 WHERE id = 2; COMMIT",
        "DELETE FROM t WHERE id = 2",
        "DELETE FROM t WHERE id = 9",
    ];
    publish(database, &Config::new(&name, database, &kafka), pace, 1000, &steps).await;
    let topic = format!("{name}.public.t");
    let reading = read_events(&kafka.address, std::slice::from_ref(&topic)).await;
    let row = |row: &Option<BTreeMap<String, Option<String>>>| {
        row.as_ref().map_or("-".to_owned(), |row| {
            row.values()
                .map(|v| v.as_deref().unwrap_or("NULL"))
                .collect::<Vec<_>>()
                .join(",")
        })
    };
    let lines: Vec<String> = reading
        .events_of(&topic, "c")
        .chain(reading.events_of(&topic, "u"))
        .chain(reading.events_of(&topic, "d"))
        .map(|e| {
            let key = e.key.as_ref().unwrap();
            let names = key.keys().cloned().collect::<Vec<_>>().join(",");
            format!(
                "{} {names}={} | {} | {}",
                e.op,
                row(&e.key),
                row(&e.before),
                row(&e.after)
            )
        })
        .collect();
    assert_eq!(
        lines,
        [
            "c id=1 | - | a,1,1",
            "c code=b | - | b,1,3",
            "c id=9 | - | z,9,9",
            "c id=2 | - | b,2,3",
            "u id=1 | - | a,1,2",
            "u id=1 | a,1,2 | a,1,3",
            "u id=2 | - | b,2,4",
            "u id=2 | b,2,4 | b,2,5",
            "d code=a | a,NULL,NULL | -",
            "d id=1 | NULL,1,NULL | -",
            "d id=2 | b,2,5 | -",
            "d id=9 | z,9,9 | -",
        ],
        "Postgres {version}, {pace:?}"
    );
    // default, full, index, nothing; and the two keys.
    assert_eq!(registry.versions(&format!("{topic}-value")).await, 4);
    assert_eq!(registry.versions(&format!("{topic}-key")).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_replica_identity_holds_from_its_commit_on() {
    for (version, pace) in [
        (10, Pace::Live),
        (13, Pace::Behind),
        (18, Pace::Live),
        (18, Pace::Behind),
    ] {
        let postgres = Postgres::shared(version);
        identities(&postgres.database().await, version, pace).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_leaves_the_rows_as_they_are_makes_no_new_schema() {
    let (postgres, kafka, registry) = (Postgres::shared(17), Kafka::shared(), Registry::shared());
    let database = postgres.database().await;
    database
        .execute("CREATE TABLE t (id int PRIMARY KEY, a varchar(5), b int2)")
        .await;
    let name = pipeline();
    let statements = [
        "INSERT INTO t VALUES (1, 'a', 1)",
        "ALTER TABLE t ALTER a SET NOT NULL",
        "INSERT INTO t VALUES (2, 'a', 1)",
        "ALTER TABLE t ALTER a TYPE varchar(9), ALTER b TYPE int",
        "INSERT INTO t VALUES (3, 'a', 1)",
        "ALTER TABLE t ALTER a TYPE text, ALTER a SET DEFAULT 'x', ADD CHECK (b > 0); CREATE INDEX ON t (b); COMMENT ON TABLE t IS 'x'",
        "INSERT INTO t VALUES (4, 'a', 1)",
        "TRUNCATE t",
        "VACUUM FULL t",
        "INSERT INTO t VALUES (5, 'a', 1)",
    ];
    let config = Config::new(&name, &database, &kafka);
    publish(&database, &config, Pace::Live, 0, &statements).await;
    let topic = format!("{name}.public.t");
    let reading = read_events(&kafka.address, std::slice::from_ref(&topic)).await;
    reading.is_faultless();
    assert_eq!((reading.changes, reading.duplicates), (6, 0));
    reading.equals(&database, "t", &topic).await;
    assert_eq!(registry.versions(&format!("{topic}-value")).await, 1);
    assert_eq!(registry.versions(&format!("{topic}-key")).await, 1);
}
