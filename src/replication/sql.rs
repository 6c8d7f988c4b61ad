//! An ordinary connection over the same transport, for the catalog: tokio-postgres on a stream that is already open and,
//! where wanted, encrypted.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::io;
use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use tokio_postgres::config::{SslMode as TlsUse, SslNegotiation};
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};

use super::dial::{self, Startup};
use super::error::{AttemptError, ConnectError, ServerError};
use super::settings::{PostgresSettings, SESSION};
use super::socket::Transport;
use super::verify::end_point_hash;

/// An ordinary connection; dereferences to [`tokio_postgres::Client`]. Dropped, it ends.
pub struct SqlClient {
    client: tokio_postgres::Client,
    ended: watch::Receiver<State>,
}

/// What the task that drives the connection has come to.
#[derive(Debug, Clone)]
enum State {
    Running,
    Ended(Option<SqlClosed>),
}

/// Why an ordinary connection ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SqlClosed {
    /// The server said why.
    #[error("the server ended the connection")]
    Server(#[source] ServerError),
    /// The socket failed, or what came was not the protocol.
    #[error("the connection failed: {0}")]
    Connection(String),
}

impl SqlClosed {
    /// The SQLSTATE of what the server said.
    pub fn sqlstate(&self) -> Option<&str> {
        match self {
            Self::Server(error) => Some(&error.sqlstate),
            Self::Connection(_) => None,
        }
    }

    /// Whether a new connection may do better.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Server(error) => error.is_transient(),
            Self::Connection(_) => true,
        }
    }
}

impl SqlClient {
    /// Waits until the connection has ended; None if it did so without an error.
    pub async fn closed(&self) -> Option<SqlClosed> {
        let mut ended = self.ended.clone();
        match ended
            .wait_for(|state| matches!(state, State::Ended(_)))
            .await
            .as_deref()
        {
            Ok(State::Ended(reason)) => reason.clone(),
            Ok(State::Running) | Err(_) => None,
        }
    }
}

impl Deref for SqlClient {
    type Target = tokio_postgres::Client;

    fn deref(&self) -> &Self::Target {
        &self.client
    }
}

/// Connects and authenticates as the replication connection does, without `replication`, and with the same settings of
/// the session. The task that drives the connection ends with it.
///
/// # Errors
///
/// Lists what became of every host and address.
pub async fn connect_sql(settings: &PostgresSettings) -> Result<SqlClient, ConnectError> {
    dial::connect(settings, &SqlStartup(settings)).await
}

struct SqlStartup<'a>(&'a PostgresSettings);

impl Startup for SqlStartup<'_> {
    type Session = SqlClient;

    async fn run(&self, transport: Transport) -> Result<SqlClient, AttemptError> {
        let settings = self.0;
        let mut config = tokio_postgres::Config::new();
        let options = SESSION.map(|(name, value)| format!("-c {name}={value}")).join(" ");
        config
            .user(&settings.user)
            .dbname(&settings.database)
            .application_name(&settings.application_name);
        config.options(&options);
        if let Some(password) = settings
            .password
            .as_ref()
            .filter(|password| !password.expose().is_empty())
        {
            config.password(password.expose());
        }
        if transport.is_tls() {
            // Encrypted already: "direct" keeps it from being asked for again, and the channel can be bound.
            config.ssl_mode(TlsUse::Require).ssl_negotiation(SslNegotiation::Direct);
        } else {
            config.ssl_mode(TlsUse::Disable);
        }
        let (client, connection) = config
            .connect_raw(transport, Negotiated)
            .await
            .map_err(|error| refused(&error))?;
        let (ending, ended) = watch::channel(State::Running);
        tokio::spawn(async move {
            let reason = connection.await.err().map(|error| match error.as_db_error() {
                Some(error) => SqlClosed::Server(ServerError::from_sql(error)),
                None => SqlClosed::Connection(chain(&error)),
            });
            ending.send_replace(State::Ended(reason));
        });
        // A server since 14 would otherwise end a connection that is only asked now and then.
        let patient = "SELECT pg_catalog.set_config(name, '0', false) FROM pg_catalog.pg_settings WHERE name = 'idle_session_timeout'";
        client.batch_execute(patient).await.map_err(|error| refused(&error))?;
        Ok(SqlClient { client, ended })
    }
}

fn refused(error: &tokio_postgres::Error) -> AttemptError {
    if let Some(error) = error.as_db_error() {
        return AttemptError::Server(Box::new(ServerError::from_sql(error)));
    }
    let text = chain(error);
    let io_error = std::error::Error::source(error).and_then(|source| source.downcast_ref::<io::Error>());
    match io_error {
        Some(error) if error.kind() == io::ErrorKind::UnexpectedEof => AttemptError::Closed("the session was opened"),
        Some(error) => AttemptError::Io(io::Error::new(error.kind(), text)),
        None if text.contains("password missing") => AttemptError::PasswordMissing,
        None if text.contains("unsupported authentication method") => {
            AttemptError::UnsupportedAuth("another".to_owned())
        }
        None if error.is_closed() => AttemptError::Closed("the session was opened"),
        None => AttemptError::Io(io::Error::other(text)),
    }
}

/// The error and its causes. Values of rows stand in none of them: those are errors of the server.
fn chain(error: &tokio_postgres::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// Hands an encrypted stream on as it is, and tells what the channel can be bound to.
struct Negotiated;

impl TlsConnect<Transport> for Negotiated {
    type Stream = Bound;
    type Error = Infallible;
    type Future = Ready<Result<Bound, Infallible>>;

    fn connect(self, stream: Transport) -> Self::Future {
        ready(Ok(Bound(stream)))
    }
}

/// An encrypted stream.
struct Bound(Transport);

impl TlsStream for Bound {
    fn channel_binding(&self) -> ChannelBinding {
        match self.0.server_certificate().and_then(end_point_hash) {
            Some(hash) => ChannelBinding::tls_server_end_point(hash),
            None => ChannelBinding::none(),
        }
    }
}

impl AsyncRead for Bound {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Bound {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
