//! Against a registry that answers by script.

mod admission;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// What the server does with the next request.
enum Answer {
    /// Status line, extra header lines (each ended), body.
    Reply(&'static str, &'static str, &'static str),
    /// Takes the request and says nothing.
    Silence,
    /// Closes the connection without an answer.
    HangUp,
}
use Answer::{HangUp, Reply, Silence};

/// Answers one request after the other from its script. One too many is answered by an error, and one too few fails
/// in `requests`.
struct Server {
    address: SocketAddr,
    /// Request line, the lower-case `authorization` header, body.
    seen: Arc<Mutex<Vec<(String, String, String)>>>,
    script: Arc<Mutex<std::collections::VecDeque<Answer>>>,
}

impl Server {
    async fn start(script: impl IntoIterator<Item = Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Server {
            address: listener.local_addr().unwrap(),
            seen: Arc::default(),
            script: Arc::new(Mutex::new(script.into_iter().collect())),
        };
        let (seen, script) = (server.seen.clone(), server.script.clone());
        tokio::spawn(async move {
            let mut silent = Vec::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                let Some(request) = read_request(&mut stream).await else {
                    continue;
                };
                seen.lock().unwrap().push(request);
                let answer = script.lock().unwrap().pop_front();
                match answer {
                    Some(Reply(status, headers, body)) => {
                        let length = body.len();
                        let text = format!(
                            "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n{body}"
                        );
                        stream.write_all(text.as_bytes()).await.unwrap();
                    }
                    Some(Silence) => silent.push(stream),
                    Some(HangUp) => drop(stream),
                    None => stream.write_all(b"HTTP/1.1 418 script is over\r\n\r\n").await.unwrap(),
                }
            }
        });
        server
    }

    fn registry(&self) -> Registry {
        registry(vec![format!("http://{}", self.address)], true, Auth::None)
    }

