//! `[log]`.

use super::Judge;
use crate::config::settings::{Log, LogFormat, LogLevel};

impl Judge {
    pub(super) fn log(&self) -> Log {
        Log {
            level: match self.text("log.level").as_str() {
                "error" => LogLevel::Error,
                "warn" => LogLevel::Warn,
                "debug" => LogLevel::Debug,
                "trace" => LogLevel::Trace,
                _ => LogLevel::Info,
            },
            format: match self.text("log.format").as_str() {
                "json" => LogFormat::Json,
                _ => LogFormat::Text,
            },
        }
    }
}
