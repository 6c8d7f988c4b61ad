//! `/`, `/metrics`, `/health/live`, `/health/ready`, `/status` and `/snapshot` over HTTP/1.1.
//!
//! Everything is read from the [`Status`] and the [`Metrics`]; nothing here can hold the pipeline up. Commands about snapshots
//! are handed on.

mod snapshot;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::extract::{DefaultBodyLimit, State as Shared};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, StatusCode};
use axum::routing::get;
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::control::SnapshotControl;
use super::metrics::{Metrics, TableCounts};
use super::snapshots::SnapshotView;
use super::state::{LastError, Snapshot, State, Status, rfc3339};
pub use snapshot::COMMAND_TIMEOUT;

/// The pipeline's loop is taken for stuck when it has not turned for this long.
pub const HEARTBEAT_LIMIT: Duration = Duration::from_secs(60);

/// The address could not be listened on.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// Somebody else listens there.
    #[error("{listen} is in use by another process")]
    InUse {
        /// The address.
        listen: SocketAddr,
    },
    /// The system refuses.
    #[error("cannot listen on {listen}")]
    Listen {
        /// The address.
        listen: SocketAddr,
        /// What the system says.
        #[source]
        source: io::Error,
    },
}

impl HttpError {
    /// What to do.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::InUse { .. } => "Stop the other process, or set http.listen to another port.",
            Self::Listen { .. } => "Set http.listen to an address of this machine and a port that this user may use.",
        }
    }
}

/// A server that runs until it is dropped.
#[derive(Debug)]
pub struct HttpServer {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl HttpServer {
    /// Where it listens; the port that the system chose where 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Clone)]
struct Served {
    status: Arc<Status>,
    metrics: Metrics,
    control: SnapshotControl,
}

/// Listens, and answers from a task of its own. Commands about snapshots go to `control`.
pub async fn serve(
    listen: SocketAddr,
    status: Arc<Status>,
    metrics: Metrics,
    control: SnapshotControl,
) -> Result<HttpServer, HttpError> {
    let listener = TcpListener::bind(listen).await.map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => HttpError::InUse { listen },
        _ => HttpError::Listen { listen, source },
    })?;
    let address = listener
        .local_addr()
        .map_err(|source| HttpError::Listen { listen, source })?;
    let router = Router::new()
        .route("/", get(index))
        .route("/metrics", get(scrape))
        .route("/health/live", get(live))
        .route("/health/ready", get(ready))
        .route("/status", get(full))
        .route(
            "/snapshot",
            get(snapshot::show)
                .post(snapshot::command)
                .layer(DefaultBodyLimit::max(snapshot::LARGEST_COMMAND)),
        )
        .with_state(Served {
            status,
            metrics,
            control,
        })
        .into_make_service_with_connect_info::<snapshot::Ends>();
    let task = tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, router).await {
            tracing::error!(%error, "metrics and health are no longer served");
        }
    });
    Ok(HttpServer { address, task })
}

