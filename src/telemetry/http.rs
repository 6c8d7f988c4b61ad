//! `/`, `/metrics`, `/health/live`, `/health/ready`, `/status`, `/status/history` and `/snapshot` over HTTP/1.1.
//!
//! Everything is read from the [`Status`] and the [`Metrics`]; nothing here can hold the pipeline up. Commands about snapshots
//! are handed on.

mod page;
mod snapshot;
mod status;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, State as Shared};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::middleware::map_response;
use axum::response::Response;
use axum::routing::get;
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::control::SnapshotControl;
use super::history::{self, History};
use super::metrics::Metrics;
use super::state::{Snapshot, State, Status};
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
    recorder: JoinHandle<()>,
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
        self.recorder.abort();
    }
}

#[derive(Clone)]
struct Served {
    status: Arc<Status>,
    metrics: Metrics,
    history: Arc<History>,
    control: SnapshotControl,
}

/// Listens, and answers from a task of its own; another one takes the samples of the history. Commands about snapshots go to
/// `control`.
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
    let history = Arc::new(History::default());
    let recorder = tokio::spawn(history::record(
        Arc::clone(&history),
        Arc::clone(&status),
        metrics.clone(),
    ));
    let router = Router::new()
        .route("/", get(page::show))
        .route("/metrics", get(scrape))
        .route("/health/live", get(live))
        .route("/health/ready", get(ready))
        .route("/status", get(status::show))
        .route("/status/history", get(status::history))
        .route(
            "/snapshot",
            get(snapshot::show)
                .post(snapshot::command)
                .layer(DefaultBodyLimit::max(snapshot::LARGEST_COMMAND)),
        )
        .with_state(Served {
            status,
            metrics,
            history,
            control,
        })
        .layer(map_response(guarded))
        .into_make_service_with_connect_info::<snapshot::Ends>();
    let task = tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, router).await {
            tracing::error!(%error, "metrics and health are no longer served");
        }
    });
    Ok(HttpServer {
        address,
        task,
        recorder,
    })
}

/// A browser takes each answer for what it says it is, keeps none, and runs nothing of it but what the page allows itself.
async fn guarded(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let nothing = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(nothing);
    response
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

fn describe(snapshot: &Snapshot) -> String {
    match &snapshot.reason {
        Some(reason) => format!("{}: {reason}", snapshot.state),
        None => snapshot.state.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::control::{self, SnapshotCommands};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    pub(super) async fn start() -> (HttpServer, Arc<Status>, Metrics) {
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
        let (head, body) = exchange(server, method, path, headers, body).await;
        let code = head.split(' ').nth(1).unwrap().parse().unwrap();
        let content_type = head
            .lines()
            .find_map(|line| line.strip_prefix("content-type: "))
            .unwrap_or_default();
        (code, content_type.to_owned(), body)
    }

    /// The head of the answer, with the line break of its last header, and the body.
    pub(super) async fn exchange(
        server: &HttpServer,
        method: &str,
        path: &str,
        headers: &str,
        body: &str,
    ) -> (String, String) {
        let mut stream = TcpStream::connect(server.address()).await.unwrap();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: walferry\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        (format!("{head}\r\n"), body.to_owned())
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
    async fn metrics_are_served() {
        let (server, status, _) = start().await;
        status.set_state(State::Failed, Some("because".to_owned()));
        let (code, content_type, body) = fetch(&server, "/metrics").await;
        assert_eq!(
            (code, content_type.as_str()),
            (200, "text/plain; version=0.0.4; charset=utf-8")
        );
        assert!(body.contains("walferry_state{state=\"failed\"} 1\n"));
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
