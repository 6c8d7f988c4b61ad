//! The log, as the configuration asks for it.

use std::io;

use indicatif::MultiProgress;

use super::progress::{self, AboveBars};
use super::{Exit, output};
use crate::config::{Loaded, Log, LogFormat};
use crate::telemetry::logs::{self, LogError, LogSettings};

/// Starts the log, and writes into it what the configuration gave rise to.
pub(super) fn start(loaded: &Loaded) -> Result<(), Exit> {
    start_with(&loaded.config.log)?;
    warn(loaded);
    Ok(())
}

/// The same where bars may be drawn below the log: on a terminal, and for people. Gives where.
pub(super) fn start_above_bars(loaded: &Loaded) -> Result<Option<MultiProgress>, Exit> {
    let log = &loaded.config.log;
    let Some(screen) = progress::screen().filter(|_| log.format == LogFormat::Text) else {
        start(loaded)?;
        return Ok(None);
    };
    let behind = screen.clone();
    let stderr = move || AboveBars::new(behind.clone(), io::stderr());
    refused(logs::init_with(settings(log), rust_log().as_deref(), stderr))?;
    warn(loaded);
    Ok(Some(screen))
}

/// Starts the log.
pub(super) fn start_with(log: &Log) -> Result<(), Exit> {
    refused(logs::init(settings(log), rust_log().as_deref()))
}

fn warn(loaded: &Loaded) {
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
}

fn settings(log: &Log) -> LogSettings {
    LogSettings {
        level: log.level.name(),
        json: log.format == LogFormat::Json,
    }
}

fn rust_log() -> Option<String> {
    std::env::var("RUST_LOG").ok()
}

fn refused(started: Result<(), LogError>) -> Result<(), Exit> {
    started.map_err(|error| {
        output::notice(&format!("walferry: {}\n", output::chain(&error)));
        Exit::Config
    })
}
