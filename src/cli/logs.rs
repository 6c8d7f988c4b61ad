//! The log, as the configuration asks for it.

use super::{Exit, output};
use crate::config::{Loaded, Log, LogFormat};
use crate::telemetry::logs::{self, LogSettings};

/// Starts the log, and writes into it what the configuration gave rise to.
pub(super) fn start(loaded: &Loaded) -> Result<(), Exit> {
    start_with(&loaded.config.log)?;
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    Ok(())
}

/// Starts the log.
pub(super) fn start_with(log: &Log) -> Result<(), Exit> {
    let settings = LogSettings {
        level: log.level.name(),
        json: log.format == LogFormat::Json,
    };
    let rust_log = std::env::var("RUST_LOG").ok();
    logs::init(settings, rust_log.as_deref()).map_err(|error| {
        output::notice(&format!("walferry: {}\n", output::chain(&error)));
        Exit::Config
    })
}
