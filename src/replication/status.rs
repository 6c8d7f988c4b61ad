//! Standby status updates, from a task and a timer of their own: whatever happens downstream, the server hears from us
//! (manual, section "Streaming Replication Protocol", "Standby status update").
//!
//! An update says up to where the log was received (write) and up to where it is safe here (flush, and apply). The
//! flush position is the confirmed LSN. It never goes backwards, and is never `0/0` where the start is known.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::{BufMut, BytesMut};
use postgres_protocol::message::frontend;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Notify, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};

use super::error::{ReplicationError, ServerError};
use super::frames::FrameReader;
use super::frames::lost;
use super::settings::StartReplication;
use crate::lsn::Lsn;

/// Progress is told this often at most, so that a fast stream does not become a stream of updates.
const ADVANCE_INTERVAL: Duration = Duration::from_secs(1);
/// An interval of zero would make the task spin.
const LEAST_INTERVAL: Duration = Duration::from_millis(1);
/// How long the server has to take the final update.
const FINISH_LIMIT: Duration = Duration::from_secs(5);
/// How much silence is borne where the server has no `wal_sender_timeout`.
const SILENCE_LIMIT: Duration = Duration::from_secs(60);
/// From 1970-01-01 to 2000-01-01, in microseconds.
const POSTGRES_EPOCH_US: i64 = 946_684_800_000_000;

const DOING: &str = "sending a status update";

/// What the stream is read from.
pub(super) type Source = Box<dyn AsyncRead + Send + Unpin>;

/// Why an update is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StatusUpdate {
    /// The interval is over.
    Periodic,
    /// The server asked.
    Requested,
    /// More is confirmed.
    Advanced,
    /// The server has been silent for long: it is asked for an answer.
    Probe,
    /// Streaming ends.
    Final,
}

/// What reader, handle and task share.
#[derive(Debug)]
struct Shared {
    received: AtomicU64,
    /// The highest LSN that the server waits for us to confirm.
    awaited: AtomicU64,
    reply: AtomicBool,
    /// The server has ended the stream.
    ended: AtomicBool,
    wake: Notify,
    born: Instant,
    /// Milliseconds after `born` when something last came from the server.
    heard: AtomicU64,
}

/// The reader's side of the bond between the two directions.
pub(super) struct Link {
    shared: Arc<Shared>,
    /// What ended the task.
    pub failure: oneshot::Receiver<ReplicationError>,
    /// Takes the stream when the reader goes, so that it can be read to its end.
    leftover: oneshot::Sender<FrameReader<Source>>,
    /// How much silence is borne.
    pub silence_limit: Duration,
}

impl Link {
    /// Something came from the server.
    pub fn heard(&self) {
        let since = u64::try_from(self.shared.born.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.shared.heard.store(since, Ordering::Relaxed);
    }

    /// The server has ended the stream.
    pub fn ended(&self) {
        self.shared.ended.store(true, Ordering::Relaxed);
    }

    /// Hands the stream over, to be read to its end.
    pub fn leave(self, frames: FrameReader<Source>) {
        // Nobody takes it if the task has ended; then there is nothing to wait for.
        drop(self.leftover.send(frames));
    }
}

/// The handle of the task that sends status updates. Dropped without [`StatusSender::finish`], it ends the task, and
/// with it the connection's writing half.
#[derive(Debug)]
pub struct StatusSender {
    shared: Arc<Shared>,
    finish: Option<oneshot::Sender<()>>,
    task: JoinHandle<Result<(), ReplicationError>>,
}

impl StatusSender {
    /// The highest LSN received.
    pub fn received(&self, lsn: Lsn) {
        self.shared.received.fetch_max(lsn.as_u64(), Ordering::Relaxed);
    }

    /// The server asked for a reply in a keepalive that ends at `wal_end`: it gets one now, and another as soon as
    /// the confirmed LSN has reached `wal_end`, since its fast shutdown waits for that.
    pub fn reply_requested(&self, wal_end: Lsn) {
        self.received(wal_end);
        self.shared.awaited.fetch_max(wal_end.as_u64(), Ordering::Relaxed);
        self.shared.reply.store(true, Ordering::Release);
        self.shared.wake.notify_one();
    }

