//! The schema registry fails while a Kafka transaction is open: a table's first record stands in the middle of it.

use super::SOON;
use crate::harness::{
    Config, Database, Exit, Fault, HttpProxy, Kafka, Link, Postgres, Proxy, Registry, Walferry, eventually,
    read_events, read_uncommitted,
};
use crate::workload::pipeline;
use serde_json::json;
use std::time::Duration;

const LATER: Duration = Duration::from_secs(120);
/// So many answers of 500 that the waits between them come to more than 4 s, and to less than 30 s.
const ERRORS: [Fault; 8] = [Fault::Status(500); 8];

/// What stands between walferry and the registry.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    Link(Link),
    Errors,
}

/// A pipeline under exactly-once. The schemas of `seen` are registered, those of the tables `fresh_0`, `fresh_1`, … are not.
struct Scene<'a> {
    database: Database<'a>,
    kafka: &'a Kafka,
    answers: HttpProxy,
    link: Proxy,
    name: String,
    config: Config,
    fresh: usize,
    changes: u64,
}

impl<'a> Scene<'a> {
    async fn new(postgres: &'a Postgres, kafka: &'a Kafka, fresh: usize) -> Self {
        let registry = Registry::shared();
        let answers = HttpProxy::start(&registry).await;
        let link = Proxy::start(answers.port).await;
        let database = postgres.database().await;
        database
            .execute("CREATE TABLE seen (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v text)")
            .await;
        for n in 0..fresh {
            let table = format!("CREATE TABLE fresh_{n} (id int PRIMARY KEY, v text)");
            database.execute(&table).await;
        }
        let name = pipeline();
        let config = Config::new(&name, &database, kafka)
            .text("delivery.guarantee", "exactly-once")
            .text("delivery.state_topic", &format!("{name}.state"))
            .text("schema_registry.url", &registry.url_through(link.port));
        Scene {
            database,
            kafka,
            answers,
            link,
            name,
            config,
            fresh,
            changes: 0,
        }
    }

    async fn start(&mut self) -> Walferry {
        let mut walferry = Walferry::start(&self.config);
        walferry.ready(SOON).await;
        self.seen(100).await;
        self.database.confirmed(&self.name, SOON, || walferry.log()).await;
        walferry
    }

    fn topic(&self, table: &str) -> String {
        format!("{}.public.{table}", self.name)
    }

    /// So many transactions of a table whose schemas are registered.
    async fn seen(&mut self, transactions: u64) {
        for _ in 0..transactions {
            self.database.execute("INSERT INTO seen (v) VALUES ('v')").await;
        }
        self.changes += transactions;
    }

    /// Whole transactions, and one in whose middle a table has its first change.
    async fn first_of(&mut self, n: usize) {
        self.seen(10).await;
        let seen = "INSERT INTO seen (v) SELECT 'v' FROM generate_series(1, 100)";
        let fresh = format!("INSERT INTO fresh_{n} SELECT n, 'v' FROM generate_series(1, 100) n");
        let transaction = format!("BEGIN; {seen}; {fresh}; {seen}; COMMIT");
        self.database.execute(&transaction).await;
        self.changes += 300;
        self.seen(10).await;
    }

    async fn is_in_a_kafka_transaction(&self) {
        let topic = [self.topic("seen")];
        eventually("records in an open transaction", SOON, async || {
            let committed = read_events(&self.kafka.address, &topic).await;
            let all = read_uncommitted(&self.kafka.address, &topic).await;
            (all.changes >= committed.changes + 100).then_some(())
        })
        .await;
    }

    /// The registry is as told while the first record of a table waits for it, for `hold` at least.
    async fn disturb(&mut self, walferry: &mut Walferry, n: usize, trouble: Trouble, hold: Duration) {
        eprintln!("{trouble:?}");
        let (asked, disturbed) = (self.answers.asked().len(), self.link.disturbed());
        match trouble {
            Trouble::Link(link) => self.link.set(link),
            Trouble::Errors => self.answers.fail(&ERRORS),
        }
        self.first_of(n).await;
        if !matches!(trouble, Trouble::Link(Link::Delayed)) {
            walferry.not_ready_because("schema registry", SOON).await;
            self.is_in_a_kafka_transaction().await;
        }
        // The length is the disturbance.
        tokio::time::sleep(hold).await;
        if !matches!(trouble, Trouble::Link(Link::Delayed)) {
            self.link.set(Link::Forward);
        }
        self.database.confirmed(&self.name, LATER, || walferry.log()).await;
        walferry.ready(SOON).await;
        match trouble {
            Trouble::Link(Link::Delayed) => assert!(self.link.disturbed() > disturbed),
            Trouble::Link(_) => {}
            Trouble::Errors => {
                let failed = self.answers.asked()[asked..].iter().filter(|a| !a.forwarded).count();
                assert_eq!(failed, ERRORS.len(), "every fault was reached");
            }
        }
        self.link.set(Link::Forward);
    }

