//! `walferry health`: asks the walferry beside it, over HTTP, whether it is well. It is the image's health check, where there is
//! neither a shell nor curl.
//!
//! It reads no configuration: the address is `http.listen`'s, from its environment variable, which the image sets and
//! which wins over the file.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

use clap::Args;

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
    /// Nothing listens, or what does gives no answer in time.
    #[error("no answer from {address}")]
    NoAnswer {
        /// Who was asked.
        address: SocketAddr,
        /// What became of it.
        #[source]
        source: io::Error,
    },
    /// What answers does not speak HTTP.
    #[error("{address} does not answer in HTTP; is that walferry's http.listen?")]
    NotHttp {
        /// Who was asked.
        address: SocketAddr,
    },
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
    let answer = get(address, path, timeout).map_err(|source| HealthError::NoAnswer { address, source })?;
    match status(&answer).ok_or(HealthError::NotHttp { address })? {
        200 => Ok(()),
        status => {
            let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
            let reason = body.lines().next().unwrap_or("").to_owned();
            Err(HealthError::Unwell { path, status, reason })
        }
    }
}

/// A listener on every address is asked on the loopback one.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

fn get(address: SocketAddr, path: &str, timeout: Duration) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = Vec::new();
    stream.take(LONGEST_ANSWER).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// The status of `HTTP/1.1 200 OK`.
fn status(answer: &str) -> Option<u16> {
    let (version, rest) = answer.lines().next()?.split_once(' ')?;
    if !version.starts_with("HTTP/1.") {
        return None;
    }
    rest.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;
    use std::thread::JoinHandle;

    use super::*;

    const SOON: Duration = Duration::from_secs(5);

    /// A server of one answer; gives back the request's first line.
    fn serve(answer: &'static str) -> (SocketAddr, JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(&stream).lines().map(Result::unwrap);
            let first = lines.next().unwrap();
            while lines.next().is_some_and(|line| !line.is_empty()) {}
            (&stream).write_all(answer.as_bytes()).unwrap();
            first
        });
        (address, server)
    }

    #[test]
    fn an_answer_of_200_is_well() {
        let (listen, server) = serve("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok\n");
        health(&HealthArgs { listen, ready: false }, SOON).unwrap();
        assert_eq!(server.join().unwrap(), "GET /health/live HTTP/1.1");
    }

    #[test]
    fn an_answer_of_503_is_not_and_its_reason_is_told() {
        let (listen, server) = serve("HTTP/1.1 503 Service Unavailable\r\n\r\nwaiting for slot\nmore");
        let error = health(&HealthArgs { listen, ready: true }, SOON).unwrap_err();
        assert_eq!(error.to_string(), "/health/ready answered 503: waiting for slot");
        assert_eq!(server.join().unwrap(), "GET /health/ready HTTP/1.1");
    }

    #[test]
    fn what_does_not_speak_http_is_named() {
        let (listen, server) = serve("-ERR unknown command\r\n");
        let error = health(&HealthArgs { listen, ready: false }, SOON).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("{listen} does not answer in HTTP; is that walferry's http.listen?")
        );
        server.join().unwrap();
    }

    #[test]
    fn nobody_there_is_not_well() {
        let listen = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let error = health(&HealthArgs { listen, ready: false }, SOON).unwrap_err();
        assert_eq!(error.to_string(), format!("no answer from {listen}"));
        assert!(error.source().is_some());
    }

    #[test]
    fn a_listener_on_every_address_is_asked_on_loopback() {
        for (listen, asked) in [
            ("0.0.0.0:8080", "127.0.0.1:8080"),
            ("[::]:9090", "[::1]:9090"),
            ("10.0.0.7:80", "10.0.0.7:80"),
        ] {
            assert_eq!(reachable(listen.parse().unwrap()), asked.parse().unwrap());
        }
    }
}
