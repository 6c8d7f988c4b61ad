//! A slot that lies: dropped and made again, advanced by hand, copied, of another cluster, of another timeline. What is missing is
//! named, from where to where, or nothing is missing.

use crate::harness::{Config, Database, Exit, Kafka, PAIR, Postgres, Proxy, Stop, Walferry, read_events};
use crate::workload::pipeline;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(60);
const GUARANTEES: [&str; 2] = ["at-least-once", "exactly-once"];

/// A pipeline that has published row 1 of table t and was stopped.
struct Stopped<'a> {
    database: Database<'a>,
    kafka: Kafka,
    config: Config,
    name: String,
}

impl<'a> Stopped<'a> {
    async fn new(postgres: &'a Postgres, guarantee: &str) -> Self {
        let (database, kafka) = (postgres.database().await, Kafka::shared());
        database.execute("CREATE TABLE t (id int PRIMARY KEY)").await;
        let name = pipeline();
        let config = Config::new(&name, &database, &kafka).text("delivery.guarantee", guarantee);
        let mut walferry = Walferry::start(&config);
        walferry.ready(SOON).await;
        let stopped = Stopped {
            database,
            kafka,
            config,
            name,
        };
        stopped.insert(1).await;
        stopped.database.confirmed(&stopped.name, SOON, || walferry.log()).await;
        assert_eq!(walferry.terminate(SOON).await.code, Some(0));
        stopped
    }

    async fn insert(&self, id: u32) {
        self.database.execute(&format!("INSERT INTO t VALUES ({id})")).await;
    }

    async fn position(&self, slot: &str) -> String {
        let query = format!("SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = '{slot}'");
        self.database.value(&query).await.unwrap()
    }

    async fn drop_slot(&self) {
        self.database
            .value(&format!("SELECT pg_drop_replication_slot('{}')", self.name))
            .await;
    }

    async fn refused(&self) -> Exit {
        let exit = Walferry::start(&self.config).end(SOON).await;
        assert_eq!(exit.code, Some(1), "{}", exit.stderr);
        exit
    }

    /// Starts with the gap accepted, publishes a row, and stops; what is counted as accepted.
    async fn accepted(&self, from: &str, id: u32) -> f64 {
        let mut walferry = Walferry::spawn(&self.config, &format!("run --accept-gap {from}"));
        walferry.ready(SOON).await;
        self.insert(id).await;
        self.database.confirmed(&self.name, SOON, || walferry.log()).await;
        let accepted = walferry.metrics().await.value("walferry_gaps_accepted_total");
        assert_eq!(walferry.terminate(SOON).await.code, Some(0));
        accepted
    }

    /// Starts as usual, publishes a row, and stops.
    async fn goes_on(&self, config: &Config, id: u32) {
        let mut walferry = Walferry::start(config);
        walferry.ready(SOON).await;
        self.insert(id).await;
        self.database.confirmed(walferry.slot(), SOON, || walferry.log()).await;
        assert_eq!(walferry.terminate(SOON).await.code, Some(0));
    }

    /// The ids that arrived, each as often as it did.
    async fn published(&self) -> Vec<String> {
        published(&self.kafka, &self.name).await
    }
}