type Answer = (StatusCode, [(HeaderName, &'static str); 1], String);

fn answer(status: StatusCode, content_type: &'static str, body: String) -> Answer {
    (status, [(CONTENT_TYPE, content_type)], body)
}

fn json(status: StatusCode, value: &impl Serialize) -> Answer {
    match serde_json::to_string_pretty(value) {
        Ok(text) => answer(status, "application/json", format!("{text}\n")),
        Err(error) => answer(StatusCode::INTERNAL_SERVER_ERROR, TEXT, format!("{error}\n")),
    }
}

const TEXT: &str = "text/plain; charset=utf-8";

async fn index(Shared(served): Shared<Served>) -> Answer {
    let snapshot = served.status.snapshot();
    let body = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>walferry: {name}</title></head><body>\n\
         <h1>walferry {version}: {name}</h1>\n<p>{state}</p>\n<ul>\n\
         <li><a href=\"/status\">/status</a>: positions, lag, tables, last error</li>\n\
         <li><a href=\"/snapshot\">/snapshot</a>: how far the snapshots are</li>\n\
         <li><a href=\"/metrics\">/metrics</a>: for Prometheus</li>\n\
         <li><a href=\"/health/live\">/health/live</a>: the loop turns</li>\n\
         <li><a href=\"/health/ready\">/health/ready</a>: changes flow</li>\n</ul>\n</body></html>\n",
        name = escape(&snapshot.name),
        version = super::VERSION,
        state = escape(&describe(&snapshot)),
    );
    answer(StatusCode::OK, "text/html; charset=utf-8", body)
}

async fn scrape(Shared(served): Shared<Served>) -> Answer {
    match served.metrics.render(&served.status) {
        Ok(text) => answer(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text),
        Err(error) => answer(StatusCode::INTERNAL_SERVER_ERROR, TEXT, format!("{error}\n")),
    }
}

async fn live(Shared(served): Shared<Served>) -> Answer {
    liveness(served.status.since_heartbeat())
}

fn liveness(silent: Duration) -> Answer {
    if silent > HEARTBEAT_LIMIT {
        let body = format!("stuck: the pipeline's loop has not turned for {} s\n", silent.as_secs());
        return answer(StatusCode::SERVICE_UNAVAILABLE, TEXT, body);
    }
    answer(StatusCode::OK, TEXT, "live\n".to_owned())
}

async fn ready(Shared(served): Shared<Served>) -> Answer {
    let snapshot = served.status.snapshot();
    let status = match snapshot.state {
        State::Streaming => StatusCode::OK,
        State::Connecting | State::WaitingForSlot | State::BlockedByKafka | State::Draining | State::Failed => {
            StatusCode::SERVICE_UNAVAILABLE
        }
    };
    answer(status, TEXT, format!("{}\n", describe(&snapshot)))
}

async fn full(Shared(served): Shared<Served>) -> Answer {
    json(StatusCode::OK, &Report::new(&served.status, &served.metrics))
}

fn describe(snapshot: &Snapshot) -> String {
    match &snapshot.reason {
        Some(reason) => format!("{}: {reason}", snapshot.state),
        None => snapshot.state.to_string(),
    }
}

/// `/status`, in the order in which people read it.
#[derive(Debug, Serialize)]
struct Report {
    name: String,
    version: &'static str,
    revision: &'static str,
    state: &'static str,
    reason: Option<String>,
    since: String,
    started_at: String,
    uptime_seconds: u64,
    postgres: PostgresReport,
    positions: PositionsReport,
    lag_bytes: u64,
    retained_wal_bytes: u64,
    in_flight: InFlightReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshot: Option<SnapshotView>,
    tables: BTreeMap<String, TableCounts>,
    last_bad_row: Option<ErrorReport>,
    last_error: Option<ErrorReport>,
}

#[derive(Debug, Serialize)]
struct PostgresReport {
    server_version: Option<String>,
    slot: String,
    publication: String,
}

#[derive(Debug, Serialize)]
struct PositionsReport {
    received_lsn: String,
    confirmed_flush_lsn: String,
    wal_end_lsn: String,
}

#[derive(Debug, Serialize)]
struct InFlightReport {
    records: u64,
    bytes: u64,
}

#[derive(Debug, Serialize)]
struct ErrorReport {
    at: String,
    text: String,
}

impl From<LastError> for ErrorReport {
    fn from(error: LastError) -> Self {
        ErrorReport {
            at: rfc3339(error.at),
            text: error.text,
        }
    }
}

impl Report {
    fn new(status: &Status, metrics: &Metrics) -> Self {
        let snapshot = status.snapshot();
        let uptime = SystemTime::now()
            .duration_since(snapshot.started_at)
            .unwrap_or_default();
        Self {
            name: snapshot.name,
            version: super::VERSION,
            revision: super::REVISION,
            state: snapshot.state.label(),
            reason: snapshot.reason,
            since: rfc3339(snapshot.since),
            started_at: rfc3339(snapshot.started_at),
            uptime_seconds: uptime.as_secs(),
            postgres: PostgresReport {
                server_version: snapshot.server_version,
                slot: snapshot.slot,
                publication: snapshot.publication,
            },
            positions: PositionsReport {
                received_lsn: snapshot.received_lsn.to_string(),
                confirmed_flush_lsn: snapshot.confirmed_flush_lsn.to_string(),
                wal_end_lsn: snapshot.wal_end.to_string(),
            },
            lag_bytes: snapshot.lag_bytes,
            retained_wal_bytes: snapshot.retained_wal_bytes,
            in_flight: InFlightReport {
                records: metrics.kafka.in_flight_records.get(),
                bytes: metrics.kafka.in_flight_bytes.get(),
            },
            snapshot: status.snapshots().view(),
            tables: metrics.tables.counts(),
            last_bad_row: snapshot.last_bad_row.map(ErrorReport::from),
            last_error: snapshot.last_error.map(ErrorReport::from),
        }
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::lsn::Lsn;
    use crate::telemetry::control::{self, SnapshotCommands};
    use crate::telemetry::metrics::RecordOp;
    use crate::telemetry::snapshots::SnapshotCause;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    async fn start() -> (HttpServer, Arc<Status>, Metrics) {
        let (server, status, metrics, _) = start_with().await;
        (server, status, metrics)
    }

    pub(super) async fn start_with() -> (HttpServer, Arc<Status>, Metrics, SnapshotCommands) {
        let status = Arc::new(Status::new("shop", "shop_slot", "shop_pub"));
        let metrics = Metrics::new().unwrap();
        let (control, commands) = control::channel();
        let server = serve(
            ([127, 0, 0, 1], 0).into(),
            Arc::clone(&status),
            metrics.clone(),
            control,
        )
        .await
        .unwrap();
        (server, status, metrics, commands)
    }

    /// The status code, the content type and the body.
    pub(super) async fn fetch(server: &HttpServer, path: &str) -> (u16, String, String) {
        send(server, "GET", path, "", "").await
    }

    pub(super) async fn send(
        server: &HttpServer,
        method: &str,
        path: &str,
        headers: &str,
        body: &str,
    ) -> (u16, String, String) {
        let mut stream = TcpStream::connect(server.address()).await.unwrap();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: walferry\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        let code = head.split(' ').nth(1).unwrap().parse().unwrap();
        let content_type = head
            .lines()
            .find_map(|line| line.strip_prefix("content-type: "))
            .unwrap_or_default();
        (code, content_type.to_owned(), body.to_owned())
    }

    #[tokio::test]
    async fn ready_is_streaming_and_nothing_else() {
        let (server, status, _) = start().await;
        for state in State::ALL {
            status.set_state(*state, Some("because".to_owned()));
            let (code, _, body) = fetch(&server, "/health/ready").await;
            assert_eq!(code, if *state == State::Streaming { 200 } else { 503 }, "{state}");
            assert_eq!(body, format!("{state}: because\n"));
        }
    }

    #[tokio::test]
    async fn live_is_a_loop_that_has_turned_within_a_minute() {
        let (server, status, _) = start().await;
        let (code, _, body) = fetch(&server, "/health/live").await;
        assert_eq!((code, body.as_str()), (200, "live\n"));
        assert!(status.since_heartbeat() < HEARTBEAT_LIMIT);
        let (code, _, body) = liveness(Duration::from_secs(61));
        assert_eq!(code, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(body, "stuck: the pipeline's loop has not turned for 61 s\n");
    }

    #[tokio::test]
    async fn the_status_shows_positions_tables_and_the_last_error() {
        let (server, status, metrics) = start().await;
        status.set_state(State::Streaming, None);
        status.set_server_version("18.1");
        status.received(Lsn::new(0x1_0000_0040));
        status.wal_end(Lsn::new(0x1_0000_0080));
        status.confirmed(Lsn::new(0x1_0000_0010));
        status.set_retained_wal_bytes(4096);
        status.set_last_error("connection reset by peer");
        metrics.tables.table("public.orders").add(RecordOp::Create, 3, 300);
        let (code, content_type, body) = fetch(&server, "/status").await;
        assert_eq!((code, content_type.as_str()), (200, "application/json"));
        let mut found: Value = serde_json::from_str(&body).unwrap();
        for field in ["started_at", "since", "uptime_seconds", "revision", "version"] {
            assert!(found.as_object_mut().unwrap().remove(field).is_some(), "{field}");
        }
        assert!(found.pointer_mut("/last_error/at").unwrap().take().is_string());
        assert_eq!(
            found,
            json!({
                "name": "shop",
                "state": "streaming",
                "reason": null,
                "postgres": { "server_version": "18.1", "slot": "shop_slot", "publication": "shop_pub" },
                "positions": { "received_lsn": "1/40", "confirmed_flush_lsn": "1/10", "wal_end_lsn": "1/80" },
                "lag_bytes": 112,
                "retained_wal_bytes": 4096,
                "in_flight": { "records": 0, "bytes": 0 },
                "tables": { "public.orders": { "total": 3, "records": { "c": 3 }, "bytes": 300, "bad_rows": {} } },
                "last_bad_row": null,
                "last_error": { "at": null, "text": "connection reset by peer" },
            })
        );
    }

    #[tokio::test]
    async fn the_status_shows_the_snapshots_once_there_was_one() {
        let (server, status, _) = start().await;
        let snapshot = async || {
            let (_, _, body) = fetch(&server, "/status").await;
            let found: Value = serde_json::from_str(&body).unwrap();
            found.get("snapshot").cloned()
        };
        assert_eq!(snapshot().await, None);
        status
            .snapshots()
            .waiting("public.orders", SnapshotCause::Asked, Some(10));
        assert_eq!(
            snapshot().await,
            Some(json!({
                "due": false,
                "paused": null,
                "tables_ended": 0,
                "tables_total": 1,
                "rows": 0,
                "percent": 0.0,
                "remaining_seconds": null,
                "tables": [{
                    "table": "public.orders",
                    "cause": "asked",
                    "state": "waiting",
                    "rows": 0,
                    "superseded": 0,
                    "estimated_rows": 10,
                    "percent": 0.0,
                    "rows_per_second": null,
                    "remaining_seconds": null,
                    "started_at": null,
                    "finished_at": null,
                    "reason": null,
                }],
            }))
        );
    }

    #[tokio::test]
    async fn metrics_and_the_front_page_are_served() {
        let (server, status, _) = start().await;
        status.set_state(State::Failed, Some("<script>".to_owned()));
        let (code, content_type, body) = fetch(&server, "/metrics").await;
        assert_eq!(
            (code, content_type.as_str()),
            (200, "text/plain; version=0.0.4; charset=utf-8")
        );
        assert!(body.contains("walferry_state{state=\"failed\"} 1\n"));
        let (code, content_type, body) = fetch(&server, "/").await;
        assert_eq!((code, content_type.as_str()), (200, "text/html; charset=utf-8"));
        assert!(body.contains("<p>failed: &lt;script&gt;</p>"));
        assert_eq!(fetch(&server, "/nothing").await.0, 404);
    }

    #[tokio::test]
    async fn an_address_in_use_says_so() {
        let (server, status, metrics) = start().await;
        let (control, _commands) = control::channel();
        let error = serve(server.address(), status, metrics, control).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("{} is in use by another process", server.address())
        );
        assert_eq!(
            error.hint(),
            "Stop the other process, or set http.listen to another port."
        );
    }
}
