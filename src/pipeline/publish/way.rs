//! What must be there before a table's first record: its topic, and ids for its schemas.

use std::sync::Arc;

use super::destination::Destination;
use crate::avro::RecordSchemas;
use crate::failpoint;
use crate::kafka::{Producer, TopicUse};
use crate::pipeline::error::{PipelineError, chain};
use crate::schema_registry::{Break, Registry, RegistryError, SubjectStrategy};
use crate::telemetry::metrics::{Incompatible, Metrics};
use crate::telemetry::state::{State, Status};

/// Whom to ask before a table's first record, and who is told.
pub(super) struct Way {
    pub(super) producer: Arc<Producer>,
    pub(super) registry: Arc<Registry>,
    pub(super) metrics: Metrics,
    pub(super) status: Arc<Status>,
    pub(super) subject: SubjectStrategy,
}

/// The ids of an encoder's schemas.
pub(super) struct Ids {
    /// Of the key's, where it has one.
    pub(super) key: Option<u32>,
    /// Of the value's.
    pub(super) value: u32,
}

impl Way {
    /// Makes a destination ready: the topic exists and its limit is known, and the schemas have ids.
    pub(super) async fn prepare(
        &self,
        destination: &mut Destination,
        schemas: RecordSchemas<'_>,
        used: TopicUse,
    ) -> Result<Ids, PipelineError> {
        let before = self.status.state();
        let Destination { label, topic, .. } = &*destination;
        failpoint::reached("topic");
        let limit = self.producer.ensure_topic(topic, used).await?;
        let key = match schemas.key {
            Some((schema, name)) => {
                let subject = self.subject.subject(topic, name, true);
                Some(self.register(label, &subject, schema).await?)
            }
            None => None,
        };
        let (schema, name) = schemas.value;
        let subject = self.subject.subject(topic, name, false);
        let value = self.register(label, &subject, schema).await?;
        if self.status.state() != before {
            self.status.set_state(before, None);
        }
        destination.limit = limit;
        destination.ready = true;
        Ok(Ids { key, value })
    }

    async fn register(&self, label: &str, subject: &str, schema: &str) -> Result<u32, PipelineError> {
        let mut on_retry = |error: &RegistryError| {
            let text = chain(error);
            tracing::warn!(
                subject,
                error = text,
                "the schema registry does not answer; trying again"
            );
            self.status.set_last_error(text.clone());
            self.status.set_state(
                State::Connecting,
                Some(format!("waiting for the schema registry: {text}")),
            );
            self.status.heartbeat();
        };
        failpoint::reached("registration");
        let registered = self.registry.schema_id(subject, schema, &mut on_retry).await;
        let registered = registered.map_err(|source| {
            if source.is_incompatible() {
                self.metrics.schema_registry.incompatible(Incompatible::Refused);
            }
            PipelineError::Schema {
                table: label.to_owned(),
                source,
            }
        })?;
        self.metrics.schema_registry.registrations.inc();
        if let Some(broke) = &registered.broke {
            self.tell_of_break(label, subject, broke);
        }
        Ok(registered.id)
    }

    fn tell_of_break(&self, table: &str, subject: &str, broke: &Break) {
        let (outcome, message) = match broke.level.is_none() {
            true => (
                Incompatible::Unchecked,
                "a schema that breaks with the one before it was registered: its subject's compatibility level is NONE",
            ),
            false => (
                Incompatible::Registered,
                "a schema that its subject's compatibility level forbids was registered: schema_registry.on_incompatible is \
                 \"register\"",
            ),
        };
        self.metrics.schema_registry.incompatible(outcome);
        let conflicts: Vec<String> = broke.conflicts.iter().map(ToString::to_string).collect();
        let (compatibility, conflicts) = (broke.level.to_string(), conflicts.join("; "));
        tracing::warn!(table, subject, compatibility, conflicts, "{message}");
    }
}
