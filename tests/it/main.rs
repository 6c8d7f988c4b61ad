//! End to end: the built binary between real servers, read by an independent reader.
//!
//! `scripts/test` starts the servers; `scripts/test-env up DIR` does for one test by hand.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test panics to fail, and prints what a failure needs"
)]

mod harness;
mod workload;

mod commands;
mod connection;
mod crash;
mod dead_letters;
mod debezium;
mod evolution;
mod faults;
mod flink;
mod gaps;
mod idle;
mod large_transaction;
mod logs;
mod outage;
mod page;
mod pair;
mod records;
mod refusals;
mod registry;
mod replay;
mod replication;
mod roundtrip;
mod rules;
mod servers;
mod shapes;
mod slot;
mod smoke;
mod snapshots;
mod soak;
mod streaming;
mod tables;
mod too_large;
mod values;
mod versions;
