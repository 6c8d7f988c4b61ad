//! What can go wrong with the server, and whether to try again.
//!
//! SQLSTATEs are those of the manual's appendix "PostgreSQL Error Codes".

use std::fmt;
use std::io;
use std::time::Duration;

use bytes::Bytes;

/// What the server said in an ErrorResponse (manual, section "Error and Notice Message Fields").
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServerError {
    /// `ERROR`, `FATAL` or `PANIC`, not localised where the server sends that (all supported versions do).
    pub severity: String,
    /// Five characters.
    pub sqlstate: String,
    /// The primary message.
    pub message: String,
    /// Shown only where it cannot quote a row: see [`fmt::Display`].
    pub detail: Option<String>,
    /// The server's own advice.
    pub hint: Option<String>,
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (SQLSTATE {})", self.message, self.sqlstate)?;
        // Of classes 22 and 23 the detail quotes values of rows.
        match &self.detail {
            Some(detail)
                if ["28", "42", "53", "55", "57", "58"]
                    .iter()
                    .any(|class| self.sqlstate.starts_with(class)) =>
            {
                write!(f, ": {detail}")
            }
            _ => Ok(()),
        }
    }
}

impl std::error::Error for ServerError {}

impl ServerError {
    /// Reads the fields of an ErrorResponse or NoticeResponse; one that cannot be read is left out, since an error
    /// half understood is better than an error about an error.
    pub(super) fn parse(body: &Bytes) -> Self {
        let mut error = ServerError::default();
        let mut localised = String::new();
        for field in body.split(|&byte| byte == 0) {
            let Some((&code, value)) = field.split_first() else {
                continue;
            };
            let value = String::from_utf8_lossy(value).into_owned();
            match code {
                b'V' => error.severity = value,
                b'S' => localised = value,
                b'C' => error.sqlstate = value,
                b'M' => error.message = value,
                b'D' => error.detail = Some(value),
                b'H' => error.hint = Some(value),
                _ => {}
            }
        }
        if error.severity.is_empty() {
            error.severity = localised;
        }
        error
    }

    /// What the server said on an ordinary connection.
    pub fn from_sql(error: &tokio_postgres::error::DbError) -> Self {
        ServerError {
            severity: error.severity().to_owned(),
            sqlstate: error.code().code().to_owned(),
            message: error.message().to_owned(),
            detail: error.detail().map(str::to_owned),
            hint: error.hint().map(str::to_owned),
        }
    }

    /// Whether the same request may succeed later without anybody doing anything: transient until known to be
    /// definite, by SQLSTATE.
    pub fn is_transient(&self) -> bool {
        let class = self.sqlstate.get(..2).unwrap_or_default();
        match self.sqlstate.as_str() {
            // Held by another connection; its walsender may be about to notice that it is alone.
            "55006" => true,
            // All replication slots are in use: a slot is not given back by waiting.
            "53400" => false,
            // The database was dropped.
            "57P04" => false,
            // A segment of the log is gone for good.
            "58P01" => false,
            "XX001" | "XX002" => false,
            _ => !matches!(
                class,
                "0A" | "0L" | "0P" | "22" | "23" | "25" | "26" | "28" | "3D" | "3F" | "42" | "54" | "55" | "F0"
            ),
        }
    }

    /// What to do about it.
    pub fn remedy(&self) -> Option<String> {
        let message = self.message.as_str();
        let text = match self.sqlstate.as_str() {
            "08P01" if message.contains("replication") || message.contains("startup parameter") => {
                return Some(pooler());
            }
            "28P01" => {
                "Check the user and the password; walferry takes it from postgres.password, postgres.password_file or PGPASSFILE."
            }
            "28000" if message.contains("pg_hba.conf") => {
                "Add a line for this user and address to pg_hba.conf: connections for logical replication match the database's name."
            }
            "28000" if message.contains("client certificate") => "Set postgres.sslcert and postgres.sslkey.",
            "28000" if message.contains("does not exist") || message.contains("not permitted to log in") => {
                "Check postgres.user: the role must exist and have LOGIN."
            }
            "28000" => "Check postgres.user, and what pg_hba.conf asks of this user and address.",
            "3D000" => "Check postgres.database: the database must exist.",
            "42501" if message.contains("replication") || message.contains("REPLICATION") => {
                "Give the role the right: ALTER ROLE … REPLICATION."
            }
            "42704" if message.contains("publication") => {
                "Create the publication before the slot: the slot looks it up as of the change that it decodes. If it was made after the slot, make the slot again."
            }
            "42704" if message.contains("slot") => "Create the slot, or let walferry: replication.create_slot = true.",
            "42710" if message.contains("slot") => "Choose another name, or use the slot that exists.",
            "53300" => "Raise max_connections or max_wal_senders, or end connections that are not needed.",
            "53400" => {
                "Raise max_replication_slots, or drop slots that are not needed (SELECT * FROM pg_replication_slots)."
            }
            "55006" => "Another connection streams from this slot: see active_pid in pg_replication_slots.",
            "55000" if message.contains("wal_level") => {
                "Set wal_level = logical in postgresql.conf and restart the server."
            }
            "55000" if message.contains("slot") || message.contains("WAL") => {
                "The slot can no longer be used: drop it, create a new one, and take a new snapshot of what was lost in between."
            }
            "57P03" => "The server is starting up or shutting down; it is tried again.",
            "58P01" => "The log that the slot needs is gone: drop the slot, create a new one, and take a new snapshot.",
            _ => return self.hint.clone(),
        };
        Some(text.to_owned())
    }
}

