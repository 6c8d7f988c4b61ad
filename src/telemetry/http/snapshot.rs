//! `/snapshot`: how far the snapshots are, and commands about them.
//!
//! Commands are for whoever is on this machine. A page in a browser on it is not, nor whoever comes through a proxy on it: such
//! requests say so by their headers.

use std::net::IpAddr;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::connect_info::Connected;
use axum::extract::rejection::BytesRejection;
use axum::extract::{ConnectInfo, State as Shared};
use axum::http::header::ORIGIN;
use axum::http::{HeaderMap, StatusCode};
use axum::serve::IncomingStream;
use serde::Serialize;
use tokio::net::TcpListener;

use super::{Answer, Served, describe, json};
use crate::telemetry::control::{SnapshotAnswer, SnapshotCommand, SnapshotControl};
use crate::telemetry::snapshots::SnapshotView;
use crate::telemetry::state::State;

/// What a command may hold.
pub(super) const LARGEST_COMMAND: usize = 64 * 1024;

/// Whoever streams answers a command within this time, or is taken not to.
pub const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);

/// The two ends of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ends {
    peer: IpAddr,
    /// Ours; none where the system does not say.
    local: Option<IpAddr>,
}

impl Connected<IncomingStream<'_, TcpListener>> for Ends {
    fn connect_info(stream: IncomingStream<'_, TcpListener>) -> Self {
        Ends {
            peer: stream.remote_addr().ip().to_canonical(),
            local: stream.io().local_addr().ok().map(|local| local.ip().to_canonical()),
        }
    }
}

impl Ends {
    /// Whether both are on this machine: by the loopback, or by an address of its own where it listens on no other.
    fn are_here(self) -> bool {
        self.peer.is_loopback() || self.local == Some(self.peer)
    }
}

/// The body of every answer that is no success.
#[derive(Debug, Serialize)]
struct Refusal {
    error: String,
}

pub(super) async fn show(Shared(served): Shared<Served>) -> Answer {
    let view = served.status.snapshots().view();
    json(StatusCode::OK, &view.unwrap_or_else(SnapshotView::nothing))
}

pub(super) async fn command(
    ConnectInfo(ends): ConnectInfo<Ends>,
    Shared(served): Shared<Served>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Answer {
    match obey(ends, &served, &headers, body).await {
        Ok(answer) => answer,
        Err((status, error)) => json(status, &Refusal { error }),
    }
}

async fn obey(
    ends: Ends,
    served: &Served,
    headers: &HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Answer, (StatusCode, String)> {
    admit(ends, headers).map_err(|reason| (StatusCode::FORBIDDEN, reason))?;
    let body = body.map_err(|rejection| (rejection.status(), rejection.body_text()))?;
    let command = SnapshotCommand::parse(&body).map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))?;
    let snapshot = served.status.snapshot();
    match snapshot.state {
        State::Streaming | State::BlockedByKafka => {}
        State::Connecting | State::WaitingForSlot | State::Draining | State::Failed => {
            let reason = format!("it does not stream now: {}", describe(&snapshot));
            return Err((StatusCode::SERVICE_UNAVAILABLE, reason));
        }
    }
    // Not the filter: it may name values of rows.
    tracing::info!(peer = %ends.peer, action = %command, "asked about snapshots");
    let done = give(&served.control, command, COMMAND_TIMEOUT).await?;
    Ok(json(StatusCode::OK, &done))
}

/// Waits for the answer, for so long.
async fn give(
    control: &SnapshotControl,
    command: SnapshotCommand,
    limit: Duration,
) -> Result<SnapshotAnswer, (StatusCode, String)> {
    let (status, reason) = match tokio::time::timeout(limit, control.give(command)).await {
        Ok(Ok(Ok(done))) => return Ok(done),
        Ok(Ok(Err(reason))) => (StatusCode::UNPROCESSABLE_ENTITY, reason),
        Ok(Err(not_taken)) => (StatusCode::SERVICE_UNAVAILABLE, format!("{not_taken}; try again")),
        Err(_) => {
            let reason = format!(
                "no answer within {} s; GET /snapshot tells whether it was done",
                limit.as_secs()
            );
            (StatusCode::SERVICE_UNAVAILABLE, reason)
        }
    };
    Err((status, reason))
}

