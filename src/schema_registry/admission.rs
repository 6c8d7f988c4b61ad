//! How a new schema comes in: compared with its predecessors, registered, or refused.
//!
//! The registry checks a schema by the subject's level, and lets changes through that consumers misread
//! ([`resolution`](super::resolution)); these are looked for here first. What is registered already is taken as it is:
//! it was judged when it came, and a pipeline that sends old changes again needs it. A subject whose level is NONE
//! promises nothing to its consumers, so nothing is held against it.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::http::Request;
use super::level::Level;
use super::resolution::Conflict;
use super::{OnIncompatible, OnRetry, Registered, Registry, RegistryError, SchemaId, SchemaText};

/// A schema that was registered though consumers with another version's schema cannot read what it writes, or misread it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Break {
    /// The subject's level.
    pub level: Level,
    /// Where.
    pub conflicts: Vec<Conflict>,
}

#[derive(Deserialize)]
struct Configured {
    #[serde(rename = "compatibilityLevel")]
    level: String,
}

/// What is known of a schema before it is registered.
struct Review {
    level: Level,
    /// In the order of the versions that it was compared with, the latest first.
    conflicts: Vec<Conflict>,
}

impl Review {
    /// Whether the subject's consumers were promised otherwise, and the registry would not notice.
    fn is_misread(&self) -> bool {
        !self.level.is_none() && self.conflicts.iter().any(Conflict::is_misread)
    }

    fn into_break(self) -> Break {
        Break {
            level: self.level,
            conflicts: self.conflicts,
        }
    }
}

impl Registry {
    /// Registers a schema, if its subject's consumers can go on with it or the settings say so all the same.
    pub(super) async fn admit(
        &self,
        subject: &str,
        schema: &str,
        on_retry: &mut OnRetry<'_>,
    ) -> Result<SchemaId, RegistryError> {
        let request = Request::post(&["subjects", subject, "versions"], schema);
        let Some(review) = self.review(subject, schema, on_retry).await? else {
            return Ok(SchemaId {
                id: self.patiently::<Registered>(&request, on_retry).await?.id,
                broke: None,
            });
        };
        let misread = review.is_misread();
        if misread {
            if let Some(id) = self.lookup(subject, schema, on_retry).await? {
                return Ok(SchemaId { id, broke: None });
            }
            if self.on_incompatible == OnIncompatible::Stop {
                return Err(RegistryError::Misread {
                    subject: subject.to_owned(),
                    level: review.level,
                    conflicts: review.conflicts,
                });
            }
        }
        let registered = match self.patiently::<Registered>(&request, on_retry).await {
            Err(RegistryError::Refused { status: 409, .. }) if self.on_incompatible == OnIncompatible::Register => {
                let id = self.register_under_none(subject, &request, on_retry).await?;
                return Ok(SchemaId {
                    id,
                    broke: Some(review.into_break()),
                });
            }
            settled => settled?,
        };
        let broke = misread || (review.level.is_none() && !review.conflicts.is_empty());
        Ok(SchemaId {
            id: registered.id,
            broke: broke.then(|| review.into_break()),
        })
    }

    /// Whether [`admit`](Self::admit) would come to an id for a schema that is not registered, of which the registry says that it is
    /// `compatible`.
    pub(super) async fn would_admit(
        &self,
        subject: &str,
        schema: &str,
        compatible: bool,
    ) -> Result<bool, RegistryError> {
        match self.on_incompatible {
            OnIncompatible::Register => Ok(true),
            OnIncompatible::Stop if !compatible => Ok(false),
            OnIncompatible::Stop => {
                let review = self.review(subject, schema, &mut |_| ()).await?;
                Ok(!review.is_some_and(|review| review.is_misread()))
            }
        }
    }