    /// Ends it, and looks for everything, once.
    async fn verify(&self, mut walferry: Walferry) -> Exit {
        let exit = walferry.terminate(SOON).await;
        assert_eq!(exit.code, Some(0), "{}", exit.stderr);
        let tables: Vec<String> = (0..self.fresh)
            .map(|n| format!("fresh_{n}"))
            .chain(["seen".to_owned()])
            .collect();
        let topics: Vec<String> = tables.iter().map(|table| self.topic(table)).collect();
        let reading = read_events(&self.kafka.address, &topics).await;
        reading.is_faultless();
        assert_eq!(
            (reading.changes, reading.duplicates),
            (self.changes, 0),
            "{}",
            exit.stderr
        );
        for (table, topic) in tables.iter().zip(&topics) {
            reading.equals(&self.database, table, topic).await;
        }
        exit
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_is_slow_away_silent_or_failing_inside_a_kafka_transaction_loses_and_repeats_nothing() {
    let (postgres, kafka) = (Postgres::shared(17), Kafka::shared());
    let troubles = [
        Trouble::Link(Link::Delayed),
        Trouble::Link(Link::Refuse),
        Trouble::Link(Link::BlackHole),
        Trouble::Errors,
    ];
    let mut scene = Scene::new(&postgres, &kafka, troubles.len()).await;
    let mut walferry = scene.start().await;
    let pid = walferry.pid();
    for (n, trouble) in troubles.into_iter().enumerate() {
        scene.disturb(&mut walferry, n, trouble, Duration::ZERO).await;
    }
    assert_eq!((walferry.is_running(), walferry.pid()), (true, pid));
    let lost = walferry.metrics().await.value("walferry_reconnects_total");
    assert_eq!(
        lost,
        0.0,
        "the transaction waited, and nothing began anew\n{}",
        walferry.log()
    );
    scene.verify(walferry).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_away_for_longer_than_a_kafka_transaction_may_take_loses_and_repeats_nothing() {
    let postgres = Postgres::shared(15);
    let kafka = Kafka::private_with(&[("transaction.abort.timed.out.transaction.cleanup.interval.ms", "500")]).await;
    let troubles = [Trouble::Link(Link::Refuse), Trouble::Errors];
    let mut scene = Scene::new(&postgres, &kafka, troubles.len()).await;
    scene.config = scene
        .config
        .set("kafka.properties", "{ \"transaction.timeout.ms\" = \"4000\" }");
    let mut walferry = scene.start().await;
    let pid = walferry.pid();
    for (n, trouble) in troubles.into_iter().enumerate() {
        scene.disturb(&mut walferry, n, trouble, Duration::from_secs(8)).await;
    }
    assert_eq!((walferry.is_running(), walferry.pid()), (true, pid));
    let times = walferry.whole_log().matches("the producer cannot go on").count();
    assert_eq!(
        times,
        troubles.len(),
        "kafka gave each transaction up\n{}",
        walferry.log()
    );
    scene.verify(walferry).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_409_inside_a_kafka_transaction_stops_with_the_difference_and_what_was_committed_stays_once() {
    let (postgres, kafka, registry) = (Postgres::shared(18), Kafka::shared(), Registry::shared());
    let mut scene = Scene::new(&postgres, &kafka, 1).await;
    // Somebody else's schema stands where the table's should.
    let subject = format!("{}-value", scene.topic("fresh_0"));
    let other = json!({ "type": "record", "name": "Other", "fields": [{ "name": "id", "type": "int" }] });
    registry.register(&subject, &other).await;
    registry.compatibility(&subject, "BACKWARD").await;
    let mut walferry = scene.start().await;
    let before = scene.changes;
    scene.first_of(0).await;
    let exit = walferry.end(SOON).await;
    assert_eq!(exit.code, Some(1), "{}", exit.stderr);
    let difference = ["table public.fresh_0", &subject, "incompatible", "Other", "Envelope"];
    exit.says(&difference);

    let topic = [scene.topic("seen")];
    let committed = read_events(&kafka.address, &topic).await;
    committed.is_faultless();
    // Whole transactions before the one that was cut may be committed; nothing of that one is.
    assert!(
        (before..=before + 10).contains(&committed.changes),
        "{} of {before} and 10",
        committed.changes
    );
    assert_eq!(committed.duplicates, 0);
    let all = read_uncommitted(&kafka.address, &topic).await;
    assert!(
        all.changes >= before + 110,
        "nothing was in an open transaction: {}",
        all.changes
    );

    // It stops again, and publishes nothing more.
    let exit = Walferry::to_end(&scene.config, "run", SOON).await;
    assert_eq!(exit.code, Some(1), "{}", exit.stderr);
    exit.says(&difference);

    registry.compatibility(&subject, "NONE").await;
    let walferry = scene.start().await;
    scene.verify(walferry).await;
}
