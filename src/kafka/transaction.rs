//! Transactions: fence, begin, commit, abort (KIP-98; librdkafka's `INTRODUCTION.md`, "Transactional Producer").
//!
//! librdkafka's calls block, so each runs on a thread for blocking work. The binding's commit flushes before, by polling for up to
//! 100 ms a turn beside the thread of ours that has what it polls for; here it is only called when nothing is in flight any
//! more, and finds nothing to flush. So a commit takes as long as Kafka takes, and no line of it is unsafe.
//!
//! A transaction that failed is not taken up again. Whatever the failure, the producer goes, and the one after it fences: that
//! aborts what was open, and tells which of two outcomes an unanswered commit had.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use rdkafka::error::{KafkaError as NativeError, RDKafkaErrorCode};
use rdkafka::producer::Producer as _;

use super::{KafkaError, Native, Producer};

/// Limit of one call that is made again as long as it takes. A process that ends waits for the one that runs.
const CALL_LIMIT: Duration = Duration::from_secs(5);
/// What a transaction that is given up is worth waiting for: one that is not aborted ends by Kafka's clock, or by the next fence.
const ABORT_LIMIT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(100);

/// Not initialised: nothing may be sent.
const NEW: u8 = 0;
/// Nothing was sent since the last commit.
const IDLE: u8 = 1;
const OPEN: u8 = 2;

/// A transactional id, and where its transaction stands.
pub(super) struct Transactions {
    id: String,
    state: AtomicU8,
}

impl Transactions {
    pub(super) fn new(id: String) -> Self {
        Transactions {
            id,
            state: AtomicU8::new(NEW),
        }
    }

    fn is(&self, state: u8) -> bool {
        self.state.load(Ordering::Acquire) == state
    }

    fn set(&self, state: u8) {
        self.state.store(state, Ordering::Release);
    }

    pub(super) fn is_fenced(&self) -> bool {
        !self.is(NEW)
    }

    /// Sees to it that a transaction is open. It begins here; Kafka hears of it with the first record.
    pub(super) fn enter(&self, native: &Native) -> Result<(), NativeError> {
        if !self.is(OPEN) {
            native.begin_transaction()?;
            self.set(OPEN);
        }
        Ok(())
    }
}

fn code(error: &NativeError) -> RDKafkaErrorCode {
    match error {
        NativeError::Transaction(error) => error.code(),
        other => other.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown),
    }
}

/// Whether the same call may be made again.
fn is_retriable(error: &NativeError) -> bool {
    match error {
        NativeError::Transaction(error) => error.is_retriable(),
        // What is in flight is waited for before; a log line that stood in the queue just then is not worth more than a look.
        NativeError::Flush(code) => *code == RDKafkaErrorCode::OperationTimedOut,
        _ => false,
    }
}

/// A newer epoch of the same id. Kafka itself makes one when it aborts a transaction that was open for too long.
pub(super) fn is_fenced(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode::*;
    matches!(code, Fenced | ProducerFenced | InvalidProducerEpoch)
}

/// Whether the refusal is for good.
pub(super) fn is_definite(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode::*;
    matches!(
        code,
        TransactionalIdAuthorizationFailed
            | ClusterAuthorizationFailed
            | TopicAuthorizationFailed
            | SaslAuthenticationFailed
            | InvalidTransactionTimeout
            | UnsupportedFeature
            | UnsupportedVersion
            | InvalidArgument
    )
}

impl Producer {
    /// Takes the transactional id over: whatever another producer of it has open is aborted, and it can commit nothing any more.
    /// Waits as long as it takes for a cluster that is away; each failed try goes to the observer.
    ///
    /// # Errors
    /// The user may not use the id, or the time that transactions may take is more than the brokers allow.
    pub async fn fence(&self) -> Result<(), KafkaError> {
        let Some(transactions) = &self.transactions else {
            return Ok(());
        };
        self.again(
            "taking over its id",
            |native| native.init_transactions(CALL_LIMIT),
            |failed| self.observer.fence_retry(failed),
        )
        .await?;
        transactions.set(IDLE);
        Ok(())
    }

    /// Whether its records are in transactions.
    pub fn is_transactional(&self) -> bool {
        self.transactions.is_some()
    }

    /// Whether records were sent since the last commit.
    pub fn is_in_transaction(&self) -> bool {
        self.transactions
            .as_ref()
            .is_some_and(|transactions| transactions.is(OPEN))
    }

    /// Waits until Kafka has everything that was sent, and commits it. When this is back without an error, readers of what is
    /// committed see all of it; after an error, all or nothing, which only the next fence decides.
    ///
    /// # Errors
    /// It cannot be committed by this producer.
    pub async fn commit(&self) -> Result<(), KafkaError> {
        let Some(transactions) = self.transactions.as_ref().filter(|transactions| transactions.is(OPEN)) else {
            return Ok(());
        };
        self.running().context().in_flight.empty().await;
        self.again(
            "committing",
            |native| native.commit_transaction(CALL_LIMIT),
            |error| tracing::debug!(%error, "the kafka transaction is not committed yet; trying again"),
        )
        .await?;
        transactions.set(IDLE);
        Ok(())
    }

    /// Aborts what is open, so that readers need not wait for Kafka's clock. If that fails, Kafka does it in its time.
    pub async fn abort(&self) {
        if !self.is_in_transaction() {
            return;
        }
        let aborted = self.blocking(|native| native.abort_transaction(ABORT_LIMIT)).await;
        if let Ok(Err(error)) = aborted {
            tracing::debug!(%error, "the kafka transaction is left for kafka to abort");
        }
    }

    /// Makes a call again and again, as long as librdkafka says that this may help.
    async fn again(
        &self,
        doing: &'static str,
        call: impl Fn(&Arc<Native>) -> Result<(), NativeError> + Copy + Send + 'static,
        on_retry: impl Fn(&KafkaError),
    ) -> Result<(), KafkaError> {
        loop {
            let Err(error) = self.blocking(call).await? else {
                return Ok(());
            };
            let failed = self.failed(doing, &error);
            if !is_retriable(&error) {
                return Err(failed);
            }
            on_retry(&failed);
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn failed(&self, doing: &'static str, error: &NativeError) -> KafkaError {
        match (code(error), &self.transactions) {
            (code, Some(Transactions { id, .. })) if is_fenced(code) => KafkaError::Fenced { id: id.clone() },
            (code, _) => KafkaError::Transaction {
                doing,
                reason: error.to_string(),
                code,
            },
        }
    }

    async fn blocking<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Arc<Native>) -> T + Send + 'static,
    ) -> Result<T, KafkaError> {
        let native = self.running().native.clone();
        let done = tokio::task::spawn_blocking(move || call(&native)).await;
        done.map_err(|_| KafkaError::Stopping)
    }
}
