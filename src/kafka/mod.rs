//! kafka
