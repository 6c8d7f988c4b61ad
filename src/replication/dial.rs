//! From settings to a session: every host, every address of it, and every way to talk that `sslmode` allows, in turn.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use bytes::BytesMut;
use postgres_protocol::message::frontend;
use rustls::pki_types::ServerName;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::error::{Attempt, AttemptError, ConnectError};
use super::settings::{Encryption, PostgresSettings};
use super::socket::{TcpSocket, Transport};
use super::tls;

/// A peer that is gone is noticed by the kernel too: silence for this long is probed …
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
/// … this often …
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// … and this many times; and what was sent must be acknowledged within [`USER_TIMEOUT`].
const KEEPALIVE_RETRIES: u32 = 3;
const USER_TIMEOUT: Duration = Duration::from_secs(60);

/// What is done with a fresh transport to make a session of it: startup and authentication.
pub(super) trait Startup {
    /// What comes of it.
    type Session;

    fn run(&self, transport: Transport) -> impl Future<Output = Result<Self::Session, AttemptError>> + Send;
}

/// One place to connect to.
enum Endpoint {
    Tcp { host: String, address: SocketAddr },
    Unix(PathBuf),
}

/// Connects to the first place that takes us.
///
/// # Errors
///
/// Lists what became of every attempt. After an answer that every host would give alike, such as a wrong password,
/// the remaining hosts are not tried.
pub(super) async fn connect<S: Startup + Sync>(
    settings: &PostgresSettings,
    startup: &S,
) -> Result<S::Session, ConnectError> {
    if settings.hosts.is_empty() {
        return Err(ConnectError::Settings {
            message: "there is no host to connect to".to_owned(),
            hint: Some("Set postgres.host.".to_owned()),
        });
    }
    // Also where TLS is not reached: settings that contradict themselves are told at once.
    let over_tcp = settings.hosts.iter().any(|host| !host.starts_with('/'));
    let wants_tls = over_tcp && settings.sslmode.order().contains(&Encryption::Tls);
    let connector = if wants_tls {
        Some(tls::connector(settings)?)
    } else {
        None
    };

    let mut attempts = Vec::new();
    for host in &settings.hosts {
        let endpoints = match resolve(settings, host).await {
            Ok(endpoints) => endpoints,
            Err(error) => {
                attempts.push(Attempt {
                    target: format!("{host}:{}", settings.port),
                    error,
                });
                continue;
            }
        };
        for endpoint in endpoints {
            match try_endpoint(settings, &endpoint, connector.as_ref(), startup, &mut attempts).await {
                Some(session) => return Ok(session),
                None if attempts.last().is_some_and(|attempt| attempt.error.is_final()) => {
                    return Err(ConnectError::Attempts { attempts });
                }
                None => {}
            }
        }
    }
    Err(ConnectError::Attempts { attempts })
}

async fn resolve(settings: &PostgresSettings, host: &str) -> Result<Vec<Endpoint>, AttemptError> {
    if host.starts_with('/') {
        return Ok(vec![Endpoint::Unix(
            PathBuf::from(host).join(format!(".s.PGSQL.{}", settings.port)),
        )]);
    }
    let endpoint = |address| Endpoint::Tcp {
        host: host.to_owned(),
        address,
    };
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![endpoint(SocketAddr::new(address, settings.port))]);
    }
    let addresses = timeout(settings.connect_timeout, lookup_host((host, settings.port)))
        .await
        .map_err(|_| AttemptError::Timeout(settings.connect_timeout))?
        .map_err(|error| AttemptError::Resolve(error.to_string()))?;
    let endpoints: Vec<_> = addresses.map(endpoint).collect();
    if endpoints.is_empty() {
        Err(AttemptError::Resolve("it has no address".to_owned()))
    } else {
        Ok(endpoints)
    }
}

