//! At-least-once: what is confirmed is recorded, and then Postgres is told.

use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::error::chain;
use super::guarantee::Book;
use crate::failpoint;
use crate::kafka::KafkaError;
use crate::lsn::Lsn;
use crate::progress::Failure;
use crate::recovery::Place;

/// A position is recorded this often at most, so that a fast stream does not become a stream of records.
const INTERVAL: Duration = Duration::from_secs(1);

/// A task that records. Dropped, it stops at once.
pub(super) struct Keeper {
    finish: watch::Sender<bool>,
    task: JoinHandle<()>,
}

/// What the task has.
struct Records<T> {
    book: Book,
    /// What Kafka has.
    confirmed: watch::Receiver<Place>,
    recorded: Lsn,
    /// Lets Postgres be told.
    tell: T,
}

impl<T: Fn(Lsn) + Send + Sync> Records<T> {
    async fn latest(&mut self) -> Result<(), KafkaError> {
        let place = *self.confirmed.borrow_and_update();
        if place.end_lsn > self.recorded {
            failpoint::reached("delivered");
            self.book.write(place).await?;
            failpoint::reached("recorded");
            self.recorded = place.end_lsn;
            (self.tell)(place.end_lsn);
        }
        Ok(())
    }

    async fn until_told(&mut self, finish: &mut watch::Receiver<bool>) -> Result<(), KafkaError> {
        while !*finish.borrow() {
            tokio::select! {
                _ = finish.changed() => break,
                changed = self.confirmed.changed() => if changed.is_err() { break },
            }
            self.latest().await?;
            // An end that comes meanwhile is not kept waiting.
            let _ = tokio::time::timeout(INTERVAL, finish.changed()).await;
        }
        self.latest().await
    }
}

/// Says why the session is over, unless that was said before.
pub(super) fn tell_first(broken: &watch::Sender<Option<Failure>>, failure: Failure) {
    broken.send_if_modified(|known| {
        let first = known.is_none();
        known.get_or_insert(failure);
        first
    });
}

impl Keeper {
    /// Starts with everything before `recorded` recorded and told. What cannot be recorded breaks the session.
    pub(super) fn start(
        book: Book,
        recorded: Lsn,
        confirmed: watch::Receiver<Place>,
        tell: impl Fn(Lsn) + Send + Sync + 'static,
        broken: watch::Sender<Option<Failure>>,
    ) -> Self {
        let (finish, mut finished) = watch::channel(false);
        let mut records = Records {
            book,
            confirmed,
            recorded,
            tell,
        };
        let task = tokio::spawn(async move {
            if let Err(error) = records.until_told(&mut finished).await {
                let failure = match error.is_transient() {
                    true => Failure::Passing(chain(&error)),
                    false => Failure::Final(chain(&error)),
                };
                tell_first(&broken, failure);
            }
        });
        Keeper { finish, task }
    }

    /// Records the latest, within this time.
    pub(super) async fn finish(mut self, limit: Duration) {
        self.finish.send_replace(true);
        // Late, it is stopped by being dropped; what it did not record comes again.
        let _ = tokio::time::timeout(limit, &mut self.task).await;
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.task.abort();
    }
}
