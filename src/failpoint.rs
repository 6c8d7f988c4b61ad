//! Places where something happens to the process, for the tests of what that leaves.
//!
//! `WALFERRY_FAILPOINT=name:n` aborts the process when it gets to that place for the n-th time; `name:n:terminate` sends it
//! SIGTERM, `name:n:freeze` SIGSTOP. A release build has none of this. The places are where a crash leaves a state of its own:
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
//! | `streamed` | a block of a running transaction was taken in |
//! | `spooled` | some of a running transaction was written to a file |
//! | `topic` | a topic is going to be looked for or created |
//! | `registration` | a schema is going to be registered |

/// The process got to a place of this name.
#[cfg(debug_assertions)]
pub(crate) fn reached(name: &str) {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    use rustix::process::{Signal, getpid, kill_process};

    struct Wanted {
        name: String,
        times: u64,
        /// None: the process aborts.
        signal: Option<Signal>,
    }

    static WANTED: LazyLock<Option<Wanted>> = LazyLock::new(|| {
        let text = std::env::var("WALFERRY_FAILPOINT").ok()?;
        let mut words = text.split(':');
        Some(Wanted {
            name: words.next()?.to_owned(),
            times: words.next().unwrap_or("1").parse().ok()?,
            signal: match words.next() {
                Some("terminate") => Some(Signal::TERM),
                Some("freeze") => Some(Signal::STOP),
                _ => None,
            },
        })
    });
    static TIMES: AtomicU64 = AtomicU64::new(0);

    if let Some(Wanted {
        name: wanted,
        times,
        signal,
    }) = WANTED.as_ref()
        && wanted == name
        && TIMES.fetch_add(1, Ordering::Relaxed) + 1 == *times
    {
        tracing::error!(failpoint = name, times, "failpoint reached");
        match signal {
            Some(signal) => drop(kill_process(getpid(), *signal)),
            None => std::process::abort(),
        }
    }
}

/// The process got to a place of this name.
#[cfg(not(debug_assertions))]
pub(crate) const fn reached(_name: &str) {}
