//! SIGTERM and SIGINT: the first asks for a drain, a second one stops at once.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{Exit, output};
use crate::pipeline::shutdown::{Shutdown, channel};

/// Takes the two signals over. Call it before anything that would have to be drained.
///
/// # Errors
///
/// Whatever the system says.
pub fn drain_on_signals() -> io::Result<Shutdown> {
    let mut signals = Signals {
        terminate: signal(SignalKind::terminate())?,
        interrupt: signal(SignalKind::interrupt())?,
    };
    let (trigger, shutdown) = channel();
    tokio::spawn(async move {
        let name = signals.next().await;
        tracing::info!("{name}: stopping; what is in flight is waited for, a second signal stops at once");
        trigger.request();
        let name = signals.next().await;
        tracing::warn!("{name} again: stopped at once; what was in flight is sent again at the next start");
        std::process::exit(i32::from(Exit::Failed.code()));
    });
    Ok(shutdown)
}

/// The same for a command that has nothing running yet: it ends where the signals cannot be had.
///
/// # Errors
///
/// How it ends; stderr has been told why.
pub fn drain_or_say_why() -> Result<Shutdown, Exit> {
    drain_on_signals().map_err(|error| {
        output::notice(&format!("walferry: signals cannot be taken over: {error}\n"));
        Exit::Failed
    })
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