pub(super) fn pooler() -> String {
    "This looks like a connection pooler, which cannot pass replication on: connect to Postgres itself.".to_owned()
}

/// Bytes that the protocol does not allow at this place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// A length below the four bytes that it itself takes, or above what can be at this point.
    #[error("message {tag:?} announces {length} bytes, which cannot be")]
    Length {
        /// The message's type.
        tag: char,
        /// As announced.
        length: i64,
    },
    /// A message type that the protocol does not have.
    #[error("unknown message type 0x{tag:02X}")]
    UnknownTag {
        /// As received.
        tag: u8,
    },
    /// A message that has no business here.
    #[error("message {tag:?} while {expected} was expected")]
    Unexpected {
        /// The message's type.
        tag: char,
        /// What would have been right.
        expected: &'static str,
    },
    /// A message that ends too early or too late, or holds what it must not.
    #[error("malformed {message} at offset {offset}: {field}")]
    Malformed {
        /// The message's name.
        message: &'static str,
        /// Where in the message's body.
        offset: usize,
        /// What was read there.
        field: &'static str,
    },
}

/// Why no connection was made.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The settings contradict themselves or name a file that cannot be used.
    #[error("{message}")]
    Settings {
        /// What is wrong.
        message: String,
        /// What would be right.
        hint: Option<String>,
    },
    /// Every host was tried in vain.
    #[error("no connection to Postgres: {}", list(.attempts))]
    Attempts {
        /// In the order in which they were made; never empty.
        attempts: Vec<Attempt>,
    },
}

/// One try at one address.
#[derive(Debug)]
pub struct Attempt {
    /// Host and address, or the socket's file.
    pub target: String,
    /// What became of it.
    pub error: AttemptError,
}

fn list(attempts: &[Attempt]) -> String {
    let one = |attempt: &Attempt| format!("{}: {}", attempt.target, attempt.error);
    attempts.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// Why one address did not do.
#[derive(Debug, thiserror::Error)]
pub enum AttemptError {
    /// The name has no address.
    #[error("cannot resolve the name ({0})")]
    Resolve(String),
    /// No answer within `connect_timeout`.
    #[error("no connection within {0:?}")]
    Timeout(Duration),
    /// The socket failed.
    #[error("{0}")]
    Io(io::Error),
    /// The server closed the connection without a word.
    #[error("the server closed the connection while {0}")]
    Closed(&'static str),
    /// TLS was demanded and the server has none.
    #[error("the server does not speak TLS")]
    TlsRefused,
    /// The handshake or the verification failed.
    #[error("TLS: {0}")]
    Tls(String),
    /// The server said no.
    #[error("{0}")]
    Server(Box<ServerError>),
    /// The server asks for a password and there is none.
    #[error("the server asks for a password, and none is given")]
    PasswordMissing,
    /// The server asks for what walferry cannot give.
    #[error("the server asks for {0} authentication, which walferry does not have")]
    UnsupportedAuth(String),
    /// The SCRAM exchange failed; if at its end, then the server does not know the password either.
    #[error("SCRAM: {0}")]
    Scram(String),
    /// Bytes that are not the protocol.
    #[error("this does not speak the protocol of Postgres: {0}")]
    Protocol(ProtocolError),
}

impl AttemptError {
    /// Whether every host would say the same, so that the others need not be asked.
    pub(super) fn is_final(&self) -> bool {
        match self {
            Self::Server(error) => !error.is_transient(),
            Self::PasswordMissing => true,
            _ => false,
        }
    }

    fn is_transient(&self) -> bool {
        match self {
            Self::Resolve(_) | Self::Timeout(_) | Self::Io(_) | Self::Closed(_) => true,
            Self::Server(error) => error.is_transient(),
            Self::TlsRefused
            | Self::Tls(_)
            | Self::PasswordMissing
            | Self::UnsupportedAuth(_)
            | Self::Scram(_)
            | Self::Protocol(_) => false,
        }
    }

    fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Server(error) => return error.remedy(),
            Self::Resolve(_) => "Check postgres.host.",
            Self::Timeout(_) => "Check host, port and firewall; postgres.connect_timeout bounds each attempt.",
            Self::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                "Check that Postgres runs, and listens on this address and port (listen_addresses, port)."
            }
            Self::Io(error) if error.kind() == io::ErrorKind::NotFound => {
                "No server listens in this directory: check postgres.host and the server's unix_socket_directories and port."
            }
            Self::TlsRefused => "Turn on ssl in the server's configuration, or choose a weaker sslmode.",
            Self::Tls(_) => "Check sslmode, sslrootcert, and the server's certificate.",
            Self::PasswordMissing => "Give one by postgres.password, postgres.password_file or PGPASSFILE.",
            Self::UnsupportedAuth(_) => {
                "Let pg_hba.conf ask this user for scram-sha-256, md5, password, cert or trust."
            }
            Self::Scram(_) => "Check the password, and that this server is the one it is taken for.",
            Self::Protocol(_) => "Check that host and port are those of Postgres.",
            Self::Io(_) | Self::Closed(_) => return None,
        };
        Some(text.to_owned())
    }
}

