//! The environment, or a map that stands in for it.

use std::collections::BTreeMap;
use std::ffi::OsString;

/// Environment variables.
pub trait Environment {
    /// All of them.
    fn variables(&self) -> Vec<(OsString, OsString)>;

    /// The value of one, where it is set and Unicode.
    fn variable(&self, name: &str) -> Option<String> {
        self.variables()
            .into_iter()
            .find(|(found, _)| found == name)
            .and_then(|(_, value)| value.into_string().ok())
    }
}

/// Those of this process.
#[derive(Debug, Clone, Copy)]
pub struct ProcessEnvironment;

impl Environment for ProcessEnvironment {
    fn variables(&self) -> Vec<(OsString, OsString)> {
        std::env::vars_os().collect()
    }
}

impl Environment for BTreeMap<String, String> {
    fn variables(&self) -> Vec<(OsString, OsString)> {
        self.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }
}
