//! The configuration: a TOML file, environment variables over it, parsed whole and then judged whole.
//!
//! [`load`] reports every fault at once. [`Config`] is what the rest uses; it shows no secret. All keys, with type,
//! default and meaning, stand in one table, [`keys`].

/// The environment, or what stands in for it.
pub mod environment;
/// What is wrong.
pub mod fault;
/// Patterns over schema and table.
pub mod glob;
/// Every key there is.
pub mod keys;
mod load;
mod pgpass;
/// librdkafka properties that are secret.
pub mod properties;
mod reference;
mod registry_url;
/// Values that are never shown.
pub mod secret;
mod settings;
mod source;
#[cfg(test)]
mod tests;
mod value;

pub use environment::{Environment, ProcessEnvironment};
pub use fault::{ConfigErrors, Fault, Origin};
pub use load::{DEFAULT_FILES, FILE_VARIABLE, Loaded, load, load_text};
pub use reference::example;
pub use secret::Secret;
pub use settings::*;
pub use value::parse_duration;
