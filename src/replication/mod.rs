//! The connection to the walsender.
//!
//! A small client of its own for what ordinary clients lack: a connection opened with `replication=database`, the
//! commands of the streaming replication protocol, and CopyBoth mode (manual, chapter "Frontend/Backend Protocol",
//! sections "Streaming Replication Protocol" and "Logical Streaming Replication Protocol").
//!
//! The parts, in the order in which bytes meet them: [`settings`] says where to go; `dial` opens the socket, `socket`
//! reads it in few large pieces, `tls` and `verify` hold libpq's six `sslmode`s, `startup` authenticates, `frames`
//! cuts what arrives into messages without copying, `commands` asks, `reader` streams, and `status` answers from a
//! task and a timer of its own, whatever happens downstream. [`sql`] opens an ordinary connection over the same
//! transport, for the catalog.
//!
//! LSNs are [`crate::lsn::Lsn`]; times from the server are microseconds since 2000-01-01 00:00 UTC, as it sends them.

mod commands;
mod dial;
pub mod error;
mod frames;
mod reader;
pub mod settings;
mod socket;
pub mod sql;
mod startup;
mod status;
mod tls;
mod verify;

pub use commands::{CreateSlot, CreatedSlot, ReplicationClient, SystemIdentity, protocol_version};
pub use error::{Attempt, AttemptError, ConnectError, ProtocolError, ReplicationError, ServerError};
pub use reader::{ReplicationReader, StreamMessage};
pub use settings::{PostgresSettings, RootCert, SslMode, StartReplication};
pub use sql::{SqlClient, SqlClosed, connect_sql};
pub use status::StatusSender;
