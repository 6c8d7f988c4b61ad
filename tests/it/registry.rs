//! The schema registry answers wrongly, late or not at all; asks who we are; or has schemas of its own.

use crate::harness::{
    Asked, Config, Database, Fault, HttpProxy, Kafka, Postgres, Registry, Walferry, free_port, read_events,
};
use crate::workload::pipeline;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);
const LATER: Duration = Duration::from_secs(90);

async fn table(database: &Database<'_>) {
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v text)").await;
}

async fn insert(database: &Database<'_>, from: u32, to: u32) {
    database
        .execute(&format!(
            "INSERT INTO t SELECT n, 'v' FROM generate_series({from}, {to}) n"
        ))
        .await;
}

/// All rows are there, once.
async fn nothing_lost(database: &Database<'_>, kafka: &Kafka, name: &str, rows: u64) {
    let topic = format!("{name}.public.t");
    let reading = read_events(&kafka.address, std::slice::from_ref(&topic)).await;
    reading.is_faultless();
    assert_eq!((reading.changes, reading.duplicates), (rows, 0));
    reading.equals(database, "t", &topic).await;
}

fn registrations(proxy: &HttpProxy) -> Vec<Asked> {
    let mut asked = proxy.asked();
    asked.retain(|asked| asked.what.starts_with("POST "));
    asked
}