    /// Tells the server the latest confirmed LSN, and takes leave. If the reader has been dropped before, returns
    /// only when the server has taken the update and let go of the slot; what it sent meanwhile is thrown away. After an
    /// error of the reader there is nothing to wait for.
    ///
    /// # Errors
    ///
    /// If that takes longer than 5 s, or the connection failed before.
    pub async fn finish(mut self) -> Result<(), ReplicationError> {
        if let Some(finish) = self.finish.take() {
            // A task that has ended on its own says below why.
            let _ = finish.send(());
        }
        match timeout(FINISH_LIMIT, &mut self.task).await {
            Ok(Ok(ended)) => ended,
            Ok(Err(_)) => Err(ReplicationError::StatusTask),
            Err(_) => Err(ReplicationError::FinishTimeout(FINISH_LIMIT)),
        }
    }
}

impl Drop for StatusSender {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Starts the task.
pub(super) fn spawn<W>(writing: W, options: &StartReplication) -> (StatusSender, Link)
where
    W: AsyncWrite + Send + Unpin + 'static,
{
    let born = Instant::now();
    let shared = Arc::new(Shared {
        received: AtomicU64::new(options.start_lsn.as_u64()),
        awaited: AtomicU64::new(0),
        reply: AtomicBool::new(false),
        ended: AtomicBool::new(false),
        wake: Notify::new(),
        born,
        heard: AtomicU64::new(0),
    });
    let (finish, finished) = oneshot::channel();
    let (failed, failure) = oneshot::channel();
    let (leftover, left) = oneshot::channel();
    // Postgres writes "disabled" as 0.
    let patience = options.wal_sender_timeout.filter(|limit| !limit.is_zero());
    let silence_limit = patience.unwrap_or(SILENCE_LIMIT);
    let interval = patience.map_or(options.status_interval, |limit| options.status_interval.min(limit / 3));
    let interval = interval.max(LEAST_INTERVAL);
    let task = StatusTask {
        writing,
        out: BytesMut::new(),
        shared: Arc::clone(&shared),
        confirmed: options.confirmed.clone(),
        watching: true,
        flush: options.start_lsn,
        satisfied: Lsn::ZERO,
        interval,
        probe_after: (silence_limit / 2).max(LEAST_INTERVAL),
        sent: born,
        probed: born,
        left,
    };
    let task = tokio::spawn(task.run(finished, failed));
    let sender = StatusSender {
        shared: Arc::clone(&shared),
        finish: Some(finish),
        task,
    };
    (
        sender,
        Link {
            shared,
            failure,
            leftover,
            silence_limit,
        },
    )
}

struct StatusTask<W> {
    writing: W,
    out: BytesMut,
    shared: Arc<Shared>,
    confirmed: watch::Receiver<Lsn>,
    /// Until the other side of `confirmed` is gone.
    watching: bool,
    /// As last told.
    flush: Lsn,
    /// Up to here what the server waits for has been told.
    satisfied: Lsn,
    interval: Duration,
    probe_after: Duration,
    sent: Instant,
    probed: Instant,
    left: oneshot::Receiver<FrameReader<Source>>,
}

impl<W: AsyncWrite + Unpin> StatusTask<W> {
    async fn run(
        mut self,
        finished: oneshot::Receiver<()>,
        failed: oneshot::Sender<ReplicationError>,
    ) -> Result<(), ReplicationError> {
        match self.until_finished(finished).await {
            Ok(()) => match self.finish().await {
                // In its shutdown a server has waited for us to confirm all, and may have closed since.
                Err(error) if error.is_transient() && self.shared.ended.load(Ordering::Relaxed) => Ok(()),
                outcome => outcome,
            },
            // The reader is told; if it is gone, then whoever finishes.
            Err(error) => Err(failed.send(error).err().unwrap_or(ReplicationError::StatusTask)),
        }
    }

