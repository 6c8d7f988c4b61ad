//! What must be there before a table's first record: its topic, and ids for its schemas.

use std::sync::Arc;

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

/// What is known once a table's first record can be sent.
pub(super) struct Ready {
    /// The id of the key's schema.
    pub(super) key: Option<u32>,
    /// The id of the value's schema.
    pub(super) value: u32,
    /// The largest record that the topic takes, in bytes with all that Kafka adds.
    pub(super) limit: u64,
}

impl Way {
    /// The topic exists and the schemas have ids. `label` is the table, for people.
    pub(super) async fn prepare(
        &self,
        label: &str,
        topic: &str,
        key: Option<(&str, &str)>,
        value: (&str, &str),
    ) -> Result<Ready, PipelineError> {
        let before = self.status.state();
        let limit = self.producer.ensure_topic(topic, TopicUse::Table).await?;
        let key_id = match key {
            Some((schema, name)) => {
                let subject = self.subject.subject(topic, name, true);
                Some(self.register(label, &subject, schema).await?)
            }
            None => None,
        };
        let (schema, name) = value;
        let subject = self.subject.subject(topic, name, false);
        let value_id = self.register(label, &subject, schema).await?;
        if self.status.state() != before {
            self.status.set_state(before, None);
        }
        Ok(Ready {
            key: key_id,
            value: value_id,
            limit,
        })
    }

    /// The same for dead letters, whose keys have the schemas of their tables' keys: the id of the value's schema, and the
    /// largest record that the topic takes.
    pub(super) async fn prepare_dead_letters(
        &self,
        topic: &str,
        value: (&str, &str),
    ) -> Result<(u32, u64), PipelineError> {
        let before = self.status.state();
        let limit = self.producer.ensure_topic(topic, TopicUse::DeadLetters).await?;
        let (schema, name) = value;
        let id = self
            .register(topic, &self.subject.subject(topic, name, false), schema)
            .await?;
        if self.status.state() != before {
            self.status.set_state(before, None);
        }
        Ok((id, limit))
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
        let (level, conflicts) = (broke.level.to_string(), conflicts.join("; "));
        tracing::warn!(table, subject, level, conflicts, "{message}");
    }
}
