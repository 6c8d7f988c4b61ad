//! Subjects → schema ids, by the Confluent schema registry's REST API.
//!
//! A record starts with the id under which its schema is registered, so a schema has its id before the first record
//! that uses it is encoded. Ids are remembered: a registry that goes away later stops only what is new. What may pass
//! (an unreachable registry, a time-out, 408, 429, 5xx) is tried again for ever, each URL in turn, with backoff and
//! jitter; what will not mend by itself (a refused schema, wrong credentials, a wrong address) is an error at once.
//!
//! The requests are those of the "Schema Registry API Reference" of Confluent's documentation, sections "Subjects" and
//! "Schemas"; Apicurio serves them under `/apis/ccompat/v7`, and Karapace and Redpanda at the root.

mod difference;
mod error;
mod http;
mod retry;
mod standing;
mod subject;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::Deserialize;

pub use difference::difference;
pub use error::{RegistryError, SchemaDifference};
use http::{Endpoint, Http, Request};
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
    /// Limit of one request, from connecting to the last byte of the answer.
    pub timeout: Duration,
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
    /// Index of the URL that answered last, so that a dead first one is not tried before every request.
    preferred: AtomicUsize,
    /// Subject → schema → id.
    ids: Mutex<HashMap<String, HashMap<String, u32>>>,
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
    ) -> Result<u32, RegistryError> {
        if let Some(id) = self.cached(subject, schema) {
            return Ok(id);
        }
        let request = match self.register {
            true => Request::post(&["subjects", subject, "versions"], schema),
            false => Request::post(&["subjects", subject], schema),
        };
        let mut backoff = Backoff::new();
        let registered: Registered = loop {
            let mut pause = None;
            match self.once(&request, on_retry, &mut pause).await {
                Ok(registered) => break registered,
                Err(error) if error.is_transient() => tokio::time::sleep(backoff.pause(pause)).await,
                Err(error) => return Err(self.explain(error, subject, schema).await),
            }
        };
        tracing::debug!(subject, id = registered.id, "schema has its id");
        self.remember(subject, schema, registered.id);
        Ok(registered.id)
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
                Err(error) => return Err(error),
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
        let ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        ids.get(subject)?.get(schema).copied()
    }

    fn remember(&self, subject: &str, schema: &str, id: u32) {
        let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        ids.entry(subject.to_owned()).or_default().insert(schema.to_owned(), id);
    }
}
