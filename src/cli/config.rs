//! `walferry config`: the reference, and what is in force.

use super::{Exit, output};
use crate::config::{self, Loaded};

/// Prints every key with its default and its meaning.
pub(super) fn example() -> Exit {
    output::data(&config::example())
}

/// Prints the configuration that is in force, secrets redacted.
pub(super) fn show(loaded: Loaded) -> Exit {
    for warning in &loaded.warnings {
        output::notice(&format!("walferry: warning: {warning}\n"));
    }
    let from = match &loaded.path {
        Some(path) => format!(
            "# In force, from {} and the environment.\n\n",
            path.display().to_string().escape_debug()
        ),
        None => "# In force, from the environment alone.\n\n".to_owned(),
    };
    output::data(&format!("{from}{}", loaded.to_toml()))
}