impl ConnectError {
    fn attempts(&self) -> &[Attempt] {
        match self {
            Self::Attempts { attempts } => attempts,
            Self::Settings { .. } => &[],
        }
    }

    /// What the server said last, if any server said anything.
    pub fn server_error(&self) -> Option<&ServerError> {
        self.attempts().iter().rev().find_map(|attempt| match &attempt.error {
            AttemptError::Server(error) => Some(error.as_ref()),
            _ => None,
        })
    }

    /// The SQLSTATE of what the server said last.
    pub fn sqlstate(&self) -> Option<&str> {
        self.server_error().map(|error| error.sqlstate.as_str())
    }

    /// Whether trying again may help: yes if any attempt may pass, unless a server gave an answer that is final.
    pub fn is_transient(&self) -> bool {
        let attempts = self.attempts();
        let refused = attempts.last().is_some_and(|last| last.error.is_final());
        !refused && attempts.iter().any(|attempt| attempt.error.is_transient())
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Settings { hint, .. } => hint.clone(),
            Self::Attempts { attempts } => attempts.iter().rev().find_map(|attempt| attempt.error.hint()),
        }
    }
}

/// What ended a replication connection, or a command on it.
#[derive(Debug, thiserror::Error)]
pub enum ReplicationError {
    /// The server refused or gave up.
    #[error("{doing} failed")]
    Server {
        /// The command, or the stream.
        doing: &'static str,
        /// What it said.
        #[source]
        error: Box<ServerError>,
    },
    /// The other side does not know IDENTIFY_SYSTEM.
    #[error("the server does not understand IDENTIFY_SYSTEM")]
    NotAWalsender {
        /// What it said, if anything.
        #[source]
        error: Option<Box<ServerError>>,
    },
    /// The socket failed.
    #[error("{doing} failed")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The system's reason.
        #[source]
        error: io::Error,
    },
    /// The server closed the connection without a word.
    #[error("the server closed the connection during {doing}")]
    Closed {
        /// What was being done.
        doing: &'static str,
    },
    /// Nothing came from the server for so long that it must be taken for gone.
    #[error("the server has been silent for {0:?}")]
    ServerSilent(Duration),
    /// The final status update and the goodbye could not be sent in time.
    #[error("the server did not take the final status update within {0:?}")]
    FinishTimeout(Duration),
    /// Bytes that are not the protocol.
    #[error("the server broke the replication protocol during {doing}")]
    Protocol {
        /// What was being done.
        doing: &'static str,
        /// What was wrong.
        #[source]
        error: ProtocolError,
    },
    /// A name that Postgres would not take.
    #[error("{0:?} is not a name for a replication slot")]
    SlotName(String),
    /// A command's answer that lacks what the command promises.
    #[error("{doing}: the answer has no usable {field}")]
    Answer {
        /// The command.
        doing: &'static str,
        /// The column.
        field: &'static str,
    },
    /// The status task is gone without saying why.
    #[error("the task that sends status updates has ended")]
    StatusTask,
}

impl ReplicationError {
    /// What the server said.
    pub fn server_error(&self) -> Option<&ServerError> {
        match self {
            Self::Server { error, .. } | Self::NotAWalsender { error: Some(error) } => Some(error),
            _ => None,
        }
    }

    /// The SQLSTATE of what the server said.
    pub fn sqlstate(&self) -> Option<&str> {
        self.server_error().map(|error| error.sqlstate.as_str())
    }

