//! avro