#[tokio::test(flavor = "multi_thread")]
async fn passing_errors_of_the_registry_are_waited_out_and_nothing_is_lost() {
    let (postgres, kafka, registry) = (Postgres::shared(16), Kafka::shared(), Registry::shared());
    let proxy = HttpProxy::start(&registry).await;
    let database = postgres.database().await;
    table(&database).await;
    let name = pipeline();
    let config = Config::new(&name, &database, &kafka).text("schema_registry.url", &registry.url_through(proxy.port));
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    let walsender = database.walsender(&name).await.unwrap();

    let faults = [500, 502, 503, 504, 408, 429].map(Fault::Status);
    proxy.fail(&faults);
    proxy.fail(&[Fault::TooMany(2)]);
    insert(&database, 1, 1000).await;
    insert(&database, 1001, 2000).await;
    database.confirmed(&name, LATER, || walferry.log()).await;

    let asked = proxy.asked();
    let answered: Vec<&str> = asked
        .iter()
        .filter(|a| a.forwarded)
        .map(|asked| asked.what.as_str())
        .collect();
    assert_eq!(
        answered,
        [
            format!("GET /subjects/{name}.public.t-key/versions/latest"),
            format!("POST /subjects/{name}.public.t-key/versions"),
            format!("GET /subjects/{name}.public.t-value/versions/latest"),
            format!("POST /subjects/{name}.public.t-value/versions"),
        ],
        "each schema once"
    );
    assert_eq!(asked.len(), 4 + faults.len() + 1);
    let pause = asked[faults.len() + 1].at - asked[faults.len()].at;
    assert!(
        pause >= Duration::from_secs(2),
        "Retry-After: 2, and asked after {pause:?}"
    );
    assert_eq!(database.walsender(&name).await, Some(walsender), "the same walsender");
    walferry.ready(SOON).await;
    let exit = walferry.terminate(SOON).await;
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);
    exit.says(&["schema registry", "503"]);
    nothing_lost(&database, &kafka, &name, 2000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_never_answers_is_given_up_on_and_asked_again() {
    let (postgres, kafka, registry) = (Postgres::shared(18), Kafka::shared(), Registry::shared());
    let proxy = HttpProxy::start(&registry).await;
    let database = postgres.database().await;
    table(&database).await;
    let name = pipeline();
    let config = Config::new(&name, &database, &kafka).text("schema_registry.url", &registry.url_through(proxy.port));
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    // Two more failures, so that what readiness says meanwhile can be seen.
    proxy.fail(&[Fault::Silent, Fault::TooMany(2), Fault::TooMany(2)]);
    insert(&database, 1, 100).await;
    walferry.not_ready_because("schema registry", SOON).await;
    database.confirmed(&name, LATER, || walferry.log()).await;
    walferry.ready(SOON).await;
    let exit = walferry.terminate(SOON).await;
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);
    exit.says(&["did not answer within 10 s"]);
    nothing_lost(&database, &kafka, &name, 100).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn told_to_stop_while_the_registry_is_away_it_stops_and_goes_on_later() {
    let (postgres, kafka, registry) = (Postgres::shared(17), Kafka::shared(), Registry::shared());
    let proxy = HttpProxy::start(&registry).await;
    let database = postgres.database().await;
    table(&database).await;
    let name = pipeline();
    let config = Config::new(&name, &database, &kafka)
        .text("schema_registry.url", &registry.url_through(proxy.port))
        .text("shutdown_timeout", "1s");
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    proxy.fail(&[Fault::Status(503); 100]);
    insert(&database, 1, 10).await;
    walferry.not_ready_because("schema registry", SOON).await;
    let exit = walferry.terminate(SOON).await;
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);
    exit.says(&["stopped as asked", "will be sent again"]);

    let proxy = HttpProxy::start(&registry).await;
    let config = config.text("schema_registry.url", &registry.url_through(proxy.port));
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    database.confirmed(&name, SOON, || walferry.log()).await;
    nothing_lost(&database, &kafka, &name, 10).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_second_url_is_asked_where_the_first_is_dead() {
    let (postgres, kafka, registry) = (Postgres::shared(15), Kafka::shared(), Registry::shared());
    let proxy = HttpProxy::start(&registry).await;
    let database = postgres.database().await;
    table(&database).await;
    let name = pipeline();
    let urls = format!("http://127.0.0.1:{},{}", free_port(), registry.url_through(proxy.port));
    let config = Config::new(&name, &database, &kafka).text("schema_registry.url", &urls);
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    insert(&database, 1, 10).await;
    database.confirmed(&name, SOON, || walferry.log()).await;
    assert_eq!(registrations(&proxy).len(), 2);
    nothing_lost(&database, &kafka, &name, 10).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_are_sent_with_every_request_and_never_printed() {
    let (postgres, kafka, registry) = (Postgres::shared(16), Kafka::shared(), Registry::shared());
    let database = postgres.database().await;
    table(&database).await;
    let basic = |config: Config| {
        config
            .text("schema_registry.username", "wf")
            .text("schema_registry.password", "sesame-open")
    };
    let bearer = |config: Config| config.text("schema_registry.bearer_token", "sesame-open");
    let ways: [(&dyn Fn(Config) -> Config, &str); 2] = [
        (&basic, "Basic d2Y6c2VzYW1lLW9wZW4="), // wf:sesame-open
        (&bearer, "Bearer sesame-open"),
    ];
    for (n, (with, expected)) in ways.into_iter().enumerate() {
        let proxy = HttpProxy::start(&registry).await;
        let name = pipeline();
        let config = with(
            Config::new(&name, &database, &kafka)
                .text("schema_registry.url", &registry.url_through(proxy.port))
                .text("log.level", "trace"),
        );
        let exit = Walferry::to_end(&config, "check", SOON).await;
        // Publication and slot are not there yet; the registry itself is.
        assert!(exit.stdout.contains("schema registry"), "{}", exit.stdout);
        let mut walferry = Walferry::start(&config);
        walferry.ready(SOON).await;
        let id = 1 + n;
        database.execute(&format!("INSERT INTO t VALUES ({id}, 'v')")).await;
        database.confirmed(&name, SOON, || walferry.log()).await;
        let asked = proxy.asked();
        assert!(asked.len() >= 3, "{asked:?}");
        for asked in &asked {
            assert_eq!(asked.authorization.as_deref(), Some(expected), "{asked:?}");
        }
        let exit = walferry.terminate(SOON).await;
        assert_eq!(exit.code, Some(0), "{}", exit.stderr);
        assert!(!exit.stderr.contains("sesame"), "{}", exit.stderr);
        assert!(!exit.stderr.contains("d2Y6c2VzYW1l"), "{}", exit.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_credentials_stop_the_pipeline() {
    let (postgres, kafka, registry) = (Postgres::shared(16), Kafka::shared(), Registry::shared());
    let proxy = HttpProxy::start(&registry).await;
    let database = postgres.database().await;
    table(&database).await;
    let name = pipeline();
    let config = Config::new(&name, &database, &kafka)
        .text("schema_registry.url", &registry.url_through(proxy.port))
        .text("schema_registry.username", "wf")
        .text("schema_registry.password", "sesame-open");
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    proxy.fail(&[Fault::Status(401)]);
    insert(&database, 1, 1).await;
    let exit = walferry.end(SOON).await;
    assert_eq!(exit.code, Some(1), "{}", exit.stderr);
    exit.says(&["schema registry", "credentials", "401", "schema_registry.username"]);
    assert!(!exit.stderr.contains("sesame"), "{}", exit.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_not_the_registrys_stops_the_pipeline_and_loses_nothing() {
    let (postgres, kafka, registry) = (Postgres::shared(16), Kafka::shared(), Registry::shared());
    let proxy = HttpProxy::start(&registry).await;
    let database = postgres.database().await;
    table(&database).await;
    let name = pipeline();
    let config = Config::new(&name, &database, &kafka).text("schema_registry.url", &registry.url_through(proxy.port));
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    proxy.fail(&[Fault::Garbage]);
    insert(&database, 1, 10).await;
    let exit = walferry.end(SOON).await;
    assert_eq!(exit.code, Some(1), "{}", exit.stderr);
    exit.says(&["schema registry", &proxy.port.to_string()]);
    assert!(!exit.stderr.contains("<html>"), "{}", exit.stderr);

    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    database.confirmed(&name, SOON, || walferry.log()).await;
    nothing_lost(&database, &kafka, &name, 10).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_right_to_register_a_schema_must_be_there_already() {
    let (postgres, kafka, registry) = (Postgres::shared(14), Kafka::shared(), Registry::shared());
    let proxy = HttpProxy::start(&registry).await;
    let database = postgres.database().await;
    table(&database).await;
    let name = pipeline();
    let config = Config::new(&name, &database, &kafka).text("schema_registry.url", &registry.url_through(proxy.port));
    let looking = config.clone().set("schema_registry.register", "false");
    let mut walferry = Walferry::start(&looking);
    walferry.ready(SOON).await;
    insert(&database, 1, 1).await;
    let exit = walferry.end(SOON).await;
    assert_eq!(exit.code, Some(1), "{}", exit.stderr);
    exit.says(&[&format!("{name}.public.t-key"), "not registered"]);
    assert_eq!(registry.versions(&format!("{name}.public.t-key")).await, 0);
    assert_eq!(registry.versions(&format!("{name}.public.t-value")).await, 0);

    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    database.confirmed(&name, SOON, || walferry.log()).await;
    assert_eq!(walferry.terminate(SOON).await.code, Some(0));
    let before = proxy.asked().len();
    let mut walferry = Walferry::start(&looking);
    walferry.ready(SOON).await;
    insert(&database, 2, 2).await;
    database.confirmed(&name, SOON, || walferry.log()).await;
    let asked: Vec<String> = proxy.asked()[before..].iter().map(|a| a.what.clone()).collect();
    assert_eq!(
        asked,
        [
            format!("POST /subjects/{name}.public.t-key"),
            format!("POST /subjects/{name}.public.t-value")
        ]
    );
    nothing_lost(&database, &kafka, &name, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn subjects_are_named_by_topic_record_or_both() {
    let (postgres, kafka, registry) = (Postgres::shared(18), Kafka::shared(), Registry::shared());
    for (strategy, of) in [
        ("topic-name", "{t}-{kind}"),
        ("record-name", "{t}.{record}"),
        ("topic-record-name", "{t}-{t}.{record}"),
    ] {
        let database = postgres.database().await;
        table(&database).await;
        let name = pipeline();
        let config = Config::new(&name, &database, &kafka).text("schema_registry.subject", strategy);
        let mut walferry = Walferry::start(&config);
        walferry.ready(SOON).await;
        insert(&database, 1, 3).await;
        database.confirmed(&name, SOON, || walferry.log()).await;
        for (kind, record) in [("key", "Key"), ("value", "Envelope")] {
            let subject = of
                .replace("{t}", &format!("{name}.public.t"))
                .replace("{kind}", kind)
                .replace("{record}", record);
            assert_eq!(registry.versions(&subject).await, 1, "{subject}");
        }
        nothing_lost(&database, &kafka, &name, 3).await;
    }
}
