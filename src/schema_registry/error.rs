//! What a registry can answer other than an id.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::level::Level;
use super::resolution::Conflict;

/// Where the schema differs from the latest one of its subject, a line each; possibly nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaDifference(pub Vec<String>);

impl fmt::Display for SchemaDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.is_empty() {
            true => f.write_str("no field differs from the latest registered schema"),
            false => write!(f, "compared with the latest registered schema: {}", self.0.join("; ")),
        }
    }
}

struct Differing<'a>(&'a Option<SchemaDifference>);

impl fmt::Display for Differing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |difference| write!(f, "; {difference}"))
    }
}

fn list(conflicts: &[Conflict]) -> String {
    conflicts.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn way_on(subject: &str) -> String {
    format!(
        "The changes wait in Postgres, and nothing past this schema was acknowledged. Once the topic's consumers are ready for both \
         schemas: set the level of subject {subject} to NONE (PUT /config/{subject}), start again, and set it back; or start with \
         schema_registry.on_incompatible = \"register\", which does the same for each such schema."
    )
}

/// A request to the registry that failed. URLs are shown without user and password.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// No URL was configured.
    #[error("no schema registry url is configured")]
    NoUrl,
    /// Text that is not an http or https URL. It is not shown, since it may hold a password in the wrong place.
    #[error("schema registry url number {number} is not usable: {reason}")]
    Url {
        /// Its place in the list, from 1.
        number: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// The file of certificates could not be used.
    #[error("certificates cannot be read from {}", path.display())]
    Certificates {
        /// The configured file.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The system trusts no certificate that could be found.
    #[error("an https url is configured, but the system's trusted certificates were not found")]
    NoSystemCertificates,
    /// The HTTP client could not be made.
    #[error("the http client cannot be set up")]
    Client(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// No connection, or one that broke off.
    #[error("schema registry {url} cannot be reached")]
    Unreachable {
        /// The base URL.
        url: String,
        /// Why.
        #[source]
        source: reqwest::Error,
    },
    /// No whole answer in time.
    #[error("schema registry {url} did not answer within {} s", timeout.as_secs_f64())]
    Timeout {
        /// The base URL.
        url: String,
        /// The limit.
        timeout: Duration,
    },
    /// 408, 429 or 5xx.
    #[error("schema registry {url} answered {status}: {message}")]
    Unavailable {
        /// The base URL.
        url: String,
        /// The HTTP status.
        status: u16,
        /// What the registry said.
        message: String,
        /// How long it wants to be left alone.
        retry_after: Option<Duration>,
    },
    /// 401 or 403.
    #[error("schema registry {url} refused the credentials ({status}): {message}")]
    Credentials {
        /// The base URL.
        url: String,
        /// The HTTP status.
        status: u16,
        /// What the registry said.
        message: String,
    },
    /// 409: the subject's compatibility level forbids the change.
    #[error(
        "schema registry refused an incompatible schema for subject {subject}: {message}{}",
        Differing(difference)
    )]
    Incompatible {
        /// The subject.
        subject: String,
        /// What the registry said.
        message: String,
        /// From the subject's latest schema to the refused one.
        difference: Option<SchemaDifference>,
    },
    /// The registry would take the schema, and consumers would misread data without an error.
    #[error(
        "the schema for subject {subject} changes what the same bytes mean, which the subject's compatibility level {level} \
         forbids and the registry does not notice: {}",
        list(conflicts)
    )]
    Misread {
        /// The subject.
        subject: String,
        /// Its level, or the global one.
        level: Level,
        /// Where, and from what to what.
        conflicts: Vec<Conflict>,
    },
    /// 422: not a schema, or not one that the registry takes.
    #[error(
        "schema registry refused the schema for subject {subject} as invalid: {message}{}",
        Differing(difference)
    )]
    Invalid {
        /// The subject.
        subject: String,
        /// What the registry said.
        message: String,
        /// From the subject's latest schema to the refused one.
        difference: Option<SchemaDifference>,
    },
    /// Lookup only, and the schema is not there.
    #[error("the schema for subject {subject} is not registered{}", Differing(difference))]
    NotRegistered {
        /// The subject.
        subject: String,
        /// From the subject's latest schema, where it has one, to the wanted one.
        difference: Option<SchemaDifference>,
    },
    /// Any other status.
    #[error("schema registry {url} answered {status}: {message}")]
    Refused {
        /// The base URL.
        url: String,
        /// The HTTP status.
        status: u16,
        /// The API's own code, where the answer is the API's.
        error_code: Option<i64>,
        /// What the registry said.
        message: String,
    },
    /// An answer of success that is not the API's.
    #[error("schema registry {url} answered {status} with something else than the schema registry API would")]
    Malformed {
        /// The base URL.
        url: String,
        /// The HTTP status.
        status: u16,
        /// Where it departs.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl RegistryError {
    /// Whether the same request may succeed later.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            RegistryError::Unreachable { .. } | RegistryError::Timeout { .. } | RegistryError::Unavailable { .. }
        )
    }

    /// Whether the schema breaks with its predecessors.
    pub fn is_incompatible(&self) -> bool {
        matches!(self, RegistryError::Incompatible { .. } | RegistryError::Misread { .. })
    }

    /// How long the server asked to be left alone.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            RegistryError::Unavailable { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            RegistryError::NoUrl | RegistryError::Url { .. } => {
                "Set schema_registry.url to one or more addresses such as http://127.0.0.1:8081, separated by commas."
            }
            RegistryError::Certificates { .. } => {
                "Let schema_registry.ssl_ca name a readable file of PEM certificates."
            }
            RegistryError::NoSystemCertificates => {
                "Install the system's certificates (ca-certificates), or set schema_registry.ssl_ca."
            }
            RegistryError::Unreachable { .. } | RegistryError::Timeout { .. } => {
                "Check that the registry runs and that schema_registry.url is its address."
            }
            RegistryError::Credentials { .. } => {
                "Check schema_registry.username and password, or bearer_token, and what they permit."
            }
            RegistryError::Incompatible { subject, .. } | RegistryError::Misread { subject, .. } => {
                return Some(way_on(subject));
            }
            RegistryError::NotRegistered { .. } => {
                "Register the schema (`walferry schema` prints it), or set schema_registry.register = true."
            }
            RegistryError::Refused { status: 404, .. } | RegistryError::Malformed { .. } => {
                "Check the path in schema_registry.url; Apicurio's is /apis/ccompat/v7."
            }
            _ => return None,
        };
        Some(hint.to_owned())
    }
}