async fn published(kafka: &Kafka, name: &str) -> Vec<String> {
    let reading = read_events(&kafka.address, &[format!("{name}.public.t")]).await;
    let ids = reading
        .events
        .iter()
        .map(|event| event.after.as_ref().unwrap()["id"].clone().unwrap());
    ids.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_made_again_while_walferry_was_away_is_refused_with_the_exact_gap() {
    let postgres = Postgres::shared(17);
    for guarantee in GUARANTEES {
        let stopped = Stopped::new(&postgres, guarantee).await;
        let from = stopped.position(&stopped.name).await;
        stopped.insert(2).await;
        stopped.drop_slot().await;
        let make = format!(
            "SELECT pg_create_logical_replication_slot('{}', 'pgoutput')",
            stopped.name
        );
        stopped.database.value(&make).await;
        let to = stopped.position(&stopped.name).await;
        stopped.insert(3).await;
        let gap = format!("changes from {from} to {to} (");
        for _ in 0..2 {
            stopped
                .refused()
                .await
                .says(&[&gap, &format!("walferry run --accept-gap {from}")]);
        }
        assert_eq!(stopped.position(&stopped.name).await, to, "nothing was confirmed");
        // Another beginning than the one that is there accepts nothing.
        let other = Walferry::spawn(&stopped.config, &format!("run --accept-gap {to}"))
            .end(SOON)
            .await;
        assert_eq!(other.code, Some(1));
        other.says(&[&gap]);
        assert_eq!(stopped.accepted(&from, 4).await, 1.0);
        // Once is enough, and left in place it does no harm.
        assert_eq!(stopped.accepted(&from, 5).await, 0.0);
        stopped.goes_on(&stopped.config, 6).await;
        assert_eq!(stopped.published().await, ["1", "3", "4", "5", "6"], "{guarantee}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_is_gone_is_not_made_again_before_the_gap_is_accepted() {
    let postgres = Postgres::shared(14);
    for guarantee in GUARANTEES {
        let stopped = Stopped::new(&postgres, guarantee).await;
        let from = stopped.position(&stopped.name).await;
        let dropped = Walferry::to_end(&stopped.config, "slot drop", SOON).await;
        assert_eq!(dropped.code, Some(0), "{}", dropped.stderr);
        stopped.insert(2).await;
        stopped.refused().await.says(&[
            &format!("replication slot \"{}\" is gone: changes after {from}", stopped.name),
            &format!("--accept-gap {from}"),
        ]);
        let count = format!(
            "SELECT count(*) FROM pg_replication_slots WHERE slot_name = '{}'",
            stopped.name
        );
        assert_eq!(stopped.database.value(&count).await.as_deref(), Some("0"));
        assert_eq!(stopped.accepted(&from, 3).await, 1.0);
        assert_eq!(stopped.published().await, ["1", "3"], "{guarantee}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_advanced_by_hand_is_refused_with_the_exact_gap() {
    let postgres = Postgres::shared(15);
    for guarantee in GUARANTEES {
        let stopped = Stopped::new(&postgres, guarantee).await;
        let from = stopped.position(&stopped.name).await;
        stopped.insert(2).await;
        let advance = format!(
            "SELECT end_lsn FROM pg_replication_slot_advance('{}', pg_current_wal_lsn())",
            stopped.name
        );
        let to = stopped.database.value(&advance).await.unwrap();
        stopped
            .refused()
            .await
            .says(&[&format!("changes from {from} to {to} (")]);
        assert_eq!(stopped.published().await, ["1"], "{guarantee}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_the_slot_goes_on_without_a_gap_and_repeats_nothing() {
    let postgres = Postgres::shared(16);
    for guarantee in GUARANTEES {
        let stopped = Stopped::new(&postgres, guarantee).await;
        let copy = format!("{}_copy", stopped.name);
        let make = format!("SELECT pg_copy_logical_replication_slot('{}', '{copy}')", stopped.name);
        stopped.database.value(&make).await;
        // The original goes on; the copy stays behind.
        stopped.goes_on(&stopped.config, 2).await;
        stopped.insert(3).await;
        let config = stopped.config.clone().text("replication.slot", &copy);
        stopped.goes_on(&config, 4).await;
        assert_eq!(stopped.published().await, ["1", "2", "3", "4"], "{guarantee}");
        // And now the original is what stays behind.
        stopped.goes_on(&stopped.config, 5).await;
        assert_eq!(stopped.published().await, ["1", "2", "3", "4", "5"], "{guarantee}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_cluster_under_the_same_pipeline_is_refused() {
    let (postgres, other) = (Postgres::shared(17), Postgres::shared(18));
    for guarantee in GUARANTEES {
        let stopped = Stopped::new(&postgres, guarantee).await;
        let elsewhere = other.database().await;
        elsewhere.execute("CREATE TABLE t (id int PRIMARY KEY)").await;
        let config = Config::new(&stopped.name, &elsewhere, &stopped.kafka).text("delivery.guarantee", guarantee);
        let exit = Walferry::start(&config).end(SOON).await;
        assert_eq!(exit.code, Some(1), "{}", exit.stderr);
        let identifier = "SELECT system_identifier FROM pg_control_system()";
        exit.says(&[
            "another database cluster",
            &format!("system identifier is {}", elsewhere.value(identifier).await.unwrap()),
            &format!("of {}", stopped.database.value(identifier).await.unwrap()),
        ]);
        let made = format!(
            "SELECT count(*) FROM pg_replication_slots WHERE slot_name = '{}'",
            stopped.name
        );
        assert_eq!(
            elsewhere.value(&made).await.as_deref(),
            Some("0"),
            "no slot was made there"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_record_is_what_an_operator_can_read_and_lies_nowhere_behind_the_slot() {
    let postgres = Postgres::shared(18);
    for guarantee in GUARANTEES {
        let stopped = Stopped::new(&postgres, guarantee).await;
        let record = stopped.kafka.last_value("walferry.state", &stopped.name).await;
        let record: serde_json::Value = serde_json::from_str(&record).unwrap();
        assert_eq!(record["version"], 1);
        assert_eq!(record["timeline"], 1);
        assert_eq!(record["slot"], stopped.name.as_str());
        assert_eq!(record["partial"], 0);
        let position = stopped.position(&stopped.name).await;
        let ahead = format!(
            "'{}'::pg_lsn >= '{position}'::pg_lsn",
            record["end_lsn"].as_str().unwrap()
        );
        assert!(stopped.database.is(&ahead).await, "{record} {position}");
    }
}

/// A standby that was promoted before it had everything: what it has goes on, what it lacks is named; and the old primary, started
/// again, is not taken for the new one.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_promotion_nothing_of_the_new_timeline_is_taken_for_published() {
    for guarantee in GUARANTEES {
        let (primary, standby) = Postgres::pair(18, &[], &[]).await;
        let kafka = Kafka::shared();
        let database = primary.database().await;
        database.execute("CREATE TABLE t (id int PRIMARY KEY)").await;
        let (to_primary, to_standby) = Proxy::pair(primary.port, standby.port).await;
        let name = pipeline();
        let config = Config::new(&name, &database, &kafka)
            .text("delivery.guarantee", guarantee)
            .set("replication.failover", "true")
            .set("postgres.host", PAIR)
            .set("postgres.port", &to_primary.port.to_string());
        let mut walferry = Walferry::start(&config);
        walferry.ready(SOON).await;
        database.execute("INSERT INTO t VALUES (1)").await;
        database.confirmed(&name, SOON, || walferry.log()).await;
        standby.has_copy_of(&name, &database.name).await;

        // The standby is away, and what is published now it never gets.
        standby.stop(Stop::Fast);
        for id in [2, 3, 4] {
            database.execute(&format!("INSERT INTO t VALUES ({id})")).await;
        }
        database.confirmed(&name, SOON, || walferry.log()).await;
        primary.stop(Stop::Immediate);
        to_primary.set(crate::harness::Link::Refuse);
        standby.start();
        let on_standby = standby.connect(&database.name).await;
        walferry.not_ready_because("standby", SOON).await;
        on_standby.execute("SELECT pg_promote()", &[]).await.unwrap();
        walferry.ready(SOON).await;
        let promoted = Database {
            postgres: &standby,
            name: database.name.clone(),
            client: standby.connect(&database.name).await,
        };
        // Commits at LSNs which the lost ones had as well.
        for id in [12, 13, 14, 15, 16] {
            promoted.execute(&format!("INSERT INTO t VALUES ({id})")).await;
        }
        promoted.confirmed(&name, SOON, || walferry.log()).await;
        let exit = walferry.terminate(SOON).await;
        assert_eq!(exit.code, Some(0), "{}", exit.stderr);
        exit.says(&["the topics have changes that the database does not"]);
        let mut ids = published(&kafka, &name).await;
        // The reader gives them by position, and positions of the two timelines are not to be compared.
        ids.sort_by_key(|id| id.parse::<u32>().unwrap());
        if guarantee == "at-least-once" {
            // The copy of the slot may be behind what is confirmed.
            ids.dedup();
        }
        assert_eq!(ids, ["1", "2", "3", "4", "12", "13", "14", "15", "16"], "{guarantee}");

        // The old primary comes back as it was.
        drop(to_standby);
        standby.stop(Stop::Fast);
        to_primary.set(crate::harness::Link::Forward);
        primary.start();
        let exit = Walferry::start(&config).end(SOON).await;
        assert_eq!(exit.code, Some(1), "{}", exit.stderr);
        exit.says(&["the server is on timeline 1, which does not descend from timeline 2"]);
    }
}

/// A copy of the cluster's files from before takes the place of the cluster.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_was_set_back_is_refused_while_its_log_shows_it() {
    for guarantee in GUARANTEES {
        let postgres = Postgres::private(17, &[]);
        let (mut database, kafka) = (postgres.database().await, Kafka::shared());
        database.execute("CREATE TABLE t (id int PRIMARY KEY)").await;
        let name = pipeline();
        let config = Config::new(&name, &database, &kafka).text("delivery.guarantee", guarantee);
        let mut walferry = Walferry::start(&config);
        walferry.ready(SOON).await;
        database.execute("INSERT INTO t VALUES (1)").await;
        database.confirmed(&name, SOON, || walferry.log()).await;
        assert_eq!(walferry.terminate(SOON).await.code, Some(0));
        postgres.stop(Stop::Fast);
        let copy = postgres.copy_of_files();
        postgres.start();
        database.reconnect().await;

        let mut walferry = Walferry::start(&config);
        walferry.ready(SOON).await;
        database
            .execute("INSERT INTO t SELECT n FROM generate_series(2, 20000) n")
            .await;
        database.confirmed(&name, SOON, || walferry.log()).await;
        assert_eq!(walferry.terminate(SOON).await.code, Some(0));
        let record = kafka.last_value("walferry.state", &name).await;
        let record: serde_json::Value = serde_json::from_str(&record).unwrap();
        let end = record["end_lsn"].as_str().unwrap();
        postgres.stop(Stop::Immediate);
        postgres.put_back(copy);
        postgres.start();
        database.reconnect().await;

        let exit = Walferry::start(&config).end(SOON).await;
        assert_eq!(exit.code, Some(1), "{}", exit.stderr);
        exit.says(&["it was set back", &format!("--accept-gap {end}")]);
        let mut walferry = Walferry::spawn(&config, &format!("run --accept-gap {end}"));
        walferry.ready(SOON).await;
        database.execute("INSERT INTO t VALUES (2)").await;
        database.confirmed(&name, SOON, || walferry.log()).await;
        assert_eq!(walferry.terminate(SOON).await.code, Some(0));
        // Once is enough: the record of the other history is gone.
        let mut walferry = Walferry::start(&config);
        walferry.ready(SOON).await;
        assert_eq!(walferry.terminate(SOON).await.code, Some(0));
        let twos = published(&kafka, &name).await.iter().filter(|id| *id == "2").count();
        assert_eq!(twos, 2, "one of each history");
    }
}
