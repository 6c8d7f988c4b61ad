//! Changes that a subject's consumers could not follow: they stop the pipeline, and each way on is one that somebody chose.

use super::{SOON, line};
use crate::harness::{Config, Database, Exit, Kafka, Postgres, Registry, Walferry, read_records};
use crate::workload::pipeline;

struct Scene<'a> {
    database: Database<'a>,
    kafka: Kafka,
    registry: Registry,
    name: String,
    config: Config,
}

impl<'a> Scene<'a> {
    /// A table with a column `c` of this type, and a first row; the subject of its values at that level.
    async fn new(postgres: &'a Postgres, column: &str, value: &str, level: &str) -> Self {
        let (kafka, registry) = (Kafka::shared(), Registry::shared());
        let database = postgres.database().await;
        database
            .execute(&format!("CREATE TABLE t (id int PRIMARY KEY, c {column})"))
            .await;
        let name = pipeline();
        let config = Config::new(&name, &database, &kafka).text("avro.envelope", "row");
        let scene = Scene {
            database,
            kafka,
            registry,
            name,
            config,
        };
        let mut walferry = scene.start(&scene.config).await;
        scene
            .database
            .execute(&format!("INSERT INTO t VALUES (1, {value})"))
            .await;
        scene.confirmed(&walferry).await;
        assert_eq!(walferry.terminate(SOON).await.code, Some(0));
        scene.registry.compatibility(&scene.subject(), level).await;
        scene
    }

    fn subject(&self) -> String {
        format!("{}.public.t-value", self.name)
    }

    async fn start(&self, config: &Config) -> Walferry {
        let mut walferry = Walferry::start(config);
        walferry.ready(SOON).await;
        walferry
    }

    async fn confirmed(&self, walferry: &Walferry) {
        self.database.confirmed(&self.name, SOON, || walferry.log()).await;
    }

    /// Runs until it stops by itself.
    async fn refused(&self, config: &Config) -> Exit {
        let exit = Walferry::to_end(config, "run", SOON).await;
        assert_eq!(exit.code, Some(1), "{}", exit.stderr);
        exit
    }

