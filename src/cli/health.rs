//! `walferry health`: asks the walferry beside it, over HTTP, whether it is well. It is the image's health check, where there is
//! neither a shell nor curl.
//!
//! It reads no configuration: the address is `http.listen`'s, from its environment variable, which the image sets and
//! which wins over the file.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;

use super::neighbour::{self, AskError, Question, reachable};

/// More than any answer to `/health/…` has.
const LONGEST_ANSWER: u64 = 16 * 1024;

/// Ask the walferry that runs beside this one whether it is well.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  walferry health --listen 127.0.0.1:8080 --ready\n\nExit code: 0 well, 1 not.")]
pub struct HealthArgs {
    /// Where it listens, as its `http.listen`.
    #[arg(
        long,
        env = "WALFERRY__HTTP__LISTEN",
        default_value = "127.0.0.1:8080",
        value_name = "ADDRESS:PORT"
    )]
    pub listen: SocketAddr,
    /// Whether it is ready (streaming), instead of alive.
    #[arg(long)]
    pub ready: bool,
}

/// Why the other one is not well.
#[derive(Debug, thiserror::Error)]
pub enum HealthError {
    /// There is no answer.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// It says so itself.
    #[error("{path} answered {status}: {reason}")]
    Unwell {
        /// What was asked for.
        path: &'static str,
        /// HTTP's status.
        status: u16,
        /// The first line of the answer.
        reason: String,
    },
}

/// Asks once, and waits at most `timeout` for each of connecting, sending and the next bytes of the answer.
///
/// # Errors
///
/// Whatever is not an answer with status 200.
pub fn health(args: &HealthArgs, timeout: Duration) -> Result<(), HealthError> {
    let path = if args.ready { "/health/ready" } else { "/health/live" };
    let address = reachable(args.listen);
    let reply = neighbour::ask(address, Question::Get(path), timeout, LONGEST_ANSWER)?;
    match reply.status {
        200 => Ok(()),
        status => {
            let reason = reply.body.lines().next().unwrap_or("").to_owned();
            Err(HealthError::Unwell { path, status, reason })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::super::neighbour::tests::{SOON, nobody, serve};
    use super::*;

    #[test]
    fn an_answer_of_200_is_well() {
        let (listen, server) = serve(vec!["HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok\n".to_owned()]);
        health(&HealthArgs { listen, ready: false }, SOON).unwrap();
        let asked = server.join().unwrap();
        assert_eq!(asked, [("GET /health/live HTTP/1.1".to_owned(), String::new())]);
    }

    #[test]
    fn an_answer_of_503_is_not_and_its_reason_is_told() {
        let (listen, server) = serve(vec![
            "HTTP/1.1 503 Service Unavailable\r\n\r\nwaiting for slot\nmore".to_owned(),
        ]);
        let error = health(&HealthArgs { listen, ready: true }, SOON).unwrap_err();
        assert_eq!(error.to_string(), "/health/ready answered 503: waiting for slot");
        let asked = server.join().unwrap();
        assert_eq!(asked, [("GET /health/ready HTTP/1.1".to_owned(), String::new())]);
    }

    #[test]
    fn nobody_there_is_not_well() {
        let listen = nobody();
        let error = health(&HealthArgs { listen, ready: false }, SOON).unwrap_err();
        assert_eq!(error.to_string(), format!("no answer from {listen}"));
        assert!(error.source().is_some());
    }
}
