//! A consumer: reads the topics from their beginning and decodes each record with the schema that its id names.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use apache_avro::Schema;
use apache_avro::reader::datum::GenericDatumReader;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{Consumer, StreamConsumer};
use rdkafka::message::Message;
use rdkafka::{Offset, TopicPartitionList};

use super::{DemoError, line};
use crate::cli::render;
use crate::schema_registry::Registry;

/// What was read so far.
#[derive(Debug, Default)]
pub(super) struct Read {
    pub(super) records: AtomicU64,
}

pub(super) struct Reader {
    consumer: StreamConsumer,
    registry: Arc<Registry>,
    schemas: HashMap<u32, Arc<Schema>>,
}

impl Reader {
    pub(super) fn new(bootstrap_servers: &str, topics: &[String], registry: Arc<Registry>) -> Result<Self, DemoError> {
        let consumer: StreamConsumer = ClientConfig::new()
            .set("bootstrap.servers", bootstrap_servers)
            .set("group.id", "walferry-demo")
            .set("enable.auto.commit", "false")
            .set("fetch.wait.max.ms", "20")
            .create()?;
        let mut partitions = TopicPartitionList::new();
        for topic in topics {
            partitions.add_partition_offset(topic, 0, Offset::Beginning)?;
        }
        consumer.assign(&partitions)?;
        Ok(Reader {
            consumer,
            registry,
            schemas: HashMap::new(),
        })
    }

    /// Reads until it is dropped, and prints a line a record.
    pub(super) async fn read(mut self, read: Arc<Read>) -> Result<(), DemoError> {
        loop {
            let message = self.consumer.recv().await?.detach();
            let key = self.decode(message.key()).await?;
            let value = self.decode(message.payload()).await?;
            let text = render::line(message.topic(), message.offset(), key.as_ref(), value.as_ref());
            read.records.fetch_add(1, Ordering::Relaxed);
            line(&text)?;
        }
    }

    /// Confluent's wire format: a zero, the schema's id, the datum.
    async fn decode(&mut self, bytes: Option<&[u8]>) -> Result<Option<serde_json::Value>, DemoError> {
        let Some(bytes) = bytes else { return Ok(None) };
        let Some((&[0, a, b, c, d], mut datum)) = bytes.split_first_chunk::<5>() else {
            return Err(DemoError::WireFormat);
        };
        let schema = self.schema(u32::from_be_bytes([a, b, c, d])).await?;
        let reader = GenericDatumReader::builder(&schema).build().map_err(Box::new)?;
        let value = reader.read_value(&mut datum).map_err(Box::new)?;
        if !datum.is_empty() {
            return Err(DemoError::WireFormat);
        }
        Ok(Some(render::json(&value, &schema)))
    }

    async fn schema(&mut self, id: u32) -> Result<Arc<Schema>, DemoError> {
        if let Some(schema) = self.schemas.get(&id) {
            return Ok(Arc::clone(schema));
        }
        let text = self.registry.schema_by_id(id).await?;
        let schema = Arc::new(Schema::parse_str(&text).map_err(Box::new)?);
        self.schemas.insert(id, Arc::clone(&schema));
        Ok(schema)
    }
}
