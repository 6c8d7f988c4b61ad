//! row
