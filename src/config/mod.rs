//! The configuration: a TOML file, environment variables over it, parsed whole and then judged whole.
//!
//! The file and the environment each give their names to be judged (`file`, `variables`); `layers` merges them
//! into one tree; `judge` reads every key out of it and judges it, a file a section.
//!
//! [`load`] reports every fault at once. [`Config`] is what the rest uses; it shows no secret. All keys, with type,
//! default and meaning, stand in one table, [`keys`].

/// The environment, or what stands in for it.
pub mod environment;
/// What is wrong.
pub mod fault;
mod file;
/// Patterns over schema and table.
pub mod glob;
mod judge;
/// Every key there is.
pub mod keys;
mod layers;
mod load;
mod pgpass;
/// librdkafka properties that are secret.
pub mod properties;
mod reference;
mod registry_url;
/// Values that are never shown.
pub mod secret;
mod settings;
#[cfg(test)]
mod tests;
mod value;
mod variables;

pub use environment::{Environment, ProcessEnvironment};
pub use fault::{ConfigErrors, Fault, Origin};
pub use load::{DEFAULT_FILES, FILE_VARIABLE, Loaded, load, load_text};
pub use reference::example;
pub use secret::Secret;
pub use settings::*;
pub use value::parse_duration;
