//! What the stream itself does not say: how much log the slot retains, and that the server is shutting down.
//!
//! A fast shutdown ends ordinary connections at once, but waits for each walsender until its client has confirmed
//! everything. While Kafka is away that would be never. So when the ordinary connection is ended, and a new one is
//! refused with "cannot connect now", the session is told to let go of the replication connection. What is not
//! confirmed comes again.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::error::PipelineError;
use super::source;
use super::sql::Sql;
use crate::telemetry::Status;

/// `cannot_connect_now`: starting up or shutting down. While a walsender still lives, it is the latter.
const CANNOT_CONNECT_NOW: &str = "57P03";

const EVERY: Duration = Duration::from_secs(5);
const AGAIN: Duration = Duration::from_millis(250);

/// Asks again and again, to be raced against the session.
pub(super) async fn watch(sql: &Sql, slot: &str, status: &Status, stopping: &watch::Sender<bool>) -> Infallible {
    loop {
        match observe(sql, slot, status).await {
            Ok(client) => {
                tokio::select! {
                    () = tokio::time::sleep(EVERY) => {}
                    _ = client.closed() => {}
                }
            }
            Err(error) => {
                if error.sqlstate() == Some(CANNOT_CONNECT_NOW) {
                    stopping.send_replace(true);
                }
                tracing::debug!(error = error.chain(), "the slot cannot be looked at");
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}

async fn observe(sql: &Sql, slot: &str, status: &Status) -> Result<Arc<crate::replication::SqlClient>, PipelineError> {
    let client = sql.client().await?;
    let end = source::current_lsn(&client).await?;
    if let Some(end) = end {
        status.wal_end(end);
    }
    if let Some(slot) = source::slot(&client, slot).await?
        && let Some((end, restart)) = end.zip(slot.restart_lsn())
    {
        status.set_retained_wal_bytes(end.bytes_since(restart));
    }
    Ok(client)
}
