//! walferry streams the committed changes of a PostgreSQL database to Kafka as Avro.
//!
//! The modules stand in the order in which data passes through them: whoever reads down the list has
//! followed one row from the socket to Kafka, and its acknowledgement back.
//!
//! *Pure* modules know no tokio, no rdkafka and no tokio-postgres: they take bytes and give bytes, and can be
//! tested and fuzzed with bytes alone. `tests/layering.rs` holds these arrows.

/// Positions in the write-ahead log, `X/X` in and out. *Pure.*
pub mod lsn;

/// Names and values as SQL writes them. *Pure.*
pub mod quote;

/// 1. The walsender: connection, authentication, commands, frames, status updates. *I/O.*
pub mod replication;

/// 2. Bytes of the logical replication protocol → messages. *Pure.*
pub mod pgoutput;

/// 3. What a relation is, by oid and version; its types and its key. *Pure, but for `catalog`.*
pub mod relation;

/// 4. Column values: text and binary forms of each type, numeric and temporal arithmetic. *Pure.*
pub mod row;

/// 5. The change event: operation, transaction, position, key, topic. *Pure.*
pub mod envelope;

/// 6. A schema and a compiled encoder for each relation version. *Pure.*
pub mod avro;

/// 7. Subjects → schema ids. *I/O.*
pub mod schema_registry;

/// 8. One ordered enqueuer, topics, delivery reports. *I/O.*
pub mod kafka;

/// 9. Tickets, and the contiguous prefix of what Kafka has confirmed. *Pure.*
pub mod progress;

/// 10. Where the published changes end, as it is recorded in Kafka; what to make of it at a start. *Pure.*
pub mod recovery;

/// Running transactions that the stream brings before they commit: buffered, and in files beyond a budget. *I/O.*
pub mod spool;

/// The other way in: rows that are there already, read by COPY, joining the stream's way at the encoder. *Pure, but for `reader`.*
pub mod snapshot;

mod failpoint;

/// Wiring, retry, states, drain.
pub mod pipeline;

/// The configuration: parsed whole, then judged whole.
pub mod config;

/// Logs, metrics, health and status.
pub mod telemetry;

/// The command line.
pub mod cli;