    async fn lines(&self) -> Vec<String> {
        let topic = format!("{}.public.t", self.name);
        read_records(&self.kafka.address, &[topic])
            .await
            .iter()
            .map(line)
            .collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_that_avro_cannot_resolve_stops_with_its_names_until_the_level_is_relaxed() {
    let postgres = Postgres::shared(16);
    for level in [
        "BACKWARD",
        "FORWARD",
        "FULL",
        "BACKWARD_TRANSITIVE",
        "FORWARD_TRANSITIVE",
        "FULL_TRANSITIVE",
    ] {
        let scene = Scene::new(&postgres, "int", "7", level).await;
        scene.database.execute("ALTER TABLE t ALTER c TYPE text").await;
        scene.database.execute("INSERT INTO t VALUES (2, 'seven')").await;
        for _ in 0..2 {
            // It is met again at each start, and nothing past it is acknowledged.
            let exit = scene.refused(&scene.config).await;
            exit.says(&[
                "table public.t",
                "field c",
                "[null, int] to [null, string]",
                &scene.subject(),
                &format!("PUT /config/{}", scene.subject()),
                "schema_registry.on_incompatible",
            ]);
            assert!(!exit.stderr.contains("seven"), "{}", exit.stderr);
        }
        assert_eq!(scene.lines().await, ["c id=1 | id:int=1 c:int?=7"]);
        assert_eq!(scene.registry.versions(&scene.subject()).await, 1);

        scene.registry.compatibility(&scene.subject(), "NONE").await;
        let mut walferry = scene.start(&scene.config).await;
        scene.confirmed(&walferry).await;
        let unchecked = "walferry_incompatible_schemas_total{outcome=\"unchecked\"}";
        assert_eq!(walferry.metrics().await.series(unchecked), 1.0);
        scene.registry.compatibility(&scene.subject(), level).await;
        scene.database.execute("INSERT INTO t VALUES (3, 'eight')").await;
        scene.confirmed(&walferry).await;
        let exit = walferry.terminate(SOON).await;
        assert_eq!(exit.code, Some(0), "{}", exit.stderr);
        exit.says(&["public.t", &scene.subject(), "compatibility level is NONE"]);
        assert_eq!(
            scene.lines().await,
            [
                "c id=1 | id:int=1 c:int?=7",
                "c id=2 | id:int=2 c:string?=seven",
                "c id=3 | id:int=3 c:string?=eight"
            ]
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decimal_of_another_scale_stops_though_the_registry_would_take_it() {
    let postgres = Postgres::shared(17);
    let scene = Scene::new(&postgres, "numeric(10,2)", "1.25", "BACKWARD").await;
    let subject = scene.subject();
    let mut wider = scene.registry.schema(&subject, "latest").await;
    let decimal = &mut wider["fields"][1]["type"][1];
    assert_eq!((&decimal["precision"], &decimal["scale"]), (&10.into(), &2.into()));
    decimal["precision"] = 12.into();
    decimal["scale"] = 4.into();
    assert!(
        scene.registry.would_take(&subject, &wider).await,
        "the registry sees bytes"
    );

    scene.database.execute("ALTER TABLE t ALTER c TYPE numeric(12,4)").await;
    scene.database.execute("INSERT INTO t VALUES (2, 2.5)").await;
    scene.refused(&scene.config).await.says(&[
        "table public.t",
        "field c: bytes (decimal 10,2) would be read as bytes (decimal 12,4)",
        &subject,
        "BACKWARD",
        "schema_registry.on_incompatible",
    ]);
    assert_eq!(scene.registry.versions(&subject).await, 1);

    // Told to register it, it does so, says so, and leaves the level as it was.
    let registering = scene.config.clone().text("schema_registry.on_incompatible", "register");
    let mut walferry = scene.start(&registering).await;
    scene.confirmed(&walferry).await;
    let registered = "walferry_incompatible_schemas_total{outcome=\"registered\"}";
    assert_eq!(walferry.metrics().await.series(registered), 1.0);
    let exit = walferry.terminate(SOON).await;
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);
    exit.says(&["public.t", &subject, "on_incompatible", "decimal 12,4"]);
    assert_eq!(scene.registry.level(&subject).await, "BACKWARD");
    assert_eq!(scene.registry.versions(&subject).await, 2);

    // Going back to a schema that is registered is no new break; a third one is.
    let mut walferry = scene.start(&scene.config).await;
    scene.database.execute("ALTER TABLE t ALTER c TYPE numeric(10,2)").await;
    scene.database.execute("INSERT INTO t VALUES (3, 3.75)").await;
    scene.confirmed(&walferry).await;
    scene.database.execute("ALTER TABLE t ALTER c TYPE numeric(10,3)").await;
    scene.database.execute("INSERT INTO t VALUES (4, 4.125)").await;
    let exit = walferry.end(SOON).await;
    assert_eq!(exit.code, Some(1), "{}", exit.stderr);
    exit.says(&["field c", "(decimal 10,3)"]);
    assert_eq!(
        scene.lines().await,
        [
            "c id=1 | id:int=1 c:decimal(10,2)?=1.25",
            "c id=2 | id:int=2 c:decimal(12,4)?=2.5000",
            "c id=3 | id:int=3 c:decimal(10,2)?=3.75",
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn told_to_register_it_leaves_a_subject_without_a_level_of_its_own_without_one() {
    let postgres = Postgres::shared(18);
    let scene = Scene::new(&postgres, "int", "7", "FULL").await;
    // The key's subject has the global level, which is no level at all in this registry.
    let key = format!("{}.public.t-key", scene.name);
    assert_eq!(scene.registry.level(&key).await, "NONE");
    let registering = scene.config.clone().text("schema_registry.on_incompatible", "register");
    let mut walferry = scene.start(&registering).await;
    for sql in [
        "ALTER TABLE t ALTER c TYPE text",
        "INSERT INTO t VALUES (2, 'x')",
        "ALTER TABLE t ALTER id TYPE text",
        "INSERT INTO t VALUES ('three', 'x')",
        "ALTER TABLE t ALTER c TYPE bytea USING c::bytea",
        "INSERT INTO t VALUES ('four', 'y')",
    ] {
        scene.database.execute(sql).await;
    }
    scene.confirmed(&walferry).await;
    let metrics = walferry.metrics().await;
    assert_eq!(
        metrics.series("walferry_incompatible_schemas_total{outcome=\"registered\"}"),
        3.0
    );
    assert_eq!(
        metrics.series("walferry_incompatible_schemas_total{outcome=\"unchecked\"}"),
        1.0
    );
    assert_eq!(
        metrics.series("walferry_incompatible_schemas_total{outcome=\"refused\"}"),
        0.0
    );
    assert_eq!(walferry.terminate(SOON).await.code, Some(0));
    assert_eq!(scene.registry.level(&scene.subject()).await, "FULL");
    assert_eq!(scene.registry.level(&key).await, "NONE");
    assert_eq!(
        scene.lines().await,
        [
            "c id=1 | id:int=1 c:int?=7",
            "c id=2 | id:int=2 c:string?=x",
            "c id=three | id:string=three c:string?=x",
            "c id=four | id:string=four c:bytes?=\\x79",
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_right_to_register_a_changed_table_stops_with_the_difference() {
    let postgres = Postgres::shared(15);
    let scene = Scene::new(&postgres, "int", "7", "FULL").await;
    let looking = scene.config.clone().set("schema_registry.register", "false");
    let mut walferry = scene.start(&looking).await;
    scene.database.execute("INSERT INTO t VALUES (2, 8)").await;
    scene.confirmed(&walferry).await;
    scene.database.execute("ALTER TABLE t ADD d numeric(6,1)").await;
    scene.database.execute("INSERT INTO t VALUES (3, 9, 1.5)").await;
    let exit = walferry.end(SOON).await;
    assert_eq!(exit.code, Some(1), "{}", exit.stderr);
    exit.says(&[
        "table public.t",
        &scene.subject(),
        "not registered",
        "field d: added, type [null, bytes (decimal 6,1)], with a default",
        "schema_registry.register",
    ]);
    assert_eq!(scene.registry.versions(&scene.subject()).await, 1);
    let mut walferry = scene.start(&scene.config).await;
    scene.confirmed(&walferry).await;
    assert_eq!(walferry.terminate(SOON).await.code, Some(0));
    let walferry = scene.start(&looking).await;
    scene.database.execute("INSERT INTO t VALUES (4, 9, 2.5)").await;
    scene.confirmed(&walferry).await;
    assert_eq!(
        scene.lines().await,
        [
            "c id=1 | id:int=1 c:int?=7",
            "c id=2 | id:int=2 c:int?=8",
            "c id=3 | id:int=3 c:int?=9 d:decimal(6,1)?=1.5",
            "c id=4 | id:int=4 c:int?=9 d:decimal(6,1)?=2.5",
        ]
    );
}
