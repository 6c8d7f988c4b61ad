//! Structured logs on stderr.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::time::SystemTime;

/// How the log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogSettings {
    /// `error`, `warn`, `info`, `debug` or `trace`: the least severe level that is written of walferry's own.
    pub level: &'static str,
    /// One JSON object a line, instead of text.
    pub json: bool,
}

/// The log could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// `RUST_LOG` cannot be read.
    #[error("RUST_LOG cannot be read: {0}")]
    Filter(String),
    /// There is a log already.
    #[error("the log is set up already")]
    Twice,
}

/// Starts the log; `rust_log` is the value of `RUST_LOG`, which wins over the configured level.
///
/// The libraries below are heard from `warn` on: at `trace` some of them write what they send, passwords among it.
pub fn init(settings: LogSettings, rust_log: Option<&str>) -> Result<(), LogError> {
    init_with(settings, rust_log, io::stderr)
}

/// The same by a writer that leads to stderr in the end, but keeps something else there whole. It is given an event at a time.
pub fn init_with<W>(settings: LogSettings, rust_log: Option<&str>, writer: W) -> Result<(), LogError>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let filter = match rust_log {
        Some(directives) if !directives.trim().is_empty() => {
            EnvFilter::try_new(directives).map_err(|error| LogError::Filter(error.to_string()))?
        }
        _ => EnvFilter::new(format!("warn,walferry={}", settings.level)),
    };
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer)
        .with_timer(SystemTime)
        .with_ansi(!settings.json && coloured(&io::stderr()));
    let started = if settings.json {
        builder.json().flatten_event(true).with_current_span(false).try_init()
    } else {
        builder.try_init()
    };
    started.map_err(|_| LogError::Twice)
}

/// Whether it is a terminal of somebody who has nothing against colours (no-color.org).
pub fn coloured(output: &impl IsTerminal) -> bool {
    output.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