    /// Whether a new connection may do better.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Server { error, .. } => error.is_transient(),
            Self::Io { .. }
            | Self::Closed { .. }
            | Self::ServerSilent(_)
            | Self::FinishTimeout(_)
            | Self::StatusTask => true,
            Self::NotAWalsender { .. } | Self::Protocol { .. } | Self::SlotName(_) | Self::Answer { .. } => false,
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Server { error, .. } => return error.remedy(),
            Self::NotAWalsender { .. } => return Some(pooler()),
            Self::SlotName(_) => "A slot's name has 1 to 63 of the characters a-z, 0-9 and _.",
            Self::ServerSilent(_) => {
                "The network or the server is gone; wal_sender_timeout says how long silence is borne."
            }
            Self::Protocol { .. } => "Check that nothing between walferry and Postgres alters the stream.",
            _ => return None,
        };
        Some(text.to_owned())
    }
}

/// For `map_err`: the protocol was broken while something was being done.
pub(super) fn protocol(doing: &'static str) -> impl FnOnce(ProtocolError) -> ReplicationError {
    move |error| ReplicationError::Protocol { doing, error }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(sqlstate: &str, message: &str) -> ServerError {
        ServerError {
            sqlstate: sqlstate.to_owned(),
            message: message.to_owned(),
            ..ServerError::default()
        }
    }

    #[test]
    fn the_fields_of_an_error_response_are_read_by_their_codes() {
        let body = Bytes::from_static(b"SFEHLER\0VERROR\0C42704\0Mno such slot\0Dwhat\0Hthink\0Fslot.c\0\0");
        assert_eq!(
            ServerError::parse(&body),
            ServerError {
                severity: "ERROR".to_owned(),
                sqlstate: "42704".to_owned(),
                message: "no such slot".to_owned(),
                detail: Some("what".to_owned()),
                hint: Some("think".to_owned()),
            }
        );
    }

    #[test]
    fn a_garbled_error_response_is_still_an_error() {
        assert_eq!(ServerError::parse(&Bytes::from_static(b"")), ServerError::default());
        assert_eq!(ServerError::parse(&Bytes::from_static(b"\0\0M")).message, "");
        assert_eq!(
            ServerError::parse(&Bytes::from_static(b"Mhalf \xFF")).message,
            "half \u{FFFD}"
        );
    }

    #[test]
    fn sqlstates_are_transient_until_proven_definite() {
        for sqlstate in [
            "08006", "40001", "53300", "55006", "57014", "57P01", "57P02", "57P03", "58030", "XX000", "",
        ] {
            assert!(server(sqlstate, "").is_transient(), "{sqlstate}");
        }
        for sqlstate in [
            "0A000", "28P01", "28000", "3D000", "42601", "42501", "42704", "53400", "55000", "57P04", "58P01",
        ] {
            assert!(!server(sqlstate, "").is_transient(), "{sqlstate}");
        }
    }

    #[test]
    fn a_detail_that_may_quote_a_row_is_not_shown() {
        let mut error = server("23505", "duplicate key");
        error.detail = Some("Key (email)=(a@b.c) already exists.".to_owned());
        assert_eq!(error.to_string(), "duplicate key (SQLSTATE 23505)");
        error.sqlstate = "55000".to_owned();
        assert_eq!(
            error.to_string(),
            "duplicate key (SQLSTATE 55000): Key (email)=(a@b.c) already exists."
        );
    }

    #[test]
    fn a_syntax_error_at_identify_system_hints_at_a_pooler() {
        let error = ReplicationError::NotAWalsender {
            error: Some(Box::new(server("42601", "syntax error"))),
        };
        assert!(error.hint().unwrap().contains("connection pooler"));
        assert_eq!(error.sqlstate(), Some("42601"));
        assert!(!error.is_transient());
        assert!(
            server("08P01", "unsupported startup parameter: replication")
                .remedy()
                .unwrap()
                .contains("pooler")
        );
    }

    #[test]
    fn a_connect_error_lists_every_attempt() {
        let attempts = vec![
            Attempt {
                target: "a:1".to_owned(),
                error: AttemptError::Server(Box::new(server("57P03", "starting up"))),
            },
            Attempt {
                target: "b:2".to_owned(),
                error: AttemptError::TlsRefused,
            },
        ];
        let error = ConnectError::Attempts { attempts };
        assert_eq!(
            error.to_string(),
            "no connection to Postgres: a:1: starting up (SQLSTATE 57P03); b:2: the server does not speak TLS"
        );
        assert_eq!(error.sqlstate(), Some("57P03"));
        assert!(error.is_transient());
    }
}
