//! The `walferry` binary.

fn main() {}
