//! How a schema stands with its subject, without registering it.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{Registry, RegistryError, Request, difference};

/// How a schema stands with its subject.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Standing {
    /// The subject has no schema yet.
    New,
    /// It is registered.
    Registered {
        /// The id that its records carry.
        id: u32,
        /// Its version in the subject.
        version: u32,
    },
    /// The subject has others.
    Differs {
        /// The version of the latest one.
        latest: u32,
        /// A line for each field that differs from that; possibly none.
        difference: Vec<String>,
        /// Whether it would be registered all the same: by the subject's compatibility level, and by what consumers would make of it.
        accepted: bool,
    },
}

#[derive(Deserialize)]
struct Version {
    id: u32,
    version: u32,
}

#[derive(Deserialize)]
struct Latest {
    version: u32,
    schema: String,
}

#[derive(Deserialize)]
struct Verdict {
    is_compatible: bool,
}

impl Registry {
    /// How `schema` (JSON text) stands with `subject`. One round over the URLs for each question, without repeats.
    ///
    /// # Errors
    /// Any failure, also a passing one.
    pub async fn standing(&self, subject: &str, schema: &str) -> Result<Standing, RegistryError> {
        let lookup = Request::post(&["subjects", subject], schema);
        if let Some(Version { id, version }) = self.find(&lookup).await? {
            return Ok(Standing::Registered { id, version });
        }
        let latest = Request::get(&["subjects", subject, "versions", "latest"]);
        let Some(Latest { version, schema: old }) = self.find(&latest).await? else {
            return Ok(Standing::New);
        };
        // By all versions, as registering would be; not every registry knows that question.
        let path = ["compatibility", "subjects", subject, "versions", "latest"];
        let [all @ .., _] = &path;
        let verdict: Verdict = match self.once(&Request::post(all, schema), &mut |_| (), &mut None).await {
            Err(RegistryError::Refused { status: 404 | 405, .. }) => {
                let request = Request::post(&path, schema);
                self.once(&request, &mut |_| (), &mut None).await?
            }
            other => other?,
        };
        Ok(Standing::Differs {
            latest: version,
            difference: difference(&old, schema),
            accepted: self.would_admit(subject, schema, verdict.is_compatible).await?,
        })
    }

    /// `None`: the API says that there is no such thing.
    async fn find<T: DeserializeOwned>(&self, request: &Request) -> Result<Option<T>, RegistryError> {
        match self.once(request, &mut |_| (), &mut None).await {
            Ok(found) => Ok(Some(found)),
            // Without the API's error code it is a path that the server does not have.
            Err(RegistryError::Refused {
                status: 404,
                error_code: Some(_),
                ..
            }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
