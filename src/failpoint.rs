//! Places where the process can be made to die, for the tests of what a crash leaves.
//!
//! `WALFERRY_FAILPOINT=name:n` aborts the process when it gets to that place for the n-th time. A release build has none of
//! this. The places are where a crash leaves a state of its own:
//!
//! | name | what has happened |
//! |---|---|
//! | `enqueued` | a record was handed to the producer |
//! | `delivered` | Kafka has all records of a transaction, and the position is not recorded |
//! | `recorded` | the position is recorded, and Postgres was not told |
//! | `committing` | exactly-once: the record of the position is in an open Kafka transaction |
//! | `committed` | exactly-once: the Kafka transaction is committed, and nothing here knows |
//! | `recovering` | a session has the slot, and does not know yet what is published |
//! | `recovered` | it knows |
//! | `topic` | a topic is going to be looked for or created |
//! | `registration` | a schema is going to be registered |

/// The process got to a place of this name.
#[cfg(debug_assertions)]
pub(crate) fn reached(name: &str) {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    static WANTED: LazyLock<Option<(String, u64)>> = LazyLock::new(|| {
        let text = std::env::var("WALFERRY_FAILPOINT").ok()?;
        let (name, times) = text.split_once(':').unwrap_or((&text, "1"));
        Some((name.to_owned(), times.parse().ok()?))
    });
    static TIMES: AtomicU64 = AtomicU64::new(0);

    if let Some((wanted, times)) = WANTED.as_ref()
        && wanted == name
        && TIMES.fetch_add(1, Ordering::Relaxed) + 1 == *times
    {
        tracing::error!(failpoint = name, times, "failpoint reached");
        std::process::abort();
    }
}

/// The process got to a place of this name.
#[cfg(not(debug_assertions))]
pub(crate) const fn reached(_name: &str) {}
