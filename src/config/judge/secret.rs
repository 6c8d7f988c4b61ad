//! Secrets, from their keys or from files.

use std::fs;
use std::path::Path;

use super::Judge;
use crate::config::secret::Secret;
use crate::config::value::Value;

impl Judge {
    /// A secret from its key or from the file that its other key names.
    pub(super) fn secret(&mut self, key: &'static str, file_key: &'static str) -> Option<Secret> {
        let inline = match self.values.get(key) {
            Some(Value::Secret(secret)) if !secret.expose().is_empty() => Some(secret.clone()),
            _ => None,
        };
        let file = self.path(file_key);
        match (inline, file) {
            (Some(_), Some(_)) => {
                self.fault(file_key, &format!("is set, and so is {key}"), "keep one of the two");
                None
            }
            (inline, None) => inline,
            (None, Some(path)) => match read_secret(&path) {
                Ok(secret) => Some(secret),
                Err(problem) => {
                    self.fault(file_key, &problem, "give a file that holds the secret and nothing else");
                    None
                }
            },
        }
    }
}

/// Reads a secret; line breaks at the end are the editor's.
pub(super) fn read_secret(path: &Path) -> Result<Secret, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("cannot be read: {error}"))?;
    let secret = Secret::new(text.trim_end_matches(['\n', '\r']));
    if secret.expose().is_empty() {
        Err("is an empty file".to_owned())
    } else {
        Ok(secret)
    }
}
