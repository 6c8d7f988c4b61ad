//! From a fresh transport to a session that takes commands: StartupMessage, authentication, parameters (manual, section
//! "Message Flow", "Start-up").

use bytes::BytesMut;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, SCRAM_SHA_256_PLUS, ScramSha256};
use postgres_protocol::message::frontend;
use tokio::io::AsyncWriteExt;

use super::dial::Startup;
use super::error::{AttemptError, ProtocolError, ServerError};
use super::frames::{Cursor, Frame, FrameError, FrameReader, STREAM_LIMIT};
use super::settings::{PostgresSettings, SESSION};
use super::socket::Transport;
use super::verify::end_point_hash;

/// Opens sessions with `replication=database`.
pub(super) struct WalsenderStartup<'a>(pub &'a PostgresSettings);

/// An authenticated session that waits for a command.
pub(super) struct Session {
    pub frames: FrameReader<Transport>,
    pub server_version: u32,
}

impl Startup for WalsenderStartup<'_> {
    type Session = Session;

    async fn run(&self, transport: Transport) -> Result<Session, AttemptError> {
        let mut exchange = Exchange {
            frames: FrameReader::new(transport),
            out: BytesMut::new(),
        };
        let settings = self.0;
        let own = [
            ("user", settings.user.as_str()),
            ("database", settings.database.as_str()),
            ("replication", "database"),
            ("application_name", settings.application_name.as_str()),
            ("client_encoding", "UTF8"),
        ];
        frontend::startup_message(own.into_iter().chain(SESSION), &mut exchange.out).map_err(AttemptError::Io)?;
        exchange.send().await?;
        exchange.authenticate(settings).await?;
        exchange.frames.set_limit(STREAM_LIMIT);
        let told = exchange.until_ready().await?;
        if told.is_sql_ascii {
            exchange.take_bytes_as_they_are().await?;
        }
        let missing = ProtocolError::Malformed {
            message: "ParameterStatus",
            offset: 0,
            field: "no usable server_version",
        };
        Ok(Session {
            frames: exchange.frames,
            server_version: told.server_version.ok_or(AttemptError::Protocol(missing))?,
        })
    }
}

struct Exchange {
    frames: FrameReader<Transport>,
    out: BytesMut,
}

impl Exchange {
    async fn send(&mut self) -> Result<(), AttemptError> {
        let io = self.frames.io_mut();
        io.write_all(&self.out).await.map_err(AttemptError::Io)?;
        io.flush().await.map_err(AttemptError::Io)?;
        self.out.clear();
        Ok(())
    }

    /// The next message that is not a notice.
    async fn receive(&mut self) -> Result<Frame, AttemptError> {
        loop {
            let frame = self.frames.next().await.map_err(|error| match error {
                FrameError::Io(error) => AttemptError::Io(error),
                FrameError::Closed => AttemptError::Closed("the session was opened"),
                FrameError::Protocol(error) => AttemptError::Protocol(error),
            })?;
            match frame.tag {
                b'E' => return Err(AttemptError::Server(Box::new(ServerError::parse(&frame.body)))),
                b'N' => notice(&frame),
                _ => return Ok(frame),
            }
        }
    }

    async fn authentication(&mut self) -> Result<Authentication, AttemptError> {
        let frame = self.receive().await?;
        if frame.tag != b'R' {
            return Err(AttemptError::Protocol(frame.unexpected("an authentication request")));
        }
        Authentication::parse(&frame.body).map_err(AttemptError::Protocol)
    }

    async fn authenticate(&mut self, settings: &PostgresSettings) -> Result<(), AttemptError> {
        let password = || {
            let secret = settings
                .password
                .as_ref()
                .map(|secret| secret.expose())
                .filter(|text| !text.is_empty());
            secret.ok_or(AttemptError::PasswordMissing)
        };
        match self.authentication().await? {
            Authentication::Ok => return Ok(()),
            Authentication::Cleartext => {
                frontend::password_message(password()?.as_bytes(), &mut self.out).map_err(AttemptError::Io)?;
            }
            Authentication::Md5 { salt } => {
                let hash = md5_hash(settings.user.as_bytes(), password()?.as_bytes(), salt);
                frontend::password_message(hash.as_bytes(), &mut self.out).map_err(AttemptError::Io)?;
            }
            Authentication::Sasl { mechanisms } => self.scram(password()?, &mechanisms).await?,
            Authentication::Other(method) => return Err(AttemptError::UnsupportedAuth(method)),
            Authentication::SaslContinue(_) | Authentication::SaslFinal(_) => {
                return Err(AttemptError::Scram(
                    "the server continued what was not begun".to_owned(),
                ));
            }
        }
        if !self.out.is_empty() {
            self.send().await?;
        }
        match self.authentication().await? {
            Authentication::Ok => Ok(()),
            _ => Err(AttemptError::UnsupportedAuth("a second".to_owned())),
        }
    }

