//! One question over HTTP/1.1 to the walferry that runs beside this one, at its `http.listen`.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// There is no answer that could be read.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
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
}

/// What is asked.
#[derive(Debug, Clone, Copy)]
pub(super) enum Question<'a> {
    Get(&'a str),
    /// With a body in JSON.
    Post(&'a str, &'a str),
}

/// An answer, whatever it says.
#[derive(Debug)]
pub(super) struct Reply {
    /// HTTP's status.
    pub(super) status: u16,
    pub(super) body: String,
}

/// A listener on every address is asked on the loopback one.
pub(super) fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

/// Asks once, and waits at most `timeout` for each of connecting, sending and the next bytes of an answer of at most `longest` bytes.
pub(super) fn ask(
    address: SocketAddr,
    question: Question<'_>,
    timeout: Duration,
    longest: u64,
) -> Result<Reply, AskError> {
    let answer =
        exchange(address, question, timeout, longest).map_err(|source| AskError::NoAnswer { address, source })?;
    let status = status(&answer).ok_or(AskError::NotHttp { address })?;
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body).to_owned();
    Ok(Reply { status, body })
}

fn exchange(address: SocketAddr, question: Question<'_>, timeout: Duration, longest: u64) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    let request = match question {
        Question::Get(path) => format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"),
        Question::Post(path, body) => format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        ),
    };
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(longest).read_to_end(&mut answer)?;
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

/// A server for tests: it gives the answers one after the other, a connection each, and then the requests' first lines and bodies.
#[cfg(test)]
pub(super) mod tests {
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;
    use std::thread::JoinHandle;

    use super::*;

    pub(in crate::cli) const SOON: Duration = Duration::from_secs(5);

    pub(in crate::cli) fn serve(answers: Vec<String>) -> (SocketAddr, JoinHandle<Vec<(String, String)>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let answer = |answer: String| {
                let (stream, _) = listener.accept().unwrap();
                let mut reader = BufReader::new(&stream);
                let mut head = Vec::new();
                loop {
                    let mut line = String::new();
                    reader.read_line(&mut line).unwrap();
                    match line.trim_end() {
                        "" => break,
                        line => head.push(line.to_owned()),
                    }
                }
                let length = head
                    .iter()
                    .find_map(|line| line.strip_prefix("Content-Length: "))
                    .map_or(0, |length| length.parse().unwrap());
                let mut body = vec![0; length];
                reader.read_exact(&mut body).unwrap();
                (&stream).write_all(answer.as_bytes()).unwrap();
                (head.swap_remove(0), String::from_utf8(body).unwrap())
            };
            answers.into_iter().map(answer).collect()
        });
        (address, server)
    }

    /// An address at which nobody listens.
    pub(in crate::cli) fn nobody() -> SocketAddr {
        TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
    }

    #[test]
    fn a_question_with_a_body_is_asked_and_the_answers_body_is_read() {
        let (address, server) = serve(vec!["HTTP/1.1 403 Forbidden\r\na: b\r\n\r\nno\r\n\r\nnever".to_owned()]);
        let reply = ask(address, Question::Post("/x", "{\"ä\":1}"), SOON, 1_000).unwrap();
        assert_eq!((reply.status, reply.body.as_str()), (403, "no\r\n\r\nnever"));
        let asked = server.join().unwrap();
        assert_eq!(asked, [("POST /x HTTP/1.1".to_owned(), "{\"ä\":1}".to_owned())]);
    }

    #[test]
    fn what_does_not_speak_http_is_named() {
        let (address, server) = serve(vec!["-ERR unknown command\r\n".to_owned()]);
        let error = ask(address, Question::Get("/x"), SOON, 1_000).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("{address} does not answer in HTTP; is that walferry's http.listen?")
        );
        server.join().unwrap();
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
