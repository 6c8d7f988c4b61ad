//! Row types that change under the tables that use them: the stream says nothing of it, the rows do.

use super::{Pace, SETTLED, SOON, line, publish};
use crate::harness::{Config, Database, Kafka, Postgres, Walferry, read_records};
use crate::workload::pipeline;

async fn lines(kafka: &Kafka, name: &str) -> Vec<String> {
    let topic = format!("{name}.public.t");
    read_records(&kafka.address, &[topic]).await.iter().map(line).collect()
}

fn config(name: &str, database: &Database<'_>, kafka: &Kafka, format: &str) -> Config {
    Config::new(name, database, kafka)
        .text("avro.envelope", "row")
        .text("replication.format", format)
}

#[tokio::test(flavor = "multi_thread")]
async fn attributes_added_and_dropped_while_running_are_in_the_next_row() {
    let kafka = Kafka::shared();
    for (version, format) in [(10, "text"), (14, "text"), (18, "text"), (14, "binary"), (18, "binary")] {
        let postgres = Postgres::shared(version);
        let database = postgres.database().await;
        database
            .execute(
                "CREATE TYPE addr AS (street text, no int); CREATE TYPE outer_addr AS (i addr, n int); \
                 CREATE TABLE t (id int PRIMARY KEY, a addr, list addr[], o outer_addr)",
            )
            .await;
        let name = pipeline();
        let config = config(&name, &database, &kafka, format);
        let steps = [
            "INSERT INTO t VALUES (1, ('s', 1), ARRAY[('s', 2)::addr, NULL], (('s', 3), 4))",
            SETTLED,
            "ALTER TYPE addr ADD ATTRIBUTE city text",
            "INSERT INTO t VALUES (2, ('s', 1, 'c'), ARRAY[('s', 2, 'd')::addr], (('s', 3, 'e'), 4))",
            SETTLED,
            // The old row, in its new shape.
            "UPDATE t SET id = 3 WHERE id = 1",
            SETTLED,
            "ALTER TYPE addr DROP ATTRIBUTE no",
            // Where the first column that is met is NULL, all are of one shape all the same.
            "INSERT INTO t VALUES (4, NULL, NULL, (('s', 'e'), 4))",
            "INSERT INTO t VALUES (5, ('s', 'c'), NULL, NULL)",
            SETTLED,
            "BEGIN; INSERT INTO t VALUES (6, ('s', 'c'), NULL, (('s', 'c'), 1)); ALTER TYPE addr ADD ATTRIBUTE no bigint; \
             INSERT INTO t VALUES (7, ('s', 'c', 15)); ALTER TYPE outer_addr ADD ATTRIBUTE m int; \
             INSERT INTO t VALUES (8, NULL, NULL, (NULL, 1, 2)); COMMIT",
            // What is asked of the catalog is what was true at the commit.
            "UPDATE t SET id = 9 WHERE id = 5",
        ];
        publish(&database, &config, Pace::Live, 0, &steps).await;
        assert_eq!(
            lines(&kafka, &name).await,
            [
                r#"c id=1 | id:int=1 a:{street,no}?={"no": 1, "street": "s"} list:[addr]?=[{"no": 2, "street": "s"}, null] o:{i,n}?={"i": {"no": 3, "street": "s"}, "n": 4}"#,
                r#"c id=2 | id:int=2 a:{street,no,city}?={"city": "c", "no": 1, "street": "s"} list:[addr]?=[{"city": "d", "no": 2, "street": "s"}] o:{i,n}?={"i": {"city": "e", "no": 3, "street": "s"}, "n": 4}"#,
                r#"d id=1 | -"#,
                r#"c id=3 | id:int=3 a:{street,no,city}?={"city": null, "no": 1, "street": "s"} list:[addr]?=[{"city": null, "no": 2, "street": "s"}, null] o:{i,n}?={"i": {"city": null, "no": 3, "street": "s"}, "n": 4}"#,
                r#"c id=4 | id:int=4 a:{street,city}?=NULL list:[addr]?=NULL o:{i,n}?={"i": {"city": "e", "street": "s"}, "n": 4}"#,
                r#"c id=5 | id:int=5 a:{street,city}?={"city": "c", "street": "s"} list:[addr]?=NULL o:{i,n}?=NULL"#,
                r#"c id=6 | id:int=6 a:{street,city}?={"city": "c", "street": "s"} list:[addr]?=NULL o:{i,n}?={"i": {"city": "c", "street": "s"}, "n": 1}"#,
                r#"c id=7 | id:int=7 a:{street,city,no}?={"city": "c", "no": 15, "street": "s"} list:[addr]?=NULL o:{i,n,m}?=NULL"#,
                r#"c id=8 | id:int=8 a:{street,city,no}?=NULL list:[addr]?=NULL o:{i,n,m}?={"i": null, "m": 2, "n": 1}"#,
                r#"d id=5 | -"#,
                r#"c id=9 | id:int=9 a:{street,city,no}?={"city": "c", "no": null, "street": "s"} list:[addr]?=NULL o:{i,n,m}?=NULL"#,
            ],
            "Postgres {version}, {format}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pipeline_that_lags_behind_added_attributes_reads_each_row_as_it_was() {
    let kafka = Kafka::shared();
    for (version, format) in [(11, "text"), (18, "text"), (16, "binary")] {
        let postgres = Postgres::shared(version);
        let database = postgres.database().await;
        database
            .execute(
                "CREATE TYPE pair AS (a int, b text); CREATE TABLE noise (id bigserial PRIMARY KEY); \
                 CREATE TABLE t (id int PRIMARY KEY, p pair, ps pair[])",
            )
            .await;
        let name = pipeline();
        let steps = [
            "INSERT INTO t VALUES (1, (1, 'x'), ARRAY[(2, 'y')::pair])",
            "ALTER TYPE pair ADD ATTRIBUTE c int",
            "INSERT INTO t VALUES (2, (1, 'x', 3), ARRAY[(2, 'y', 4)::pair])",
            // The table is described again, and the catalog is ahead.
            "ALTER TABLE t ADD extra int",
            "INSERT INTO t VALUES (3, (1, 'x', 3), NULL, 5)",
            "ALTER TYPE pair ADD ATTRIBUTE d text",
            "INSERT INTO t VALUES (4, (1, 'x', 3, 'z'), NULL, 6)",
        ];
        let config = config(&name, &database, &kafka, format);
        publish(&database, &config, Pace::Behind, 1500, &steps).await;
        assert_eq!(
            lines(&kafka, &name).await,
            [
                r#"c id=1 | id:int=1 p:{a,b}?={"a": 1, "b": "x"} ps:[pair]?=[{"a": 2, "b": "y"}]"#,
                r#"c id=2 | id:int=2 p:{a,b,c}?={"a": 1, "b": "x", "c": 3} ps:[pair]?=[{"a": 2, "b": "y", "c": 4}]"#,
                r#"c id=3 | id:int=3 p:{a,b,c}?={"a": 1, "b": "x", "c": 3} ps:[pair]?=NULL extra:int?=5"#,
                r#"c id=4 | id:int=4 p:{a,b,c,d}?={"a": 1, "b": "x", "c": 3, "d": "z"} ps:[pair]?=NULL extra:int?=6"#,
            ],
            "Postgres {version}, {format}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn attributes_that_are_dropped_by_now_are_known_to_whoever_saw_them() {
    let (postgres, kafka) = (Postgres::shared(17), Kafka::shared());
    for format in ["text", "binary"] {
        let database = postgres.database().await;
        database
            .execute("CREATE TYPE pair AS (a int, b text, c int); CREATE TABLE t (id int PRIMARY KEY, p pair)")
            .await;
        let name = pipeline();
        let config = config(&name, &database, &kafka, format);
        let mut walferry = Walferry::start(&config);
        walferry.ready(SOON).await;
        database.execute("INSERT INTO t VALUES (1, (1, 'x', 2))").await;
        database.confirmed(&name, SOON, || walferry.log()).await;
        walferry.freeze();
        for sql in [
            // Described again, with a catalog that has dropped what the next row still has.
            "ALTER TABLE t ADD extra int",
            "INSERT INTO t VALUES (2, (1, 'x', 2), 3)",
            "ALTER TYPE pair DROP ATTRIBUTE b",
            "INSERT INTO t VALUES (3, (1, 2), 4)",
        ] {
            database.execute(sql).await;
        }
        walferry.thaw();
        database.confirmed(&name, SOON, || walferry.log()).await;
        assert_eq!(walferry.terminate(SOON).await.code, Some(0));
        assert_eq!(
            lines(&kafka, &name).await,
            [
                r#"c id=1 | id:int=1 p:{a,b,c}?={"a": 1, "b": "x", "c": 2}"#,
                r#"c id=2 | id:int=2 p:{a,b,c}?={"a": 1, "b": "x", "c": 2} extra:int?=3"#,
                r#"c id=3 | id:int=3 p:{a,c}?={"a": 1, "c": 2} extra:int?=4"#,
            ],
            "{format}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn attributes_that_nobody_knows_any_more_stop_the_pipeline_with_the_reason() {
    let (postgres, kafka) = (Postgres::shared(15), Kafka::shared());
    let database = postgres.database().await;
    database
        .execute("CREATE TYPE pair AS (a int, b text, c int); CREATE TABLE t (id int PRIMARY KEY, p pair)")
        .await;
    let name = pipeline();
    let config = config(&name, &database, &kafka, "text");
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    assert_eq!(walferry.terminate(SOON).await.code, Some(0));
    for sql in [
        "INSERT INTO t VALUES (1, (1, 'sesame', 2))",
        "ALTER TYPE pair DROP ATTRIBUTE b",
    ] {
        database.execute(sql).await;
    }
    let exit = Walferry::to_end(&config, "run", SOON).await;
    assert_eq!(exit.code, Some(1), "{}", exit.stderr);
    exit.says(&[
        "table public.t",
        "column \"p\" of type public.pair",
        "neither the attributes that its type has in the catalog nor those that it is known to have had",
    ]);
    assert!(!exit.stderr.contains("sesame"), "{}", exit.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_no_attributes_could_hold_is_a_bad_row_for_its_own_reason() {
    let (postgres, kafka) = (Postgres::shared(18), Kafka::shared());
    let database = postgres.database().await;
    database
        .execute("CREATE TYPE price AS (label text, amount numeric(6,2)); CREATE TABLE t (id int PRIMARY KEY, p price)")
        .await;
    let name = pipeline();
    let mut walferry = Walferry::start(&config(&name, &database, &kafka, "text"));
    walferry.ready(SOON).await;
    database.execute("INSERT INTO t VALUES (1, ('x', 'NaN'))").await;
    let exit = walferry.end(SOON).await;
    assert_eq!(exit.code, Some(1), "{}", exit.stderr);
    exit.says(&[
        "table public.t",
        "column \"p\" of type public.price",
        "NaN and infinity have no place in a decimal",
    ]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renamed_type_has_the_name_that_it_had_at_the_commit() {
    let (postgres, kafka) = (Postgres::shared(18), Kafka::shared());
    for pace in [Pace::Live, Pace::Behind] {
        let database = postgres.database().await;
        database
            .execute("CREATE TYPE first AS (a int); CREATE TABLE t (id int PRIMARY KEY, c first); CREATE TABLE noise (id bigserial PRIMARY KEY)")
            .await;
        let name = pipeline();
        let config = config(&name, &database, &kafka, "text");
        let steps = [
            "INSERT INTO t VALUES (1, ROW(1))",
            SETTLED,
            "ALTER TYPE first RENAME TO second",
            "ALTER TABLE t SET (fillfactor = 90)",
            "INSERT INTO t VALUES (2, ROW(2))",
            SETTLED,
            "CREATE SCHEMA elsewhere; ALTER TYPE second SET SCHEMA elsewhere",
            "ALTER TABLE t SET (fillfactor = 80)",
            "INSERT INTO t VALUES (3, ROW(3))",
        ];
        publish(&database, &config, pace, 0, &steps).await;
        let records = read_records(&kafka.address, &[format!("{name}.public.t")]).await;
        let names: Vec<String> = records
            .iter()
            .map(|record| {
                let of = &record.schema.as_ref().unwrap()["fields"][1]["type"][1];
                format!(
                    "{} {}",
                    of["walferry.schema"].as_str().unwrap(),
                    of["walferry.type"].as_str().unwrap()
                )
            })
            .collect();
        assert_eq!(names, ["public first", "public second", "elsewhere second"], "{pace:?}");
    }
}
