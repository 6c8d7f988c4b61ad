//! Where the server is and how to speak to it, in libpq's terms (manual, section "Database Connection Control
//! Functions").

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use tokio::sync::watch;

use crate::config::secret::Secret;
use crate::lsn::Lsn;

/// How to reach and convince one Postgres cluster.
#[derive(Debug, Clone)]
pub struct PostgresSettings {
    /// Names, addresses, or directories of unix sockets (absolute paths); each is tried in turn, and of a name every
    /// address.
    pub hosts: Vec<String>,
    /// TCP port, and the number in a unix socket's file name.
    pub port: u16,
    /// The database whose changes are streamed.
    pub database: String,
    /// The role; it needs LOGIN and REPLICATION.
    pub user: String,
    /// What the role is authenticated with, where the server asks for it.
    pub password: Option<Secret>,
    /// Whether to encrypt, and what to verify.
    pub sslmode: SslMode,
    /// The certificate authorities that are trusted.
    pub sslrootcert: Option<RootCert>,
    /// The client's certificate chain, PEM.
    pub sslcert: Option<PathBuf>,
    /// The client's private key, PEM.
    pub sslkey: Option<PathBuf>,
    /// Bounds one attempt at one address, authentication included.
    pub connect_timeout: Duration,
    /// Shown in `pg_stat_replication` and `pg_stat_activity`.
    pub application_name: String,
}

impl PostgresSettings {
    /// Where the server is to be found, for messages.
    pub fn address(&self) -> String {
        format!("{}:{}", self.hosts.join(","), self.port)
    }
}

/// Whether a connection is encrypted, and what is verified. TLS is never used over unix sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SslMode {
    /// Never encrypt.
    Disable,
    /// Plain, and encrypted if the server refuses that.
    Allow,
    /// Encrypted, and plain if the server cannot or refuses that.
    #[default]
    Prefer,
    /// Encrypt. The certificate is verified, as by [`SslMode::VerifyCa`], only if root certificates are given.
    Require,
    /// Encrypt; the certificate's chain must end at a root certificate.
    VerifyCa,
    /// As [`SslMode::VerifyCa`], and the certificate must name the host.
    VerifyFull,
}

impl SslMode {
    /// Every mode, from the weakest to the strongest.
    pub const ALL: [SslMode; 6] = [
        Self::Disable,
        Self::Allow,
        Self::Prefer,
        Self::Require,
        Self::VerifyCa,
        Self::VerifyFull,
    ];

    /// libpq's word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Disable => "disable",
            Self::Allow => "allow",
            Self::Prefer => "prefer",
            Self::Require => "require",
            Self::VerifyCa => "verify-ca",
            Self::VerifyFull => "verify-full",
        }
    }

    /// The encryption to try, in order.
    pub(super) const fn order(self) -> &'static [Encryption] {
        match self {
            Self::Disable => &[Encryption::Plain],
            Self::Allow => &[Encryption::Plain, Encryption::Tls],
            Self::Prefer => &[Encryption::Tls, Encryption::Plain],
            Self::Require | Self::VerifyCa | Self::VerifyFull => &[Encryption::Tls],
        }
    }
}

/// One way to talk over TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encryption {
    Plain,
    Tls,
}

impl fmt::Display for SslMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that is no `sslmode`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an sslmode: expected disable, allow, prefer, require, verify-ca or verify-full")]
pub struct ParseSslModeError(String);

impl FromStr for SslMode {
    type Err = ParseSslModeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|mode| mode.as_str() == text);
        known.ok_or_else(|| ParseSslModeError(text.to_owned()))
    }
}

/// Whose signature on the server's certificate is believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RootCert {
    /// The operating system's certificate authorities; as in libpq, only with [`SslMode::VerifyFull`].
    System,
    /// A PEM file of root certificates.
    File(PathBuf),
}

/// What both kinds of connection set, so that a value has the same text whatever the server, database or role is
/// configured to: (name, value), valid as startup parameters since Postgres 10.
///
/// `extra_float_digits = 3` is the most there is: shortest-exact since 12, 17 digits before.
/// The names of tables, types and functions in `regclass` and its like are printed with their schema if that is not in
/// `search_path`.
pub(super) const SESSION: [(&str, &str); 10] = [
    ("TimeZone", "UTC"),
    ("DateStyle", "ISO"),
    ("IntervalStyle", "iso_8601"),
    ("bytea_output", "hex"),
    ("extra_float_digits", "3"),
    ("lc_monetary", "C"),
    ("search_path", "pg_catalog"),
    ("quote_all_identifiers", "off"),
    ("statement_timeout", "0"),
    ("idle_in_transaction_session_timeout", "0"),
];

/// How streaming starts.
#[derive(Debug, Clone)]
pub struct StartReplication {
    /// The slot.
    pub slot: String,
    /// Transactions that commit before this are not sent; `0/0` means the slot's own position. Postgres silently
    /// raises one that lies before the slot's position.
    pub start_lsn: Lsn,
    /// Their changes are sent.
    pub publications: Vec<String>,
    /// See [`super::protocol_version`].
    pub protocol_version: u32,
    /// Column values in binary form; from Postgres 14.
    pub binary: bool,
    /// Logical messages too; from Postgres 14.
    pub messages: bool,
    /// Large transactions too while they run; from Postgres 14.
    pub streaming: bool,
    /// The longest time between two status updates.
    pub status_interval: Duration,
    /// The server's `wal_sender_timeout`; None if it is disabled there.
    pub wal_sender_timeout: Option<Duration>,
    /// What may be told to the server as confirmed; watched.
    pub confirmed: watch::Receiver<Lsn>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sslmode_tries_what_libpq_tries() {
        use Encryption::{Plain, Tls};
        let table: [(&str, &[Encryption]); 6] = [
            ("disable", &[Plain]),
            ("allow", &[Plain, Tls]),
            ("prefer", &[Tls, Plain]),
            ("require", &[Tls]),
            ("verify-ca", &[Tls]),
            ("verify-full", &[Tls]),
        ];
        for (word, order) in table {
            let mode: SslMode = word.parse().unwrap();
            assert_eq!(mode.to_string(), word);
            assert_eq!(mode.order(), order, "{word}");
        }
    }

    #[test]
    fn a_word_that_is_no_sslmode_is_refused_with_the_six() {
        for word in ["", "Require", "verify_full", "on"] {
            let error = word.parse::<SslMode>().unwrap_err().to_string();
            assert!(error.contains("verify-full"), "{error}");
        }
    }

    #[test]
    fn debug_of_the_settings_hides_the_password() {
        let settings = PostgresSettings {
            hosts: vec!["localhost".to_owned()],
            port: 5432,
            database: "shop".to_owned(),
            user: "walferry".to_owned(),
            password: Some(Secret::new("hunter2")),
            sslmode: SslMode::Prefer,
            sslrootcert: None,
            sslcert: None,
            sslkey: None,
            connect_timeout: Duration::from_secs(10),
            application_name: "walferry".to_owned(),
        };
        assert!(!format!("{settings:?}").contains("hunter2"));
    }
}