    /// `None`: there is nothing that it could conflict with, no schema or only this one.
    async fn review(
        &self,
        subject: &str,
        schema: &str,
        on_retry: &mut OnRetry<'_>,
    ) -> Result<Option<Review>, RegistryError> {
        let Some(latest) = self.version(subject, "latest", on_retry).await? else {
            return Ok(None);
        };
        // Neither text is anything but JSON: one is the registry's, the other our own.
        let parse = |text: &str| serde_json::from_str(text).unwrap_or(Value::Null);
        let new: Value = parse(schema);
        let latest: Value = parse(&latest.schema);
        if latest == new {
            return Ok(None);
        }
        let level = self.level(subject, on_retry).await?;
        let mut conflicts = level.conflicts(&latest, &new);
        if conflicts.is_empty() && level.is_transitive() {
            let request = Request::get(&["subjects", subject, "versions"]);
            let mut versions: Vec<u32> = self.patiently(&request, on_retry).await?;
            versions.sort_unstable_by(|a, b| b.cmp(a));
            for version in versions.iter().skip(1) {
                if let Some(older) = self.version(subject, &version.to_string(), on_retry).await? {
                    conflicts = level.conflicts(&parse(&older.schema), &new);
                }
                if !conflicts.is_empty() {
                    break;
                }
            }
        }
        Ok(Some(Review { level, conflicts }))
    }

    /// `None`: the subject has no such version.
    async fn version(
        &self,
        subject: &str,
        version: &str,
        on_retry: &mut OnRetry<'_>,
    ) -> Result<Option<SchemaText>, RegistryError> {
        let request = Request::get(&["subjects", subject, "versions", version]);
        absent_is_none(self.patiently(&request, on_retry).await)
    }

    /// The id of a schema that is registered under the subject.
    async fn lookup(
        &self,
        subject: &str,
        schema: &str,
        on_retry: &mut OnRetry<'_>,
    ) -> Result<Option<u32>, RegistryError> {
        let request = Request::post(&["subjects", subject], schema);
        let found: Option<Registered> = absent_is_none(self.patiently(&request, on_retry).await)?;
        Ok(found.map(|registered| registered.id))
    }

    /// The level that counts for a subject: its own, or the global one.
    async fn level(&self, subject: &str, on_retry: &mut OnRetry<'_>) -> Result<Level, RegistryError> {
        let request = Request::get(&["config", subject]).with_query("defaultToGlobal=true");
        let configured: Option<Configured> = absent_is_none(self.patiently(&request, on_retry).await)?;
        let configured = match configured {
            Some(configured) => configured,
            // Registries that do not know the parameter.
            None => self.patiently(&Request::get(&["config"]), on_retry).await?,
        };
        Ok(Level::new(configured.level))
    }

    /// Registers what the subject's level forbids: the level is NONE meanwhile, and as it was afterwards.
    async fn register_under_none(
        &self,
        subject: &str,
        request: &Request,
        on_retry: &mut OnRetry<'_>,
    ) -> Result<u32, RegistryError> {
        let config = ["config", subject];
        let own: Option<Configured> = absent_is_none(self.patiently(&Request::get(&config), on_retry).await)?;
        // Where the subject has no level of its own Apicurio says NONE, which cannot be it: the registry has just refused.
        let own = own.filter(|own| own.level != Level::NONE);
        let restore = match &own {
            Some(own) => Request::put(&config, json!({ "compatibility": own.level })),
            None => Request::delete(&config),
        };
        // Killed from here on, the process leaves the subject at NONE: this line says what it was.
        tracing::warn!(
            subject,
            compatibility = own.as_ref().map_or("(the global one)", |own| own.level.as_str()),
            "the subject's compatibility level is NONE until the schema is registered"
        );
        let mut relaxed = Relaxed {
            subject,
            restored: false,
        };
        let none = Request::put(&config, json!({ "compatibility": Level::NONE }));
        let _: IgnoredAny = self.patiently(&none, on_retry).await?;
        let registered = self.patiently::<Registered>(request, on_retry).await;
        let _: Option<IgnoredAny> = absent_is_none(self.patiently(&restore, on_retry).await)?;
        relaxed.restored = true;
        Ok(registered?.id)
    }
}

/// 404 with the API's own error code: there is no such subject, version, schema or level. Without it, it is a path that the
/// server does not have.
fn absent_is_none<T>(answer: Result<T, RegistryError>) -> Result<Option<T>, RegistryError> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(RegistryError::Refused {
            status: 404,
            error_code: Some(_),
            ..
        }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Says so if the level is not restored: the wait for the registry was given up.
struct Relaxed<'a> {
    subject: &'a str,
    restored: bool,
}

impl Drop for Relaxed<'_> {
    fn drop(&mut self) {
        if !self.restored {
            tracing::error!(
                subject = self.subject,
                "the subject's compatibility level could not be restored and may be NONE; set it again"
            );
        }
    }
}
