//! A record that is no table's, and what becomes of it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::{KafkaError, OutRecord, Producer, SendErrorKind};
use crate::lsn::Lsn;
use crate::progress::{Event, Failure, OutOfOrder, Progress, Ticket};

/// The one partition of a topic of positions.
const PARTITION: i32 = 0;

/// What Kafka takes for no time at all. Of this machine's clock nothing is known, and a record that is more than an hour ahead of the
/// broker's is refused (`message.timestamp.after.max.ms`): a clock that is set wrong would stop the pipeline.
const NO_TIME: i64 = -1;

/// The ticket of one record, and who hears of it.
struct Receipt {
    /// A queue of one: the ticket's own, which must outlive it.
    _queue: Progress,
    outcome: oneshot::Receiver<Option<Failure>>,
}

fn receipt() -> Result<(Ticket, Receipt), OutOfOrder> {
    let (sender, outcome) = oneshot::channel();
    let sender = Mutex::new(Some(sender));
    let queue = Progress::new(
        Lsn::ZERO,
        Box::new(move |event| {
            let failure = match event {
                Event::Advanced { .. } => None,
                Event::Broken(failure) => Some(failure.clone()),
            };
            if let Some(sender) = sender.lock().unwrap_or_else(PoisonError::into_inner).take() {
                // Nobody waits any more.
                let _ = sender.send(failure);
            }
        }),
    );
    let transaction = queue.begin(Lsn::new(1), 0)?;
    let ticket = transaction.ticket();
    transaction.commit(Lsn::new(1))?;
    Ok((ticket, Receipt { _queue: queue, outcome }))
}

impl Producer {
    /// Writes a record to the one partition of a topic of positions, and waits until Kafka has it: all in-sync replicas, or, under
    /// transactions, the log of the open one.
    ///
    /// # Errors
    /// Kafka did not take it.
    pub(super) async fn deliver(
        self: &Arc<Self>,
        topic: &str,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), KafkaError> {
        let failed = |reason: String, passing| KafkaError::Delivery {
            topic: topic.to_owned(),
            reason,
            passing,
        };
        let (mut ticket, receipt) = receipt().map_err(|error| failed(error.to_string(), false))?;
        let record = OutRecord {
            key: Some(key),
            value,
            headers: &[],
            timestamp_ms: NO_TIME,
        };
        while let Err(refused) = self.send_to(topic, Some(PARTITION), &record, ticket) {
            match refused.kind {
                SendErrorKind::QueueFull => {
                    ticket = refused.ticket;
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                kind => {
                    let passing = matches!(kind, SendErrorKind::Fatal { .. });
                    refused.ticket.failed(Failure::Passing(String::new()));
                    return Err(failed(kind.to_string(), passing));
                }
            }
        }
        match receipt.outcome.await {
            Ok(None) => Ok(()),
            Ok(Some(failure)) => Err(failed(
                failure.reason().to_owned(),
                matches!(failure, Failure::Passing(_)),
            )),
            Err(_) => Err(KafkaError::Stopping),
        }
    }
}
