//! What must be there before a table's first record: its topic, and ids for its schemas.

use std::sync::Arc;

use crate::kafka::{Producer, TopicUse};
use crate::pipeline::error::{PipelineError, chain};
use crate::schema_registry::{Registry, RegistryError, SubjectStrategy};
use crate::telemetry::metrics::Metrics;
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
    /// The topic exists and the schemas have ids.
    pub(super) async fn prepare(
        &self,
        topic: &str,
        key: Option<(&str, &str)>,
        value: (&str, &str),
    ) -> Result<Ready, PipelineError> {
        let before = self.status.state();
        let limit = self.producer.ensure_topic(topic, TopicUse::Table).await?;
        let key_id = match key {
            Some((schema, name)) => Some(self.register(&self.subject.subject(topic, name, true), schema).await?),
            None => None,
        };
        let (schema, name) = value;
        let value_id = self.register(&self.subject.subject(topic, name, false), schema).await?;
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
        let id = self.register(&self.subject.subject(topic, name, false), schema).await?;
        if self.status.state() != before {
            self.status.set_state(before, None);
        }
        Ok((id, limit))
    }

    async fn register(&self, subject: &str, schema: &str) -> Result<u32, PipelineError> {
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
        let id = self.registry.schema_id(subject, schema, &mut on_retry).await?;
        self.metrics.schema_registry.registrations.inc();
        Ok(id)
    }
}