    /// Request lines seen; the script must be used up.
    fn requests(&self) -> Vec<String> {
        assert!(
            self.script.lock().unwrap().is_empty(),
            "not every answer of the script was asked for"
        );
        self.seen
            .lock()
            .unwrap()
            .iter()
            .map(|(line, ..)| line.clone())
            .collect()
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<(String, String, String)> {
    let mut bytes = Vec::new();
    let head = loop {
        let mut buffer = [0; 4096];
        let read = stream.read(&mut buffer).await.ok().filter(|&n| n > 0)?;
        bytes.extend_from_slice(&buffer[..read]);
        if let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
            break end + 4;
        }
    };
    let text = String::from_utf8(bytes[..head].to_vec()).unwrap();
    let header = |name: &str| {
        let line = text
            .lines()
            .find_map(|l| l.split_once(": ").filter(|(n, _)| n.eq_ignore_ascii_case(name)));
        line.map_or(String::new(), |(_, value)| value.to_owned())
    };
    let length: usize = header("content-length").parse().unwrap_or(0);
    while bytes.len() < head + length {
        let mut buffer = [0; 4096];
        let read = stream.read(&mut buffer).await.ok().filter(|&n| n > 0)?;
        bytes.extend_from_slice(&buffer[..read]);
    }
    let line = text.lines().next().unwrap().trim_end_matches(" HTTP/1.1").to_owned();
    Some((
        line,
        header("authorization"),
        String::from_utf8(bytes[head..].to_vec()).unwrap(),
    ))
}

fn registry(urls: Vec<String>, register: bool, auth: Auth) -> Registry {
    let timeout = Duration::from_millis(500);
    Registry::new(RegistrySettings {
        urls,
        auth,
        ssl_ca: None,
        register,
        on_incompatible: OnIncompatible::Stop,
        timeout,
    })
    .unwrap()
}

const BACKWARD: &str = r#"{"compatibilityLevel":"BACKWARD"}"#;

const SCHEMA: &str = r#"{"type":"record","name":"V","fields":[{"name":"id","type":"long"}]}"#;

async fn id(registry: &Registry) -> (Result<u32, RegistryError>, Vec<String>) {
    let mut retries = Vec::new();
    let result = registry
        .schema_id("a/b c-value", SCHEMA, &mut |error| retries.push(error.to_string()))
        .await;
    (result.map(|found| found.id), retries)
}

/// The subject has no schema yet.
const NO_SUBJECT: Answer = Reply(
    "404 Not Found",
    "",
    r#"{"error_code":40401,"message":"Subject not found"}"#,
);

#[tokio::test]
async fn a_schema_is_registered_once_and_remembered() {
    let server = Server::start([NO_SUBJECT, Reply("200 OK", "", r#"{"id":7,"version":1}"#)]).await;
    let registry = server.registry();
    assert_eq!(id(&registry).await.0.unwrap(), 7);
    assert_eq!(id(&registry).await.0.unwrap(), 7);
    assert_eq!(
        server.requests(),
        [
            "GET /subjects/a%2Fb%20c-value/versions/latest",
            "POST /subjects/a%2Fb%20c-value/versions"
        ]
    );
    let body: serde_json::Value = serde_json::from_str(&server.seen.lock().unwrap()[1].2).unwrap();
    assert_eq!(body, serde_json::json!({ "schema": SCHEMA }));
}

#[tokio::test]
async fn what_may_pass_is_tried_again() {
    let server = Server::start([
        NO_SUBJECT,
        Reply(
            "500 Internal Server Error",
            "",
            r#"{"error_code":50001,"message":"store timed out"}"#,
        ),
        HangUp,
        Reply("408 Request Timeout", "", ""),
        Reply("503 Service Unavailable", "", "<html>\n gone</html>"),
        Reply("200 OK", "", r#"{"id":3}"#),
    ])
    .await;
    let (result, retries) = id(&server.registry()).await;
    assert_eq!(result.unwrap(), 3);
    let url = format!("http://{}/", server.address);
    assert_eq!(
        retries,
        [
            format!("schema registry {url} answered 500: store timed out"),
            format!("schema registry {url} cannot be reached"),
            format!("schema registry {url} answered 408: no message"),
            format!("schema registry {url} answered 503: <html> gone</html>"),
        ]
    );
    assert_eq!(server.requests().len(), 6);
}

#[tokio::test]
async fn a_registry_that_asks_for_a_second_gets_it() {
    let server = Server::start([
        NO_SUBJECT,
        Reply("429 Too Many", "retry-after: 1\r\n", ""),
        Reply("200 OK", "", r#"{"id":3}"#),
    ])
    .await;
    let start = Instant::now();
    assert_eq!(id(&server.registry()).await.0.unwrap(), 3);
    assert!(
        start.elapsed() >= Duration::from_secs(1),
        "asked again after {:?}",
        start.elapsed()
    );
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn a_silent_registry_is_given_up_after_the_timeout_and_asked_again() {
    let server = Server::start([Silence, NO_SUBJECT, Reply("200 OK", "", r#"{"id":3}"#)]).await;
    let (result, retries) = id(&server.registry()).await;
    assert_eq!(result.unwrap(), 3);
    assert_eq!(
        retries,
        [format!(
            "schema registry http://{}/ did not answer within 0.5 s",
            server.address
        )]
    );
}

#[tokio::test]
async fn a_dead_first_url_costs_one_try_and_is_not_tried_first_again() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let dead = format!("http://{}", closed.local_addr().unwrap());
    drop(closed);
    let server = Server::start([
        NO_SUBJECT,
        Reply("200 OK", "", r#"{"id":1}"#),
        Reply("200 OK", "", r#"{"schema":"\"int\""}"#),
    ]);
    let server = server.await;
    let registry = registry(
        vec![dead.clone(), format!("http://{}", server.address)],
        true,
        Auth::None,
    );
    let (result, retries) = id(&registry).await;
    assert_eq!(result.unwrap(), 1);
    assert_eq!(retries, [format!("schema registry {dead}/ cannot be reached")]);
    assert_eq!(registry.schema_by_id(1).await.unwrap(), "\"int\"");
    assert_eq!(registry.preferred.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn an_incompatible_schema_stops_with_the_difference() {
    let latest = r#"{"subject":"s","version":2,"id":9,"schema":"{\"type\":\"record\",\"name\":\"V\",\"fields\":[{\"name\":\"id\",\"type\":\"string\"},{\"name\":\"old\",\"type\":\"int\"}]}"}"#;
    let server = Server::start([
        Reply("200 OK", "", latest),
        Reply("200 OK", "", BACKWARD),
        Reply(
            "409 Conflict",
            "",
            r#"{"error_code":409,"message":"Schema being registered is incompatible"}"#,
        ),
        Reply("200 OK", "", latest),
    ])
    .await;
    let (result, retries) = id(&server.registry()).await;
    let error = result.unwrap_err();
    assert!(retries.is_empty() && !error.is_transient());
    assert_eq!(
        error.to_string(),
        "schema registry refused an incompatible schema for subject a/b c-value: Schema being registered is \
         incompatible; compared with the latest registered schema: field id: type changed from string to long; \
         field old: removed, type int, had no default"
    );
    assert_eq!(server.requests()[3], "GET /subjects/a%2Fb%20c-value/versions/latest");
}

#[tokio::test]
async fn an_invalid_schema_stops_without_a_difference_where_there_is_none_before() {
    let server = Server::start([
        NO_SUBJECT,
        Reply(
            "422 Unprocessable Entity",
            "",
            r#"{"error_code":42201,"message":"Invalid schema"}"#,
        ),
        NO_SUBJECT,
    ])
    .await;
    let error = id(&server.registry()).await.0.unwrap_err();
    assert_eq!(
        error.to_string(),
        "schema registry refused the schema for subject a/b c-value as invalid: Invalid schema"
    );
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn wrong_credentials_stop_at_once_and_are_not_printed() {
    let server = Server::start([Reply(
        "401 Unauthorized",
        "",
        r#"{"error_code":401,"message":"Unauthorized"}"#,
    )])
    .await;
    let registry = registry(vec![format!("http://me:sesame@{}", server.address)], true, Auth::None);
    let error = id(&registry).await.0.unwrap_err();
    let url = format!("http://{}/", server.address);
    assert_eq!(
        error.to_string(),
        format!("schema registry {url} refused the credentials (401): Unauthorized")
    );
    assert!(!error.is_transient() && error.hint().unwrap().contains("schema_registry.username"));
    assert_eq!(server.seen.lock().unwrap()[0].1, "Basic bWU6c2VzYW1l");
    assert!(!format!("{registry:?} {error:?}").contains("sesame"));
}

#[tokio::test]
async fn a_bearer_token_is_sent_and_not_printed() {
    let server = Server::start([Reply("200 OK", "", "[]")]).await;
    let registry = registry(
        vec![format!("http://{}", server.address)],
        true,
        Auth::Bearer("sesame".into()),
    );
    registry.probe().await.unwrap();
    assert_eq!(server.requests(), ["GET /subjects"]);
    assert_eq!(server.seen.lock().unwrap()[0].1, "Bearer sesame");
    assert!(!format!("{registry:?}").contains("sesame"));
}

#[tokio::test]
async fn success_that_is_not_the_apis_is_terminal() {
    for body in ["<html>welcome</html>", "{\"id\":-1}", "{\"id\":\"7\"}", "", "{\"id\":"] {
        let server = Server::start([NO_SUBJECT, Reply("200 OK", "", body)]).await;
        let error = id(&server.registry()).await.0.unwrap_err();
        assert!(
            matches!(error, RegistryError::Malformed { status: 200, .. }),
            "{body}: {error}"
        );
        assert!(error.hint().unwrap().contains("/apis/ccompat/v7"));
    }
}

#[tokio::test]
async fn an_unknown_path_is_not_taken_for_an_unregistered_schema() {
    let server = Server::start([Reply("404 Not Found", "", "no such page")]).await;
    let registry = registry(vec![format!("http://{}/wrong", server.address)], false, Auth::None);
    let error = id(&registry).await.0.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "schema registry http://{}/wrong answered 404: no such page",
            server.address
        )
    );
}

#[tokio::test]
async fn a_lookup_that_finds_nothing_says_what_to_do() {
    let server = Server::start([
        Reply(
            "404 Not Found",
            "",
            r#"{"error_code":40403,"message":"Schema not found"}"#,
        ),
        Reply(
            "200 OK",
            "",
            r#"{"schema":"{\"type\":\"record\",\"name\":\"V\",\"fields\":[]}"}"#,
        ),
    ])
    .await;
    let registry = registry(vec![format!("http://{}/api/", server.address)], false, Auth::None);
    let error = id(&registry).await.0.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the schema for subject a/b c-value is not registered; compared with the latest registered schema: field id: \
         added, type long, without a default"
    );
    assert!(error.hint().unwrap().contains("schema_registry.register = true"));
    assert_eq!(server.requests()[0], "POST /api/subjects/a%2Fb%20c-value");
}

#[test]
fn the_futures_can_be_moved_between_threads() {
    fn moved<T: Send>(_: T) {}
    let registry = registry(vec!["http://127.0.0.1:1".to_owned()], true, Auth::None);
    moved(registry.schema_id("s", SCHEMA, &mut |_| ()));
    moved(registry.probe());
}
