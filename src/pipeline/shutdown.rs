//! The wish to stop.

use tokio::sync::watch;

/// Makes the two ends: one asks for the stop, clones of the other hear of it.
pub fn channel() -> (ShutdownTrigger, Shutdown) {
    let (sender, receiver) = watch::channel(false);
    (ShutdownTrigger(sender), Shutdown(receiver))
}

/// Asks for the stop. Dropped, it asks for nothing.
#[derive(Debug)]
pub struct ShutdownTrigger(watch::Sender<bool>);

impl ShutdownTrigger {
    /// Asks for a drain.
    pub fn request(&self) {
        self.0.send_replace(true);
    }
}

/// Hears of the wish to stop.
#[derive(Debug, Clone)]
pub struct Shutdown(watch::Receiver<bool>);

impl Shutdown {
    /// Whether a stop was asked for.
    pub fn is_requested(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until a stop is asked for.
    pub async fn requested(&self) {
        let mut receiver = self.0.clone();
        if receiver.wait_for(|requested| *requested).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
