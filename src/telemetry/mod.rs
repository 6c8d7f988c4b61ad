//! What is said about a running pipeline: logs, metrics, health and status.
//!
//! The stages write, each into its own handles; nothing here asks them. Labels come from closed sets, and from the
//! names of tables.

/// What a running pipeline can be told about its snapshots.
pub mod control;
mod errors;
/// The last quarter of an hour.
pub mod history;
/// `/`, `/metrics`, `/health/live`, `/health/ready`, `/status`, `/snapshot`.
pub mod http;
/// Structured logs on stderr.
pub mod logs;
/// Counters, gauges and histograms.
pub mod metrics;
/// How far the snapshots are.
pub mod snapshots;
/// What the pipeline is doing, and where it is.
pub mod state;

pub use errors::RecentError;
pub use history::History;
pub use metrics::Metrics;
pub use snapshots::SnapshotBoard;
pub use state::{State, Status};

/// The version of this build.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The revision of the sources of this build, where whoever built it said so.
pub const REVISION: &str = match option_env!("WALFERRY_REVISION") {
    Some(revision) => revision,
    None => "unknown",
};
