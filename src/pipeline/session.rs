//! One session with Postgres: connect, prepare, stream, settle.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::error::PipelineError;
use super::monitor;
use super::prepare::{self, Memory, Wanted};
use super::publish::{PublishSettings, Publisher};
use super::published;
use super::refusal::Refusal;
use super::rules;
use super::shutdown::Shutdown;
use super::source;
use super::sql::Sql;
use super::stream::{Left, Signals, Stream, alive, now_us};
use crate::kafka::Producer;
use crate::lsn::Lsn;
use crate::pgoutput::Context;
use crate::progress::{Event, Failure, Progress};
use crate::replication::{
    PostgresSettings, ReplicationClient, ReplicationReader, StartReplication, StatusSender, protocol_version,
};
use crate::schema_registry::Registry;
use crate::telemetry::{Metrics, State, Status};

/// What every session of a pipeline has in common.
pub(super) struct Pipeline {
    pub(super) postgres: PostgresSettings,
    pub(super) wanted: Wanted,
    pub(super) publish: PublishSettings,
    pub(super) status_interval: Duration,
    pub(super) shutdown_timeout: Duration,
    pub(super) registry: Arc<Registry>,
    pub(super) metrics: Metrics,
    pub(super) status: Arc<Status>,
    pub(super) shutdown: Shutdown,
}

/// How a session ended that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    Drained,
    /// What was in flight was not confirmed in time; it will be sent again.
    Undrained,
}

/// A session that streams.
struct Streaming {
    reader: ReplicationReader,
    sender: StatusSender,
    progress: Progress,
    database: String,
    context: Context,
    broken: watch::Receiver<Option<Failure>>,
}

impl Pipeline {
    /// Connects, streams until told to stop or until something is wrong, and settles what is in flight.
    pub(super) async fn session(&self, producer: &Arc<Producer>, memory: &mut Memory) -> Result<Ended, PipelineError> {
        let ended = self.connect_and_stream(producer, memory).await;
        ended.map_err(|error| error.with_server(&self.postgres.address()))
    }

    async fn connect_and_stream(&self, producer: &Arc<Producer>, memory: &mut Memory) -> Result<Ended, PipelineError> {
        let sql = Arc::new(Sql::new(self.postgres.clone()));
        let started = tokio::select! {
            biased;
            () = self.shutdown.requested() => return Ok(Ended::Drained),
            // A new slot waits for every transaction that runs: that may take hours, and is no reason to be restarted.
            started = alive(&self.status, self.start(&sql, memory)) => started,
        };
        let streaming = match started {
            Err(error) if error.sqlstate() == Some(OBJECT_IN_USE) => {
                let reason = format!("slot {} was taken by another connection", self.wanted.slot);
                self.status.set_state(State::WaitingForSlot, Some(reason));
                return Err(error);
            }
            other => other?,
        };
        self.stream(streaming, &sql, producer, memory).await
    }

    async fn start(&self, sql: &Sql, memory: &mut Memory) -> Result<Streaming, PipelineError> {
        if self.status.state() != State::WaitingForSlot {
            self.status.set_state(State::Connecting, None);
        }
        // Identify first: it is the walsender that knows whether this is Postgres itself or something in between.
        let mut replication = ReplicationClient::connect(&self.postgres).await?;
        let system = replication.identify_system().await?;
        memory.check_system(&system.system_identifier)?;
        let client = sql.client().await?;
        let settings = source::settings(&client).await?;
        prepare::check_wal_level(&settings)?;
        let version = replication.server_version();
        self.status.set_server_version(&source::version_text(version));
        prepare::publication(&client, &self.wanted, &settings.database, version).await?;
        if !memory.rules_checked {
            // Before the slot is made: nothing is received that a mistaken rule would let through.
            let tables = published::of_publication(&client, &self.wanted.publication).await?;
            rules::check(&self.publish, sql, &tables).await?;
            memory.rules_checked = true;
        }
        let start_lsn = prepare::slot(
            &client,
            &mut replication,
            &self.wanted,
            &settings.database,
            memory,
            &self.status,
        )
        .await?;

        let (confirmed_sender, confirmed) = watch::channel(start_lsn);
        let (broken_sender, broken) = watch::channel(None);
        let progress = Progress::new(start_lsn, self.observer(confirmed_sender, broken_sender));
        let options = StartReplication {
            slot: self.wanted.slot.clone(),
            start_lsn,
            publications: vec![self.wanted.publication.clone()],
            protocol_version: protocol_version(version),
            binary: self.publish.binary,
            messages: version >= 140_000,
            status_interval: self.status_interval,
            wal_sender_timeout: settings.wal_sender_timeout,
            confirmed,
        };
        let context = Context {
            protocol_version: options.protocol_version,
            in_stream: false,
            parallel_streaming: false,
        };
        let (reader, sender) = replication.start(&options).await?;
        // Postgres moves a start that lies before the slot's position silently forward. The slot is ours from here on, so
        // what it says now stays.
        let slot = source::slot(&client, &self.wanted.slot).await?;
        let position = slot.and_then(|slot| slot.confirmed_flush_lsn()).unwrap_or(Lsn::ZERO);
        if position > start_lsn {
            let slot = self.wanted.slot.clone();
            return Err(Refusal::SlotAhead {
                slot,
                found: position,
                confirmed: start_lsn,
            }
            .into());
        }
        memory.confirmed = Some(start_lsn);
        self.status.confirmed(start_lsn);
        self.status.set_state(State::Streaming, None);
        tracing::info!(
            slot = self.wanted.slot,
            publication = self.wanted.publication,
            start = %start_lsn,
            server_version = version,
            protocol_version = options.protocol_version,
            "streaming"
        );
        Ok(Streaming {
            reader,
            sender,
            progress,
            database: settings.database,
            context,
            broken,
        })
    }