    /// SCRAM-SHA-256, bound to the TLS channel where both sides can (RFC 5802, RFC 7677; manual, section "SASL
    /// Authentication"). On return the server has proved that it knows the password too.
    async fn scram(&mut self, password: &str, mechanisms: &[String]) -> Result<(), AttemptError> {
        let offers = |mechanism: &str| mechanisms.iter().any(|offered| offered == mechanism);
        let hash = self.frames.io_mut().server_certificate().and_then(end_point_hash);
        let (mechanism, binding) = match hash {
            Some(hash) if offers(SCRAM_SHA_256_PLUS) => {
                (SCRAM_SHA_256_PLUS, ChannelBinding::tls_server_end_point(hash))
            }
            // Says that we could have: if somebody in between took the offer away, the server finds out.
            Some(_) if offers(SCRAM_SHA_256) => (SCRAM_SHA_256, ChannelBinding::unrequested()),
            _ if offers(SCRAM_SHA_256) => (SCRAM_SHA_256, ChannelBinding::unsupported()),
            _ => return Err(AttemptError::UnsupportedAuth(format!("SASL {}", mechanisms.join(", ")))),
        };
        tracing::debug!(mechanism, "authenticating by SCRAM");
        let wrong = |error: std::io::Error| AttemptError::Scram(error.to_string());
        let mut scram = ScramSha256::new(password.as_bytes(), binding);
        frontend::sasl_initial_response(mechanism, scram.message(), &mut self.out).map_err(AttemptError::Io)?;
        self.send().await?;
        match self.authentication().await? {
            Authentication::SaslContinue(data) => scram.update(&data).map_err(wrong)?,
            _ => return Err(AttemptError::Scram("the server left the exchange".to_owned())),
        }
        frontend::sasl_response(scram.message(), &mut self.out).map_err(AttemptError::Io)?;
        self.send().await?;
        match self.authentication().await? {
            Authentication::SaslFinal(data) => scram.finish(&data).map_err(wrong),
            _ => Err(AttemptError::Scram(
                "the server did not prove that it knows the password".to_owned(),
            )),
        }
    }

    /// Reads what the server tells of itself, up to ReadyForQuery.
    async fn until_ready(&mut self) -> Result<Told, AttemptError> {
        let mut told = Told::default();
        loop {
            let frame = self.receive().await?;
            match frame.tag {
                b'S' => match parameter(&frame).map_err(AttemptError::Protocol)? {
                    ("server_version", value) => told.server_version = server_version(value),
                    ("server_encoding", value) => told.is_sql_ascii = value == "SQL_ASCII",
                    _ => {}
                },
                b'K' | b'v' | b'C' => {}
                b'Z' => return Ok(told),
                _ => return Err(AttemptError::Protocol(frame.unexpected("a parameter or ReadyForQuery"))),
            }
        }
    }

    /// A database of encoding SQL_ASCII holds whatever bytes it was given. Asked for UTF-8, the server would end the stream at the
    /// first text that is none, and name neither the table nor the column.
    async fn take_bytes_as_they_are(&mut self) -> Result<(), AttemptError> {
        frontend::query("SET client_encoding = 'SQL_ASCII'", &mut self.out).map_err(AttemptError::Io)?;
        self.send().await?;
        self.until_ready().await.map(drop)
    }
}

/// What the server tells of itself.
#[derive(Default)]
struct Told {
    server_version: Option<u32>,
    is_sql_ascii: bool,
}

/// Authentication requests (manual, section "Message Formats", those of type R).
#[derive(Debug, PartialEq, Eq)]
enum Authentication {
    Ok,
    Cleartext,
    Md5 { salt: [u8; 4] },
    Sasl { mechanisms: Vec<String> },
    SaslContinue(Vec<u8>),
    SaslFinal(Vec<u8>),
    Other(String),
}

