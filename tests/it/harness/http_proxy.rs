//! A proxy in front of the schema registry that answers wrongly, late or not at all when told to, and remembers what it
//! was asked.

use super::registry::client;
use super::{Registry, free_port};
use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::task::JoinHandle;

/// What one request gets instead of the registry's answer.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    Status(u16),
    /// 429, and to come back after so many seconds.
    TooMany(u32),
    /// 200 with something that is no JSON, as from a captive portal.
    Garbage,
    /// No answer ever; the connection stays open.
    Silent,
}

/// One request as it came.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Method and path, below the registry's base.
    pub what: String,
    pub authorization: Option<String>,
    pub at: Instant,
    /// Whether the registry got to see it.
    pub forwarded: bool,
}

#[derive(Clone)]
struct Shared {
    target: String,
    base: String,
    /// None: that request is forwarded.
    faults: Arc<Mutex<VecDeque<Option<Fault>>>>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

pub struct HttpProxy {
    pub port: u16,
    shared: Shared,
    serve: JoinHandle<()>,
}

impl HttpProxy {
    pub async fn start(registry: &Registry) -> Self {
        let port = free_port();
        let base = registry.path();
        let shared = Shared {
            target: registry.url.strip_suffix(&base).unwrap().to_owned(),
            base,
            faults: Arc::default(),
            asked: Arc::default(),
        };
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        let router = Router::new().fallback(answer).with_state(shared.clone());
        let serve = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        HttpProxy { port, shared, serve }
    }

    /// The next requests get these, one each; those after them are forwarded.
    pub fn fail(&self, faults: &[Fault]) {
        self.fail_after(0, faults);
    }

    /// The same, after so many more requests that are forwarded.
    pub fn fail_after(&self, forwarded: usize, faults: &[Fault]) {
        let mut queue = self.shared.faults.lock().unwrap();
        queue.extend((0..forwarded).map(|_| None));
        queue.extend(faults.iter().copied().map(Some));
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.shared.asked.lock().unwrap().clone()
    }
}

impl Drop for HttpProxy {
    fn drop(&mut self) {
        self.serve.abort();
    }
}

async fn answer(State(shared): State<Shared>, request: Request) -> Response {
    let path = request.uri().path();
    let what = format!(
        "{} {}",
        request.method(),
        path.strip_prefix(&shared.base).unwrap_or(path)
    );
    let authorization = request
        .headers()
        .get("authorization")
        .map(|value| value.to_str().unwrap().to_owned());
    let fault = shared.faults.lock().unwrap().pop_front().flatten();
    shared.asked.lock().unwrap().push(Asked {
        what,
        authorization,
        at: Instant::now(),
        forwarded: fault.is_none(),
    });
    let build = Response::builder();
    let response = match fault {
        None => return forward(&shared.target, request).await,
        Some(Fault::Status(status)) => build.status(status).body(Body::from("out of order")),
        Some(Fault::TooMany(seconds)) => build
            .status(StatusCode::TOO_MANY_REQUESTS)
            .header("retry-after", seconds)
            .body(Body::from("too many requests")),
        Some(Fault::Garbage) => build.body(Body::from("<html>log in first</html>")),
        Some(Fault::Silent) => std::future::pending().await,
    };
    response.unwrap()
}

async fn forward(target: &str, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body: Bytes = to_bytes(body, 16 << 20).await.unwrap();
    let mut forwarded = client()
        .request(parts.method, format!("{target}{}", parts.uri))
        .body(body);
    for name in ["content-type", "accept"] {
        if let Some(value) = parts.headers.get(name) {
            forwarded = forwarded.header(name, value);
        }
    }
    let answer = forwarded.send().await.unwrap();
    Response::builder()
        .status(answer.status())
        .body(Body::from(answer.bytes().await.unwrap()))
        .unwrap()
}
