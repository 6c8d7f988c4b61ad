//! Logical messages (`pg_logical_emit_message`), in Debezium's shape whatever the envelope is.

use crate::envelope::{Op, Position, Transaction, message_topic};
use crate::lsn::Lsn;

use super::batch::Batch;
use super::binary::put_bytes;
use super::encoder::wire_header;
use super::source::{Source, millis};
use super::{EncoderSettings, RecordSchemas, TypeDialect, debezium, schema};
use crate::avro::binary::put_long;

/// Encodes logical messages, for the topic `<pipeline>.message`. The key is the prefix.
#[derive(Debug, Clone)]
pub struct MessageEncoder {
    topic: String,
    key_schema: String,
    value_schema: String,
    /// What stands between `source` and `message`: in Debezium's types a `transaction`, which is null.
    transaction: &'static [u8],
    source: Source,
    key_header: [u8; 5],
    value_header: [u8; 5],
}

impl MessageEncoder {
    /// The encoder of a pipeline's messages.
    pub fn new(settings: &EncoderSettings) -> Self {
        MessageEncoder {
            topic: message_topic(&settings.pipeline),
            key_schema: match settings.types {
                TypeDialect::Avro => schema::MESSAGE_KEY.to_owned(),
                TypeDialect::Debezium => debezium::schema::message_key(),
            },
            value_schema: match settings.types {
                TypeDialect::Avro => schema::message_value(),
                TypeDialect::Debezium => debezium::schema::message_value(),
            },
            transaction: match settings.types {
                TypeDialect::Avro => &[],
                TypeDialect::Debezium => &[0],
            },
            // Debezium has no null there, but the empty string.
            source: Source::new(settings, "", ""),
            key_header: wire_header(0),
            value_header: wire_header(0),
        }
    }

    /// The topic.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// The key's schema.
    pub fn key_schema(&self) -> Option<&str> {
        Some(&self.key_schema)
    }

    /// The value's schema.
    pub fn value_schema(&self) -> &str {
        &self.value_schema
    }

    /// The full name of the key's record.
    pub fn key_record_name(&self) -> Option<&str> {
        Some("io.debezium.connector.postgresql.MessageKey")
    }

    /// The full name of the value's record.
    pub fn value_record_name(&self) -> &str {
        "io.debezium.connector.postgresql.MessageValue"
    }

    /// What has to be registered before its records can be read.
    pub fn schemas(&self) -> RecordSchemas<'_> {
        RecordSchemas {
            key: self.key_schema().zip(self.key_record_name()),
            value: (self.value_schema(), self.value_record_name()),
        }
    }

    /// Sets the schema ids that the records carry.
    pub fn set_ids(&mut self, key: Option<u32>, value: u32) {
        self.key_header = wire_header(key.unwrap_or_default());
        self.value_header = wire_header(value);
    }

    /// Encodes one message and advances `ordinal`. For a message outside of a transaction, `transaction` has xid 0 and
    /// the message's own LSN as that of the commit.
    pub fn encode(
        &self,
        prefix: &str,
        content: &[u8],
        transaction: &Transaction,
        lsn: Lsn,
        ordinal: &mut u64,
        out: &mut Batch,
    ) {
        let position = Position {
            commit_lsn: transaction.commit_lsn,
            ordinal: *ordinal,
        };
        out.stamp.set(transaction);
        let start = out.bytes.len();
        out.bytes.extend_from_slice(&self.key_header);
        out.bytes.push(2);
        put_bytes(prefix.as_bytes(), &mut out.bytes);
        let middle = out.bytes.len();
        out.bytes.extend_from_slice(&self.value_header);
        put_bytes(Op::Message.code().as_bytes(), &mut out.bytes);
        out.bytes.push(2);
        put_long(millis(transaction.now_us), &mut out.bytes);
        let mut writer = out.stage.writer(&mut out.bytes);
        self.source.put(&out.stamp, lsn, position.ordinal, None, &mut writer);
        writer.flush();
        out.bytes.extend_from_slice(self.transaction);
        out.bytes.push(2);
        put_bytes(prefix.as_bytes(), &mut out.bytes);
        out.bytes.push(2);
        put_bytes(content, &mut out.bytes);
        let end = out.bytes.len();
        out.push(Op::Message, Some(start..middle), Some(middle..end), position);
        *ordinal = ordinal.saturating_add(1);
    }
}