    async fn until_finished(&mut self, mut finished: oneshot::Receiver<()>) -> Result<(), ReplicationError> {
        loop {
            let confirmed = *self.confirmed.borrow_and_update();
            let awaited = Lsn::new(self.shared.awaited.load(Ordering::Relaxed));
            let waited_for = awaited > self.satisfied;
            if waited_for && confirmed >= awaited {
                self.send(StatusUpdate::Advanced).await?;
                continue;
            }
            let advanced = confirmed > self.flush;
            let heard = self.shared.born + Duration::from_millis(self.shared.heard.load(Ordering::Relaxed));
            let periodic = self.sent + self.interval;
            let mut next = (periodic, StatusUpdate::Periodic);
            if advanced {
                next = next.min_by_time((self.sent + ADVANCE_INTERVAL, StatusUpdate::Advanced));
            }
            next = next.min_by_time((heard.max(self.probed) + self.probe_after, StatusUpdate::Probe));
            tokio::select! {
                biased;
                _ = &mut finished => return Ok(()),
                () = self.shared.wake.notified() => {
                    if self.shared.reply.swap(false, Ordering::Acquire) {
                        self.send(StatusUpdate::Requested).await?;
                    }
                }
                // Once an advance waits for its turn, the next ones go with it, unless the server waits for one.
                changed = self.confirmed.changed(), if self.watching && (waited_for || !advanced) => {
                    self.watching = changed.is_ok();
                }
                () = sleep_until(next.0) => {
                    let heard_since = self.shared.born + Duration::from_millis(self.shared.heard.load(Ordering::Relaxed));
                    // The stream may have moved on while a probe was being waited for.
                    if next.1 != StatusUpdate::Probe || heard_since == heard {
                        self.send(next.1).await?;
                    }
                }
            }
        }
    }

    async fn send(&mut self, reason: StatusUpdate) -> Result<(), ReplicationError> {
        self.put(reason);
        self.flush().await
    }

    fn put(&mut self, reason: StatusUpdate) {
        let now = Instant::now();
        self.flush = self.flush.max(*self.confirmed.borrow());
        let awaited = Lsn::new(self.shared.awaited.load(Ordering::Relaxed));
        if self.flush >= awaited {
            self.satisfied = awaited;
        }
        let write = self.flush.max(Lsn::new(self.shared.received.load(Ordering::Relaxed)));
        tracing::trace!(?reason, write = %write, flush = %self.flush, "status update");
        put_status_update(&mut self.out, write, self.flush, postgres_now(), reason);
        self.sent = now;
        if reason == StatusUpdate::Probe {
            self.probed = now;
        }
    }

    async fn flush(&mut self) -> Result<(), ReplicationError> {
        let io_error = |error| ReplicationError::Io { doing: DOING, error };
        self.writing.write_all(&self.out).await.map_err(io_error)?;
        self.writing.flush().await.map_err(io_error)?;
        self.out.clear();
        Ok(())
    }

    async fn finish(&mut self) -> Result<(), ReplicationError> {
        self.put(StatusUpdate::Final);
        frontend::copy_done(&mut self.out);
        self.flush().await?;
        // Closed with bytes unread, the connection would be reset, and a server that is busy sending would not come to
        // read the update.
        if let Ok(mut frames) = self.left.try_recv() {
            loop {
                match frames.next().await {
                    Ok(frame) if frame.tag == b'Z' => break,
                    Ok(frame) if frame.tag == b'E' => {
                        let error = Box::new(ServerError::parse(&frame.body));
                        return Err(ReplicationError::Server { doing: DOING, error });
                    }
                    Ok(_) => {}
                    // In its own shutdown the server closes first, having waited for the update.
                    Err(super::frames::FrameError::Closed) => return Ok(()),
                    Err(error) => return Err(lost(DOING)(error)),
                }
            }
        }
        frontend::terminate(&mut self.out);
        self.flush().await?;
        self.writing
            .shutdown()
            .await
            .map_err(|error| ReplicationError::Io { doing: DOING, error })
    }
}

trait MinByTime {
    fn min_by_time(self, other: Self) -> Self;
}

impl MinByTime for (Instant, StatusUpdate) {
    fn min_by_time(self, other: Self) -> Self {
        if other.0 < self.0 { other } else { self }
    }
}

/// Microseconds since 2000-01-01 00:00 UTC.
fn postgres_now() -> i64 {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(unix.as_micros()).unwrap_or(i64::MAX) - POSTGRES_EPOCH_US
}

fn put_status_update(out: &mut BytesMut, write: Lsn, flush: Lsn, clock_us: i64, reason: StatusUpdate) {
    out.put_u8(b'd');
    out.put_i32(4 + 1 + 8 + 8 + 8 + 8 + 1);
    out.put_u8(b'r');
    out.put_u64(write.as_u64());
    out.put_u64(flush.as_u64());
    out.put_u64(flush.as_u64());
    out.put_i64(clock_us);
    out.put_u8(u8::from(reason == StatusUpdate::Probe));
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, DuplexStream, duplex};

