//! Waiting for Kafka, visibly.

use std::time::Duration;

use crate::kafka::Producer;
use crate::telemetry::state::{State, Status};

/// Under load Kafka is waited for all the time, for moments; a state is what lasts.
const LASTING: Duration = Duration::from_secs(1);

/// Runs to the end of `work`, which waits for Kafka. Reading stops meanwhile; status updates do not.
pub(super) async fn while_blocked<T>(producer: &Producer, status: &Status, work: impl Future<Output = T>) -> T {
    tokio::pin!(work);
    let before = status.state();
    let mut waited = false;
    loop {
        if let Ok(done) = tokio::time::timeout(LASTING, &mut work).await {
            if waited {
                tracing::info!("kafka confirms again");
                status.set_state(before, None);
            }
            return done;
        }
        if !waited {
            tracing::warn!("kafka does not confirm what it was given; reading has stopped until it does");
            waited = true;
        }
        let in_flight = producer.in_flight();
        let reason = format!(
            "{} records ({} bytes) are not yet confirmed",
            in_flight.records, in_flight.bytes
        );
        status.set_state(State::BlockedByKafka, Some(reason));
        status.heartbeat();
    }
}
