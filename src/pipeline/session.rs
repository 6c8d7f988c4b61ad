//! One session with Postgres: connect, prepare, take the slot, find out what is published, stream, settle.
//!
//! The slot comes before the recorded position: only one can hold it, so of two instances that start at once only one fences and
//! reads, and what it reads stays true.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::error::PipelineError;
use super::guarantee::{Book, ExactlyOnce, Guarantee};
use super::keeper::{Keeper, tell_first};
use super::monitor;
use super::prepare::{self, Memory, Wanted};
use super::publish::{PublishSettings, Publisher};
use super::published;
use super::recover::Recorded;
use super::rules;
use super::shutdown::Shutdown;
use super::snapshot::{Beginning, Commands, Shared, SnapshotSettings, Snapshots};
use super::source;
use super::sql::Sql;
use super::stream::{Left, Signals, Stream, alive, now_us};
use super::streamed::{Streamed, StreamingSettings};
use crate::failpoint;
use crate::kafka::{Producer, StateTopic};
use crate::lsn::Lsn;
use crate::pgoutput::Context;
use crate::progress::{Event, Failure, Progress};
use crate::recovery::{Gathering, Identity, Limits, Place, Resume};
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
    pub(super) state: StateTopic,
    /// Exactly-once: when Kafka transactions are committed.
    pub(super) transactions: Option<Limits>,
    pub(super) accept_gap: Option<Lsn>,
    pub(super) streaming: StreamingSettings,
    pub(super) snapshot: SnapshotSettings,
    /// Taken by the session that streams; what comes in between waits for the next.
    pub(super) commands: Commands,
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
    publisher: Publisher,
    progress: Progress,
    guarantee: Guarantee,
    keeper: Option<Keeper>,
    identity: Identity,
    context: Context,
    broken: watch::Receiver<Option<Failure>>,
    snapshots: Snapshots,
    streamed: Streamed,
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
            started = alive(&self.status, self.start(&sql, producer, memory)) => started,
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

    async fn start(
        &self,
        sql: &Arc<Sql>,
        producer: &Arc<Producer>,
        memory: &mut Memory,
    ) -> Result<Streaming, PipelineError> {
        if self.status.state() != State::WaitingForSlot {
            self.status.set_state(State::Connecting, None);
        }
        // Identify first: it is the walsender that knows whether this is Postgres itself or something in between.
        let mut replication = ReplicationClient::connect(&self.postgres).await?;
        replication.identify_system().await?;
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
        let found = prepare::slot(
            &client,
            &mut replication,
            &self.wanted,
            &settings.database,
            &self.status,
        )
        .await?;
        // Only now: the wait may have been one for a standby's promotion, which begins another timeline.
        let system = replication.identify_system().await?;
        let identity = Identity {
            system_identifier: system.system_identifier,
            timeline: system.timeline,
            database_oid: settings.database_oid,
            slot: self.wanted.slot.clone(),
        };
        let spool = self.streaming.spool(version, &identity).await?;
        let mut recorded = None;
        let position = match found {
            Some(position) => position,
            None => {
                // Nobody can hold a slot that is not there, so what is recorded cannot change behind this.
                let known = self.recorded(producer).await?;
                self.reconcile(known.position.as_ref(), &identity, &client, None)
                    .await?;
                recorded = Some(known);
                prepare::missing_slot(&mut replication, &self.wanted).await?
            }
        };

        // Postgres takes the start for what it may forget. What this process knows to be in Kafka may not be recorded yet: it comes
        // again, and is dropped.
        let start_lsn = position;
        let (told_sender, told) = watch::channel(start_lsn);
        let options = StartReplication {
            slot: self.wanted.slot.clone(),
            start_lsn,
            publications: vec![self.wanted.publication.clone()],
            protocol_version: protocol_version(version),
            binary: self.publish.binary,
            messages: version >= 140_000,
            streaming: spool.is_some(),
            status_interval: self.status_interval,
            wal_sender_timeout: settings.wal_sender_timeout,
            confirmed: told,
        };
        let context = Context {
            protocol_version: options.protocol_version,
            in_stream: false,
            parallel_streaming: false,
        };
        let (reader, sender) = replication.start(&options).await?;
        let recorded = match recorded {
            Some(known) => known,
            None => self.recorded(producer).await?,
        };
        // Postgres moves a start that lies before the slot's position silently forward, and until now somebody else may have
        // moved it. The slot is ours from here on, so what it says now stays.
        let slot = source::slot(&client, &self.wanted.slot).await?;
        let position = slot.and_then(|slot| slot.confirmed_flush_lsn()).unwrap_or(Lsn::ZERO);
        let reconciled = self
            .reconcile(recorded.position.as_ref(), &identity, &client, Some(position))
            .await?;
        self.tell(&reconciled);
        let book = Book {
            producer: Arc::clone(producer),
            topic: self.state.clone(),
            identity: identity.clone(),
        };
        let Recorded { position, snapshot } = recorded;
        let beginning = Beginning::find(
            &self.snapshot,
            &self.wanted.publication,
            &identity,
            snapshot,
            position.is_some(),
            &client,
        )
        .await?;
        // Before the first position: a pipeline that has one and no record of its snapshots is taken for one that was there before there
        // were any.
        if let Some(news) = beginning.news() {
            self.state.write_snapshot(producer, &news).await?;
            producer.commit().await?;
        }
        if reconciled.news {
            if reconciled.accepted.is_some() {
                // The new position may be before the old one, of a log that was set back.
                self.state.clear(producer).await?;
            }
            book.write(reconciled.place).await?;
            producer.commit().await?;
        }
        failpoint::reached("recovered");

        let mut place = reconciled.place;
        let (broken_sender, broken) = watch::channel(None);
        let told = self.told(told_sender);
        let undelivered = broken_sender.clone();
        let shared = Shared {
            publication: self.wanted.publication.clone(),
            sql: Arc::clone(sql),
            status: Arc::clone(&self.status),
            producer: Arc::clone(producer),
            topic: self.state.clone(),
            publisher: self.publisher(&settings.database, producer, sql),
            commands: Arc::clone(&self.commands),
        };
        let snapshots = Snapshots::begin(
            self.snapshot.clone(),
            shared,
            beginning,
            place,
            &client,
            move |failure| {
                tell_first(&undelivered, failure.clone());
            },
        )
        .await?;
        let (progress, mut guarantee, keeper) = match self.transactions {
            Some(limits) => {
                let progress = Progress::new(start_lsn, self.observer(move |end, _| told(end), broken_sender));
                let exactly_once = ExactlyOnce::new(
                    Gathering::new(place, limits, Instant::now()),
                    book,
                    progress.clone(),
                    Arc::clone(&self.status),
                    self.metrics.clone(),
                );
                (progress, Guarantee::ExactlyOnce(Box::new(exactly_once)), None)
            }
            None => {
                place = memory.latest(&identity, place);
                let (confirmed_sender, confirmed) = watch::channel(place);
                let confirm = move |end_lsn, published| {
                    confirmed_sender.send_replace(place.advanced(end_lsn, published));
                };
                let progress = Progress::new(start_lsn, self.observer(confirm, broken_sender.clone()));
                let recorded = reconciled.place.end_lsn;
                let keeper = Keeper::start(book, recorded, confirmed, told, broken_sender);
                (progress, Guarantee::AtLeastOnce(Resume::new(place)), Some(keeper))
            }
        };
        guarantee.with(snapshots.ledger());
        self.status.confirmed(start_lsn);
        self.status.set_state(State::Streaming, None);
        tracing::info!(
            slot = self.wanted.slot,
            publication = self.wanted.publication,
            start = %start_lsn,
            published = %place.end_lsn,
            server_version = version,
            protocol_version = options.protocol_version,
            running_transactions = options.streaming,
            "streaming"
        );
        Ok(Streaming {
            reader,
            sender,
            progress,
            guarantee,
            keeper,
            publisher: self.publisher(&settings.database, producer, sql),
            identity,
            context,
            broken,
            snapshots,
            streamed: Streamed::new(spool, self.metrics.streamed.clone()),
        })
    }

    fn publisher(&self, database: &str, producer: &Arc<Producer>, sql: &Arc<Sql>) -> Publisher {
        let mut settings = self.publish.clone();
        database.clone_into(&mut settings.encoder.database);
        Publisher::new(
            settings,
            Arc::clone(producer),
            Arc::clone(&self.registry),
            Arc::clone(sql),
            self.metrics.clone(),
            Arc::clone(&self.status),
        )
    }

    /// Lets Postgres be told.
    fn told(&self, told: watch::Sender<Lsn>) -> impl Fn(Lsn) + Send + Sync + 'static {
        let status = Arc::clone(&self.status);
        move |lsn| {
            status.confirmed(lsn);
            told.send_replace(lsn);
        }
    }

    fn observer(
        &self,
        confirm: impl Fn(Lsn, Lsn) + Send + Sync + 'static,
        broken: watch::Sender<Option<Failure>>,
    ) -> Box<dyn Fn(Event<'_>) + Send + Sync> {
        let kafka = self.metrics.kafka.clone();
        let status = Arc::clone(&self.status);
        Box::new(move |event| match event {
            Event::Advanced {
                confirmed,
                published,
                commit_times_us,
            } => {
                confirm(confirmed, published);
                let now = now_us();
                for commit_time in commit_times_us {
                    let elapsed = u64::try_from(now.saturating_sub(*commit_time)).unwrap_or_default();
                    kafka.commit_to_delivery(Duration::from_micros(elapsed));
                }
                if let Some(last) = commit_times_us.last() {
                    status.delivered_commit(*last);
                }
            }
            Event::Broken(failure) => tell_first(&broken, failure.clone()),
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
            publisher,
            progress,
            guarantee,
            keeper,
            identity,
            context,
            broken,
            snapshots,
            streamed,
        } = streaming;
        let (stopping_sender, stopping) = watch::channel(false);
        let mut signals = Signals {
            shutdown: self.shutdown.clone(),
            shutdown_timeout: self.shutdown_timeout,
            broken,
            stopping,
        };
        let (left, mut guarantee, snapshots) = {
            let mut stream = Stream::new(
                reader,
                &sender,
                publisher,
                progress.clone(),
                guarantee,
                snapshots,
                streamed,
                context,
                self.metrics.clone(),
                Arc::clone(&self.status),
                self.shutdown.clone(),
            );
            let left = tokio::select! {
                left = stream.run(&mut signals) => left,
                never = monitor::watch(sql, &self.wanted.slot, &self.status, &stopping_sender) => match never {},
            };
            let (guarantee, snapshots) = stream.leave();
            (left, guarantee, snapshots)
        };
        let begun = Instant::now();
        let settled = self.settle(&left, producer, &mut guarantee).await;
        let rest = || self.limit(&left).saturating_sub(begun.elapsed()).max(GRACE);
        snapshots.leave(rest()).await;
        if let Some(keeper) = keeper {
            keeper.finish(rest()).await;
        }
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
        if self.transactions.is_none() {
            let (commit_lsn, end_lsn) = (progress.published(), progress.confirmed());
            let place = Place {
                commit_lsn,
                end_lsn,
                partial: 0,
            };
            memory.confirmed = Some((identity, place));
        }
        match left? {
            Left::Boundary if settled => Ok(Ended::Drained),
            Left::Boundary | Left::TimedOut => Ok(Ended::Undrained),
        }
    }

    /// Waits for what is in flight, so that what is sent again after the next start is as little as can be.
    async fn settle(&self, left: &Result<Left, PipelineError>, producer: &Producer, guarantee: &mut Guarantee) -> bool {
        if self.transactions.is_some() {
            return guarantee.leave(self.limit(left)).await;
        }
        match left {
            Err(error) if error.is_of_the_producer() => false,
            Err(error) if error.is_transient() && !matches!(error, PipelineError::ServerStopping) => {
                self.wait_for_deliveries(producer).await;
                true
            }
            _ => producer.flush(self.limit(left)).await,
        }
    }

    /// How long what Kafka does not have yet is worth waiting for.
    fn limit(&self, left: &Result<Left, PipelineError>) -> Duration {
        match left {
            // Postgres waits for us; what Kafka confirms in a moment is worth the moment.
            Err(PipelineError::ServerStopping) => GRACE,
            Err(_) => Duration::from_secs(5),
            Ok(_) => self.shutdown_timeout,
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
