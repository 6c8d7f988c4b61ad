//! Subjects → schema ids, by the Confluent schema registry's REST API.
//!
//! A record starts with the id under which its schema is registered, so a schema has its id before the first record
//! that uses it is encoded. Ids are remembered, within a bound: a registry that goes away later stops only what is new. What may pass
//! (an unreachable registry, a time-out, 408, 429, 5xx) is tried again for ever, each URL in turn, with backoff and
//! jitter; what will not mend by itself (a refused schema, wrong credentials, a wrong address) is an error at once.
//!
//! The requests are those of the "Schema Registry API Reference" of Confluent's documentation, sections "Subjects",
//! "Schemas" and "Config"; Apicurio serves them under `/apis/ccompat/v7`, and Karapace and Redpanda at the root.

mod admission;
mod definition;
mod difference;
mod error;
mod http;
mod ids;
mod level;
mod resolution;
mod retry;
mod standing;
mod subject;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::Deserialize;

pub use admission::Break;
pub use difference::difference;
pub use error::{RegistryError, SchemaDifference};
use http::{Endpoint, Http, Request};
use ids::Ids;
pub use level::Level;
pub use resolution::{Conflict, Fault, conflicts};
use retry::Backoff;
pub use standing::Standing;
pub use subject::{ParseSubjectStrategyError, SubjectStrategy};

/// How to reach a registry, and whether to write to it.
#[derive(Debug, Clone)]
pub struct RegistrySettings {
    /// Base URLs, tried in turn. A user and a password in a URL serve where `auth` is [`Auth::None`].
    pub urls: Vec<String>,
    /// What every request is signed with.
    pub auth: Auth,
    /// PEM file of the certificates to trust instead of the system's.
    pub ssl_ca: Option<PathBuf>,
    /// Whether schemas are registered; otherwise they are only looked up.
    pub register: bool,
    /// What becomes of a schema that breaks with its predecessors.
    pub on_incompatible: OnIncompatible,
    /// Limit of one request, from connecting to the last byte of the answer.
    pub timeout: Duration,
}

/// What becomes of a schema that the subject's compatibility level forbids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnIncompatible {
    /// It is an error.
    #[default]
    Stop,
    /// It is registered all the same, with the level relaxed for as long as that takes.
    Register,
}

/// The id of a schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaId {
    /// The id.
    pub id: u32,
    /// Given with the first answer only: the schema was registered now, and breaks with its predecessors.
    pub broke: Option<Break>,
}

/// Credentials for the registry.
#[derive(Clone, Default)]
pub enum Auth {
    /// None but those in the URLs.
    #[default]
    None,
    /// HTTP basic authentication (RFC 7617).
    Basic {
        /// The user.
        username: String,
        /// The password.
        password: String,
    },
    /// A bearer token (RFC 6750).
    Bearer(String),
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Auth::None => "None",
            Auth::Basic { .. } => "Basic(redacted)",
            Auth::Bearer(_) => "Bearer(redacted)",
        })
    }
}

/// Called with every failed try that is going to be repeated.
pub type OnRetry<'a> = dyn FnMut(&RegistryError) + Send + 'a;

/// A client of one registry, or of several that are replicas of each other.
#[derive(Debug)]
pub struct Registry {
    http: Http,
    register: bool,
    on_incompatible: OnIncompatible,
    /// Index of the URL that answered last, so that a dead first one is not tried before every request.
    preferred: AtomicUsize,
    ids: Mutex<Ids>,
}

#[derive(Deserialize)]
struct Registered {
    id: u32,
}

#[derive(Deserialize)]
struct SchemaText {
    schema: String,
}

impl Registry {
    /// A client; nothing is sent yet.
    ///
    /// # Errors
    /// A URL that is not one, and certificates that cannot be read.
    pub fn new(settings: RegistrySettings) -> Result<Self, RegistryError> {
        Ok(Registry {
            register: settings.register,
            on_incompatible: settings.on_incompatible,
            http: Http::new(settings)?,
            preferred: AtomicUsize::new(0),
            ids: Mutex::default(),
        })
    }

    /// The id of `schema` (JSON text) under `subject`: registered, or only looked up where `register` is false.
    ///
    /// Waits as long as it takes for a registry that is away; each failed try goes to `on_retry`.
    ///
    /// # Errors
    /// Only what trying again does not mend: [`RegistryError::is_transient`] is false for all of them.
    pub async fn schema_id(
        &self,
        subject: &str,
        schema: &str,
        on_retry: &mut OnRetry<'_>,
    ) -> Result<SchemaId, RegistryError> {
        if let Some(id) = self.cached(subject, schema) {
            return Ok(SchemaId { id, broke: None });
        }
        let found = match self.register {
            true => self.admit(subject, schema, on_retry).await,
            false => {
                let request = Request::post(&["subjects", subject], schema);
                let found = self.patiently::<Registered>(&request, on_retry).await;
                found.map(|Registered { id }| SchemaId { id, broke: None })
            }
        };
        let found = match found {
            Ok(found) => found,
            Err(error) => return Err(self.explain(error, subject, schema).await),
        };
        tracing::debug!(subject, id = found.id, "schema has its id");
        self.remember(subject, schema, found.id);
        Ok(found)
    }

