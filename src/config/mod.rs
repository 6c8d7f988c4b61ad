//! config

/// A value that is never shown.
pub mod secret;
pub use secret::Secret;
