//! `walferry demo`: the real pipeline between a throwaway Postgres and a Kafka and a registry inside this process, with a
//! small shop's workload at one end and a consumer at the other.

mod postgres;
mod reader;
mod registry;
mod workload;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;

use super::{DemoArgs, Exit, output, signals};
use crate::config;
use crate::pipeline::shutdown;
use crate::pipeline::{self, PipelineError};
use crate::replication::ConnectError;
use crate::schema_registry::{Auth, OnIncompatible, Registry, RegistryError, RegistrySettings};
use crate::telemetry::control::SnapshotCommands;
use crate::telemetry::logs::{self, LogError, LogSettings};
use crate::telemetry::metrics::MetricsError;
use crate::telemetry::{Metrics, State, Status};

use postgres::Postgres;
use reader::{Read, Reader};

const PIPELINE: &str = "demo";

/// What kept the demo from running.
#[derive(Debug, thiserror::Error)]
enum DemoError {
    /// No server programs.
    #[error("the programs of a PostgreSQL server (initdb and postgres, version 10 or later) were not found")]
    NoPostgres,
    /// Root, and nobody to run the server as.
    #[error("Postgres refuses to run as root, and there is no user \"postgres\" or \"nobody\" to run it as")]
    NoAccount,
    /// A server program failed.
    #[error("{what} failed: {said}")]
    Postgres {
        /// Which.
        what: &'static str,
        /// The last line of its output.
        said: String,
    },
    /// A file.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// No port of the loopback.
    #[error("cannot listen on the loopback: {0}")]
    Listen(io::Error),
    /// The throwaway Postgres cannot be reached.
    #[error("cannot connect to the demo's postgres")]
    Connect(#[from] ConnectError),
    /// The workload.
    #[error("the demo's workload failed")]
    Sql(#[from] tokio_postgres::Error),
    /// The mock cluster or the consumer.
    #[error("the demo's kafka failed")]
    Kafka(#[from] rdkafka::error::KafkaError),
    /// The embedded registry.
    #[error("the demo's registry failed")]
    Registry(#[from] RegistryError),
    /// A record that is not what it should be.
    #[error("a record is not in Confluent's wire format")]
    WireFormat,
    /// A record that its schema does not explain.
    #[error("a record cannot be decoded")]
    Avro(#[from] Box<apache_avro::Error>),
    /// The demo's own configuration.
    #[error("the demo's configuration is refused: {0}")]
    Config(String),
    /// The pipeline.
    #[error("the pipeline failed")]
    Pipeline(#[from] PipelineError),
    /// Metrics.
    #[error("metrics cannot be set up")]
    Metrics(#[from] MetricsError),
    /// The log.
    #[error("the log cannot be set up")]
    Log(#[from] LogError),
    /// Signals.
    #[error("signals cannot be taken over")]
    Signals(#[source] io::Error),
    /// stdout.
    #[error("stdout cannot be written")]
    Output(#[source] io::Error),
}

impl DemoError {
    fn io(path: &Path, source: io::Error) -> Self {
        DemoError::Io {
            path: path.to_owned(),
            source,
        }
    }

    /// What to do about it.
    fn hint(&self) -> Option<String> {
        match self {
            DemoError::NoPostgres => Some(
                "Install them: apt-get install postgresql (Debian, Ubuntu), dnf install postgresql-server (Fedora, RHEL), \
                 apk add postgresql (Alpine), brew install postgresql (macOS); or put the directory of initdb on PATH."
                    .to_owned(),
            ),
            DemoError::NoAccount => Some("Run the demo as another user than root.".to_owned()),
            DemoError::Pipeline(error) => error.hint(),
            _ => None,
        }
    }
}

/// Runs until the time is over or a stop is asked for, and leaves nothing behind.
pub(super) async fn demo(args: DemoArgs) -> Exit {
    let settings = LogSettings {
        level: "warn",
        json: false,
    };
    let result = match logs::init(settings, std::env::var("RUST_LOG").ok().as_deref()) {
        Ok(()) => run(args.limit).await,
        Err(error) => Err(error.into()),
    };
    match result {
        Ok(()) => Exit::Stopped,
        // The reader of our lines has gone.
        Err(DemoError::Output(error)) => output::end_of(Err(error)),
        Err(error) => {
            let hint = error.hint().map_or_else(String::new, |hint| format!("\n{hint}"));
            output::notice(&format!("walferry: {}{hint}\n", output::chain(&error)));
            Exit::Failed
        }
    }
}

async fn run(limit: Option<Duration>) -> Result<(), DemoError> {
    let stop = signals::drain_on_signals().map_err(DemoError::Signals)?;
    let postgres = Postgres::start().await?;
    let admin = postgres.connect().await?;
    workload::create(&admin).await?;

    let cluster: MockCluster<'static, DefaultProducerContext> = MockCluster::new(1)?;
    let topics: Vec<String> = workload::TABLES
        .iter()
        .map(|table| format!("{PIPELINE}.shop.{table}"))
        .collect();
    for topic in &topics {
        // The mock cluster knows no CreateTopics request.
        cluster.create_topic(topic, 1, 1)?;
    }
    let registry_url = format!("http://{}", registry::serve().await?);

    let path = postgres.directory().join("walferry.toml");
    let text = configuration(postgres.directory(), &cluster.bootstrap_servers(), &registry_url);
    fs::write(&path, &text).map_err(|source| DemoError::io(&path, source))?;
    let loaded = config::load(Some(&path), &BTreeMap::new()).map_err(|faults| DemoError::Config(faults.to_string()))?;
    let config = loaded.config;
    cluster.create_topic(&config.delivery.state_topic, 1, 1)?;
    banner(&postgres.version, &text)?;

    let status = Arc::new(Status::new(
        &config.name,
        &config.replication.slot,
        &config.replication.publication,
    ));
    let metrics = Metrics::new()?;
    let (drain, drained) = shutdown::channel();
    let pipeline = pipeline::run(&config, None, &status, &metrics, SnapshotCommands::none(), drained);
    tokio::pin!(pipeline);

    let registry = Arc::new(Registry::new(RegistrySettings {
        urls: vec![registry_url],
        auth: Auth::None,
        ssl_ca: None,
        register: false,
        on_incompatible: OnIncompatible::Stop,
        timeout: Duration::from_secs(5),
    })?);
    let read = Arc::new(Read::default());
    let reader = Reader::new(&cluster.bootstrap_servers(), &topics, registry)?;
    let shop = postgres.connect().await?;
    let ended = tokio::select! {
        () = stop.requested() => Ok(()),
        () = after(limit) => Ok(()),
        ended = reader.read(Arc::clone(&read)) => ended,
        ended = begin(&status, &shop) => ended,
        ended = report(&status, &read) => ended,
        ended = &mut pipeline => return Ok(ended?),
    };
    drain.request();
    pipeline.await?;
    ended?;
    farewell(&status, &read, &admin).await
}

/// The workload starts when the slot is there: a new slot starts at the present.
async fn begin(status: &Status, shop: &crate::replication::SqlClient) -> Result<(), DemoError> {
    while status.state() != State::Streaming {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    workload::work(shop).await
}

async fn after(limit: Option<Duration>) {
    match limit {
        Some(limit) => tokio::time::sleep(limit).await,
        None => std::future::pending().await,
    }
}

/// A line every two seconds with the two positions that matter.
async fn report(status: &Status, read: &Read) -> Result<(), DemoError> {
    let mut tick = tokio::time::interval(Duration::from_secs(2));
    tick.tick().await;
    loop {
        tick.tick().await;
        line(&format!(
            "-- received {}, confirmed {}, {} records read",
            status.received_lsn(),
            status.confirmed_flush_lsn(),
            read.records.load(Ordering::Relaxed)
        ))?;
    }
}

async fn farewell(status: &Status, read: &Read, admin: &crate::replication::SqlClient) -> Result<(), DemoError> {
    let query = "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = $1::text::name";
    let slot: Option<String> = admin.query_one(query, &[&PIPELINE]).await?.try_get(0)?;
    line(&format!(
        "-- drained: {} records read; confirmed {}; postgres says of the slot {}",
        read.records.load(Ordering::Relaxed),
        status.confirmed_flush_lsn(),
        slot.as_deref().unwrap_or("nothing")
    ))
}

fn line(text: &str) -> Result<(), DemoError> {
    output::try_data(&format!("{text}\n")).map_err(DemoError::Output)
}

fn configuration(socket: &Path, bootstrap_servers: &str, registry: &str) -> String {
    format!(
        "name = \"{PIPELINE}\"\n\n\
         [postgres]\nhost = \"{}\"\nport = {}\ndatabase = \"{}\"\nuser = \"{}\"\n\n\
         [replication]\ntables = [\"shop.*\"]\nstatus_interval = \"1s\"\n\n\
         [kafka]\nbootstrap_servers = \"{bootstrap_servers}\"\ncreate_topics = false\n\n\
         [schema_registry]\nurl = \"{registry}\"\n",
        socket.display(),
        postgres::PORT,
        postgres::DATABASE,
        postgres::USER,
    )
}

fn banner(version: &str, configuration: &str) -> Result<(), DemoError> {
    let mut text =
        format!("-- PostgreSQL {version}, an embedded Kafka and an embedded schema registry; this configuration:\n");
    for line in configuration.lines() {
        let _ = writeln!(text, "--   {line}");
    }
    text.push_str("-- each line: topic@offset, operation, key, row, position");
    line(&text)
}