    /// Asks until there is an answer that trying again does not change.
    async fn patiently<T: serde::de::DeserializeOwned>(
        &self,
        request: &Request,
        on_retry: &mut OnRetry<'_>,
    ) -> Result<T, RegistryError> {
        let mut backoff = Backoff::new();
        loop {
            let mut pause = None;
            match self.once(request, on_retry, &mut pause).await {
                Err(error) if error.is_transient() => tokio::time::sleep(backoff.pause(pause)).await,
                settled => return settled,
            }
        }
    }

    /// The schema that has this id. One round over the URLs, without repeats.
    ///
    /// # Errors
    /// Any failure, also a passing one.
    pub async fn schema_by_id(&self, id: u32) -> Result<String, RegistryError> {
        let request = Request::get(&["schemas", "ids", &id.to_string()]);
        let found: SchemaText = self.once(&request, &mut |_| (), &mut None).await?;
        Ok(found.schema)
    }

    /// Whether the registry answers and takes the credentials: one `GET /subjects`, each URL in turn.
    ///
    /// # Errors
    /// Any failure of the last URL.
    pub async fn probe(&self) -> Result<(), RegistryError> {
        let _: Vec<String> = self.once(&Request::get(&["subjects"]), &mut |_| (), &mut None).await?;
        Ok(())
    }

    /// One round over the URLs, starting with the one that answered last. `pause` is set to the longest wait that a
    /// server asked for.
    async fn once<T: serde::de::DeserializeOwned>(
        &self,
        request: &Request,
        on_failure: &mut OnRetry<'_>,
        pause: &mut Option<Duration>,
    ) -> Result<T, RegistryError> {
        let count = self.http.endpoints().len();
        let first = self.preferred.load(Ordering::Relaxed);
        let mut last = None;
        for offset in 0..count {
            let index = (first + offset) % count;
            let Some(endpoint): Option<&Endpoint> = self.http.endpoints().get(index) else {
                continue;
            };
            match self.http.send(endpoint, request).await {
                Ok(answer) => {
                    self.preferred.store(index, Ordering::Relaxed);
                    return Ok(answer);
                }
                Err(error) if error.is_transient() => {
                    on_failure(&error);
                    *pause = (*pause).max(error.retry_after());
                    last = Some(error);
                }
                Err(error) => {
                    // It answered, if not as wished.
                    self.preferred.store(index, Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
        Err(last.unwrap_or(RegistryError::NoUrl))
    }

    /// Adds to a refusal what a person needs to see why: the subject, and the difference from the latest schema.
    async fn explain(&self, error: RegistryError, subject: &str, schema: &str) -> RegistryError {
        let RegistryError::Refused {
            status,
            error_code,
            message,
            url,
        } = error
        else {
            return error;
        };
        let subject = subject.to_owned();
        match (status, error_code) {
            (409, _) => {
                let difference = self.difference_from_latest(&subject, schema).await;
                RegistryError::Incompatible {
                    subject,
                    message,
                    difference,
                }
            }
            (422, _) => {
                let difference = self.difference_from_latest(&subject, schema).await;
                RegistryError::Invalid {
                    subject,
                    message,
                    difference,
                }
            }
            // 404 without the API's error code is a path that the server does not have.
            (404, Some(_)) if !self.register => {
                let difference = self.difference_from_latest(&subject, schema).await;
                RegistryError::NotRegistered { subject, difference }
            }
            _ => RegistryError::Refused {
                status,
                error_code,
                message,
                url,
            },
        }
    }

    /// `None` where the subject has no schema yet or the registry does not say.
    async fn difference_from_latest(&self, subject: &str, schema: &str) -> Option<SchemaDifference> {
        let request = Request::get(&["subjects", subject, "versions", "latest"]);
        let latest: SchemaText = self.once(&request, &mut |_| (), &mut None).await.ok()?;
        Some(SchemaDifference(difference(&latest.schema, schema)))
    }

    fn cached(&self, subject: &str, schema: &str) -> Option<u32> {
        let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        ids.get(subject, schema)
    }

    fn remember(&self, subject: &str, schema: &str, id: u32) {
        let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        ids.insert(subject, schema, id);
    }
}
