//! schema_registry