async fn try_endpoint<S: Startup>(
    settings: &PostgresSettings,
    endpoint: &Endpoint,
    connector: Option<&TlsConnector>,
    startup: &S,
    attempts: &mut Vec<Attempt>,
) -> Option<S::Session> {
    let limit = settings.connect_timeout;
    let (host, address) = match endpoint {
        Endpoint::Unix(path) => {
            let attempt = async {
                let stream = UnixStream::connect(path).await.map_err(AttemptError::Io)?;
                startup.run(Transport::Unix(stream)).await
            };
            let outcome = timeout(limit, attempt)
                .await
                .unwrap_or(Err(AttemptError::Timeout(limit)));
            return outcome
                .map_err(|error| {
                    attempts.push(Attempt {
                        target: path.display().to_string(),
                        error,
                    })
                })
                .ok();
        }
        Endpoint::Tcp { host, address } => (host, *address),
    };

    let order = settings.sslmode.order();
    for (nth, &encryption) in order.iter().enumerate() {
        let attempt = async {
            let transport = match (encryption, connector) {
                (Encryption::Tls, Some(connector)) => {
                    // In "allow", plain has been refused already.
                    let fallback = nth == 0 && order.contains(&Encryption::Plain);
                    encrypt(open(address).await?, host, connector, fallback).await?
                }
                _ => Transport::Tcp(open(address).await?),
            };
            startup.run(transport).await
        };
        let error = match timeout(limit, attempt).await {
            Ok(Ok(session)) => return Some(session),
            Ok(Err(error)) => error,
            Err(_) => AttemptError::Timeout(limit),
        };
        let name = if host.parse::<IpAddr>().is_ok() {
            String::new()
        } else {
            format!("{host} ")
        };
        let how = match encryption {
            Encryption::Tls => "with TLS",
            Encryption::Plain => "without TLS",
        };
        let target = if order.len() > 1 {
            format!("{name}{address} {how}")
        } else {
            format!("{name}{address}")
        };
        let other_way_may_do = other_way_may_do(&error, encryption);
        attempts.push(Attempt { target, error });
        if nth + 1 < order.len() && !other_way_may_do {
            break;
        }
    }
    None
}

/// Whether what was refused with (or without) encryption may be granted the other way.
fn other_way_may_do(error: &AttemptError, tried: Encryption) -> bool {
    match error {
        // pg_hba.conf may have hostssl or hostnossl lines, also with other authentication methods.
        AttemptError::Server(error) => error.sqlstate.starts_with("28"),
        AttemptError::PasswordMissing | AttemptError::UnsupportedAuth(_) => true,
        AttemptError::Tls(_) | AttemptError::TlsRefused => tried == Encryption::Tls,
        _ => false,
    }
}

async fn open(address: SocketAddr) -> Result<TcpSocket, AttemptError> {
    let stream = TcpStream::connect(address).await.map_err(AttemptError::Io)?;
    prepare(&stream)
        .and_then(|()| TcpSocket::new(stream.into_std()?))
        .map_err(AttemptError::Io)
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_IDLE)
        .with_interval(KEEPALIVE_INTERVAL);
    socket.set_tcp_keepalive(&keepalive.with_retries(KEEPALIVE_RETRIES))?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(USER_TIMEOUT))?;
    Ok(())
}

/// Asks for TLS (manual, section "SSL Session Encryption") and negotiates it. If the server has none and that is fine,
/// the connection goes on without.
async fn encrypt(
    mut socket: TcpSocket,
    host: &str,
    connector: &TlsConnector,
    fallback: bool,
) -> Result<Transport, AttemptError> {
    let mut request = BytesMut::new();
    frontend::ssl_request(&mut request);
    socket.write_all(&request).await.map_err(AttemptError::Io)?;
    // Exactly one byte: whatever follows it belongs to the handshake, so nothing can be slipped in before it.
    match socket.read_u8().await {
        Ok(b'S') => {}
        Ok(b'N') if fallback => return Ok(Transport::Tcp(socket)),
        Ok(b'N') => return Err(AttemptError::TlsRefused),
        Ok(b'E') => return Err(AttemptError::Closed("TLS was negotiated")),
        Ok(tag) => return Err(AttemptError::Protocol(super::error::ProtocolError::UnknownTag { tag })),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            return Err(AttemptError::Closed("TLS was negotiated"));
        }
        Err(error) => return Err(AttemptError::Io(error)),
    }
    let name = ServerName::try_from(host.to_owned()).map_err(|error| AttemptError::Tls(error.to_string()))?;
    Transport::encrypt(socket, connector, name)
        .await
        .map_err(|error| AttemptError::Tls(error.to_string()))
}