    struct Update {
        write: Lsn,
        flush: Lsn,
        reply: bool,
    }

    async fn update(server: &mut DuplexStream) -> Update {
        let mut bytes = [0; 39];
        server.read_exact(&mut bytes).await.unwrap();
        assert_eq!(bytes[..6], [b'd', 0, 0, 0, 38, b'r']);
        let number = |at: usize| Lsn::new(u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap()));
        assert_eq!(number(14), number(22), "flush is apply");
        Update {
            write: number(6),
            flush: number(14),
            reply: bytes[38] == 1,
        }
    }

    fn start(
        confirmed: &watch::Sender<Lsn>,
        interval: Duration,
        limit: Option<Duration>,
    ) -> (StatusSender, Link, DuplexStream) {
        let (client, server) = duplex(64 * 1024);
        let options = StartReplication {
            slot: "s".to_owned(),
            start_lsn: Lsn::new(100),
            publications: vec![],
            protocol_version: 1,
            binary: false,
            messages: false,
            streaming: false,
            status_interval: interval,
            wal_sender_timeout: limit,
            confirmed: confirmed.subscribe(),
        };
        let (sender, link) = spawn(client, &options);
        (sender, link, server)
    }

    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn an_update_has_the_bytes_of_the_manual() {
        let mut out = BytesMut::new();
        put_status_update(&mut out, Lsn::new(3), Lsn::new(2), -1, StatusUpdate::Probe);
        let expected = [
            &b"d\0\0\0\x26r"[..],
            &[0, 0, 0, 0, 0, 0, 0, 3],
            &[0, 0, 0, 0, 0, 0, 0, 2],
            &[0, 0, 0, 0, 0, 0, 0, 2],
            &[0xFF; 8],
            &[1],
        ];
        assert_eq!(out[..], expected.concat());
    }

    #[test]
    fn only_a_probe_asks_for_a_reply() {
        use StatusUpdate::{Advanced, Final, Periodic, Probe, Requested};
        for (reason, reply) in [(Periodic, 0), (Requested, 0), (Advanced, 0), (Probe, 1), (Final, 0)] {
            let mut out = BytesMut::new();
            put_status_update(&mut out, Lsn::ZERO, Lsn::ZERO, 0, reason);
            assert_eq!(out.last(), Some(&reply), "{reason:?}");
        }
    }

    #[tokio::test]
    async fn updates_come_by_themselves_and_start_where_the_stream_starts() {
        let confirmed = watch::Sender::new(Lsn::ZERO);
        let (_sender, _link, mut server) = start(&confirmed, Duration::from_millis(5), None);
        for _ in 0..3 {
            let update = update(&mut server).await;
            assert_eq!(
                (update.write, update.flush, update.reply),
                (Lsn::new(100), Lsn::new(100), false)
            );
        }
    }

    #[tokio::test]
    async fn the_interval_is_at_most_a_third_of_the_servers_patience() {
        let confirmed = watch::Sender::new(Lsn::ZERO);
        let begun = Instant::now();
        let (_sender, link, mut server) = start(&confirmed, LONG, Some(Duration::from_millis(300)));
        update(&mut server).await;
        assert!(begun.elapsed() >= Duration::from_millis(99));
        assert!(begun.elapsed() < Duration::from_secs(60));
        assert_eq!(link.silence_limit, Duration::from_millis(300));
    }

    #[tokio::test]
    async fn a_silent_server_is_asked_for_a_reply() {
        let confirmed = watch::Sender::new(Lsn::ZERO);
        let (_sender, _link, mut server) = start(&confirmed, LONG, Some(Duration::from_millis(200)));
        while !update(&mut server).await.reply {}
    }

