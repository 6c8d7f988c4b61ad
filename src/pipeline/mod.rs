//! Wiring: sessions with Postgres one after the other, over one producer, until told to stop.
//!
//! A session ends by an error. One that may pass is waited out, with backoff and jitter, for ever; any other ends the
//! pipeline. What was in flight at the end of a session is waited for before the next begins, and the next starts from
//! what is confirmed by then, so a restart of Postgres repeats nothing but a transaction that was cut in its middle.

mod backoff;
mod blocked;
pub mod check;
mod error;
mod guarantee;
mod hidden;
mod keeper;
mod monitor;
mod observer;
mod prepare;
mod publish;
mod published;
mod readable;
mod recover;
mod refusal;
mod relations;
pub mod replay;
mod reshape;
mod rules;
pub mod schemas;
mod session;
mod settings;
pub mod shutdown;
pub mod slot;
mod snapshot;
mod source;
mod sql;
mod stream;
mod streamed;
pub mod tail;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;

use backoff::Backoff;
pub use error::{PipelineError, chain};
use observer::KafkaObserver;
use prepare::Memory;
pub use refusal::Refusal;
pub use rules::RuleError;
use session::{Ended, Pipeline};
use shutdown::Shutdown;

use crate::config::{self, Config};
use crate::kafka::{Producer, Refusals};
use crate::lsn::Lsn;
use crate::schema_registry::Registry;
use crate::telemetry::control::SnapshotCommands;
use crate::telemetry::metrics::{Metrics, Peer};
use crate::telemetry::state::{State, Status};

/// Streams until told to stop. A gap that begins at `accept_gap` is accepted. `commands` are about snapshots.
///
/// # Errors
///
/// What cannot pass without somebody doing something; [`PipelineError::hint`] says what.
pub async fn run(
    config: &Config,
    accept_gap: Option<Lsn>,
    status: &Arc<Status>,
    metrics: &Metrics,
    commands: SnapshotCommands,
    shutdown: Shutdown,
) -> Result<(), PipelineError> {
    let result = supervise(config, accept_gap, status, metrics, commands, shutdown).await;
    if let Err(error) = &result {
        status.set_last_error(error.chain());
        status.set_state(State::Failed, Some(error.chain()));
    }
    result
}

async fn supervise(
    config: &Config,
    accept_gap: Option<Lsn>,
    status: &Arc<Status>,
    metrics: &Metrics,
    commands: SnapshotCommands,
    shutdown: Shutdown,
) -> Result<(), PipelineError> {
    let exactly_once = config.delivery.guarantee == config::Guarantee::ExactlyOnce;
    let mut kafka = settings::kafka(config);
    kafka.transactional_id = exactly_once.then(|| config.name.clone());
    let pipeline = Pipeline {
        postgres: settings::postgres(config),
        wanted: settings::wanted(config)?,
        publish: settings::publish(config)?,
        status_interval: config.replication.status_interval,
        shutdown_timeout: config.shutdown_timeout,
        registry: Arc::new(Registry::new(settings::schema_registry(config))?),
        metrics: metrics.clone(),
        status: Arc::clone(status),
        shutdown: shutdown.clone(),
        state: settings::state(config),
        transactions: exactly_once.then(|| settings::transactions(config, &kafka)),
        accept_gap,
        streaming: settings::streaming(config),
        snapshot: settings::snapshot(config),
        commands: Arc::new(Mutex::new(commands)),
    };
    let observer = Arc::new(KafkaObserver::new(metrics.clone(), Arc::clone(status)));
    let refusals = Arc::new(Refusals::default());
    let mut kept = None;
    let mut memory = Memory::default();
    let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(10));
    loop {
        let producer = match kept.take() {
            Some(producer) => producer,
            None => Arc::new(Producer::with_refusals(&kafka, observer.clone(), refusals.clone())?),
        };
        let error = match pipeline.session(&producer, &mut memory).await {
            Ok(Ended::Drained) => {
                tracing::info!(confirmed = %status.confirmed_flush_lsn(), "stopped as asked; everything received is confirmed");
                return Ok(());
            }
            Ok(Ended::Undrained) => {
                tracing::warn!(
                    confirmed = %status.confirmed_flush_lsn(),
                    "stopped as asked, but not all that was in flight was confirmed in time; it will be sent again"
                );
                return Ok(());
            }
            Err(error) if error.is_transient() => error,
            Err(error) => return Err(error),
        };
        if status.state() == State::Streaming || status.state() == State::BlockedByKafka {
            backoff.reset();
        }
        let wait = backoff.next();
        status.set_last_error(error.chain());
        if status.state() != State::WaitingForSlot {
            status.set_state(State::Connecting, Some(error.chain()));
        }
        status.heartbeat();
        tracing::warn!(error = error.chain(), hint = error.hint(), retry_in = ?wait, "the session with postgres ended; trying again");
        metrics.reconnected(match error.is_of_the_producer() {
            true => Peer::Kafka,
            false => Peer::Postgres,
        });
        // A transactional one is not used again: to fence with a new one tells what became of its last transaction.
        if error.is_of_the_producer() || exactly_once {
            // Dropped first: the old one's records are purged, and only then come again.
            drop(producer);
        } else {
            kept = Some(producer);
        }
        tokio::select! {
            () = shutdown.requested() => return Ok(()),
            () = tokio::time::sleep(wait) => {}
        }
    }
}