    fn observer(
        &self,
        confirmed: watch::Sender<Lsn>,
        broken: watch::Sender<Option<Failure>>,
    ) -> Box<dyn Fn(Event<'_>) + Send + Sync> {
        let status = Arc::clone(&self.status);
        let kafka = self.metrics.kafka.clone();
        Box::new(move |event| match event {
            Event::Advanced {
                confirmed: lsn,
                commit_times_us,
            } => {
                status.confirmed(lsn);
                confirmed.send_replace(lsn);
                let now = now_us();
                for commit_time in commit_times_us {
                    let elapsed = u64::try_from(now.saturating_sub(*commit_time)).unwrap_or_default();
                    kafka.commit_to_delivery(Duration::from_micros(elapsed));
                }
            }
            Event::Broken(failure) => {
                broken.send_if_modified(|known| {
                    let first = known.is_none();
                    if first {
                        *known = Some(failure.clone());
                    }
                    first
                });
            }
        })
    }

    async fn stream(
        &self,
        streaming: Streaming,
        sql: &Arc<Sql>,
        producer: &Arc<Producer>,
        memory: &mut Memory,
    ) -> Result<Ended, PipelineError> {
        let Streaming {
            reader,
            sender,
            progress,
            database,
            context,
            broken,
        } = streaming;
        let mut settings = self.publish.clone();
        settings.encoder.database = database;
        let publisher = Publisher::new(
            settings,
            Arc::clone(producer),
            Arc::clone(&self.registry),
            Arc::clone(sql),
            self.metrics.clone(),
            Arc::clone(&self.status),
        );
        let (stopping_sender, stopping) = watch::channel(false);
        let mut signals = Signals {
            shutdown: self.shutdown.clone(),
            shutdown_timeout: self.shutdown_timeout,
            broken,
            stopping,
        };
        let left = {
            let mut stream = Stream::new(
                reader,
                &sender,
                publisher,
                progress.clone(),
                context,
                self.metrics.clone(),
                Arc::clone(&self.status),
                self.shutdown.clone(),
            );
            tokio::select! {
                left = stream.run(&mut signals) => left,
                never = monitor::watch(sql, &self.wanted.slot, &self.status, &stopping_sender) => match never {},
            }
        };
        let settled = self.settle(&left, producer).await;
        // The last confirmed LSN goes to Postgres even if the stream failed: what is confirmed need not come again. But a
        // server that shuts down waits for its walsender, which first sends the transaction that it is in to its end: there
        // the connection is closed under it.
        let leave = sender.finish();
        let left_in_peace = match left {
            Err(PipelineError::ServerStopping) => tokio::time::timeout(GRACE, leave).await.unwrap_or(Ok(())),
            _ => leave.await,
        };
        if let Err(error) = left_in_peace {
            tracing::debug!(
                error = super::error::chain(&error),
                "the final status update was not taken"
            );
        }
        if matches!(left, Err(PipelineError::ServerStopping)) {
            self.wait_for_deliveries(producer).await;
        }
        memory.confirmed = Some(progress.confirmed());
        match left? {
            Left::Boundary if settled => Ok(Ended::Drained),
            Left::Boundary | Left::TimedOut => Ok(Ended::Undrained),
        }
    }

    /// Waits for what is in flight, so that what is sent again after the next start is as little as can be.
    async fn settle(&self, left: &Result<Left, PipelineError>, producer: &Producer) -> bool {
        match left {
            // Postgres waits for us; what Kafka confirms in a moment is worth the moment.
            Err(PipelineError::ServerStopping) => producer.flush(GRACE).await,
            Err(error) if !error.is_transient() => producer.flush(Duration::from_secs(5)).await,
            Err(PipelineError::Undelivered(_)) => false,
            Err(_) => {
                self.wait_for_deliveries(producer).await;
                true
            }
            Ok(_) => producer.flush(self.shutdown_timeout).await,
        }
    }

    /// Waits until Kafka has confirmed what is in flight: the connection is gone, and the next would send all of it again.
    async fn wait_for_deliveries(&self, producer: &Producer) {
        while !producer.flush(Duration::from_secs(5)).await {
            self.status.heartbeat();
            let reason = "waiting for what is in flight".to_owned();
            self.status.set_state(State::BlockedByKafka, Some(reason));
            if self.shutdown.is_requested() {
                break;
            }
        }
    }
}

/// What a server that shuts down is kept waiting for: once for Kafka, once for the final status update.
const GRACE: Duration = Duration::from_millis(500);

/// Another connection streams from the slot.
const OBJECT_IN_USE: &str = "55006";
