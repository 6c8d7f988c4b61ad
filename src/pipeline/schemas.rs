//! `walferry schema`: what `run` would register for the tables as they are now.

use super::error::PipelineError;
use super::publish::OnBadRow;
use super::published;
use super::relations;
use super::settings;
use super::source;
use super::sql::Sql;
use crate::avro::DeadLetterEncoder;
use crate::config::Config;
use crate::config::glob::TablePattern;
use crate::schema_registry::{Registry, RegistryError, Standing};

/// The schemas of one table, or of dead letters.
#[derive(Debug)]
pub struct TableSchemas {
    /// `schema.table`; `None`: dead letters, whose keys have the schemas of their tables' keys.
    pub table: Option<String>,
    /// Where its records go.
    pub topic: String,
    /// `None`: its records have no key of their own.
    pub key: Option<SubjectSchema>,
    /// Of the values.
    pub value: SubjectSchema,
}

/// One schema.
#[derive(Debug)]
pub struct SubjectSchema {
    /// The subject.
    pub subject: String,
    /// JSON text, byte for byte as it would be registered.
    pub schema: String,
    /// What the registry says of it.
    pub standing: Result<Standing, RegistryError>,
}

/// Asks catalog and registry, and changes nothing. `only`: patterns of the tables that are wanted; none: all.
///
/// # Errors
///
/// What keeps the schemas from being known, as Postgres being away. What the registry says is part of the answer.
pub async fn schemas(config: &Config, only: &[TablePattern]) -> Result<Vec<TableSchemas>, PipelineError> {
    let wanted = settings::wanted(config)?;
    let publish = settings::publish(config)?;
    let registry = Registry::new(settings::schema_registry(config))?;
    let sql = Sql::new(settings::postgres(config));
    let client = sql.client().await?;
    let found = source::settings(&client).await?;
    let mut tables = published::tables(&client, &wanted, &found).await?;
    tables.retain(|table| only.is_empty() || only.iter().any(|only| only.matches(&table.schema, &table.name)));

    let mut schemas = Vec::with_capacity(tables.len());
    for relation in relations::describe(&sql, &tables).await? {
        let facts = relations::facts(&sql, &publish.encoder, &relation).await?;
        let (topic, encoder) = publish.encoder(&relation, &facts)?;
        let subject = |record: &str, is_key| publish.subject.subject(&topic, record, is_key);
        let registered = encoder.schemas();
        let key = match registered.key {
            Some((schema, record)) => Some(standing(&registry, subject(record, true), schema).await),
            None => None,
        };
        let (schema, record) = registered.value;
        let value = standing(&registry, subject(record, false), schema).await;
        schemas.push(TableSchemas {
            table: Some(relation.full_name()),
            topic,
            key,
            value,
        });
    }
    if let OnBadRow::DeadLetter { topic } = publish.on_bad_row
        && only.is_empty()
    {
        let encoder = DeadLetterEncoder::new(&publish.encoder);
        let (schema, record) = encoder.schemas().value;
        let subject = publish.subject.subject(&topic, record, false);
        schemas.push(TableSchemas {
            table: None,
            topic,
            key: None,
            value: standing(&registry, subject, schema).await,
        });
    }
    Ok(schemas)
}

async fn standing(registry: &Registry, subject: String, schema: &str) -> SubjectSchema {
    let standing = registry.standing(&subject, schema).await;
    SubjectSchema {
        subject,
        schema: schema.to_owned(),
        standing,
    }
}