/// Who may give commands.
fn admit(ends: Ends, headers: &HeaderMap) -> Result<(), String> {
    if !ends.are_here() {
        let peer = ends.peer;
        return Err(format!(
            "{peer} is another machine's address; commands are taken from this one alone"
        ));
    }
    if headers.contains_key(ORIGIN) {
        return Err("commands are not taken from a page in a browser".to_owned());
    }
    match OF_PROXIES.iter().find(|name| headers.contains_key(**name)) {
        Some(name) => Err(format!("commands are not taken through a proxy ({name})")),
        None => Ok(()),
    }
}

/// What a proxy adds to a request, such as the sidecar of a service mesh: it makes others look as if they were here.
const OF_PROXIES: &[&str] = &["forwarded", "via", "x-forwarded-for", "x-forwarded-proto", "x-real-ip"];

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use axum::http::header::FORWARDED;
    use serde_json::{Value, json};

    use super::super::tests::{fetch, send, start_with};
    use super::*;
    use crate::telemetry::control::{self, Refused, SnapshotCommands};
    use crate::telemetry::snapshots::SnapshotCause;

    const READ: &str = r#"{"action":"read","tables":["public.a"]}"#;

    fn error_of(body: &str) -> String {
        let body: Value = serde_json::from_str(body).unwrap();
        body.get("error").unwrap().as_str().unwrap().to_owned()
    }

    #[tokio::test]
    async fn anybody_may_look() {
        let (server, status, _, _) = start_with().await;
        let (code, content_type, body) = fetch(&server, "/snapshot").await;
        assert_eq!((code, content_type.as_str()), (200, "application/json"));
        let nothing: SnapshotView = serde_json::from_str(&body).unwrap();
        assert_eq!(nothing, SnapshotView::nothing());
        status.snapshots().waiting("public.a", SnapshotCause::Initial, Some(7));
        let (_, _, body) = fetch(&server, "/snapshot").await;
        let shown: SnapshotView = serde_json::from_str(&body).unwrap();
        assert_eq!(Some(shown), status.snapshots().view());
    }

    #[tokio::test]
    async fn a_command_reaches_whoever_streams_and_comes_back_with_the_answer() {
        let (server, status, _, mut commands) = start_with().await;
        status.set_state(State::Streaming, None);
        let answer = SnapshotAnswer {
            accepted: vec!["public.a".to_owned()],
            refused: vec![Refused {
                table: "public.b".to_owned(),
                reason: "it has no key".to_owned(),
            }],
        };
        let ((code, content_type, body), ()) = tokio::join!(send(&server, "POST", "/snapshot", "", READ), async {
            let request = commands.next().await;
            let expected = SnapshotCommand::Read {
                tables: vec!["public.a".to_owned()],
                filter: None,
            };
            assert_eq!(request.command, expected);
            request.reply.send(Ok(answer.clone())).unwrap();
        });
        assert_eq!((code, content_type.as_str()), (200, "application/json"));
        assert_eq!(
            serde_json::from_str::<Value>(&body).unwrap(),
            json!({ "accepted": ["public.a"], "refused": [{ "table": "public.b", "reason": "it has no key" }] })
        );
    }

    #[tokio::test]
    async fn a_command_that_cannot_be_done_is_answered_with_the_reason() {
        let (server, status, _, mut commands) = start_with().await;
        status.set_state(State::BlockedByKafka, None);
        let ((code, _, body), ()) = tokio::join!(send(&server, "POST", "/snapshot", "", READ), async {
            let request = commands.next().await;
            request.reply.send(Err("no such table".to_owned())).unwrap();
        });
        assert_eq!((code, error_of(&body).as_str()), (422, "no such table"));
    }

    #[tokio::test]
    async fn nobody_takes_commands_who_does_not_stream() {
        let (server, status, _, commands) = start_with().await;
        for state in [State::Connecting, State::WaitingForSlot, State::Draining, State::Failed] {
            status.set_state(state, Some("because".to_owned()));
            let (code, _, body) = send(&server, "POST", "/snapshot", "", READ).await;
            assert_eq!(code, 503);
            assert_eq!(error_of(&body), format!("it does not stream now: {state}: because"));
        }
        status.set_state(State::Streaming, None);
        drop::<SnapshotCommands>(commands);
        let (code, _, body) = send(&server, "POST", "/snapshot", "", READ).await;
        assert_eq!(
            (code, error_of(&body).as_str()),
            (503, "nobody takes commands; try again")
        );
    }

    #[tokio::test]
    async fn whoever_never_answers_is_not_waited_for() {
        let (control, commands) = control::channel();
        let (status, reason) = give(&control, SnapshotCommand::Pause, Duration::ZERO)
            .await
            .unwrap_err();
        assert_eq!(
            (status, reason.as_str()),
            (
                StatusCode::SERVICE_UNAVAILABLE,
                "no answer within 0 s; GET /snapshot tells whether it was done"
            )
        );
        drop(commands);
    }

    #[tokio::test]
    async fn what_is_no_command_is_refused_with_what_is_wrong() {
        let (server, status, _, _commands) = start_with().await;
        status.set_state(State::Streaming, None);
        let (code, _, body) = send(&server, "POST", "/snapshot", "", r#"{"action":"stop"}"#).await;
        assert_eq!(code, 400);
        assert!(
            error_of(&body).contains("must be read, pause, resume or cancel"),
            "{body}"
        );
        let large = format!(r#"{{"action":"read","filter":"{}"}}"#, "x".repeat(LARGEST_COMMAND));
        let (code, content_type, body) = send(&server, "POST", "/snapshot", "", &large).await;
        assert_eq!((code, content_type.as_str()), (413, "application/json"), "{body}");
        assert!(error_of(&body).contains("length limit exceeded"), "{body}");
        assert_eq!(send(&server, "DELETE", "/snapshot", "", "").await.0, 405);
    }

    #[tokio::test]
    async fn a_page_in_a_browser_gives_no_commands() {
        let (server, status, _, _commands) = start_with().await;
        status.set_state(State::Streaming, None);
        let (code, _, body) = send(&server, "POST", "/snapshot", "Origin: http://evil.example\r\n", READ).await;
        assert_eq!(code, 403);
        assert_eq!(error_of(&body), "commands are not taken from a page in a browser");
    }

    fn ends(peer: &str, local: &str) -> Ends {
        Ends {
            peer: peer.parse().unwrap(),
            local: Some(local.parse().unwrap()),
        }
    }

    #[test]
    fn commands_come_from_this_machine_alone() {
        let none = HeaderMap::new();
        for (peer, local) in [
            ("127.0.0.1", "127.0.0.1"),
            ("127.8.0.1", "127.0.0.1"),
            ("::1", "::1"),
            ("10.0.0.5", "10.0.0.5"),
        ] {
            assert_eq!(admit(ends(peer, local), &none), Ok(()), "{peer}");
        }
        for peer in ["10.0.0.1", "fe80::1", "0.0.0.0"] {
            assert_eq!(
                admit(ends(peer, "10.0.0.5"), &none).unwrap_err(),
                format!("{peer} is another machine's address; commands are taken from this one alone")
            );
        }
        let here = ends("127.0.0.1", "127.0.0.1");
        let browser = HeaderMap::from_iter([(ORIGIN, HeaderValue::from_static("null"))]);
        assert!(admit(here, &browser).is_err());
        let proxied = HeaderMap::from_iter([(FORWARDED, HeaderValue::from_static("for=10.0.0.1"))]);
        assert_eq!(
            admit(here, &proxied).unwrap_err(),
            "commands are not taken through a proxy (forwarded)"
        );
    }
}