    #[tokio::test]
    async fn a_request_is_answered_at_once_and_again_when_the_awaited_lsn_is_confirmed() {
        let confirmed = watch::Sender::new(Lsn::ZERO);
        let (sender, _link, mut server) = start(&confirmed, LONG, None);
        sender.reply_requested(Lsn::new(500));
        let first = update(&mut server).await;
        assert_eq!((first.write, first.flush), (Lsn::new(500), Lsn::new(100)));
        confirmed.send_replace(Lsn::new(499));
        confirmed.send_replace(Lsn::new(500));
        // An update of the first step may come in between, at its own pace.
        let begun = Instant::now();
        while update(&mut server).await.flush != Lsn::new(500) {}
        assert!(begun.elapsed() < ADVANCE_INTERVAL, "it came with the timer");
    }

    #[tokio::test]
    async fn progress_is_told_before_the_interval_is_over() {
        let confirmed = watch::Sender::new(Lsn::ZERO);
        let (sender, _link, mut server) = start(&confirmed, LONG, None);
        sender.received(Lsn::new(900));
        confirmed.send_replace(Lsn::new(700));
        let update = update(&mut server).await;
        assert_eq!((update.write, update.flush), (Lsn::new(900), Lsn::new(700)));
    }

    #[tokio::test]
    async fn the_flush_position_never_goes_backwards() {
        let confirmed = watch::Sender::new(Lsn::new(200));
        let (sender, _link, mut server) = start(&confirmed, LONG, None);
        sender.reply_requested(Lsn::ZERO);
        assert_eq!(update(&mut server).await.flush, Lsn::new(200));
        confirmed.send_replace(Lsn::new(50));
        sender.reply_requested(Lsn::ZERO);
        assert_eq!(update(&mut server).await.flush, Lsn::new(200));
    }

    #[tokio::test]
    async fn the_last_words_are_the_latest_confirmed_lsn_copy_done_and_terminate() {
        let confirmed = watch::Sender::new(Lsn::ZERO);
        let (sender, _link, mut server) = start(&confirmed, LONG, None);
        confirmed.send_replace(Lsn::new(800));
        sender.finish().await.unwrap();
        assert_eq!(update(&mut server).await.flush, Lsn::new(800));
        let mut rest = Vec::new();
        server.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, b"c\0\0\0\x04X\0\0\0\x04");
    }

    #[tokio::test]
    async fn leave_is_taken_only_when_the_server_has_let_go() {
        let confirmed = watch::Sender::new(Lsn::ZERO);
        let (sender, link, mut server) = start(&confirmed, LONG, None);
        let (source, mut sink) = duplex(1024);
        let mut frames = FrameReader::new(Box::new(source) as Source);
        frames.set_limit(1024);
        link.leave(frames);
        let finish = tokio::spawn(sender.finish());
        update(&mut server).await;
        let mut done = [0; 5];
        server.read_exact(&mut done).await.unwrap();
        assert_eq!(&done, b"c\0\0\0\x04");
        sink.write_all(b"d\0\0\0\x05xc\0\0\0\x04").await.unwrap();
        assert!(!finish.is_finished());
        sink.write_all(b"C\0\0\0\x0BCOPY 0\0Z\0\0\0\x05I").await.unwrap();
        finish.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_failed_write_reaches_the_reader() {
        let confirmed = watch::Sender::new(Lsn::ZERO);
        let (sender, link, server) = start(&confirmed, LONG, None);
        drop(server);
        sender.reply_requested(Lsn::ZERO);
        assert!(matches!(link.failure.await.unwrap(), ReplicationError::Io { .. }));
        assert!(matches!(sender.finish().await, Err(ReplicationError::StatusTask)));
    }

    #[tokio::test]
    async fn a_confirmed_lsn_that_nobody_raises_any_more_stays_told() {
        let confirmed = watch::Sender::new(Lsn::new(300));
        let (_sender, _link, mut server) = start(&confirmed, Duration::from_millis(5), None);
        drop(confirmed);
        for _ in 0..3 {
            assert_eq!(update(&mut server).await.flush, Lsn::new(300));
        }
    }
}