impl Authentication {
    fn parse(body: &[u8]) -> Result<Self, ProtocolError> {
        let mut cursor = Cursor::new("Authentication", body);
        let request = match cursor.i32("method")? {
            0 => Self::Ok,
            3 => Self::Cleartext,
            5 => Self::Md5 {
                salt: cursor.i32("salt")?.to_be_bytes(),
            },
            10 => {
                let mut mechanisms = Vec::new();
                loop {
                    match cursor.text("mechanism")? {
                        "" => break,
                        mechanism => mechanisms.push(mechanism.to_owned()),
                    }
                }
                Self::Sasl { mechanisms }
            }
            11 => Self::SaslContinue(cursor.rest().to_vec()),
            12 => Self::SaslFinal(cursor.rest().to_vec()),
            other => {
                cursor.rest();
                Self::Other(match other {
                    2 => "Kerberos V5".to_owned(),
                    7 | 8 => "GSSAPI".to_owned(),
                    9 => "SSPI".to_owned(),
                    number => format!("unknown (number {number})"),
                })
            }
        };
        cursor.end()?;
        Ok(request)
    }
}

/// Name and value of a ParameterStatus.
pub(super) fn parameter(frame: &Frame) -> Result<(&str, &str), ProtocolError> {
    let mut cursor = Cursor::new("ParameterStatus", &frame.body);
    let pair = (cursor.text("name")?, cursor.text("value")?);
    cursor.end()?;
    Ok(pair)
}

/// Passes on what the server wants to be known, but not its detail, which may quote a row.
pub(super) fn notice(frame: &Frame) {
    let notice = ServerError::parse(&frame.body);
    if notice.severity == "WARNING" {
        tracing::warn!(sqlstate = notice.sqlstate, "Postgres warns: {}", notice.message);
    } else {
        tracing::debug!(sqlstate = notice.sqlstate, "Postgres notes: {}", notice.message);
    }
}

/// `server_version` as `server_version_num` has it: "15.4 (Debian 15.4-1)" is 150004, "19rc1" is 190000.
fn server_version(text: &str) -> Option<u32> {
    let numbers = text.split(|c: char| !c.is_ascii_digit() && c != '.').next()?;
    let mut parts = numbers.split('.').map(str::parse::<u32>);
    let major = parts.next()?.ok().filter(|major| (1..1000).contains(major))?;
    let mut part = || {
        parts
            .next()
            .and_then(Result::ok)
            .filter(|part| *part < 10_000)
            .unwrap_or(0)
    };
    // Before 10 the major version had two parts.
    Some(if major < 10 {
        major * 10_000 + part().min(99) * 100 + part().min(99)
    } else {
        major * 10_000 + part()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_of_server_version_num() {
        for (text, number) in [
            ("10.23", Some(100_023)),
            ("15.4 (Debian 15.4-1.pgdg120+1)", Some(150_004)),
            ("18beta2", Some(180_000)),
            ("19rc1", Some(190_000)),
            ("19devel", Some(190_000)),
            ("18.6", Some(180_006)),
            ("9.6.24", Some(90_624)),
            ("", None),
            ("devel", None),
            ("99999999999", None),
        ] {
            assert_eq!(server_version(text), number, "{text:?}");
        }
    }

    #[test]
    fn authentication_requests_are_consumed_exactly() {
        assert_eq!(Authentication::parse(&[0, 0, 0, 0]), Ok(Authentication::Ok));
        assert_eq!(
            Authentication::parse(&[0, 0, 0, 5, 1, 2, 3, 4]),
            Ok(Authentication::Md5 { salt: [1, 2, 3, 4] })
        );
        let list = b"\0\0\0\x0ASCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0";
        let mechanisms = vec!["SCRAM-SHA-256-PLUS".to_owned(), "SCRAM-SHA-256".to_owned()];
        assert_eq!(Authentication::parse(list), Ok(Authentication::Sasl { mechanisms }));
        assert_eq!(
            Authentication::parse(b"\0\0\0\x07"),
            Ok(Authentication::Other("GSSAPI".to_owned()))
        );
        for hostile in [
            &b""[..],
            b"\0\0\0",
            b"\0\0\0\0\0",
            b"\0\0\0\x05abc",
            b"\0\0\0\x0ASCRAM",
            b"\0\0\0\x0A\0\0",
        ] {
            assert!(Authentication::parse(hostile).is_err(), "{hostile:?}");
        }
    }
}
