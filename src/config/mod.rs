//! The configuration: a TOML file, environment variables over it, parsed whole and then judged whole.
//!
//! [`Config`] is what the rest uses. It holds no secret that it would show.

/// Patterns over schema and table.
pub mod glob;
/// librdkafka properties that are owned, or secret.
pub mod properties;
/// Values that are never shown.
pub mod secret;
mod settings;

pub use secret::Secret;
pub use settings::*;
