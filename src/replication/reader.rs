//! The stream: XLogData and keepalives (manual, section "Streaming Replication Protocol").

use std::time::Duration;

use bytes::{Buf, Bytes};
use tokio::time::{Instant, timeout, timeout_at};

use super::error::protocol;
use super::error::{ProtocolError, ReplicationError, ServerError};
use super::frames::lost;
use super::frames::{Cursor, Frame, FrameReader};
use super::startup::notice;
use super::status::{Link, Source};
use crate::lsn::Lsn;

const DOING: &str = "the replication stream";
/// After a failed write: how long the server's own word on why is looked for.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// What comes from a walsender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamMessage {
    /// A message of the output plugin.
    XLogData {
        /// Where the log's record stands. All rows of a transaction may have the same.
        start: Lsn,
        /// The end of the log on the server, as of now.
        wal_end: Lsn,
        /// Microseconds since 2000-01-01 00:00 UTC.
        server_time_us: i64,
        /// A slice of what was read.
        data: Bytes,
    },
    /// The server lives.
    Keepalive {
        /// Up to here everything has been sent.
        wal_end: Lsn,
        /// Microseconds since 2000-01-01 00:00 UTC.
        server_time_us: i64,
        /// To be passed on to [`super::StatusSender::reply_requested`].
        reply_requested: bool,
    },
    /// The server ends the stream.
    End,
}

impl StreamMessage {
    fn parse(mut body: Bytes) -> Result<Self, ProtocolError> {
        match body.first() {
            Some(b'w') => {
                let mut cursor = Cursor::new("XLogData", &body);
                cursor.u8("type")?;
                let start = cursor.lsn("start")?;
                let wal_end = cursor.lsn("end of the log")?;
                let server_time_us = cursor.i64("time")?;
                let offset = cursor.offset();
                body.advance(offset);
                Ok(Self::XLogData {
                    start,
                    wal_end,
                    server_time_us,
                    data: body,
                })
            }
            Some(b'k') => {
                let mut cursor = Cursor::new("keepalive", &body);
                cursor.u8("type")?;
                let wal_end = cursor.lsn("end of the log")?;
                let server_time_us = cursor.i64("time")?;
                let reply_requested = match cursor.u8("reply")? {
                    0 => false,
                    1 => true,
                    _ => return Err(cursor.malformed("reply is neither 0 nor 1")),
                };
                cursor.end()?;
                Ok(Self::Keepalive {
                    wal_end,
                    server_time_us,
                    reply_requested,
                })
            }
            _ => Err(Cursor::new("CopyData", &body).malformed("unknown type")),
        }
    }
}

/// The reading half of a streaming connection.
pub struct ReplicationReader {
    stream: Option<(FrameReader<Source>, Link)>,
    /// How long it has been waited since the server was last heard.
    silence: Duration,
    ended: bool,
    /// Whether there is nothing more to be read.
    failed: bool,
    /// What has failed and is not told yet, and until when the server's own word is waited for.
    failing: Option<(ReplicationError, Instant)>,
}

/// Adds up the time that is spent waiting, also when the wait is cancelled. Time in which nobody waits is not silence:
/// the server may have been speaking.
struct Wait<'a> {
    silence: &'a mut Duration,
    since: Instant,
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        *self.silence += self.since.elapsed();
    }
}

impl ReplicationReader {
    pub(super) fn new<R>(frames: FrameReader<R>, link: Link) -> Self
    where
        R: tokio::io::AsyncRead + Send + Unpin + 'static,
    {
        let frames = frames.map(|read| Box::new(read) as Source);
        ReplicationReader {
            stream: Some((frames, link)),
            silence: Duration::ZERO,
            ended: false,
            failed: false,
            failing: None,
        }
    }

    /// The next message. Cancel safe.
    ///
    /// # Errors
    ///
    /// What the server says, what the socket says, what a status update met with, or
    /// [`ReplicationError::ServerSilent`] if nothing came for `wal_sender_timeout` (60 s where that is disabled). The
    /// connection is then of no more use.
    pub async fn next(&mut self) -> Result<StreamMessage, ReplicationError> {
        loop {
            if let Some(message) = self.try_next()? {
                return Ok(message);
            }
            if self.ended {
                return Ok(StreamMessage::End);
            }
            self.fill().await?;
        }
    }

    /// The next message, if it has been read already. Makes no system call; after the end there is none.
    ///
    /// # Errors
    ///
    /// What the server says, or bytes that are not the protocol.
    pub fn try_next(&mut self) -> Result<Option<StreamMessage>, ReplicationError> {
        let popped = self.pop();
        self.failed |= popped.is_err();
        popped
    }

    fn pop(&mut self) -> Result<Option<StreamMessage>, ReplicationError> {
        let Some((frames, link)) = &mut self.stream else {
            return Ok(None);
        };
        while !self.ended {
            let Some(frame) = frames.pop().map_err(protocol(DOING))? else {
                return Ok(None);
            };
            match frame.tag {
                b'd' => return StreamMessage::parse(frame.body).map(Some).map_err(protocol(DOING)),
                // In its shutdown the server sends CommandComplete without CopyDone before.
                b'c' | b'C' => {
                    self.ended = true;
                    link.ended();
                    return Ok(Some(StreamMessage::End));
                }
                _ => aside(&frame)?,
            }
        }
        Ok(None)
    }

    /// Bytes received so far, after decryption.
    pub fn bytes_received(&self) -> u64 {
        self.stream.as_ref().map_or(0, |(frames, _)| frames.received())
    }

    /// Reads once. Cancelled at any point and called again, it goes on where it was: what has failed is kept until it has
    /// been told.
    async fn fill(&mut self) -> Result<(), ReplicationError> {
        let Some((frames, link)) = &mut self.stream else {
            return Err(ReplicationError::Closed { doing: DOING });
        };
        if self.failing.is_none() {
            if self.failed {
                return Err(ReplicationError::Closed { doing: DOING });
            }
            let limit = link.silence_limit;
            let left = limit.saturating_sub(self.silence);
            let wait = Wait {
                silence: &mut self.silence,
                since: Instant::now(),
            };
            let outcome = tokio::select! {
                biased;
                failure = &mut link.failure => Err(failure.unwrap_or(ReplicationError::StatusTask)),
                read = timeout(left, frames.fill()) => match read {
                    Ok(Ok(())) => Ok(()),
                    Ok(Err(error)) => Err(lost(DOING)(error)),
                    Err(_) => Err(ReplicationError::ServerSilent(limit)),
                },
            };
            drop(wait);
            match outcome {
                Ok(()) => {
                    self.silence = Duration::ZERO;
                    link.heard();
                    return Ok(());
                }
                Err(error) => {
                    self.failed = true;
                    self.failing = Some((error, Instant::now() + LAST_WORDS));
                }
            }
        }
        let reason = match &self.failing {
            Some((ReplicationError::Io { .. } | ReplicationError::StatusTask, until)) => {
                last_words(frames, *until).await
            }
            _ => None,
        };
        let error = self
            .failing
            .take()
            .map_or(ReplicationError::StatusTask, |(error, _)| error);
        Err(reason.unwrap_or(error))
    }
}

impl Drop for ReplicationReader {
    fn drop(&mut self) {
        if let Some((frames, link)) = self.stream.take()
            && !self.failed
        {
            link.leave(frames);
        }
    }
}

/// Messages that say something beside the stream.
fn aside(frame: &Frame) -> Result<(), ReplicationError> {
    match frame.tag {
        b'E' => Err(ReplicationError::Server {
            doing: DOING,
            error: Box::new(ServerError::parse(&frame.body)),
        }),
        b'N' => {
            notice(frame);
            Ok(())
        }
        b'S' => Ok(()),
        _ => Err(protocol(DOING)(frame.unexpected("CopyData"))),
    }
}

/// A server that ends a connection says why before it closes; a failed write is but the consequence.
async fn last_words(frames: &mut FrameReader<Source>, until: Instant) -> Option<ReplicationError> {
    let search = async {
        while let Ok(frame) = frames.next().await {
            if frame.tag == b'E' {
                return Some(ReplicationError::Server {
                    doing: DOING,
                    error: Box::new(ServerError::parse(&frame.body)),
                });
            }
        }
        None
    };
    timeout_at(until, search).await.ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::super::frames::STREAM_LIMIT;
    use super::super::settings::StartReplication;
    use super::super::status::{self, StatusSender};
    use super::*;
    use tokio::io::{AsyncWriteExt, DuplexStream, duplex};
    use tokio::sync::watch;

    fn reader(limit: Duration) -> (ReplicationReader, StatusSender, DuplexStream, DuplexStream) {
        let (source, sink) = duplex(64 * 1024);
        let (writing, updates) = duplex(64 * 1024);
        let options = StartReplication {
            slot: "s".to_owned(),
            start_lsn: Lsn::ZERO,
            publications: vec![],
            protocol_version: 1,
            binary: false,
            messages: false,
            streaming: false,
            status_interval: Duration::from_secs(3600),
            wal_sender_timeout: Some(limit),
            confirmed: watch::channel(Lsn::ZERO).1,
        };
        let (sender, link) = status::spawn(writing, &options);
        let mut frames = FrameReader::new(source);
        frames.set_limit(STREAM_LIMIT);
        (ReplicationReader::new(frames, link), sender, sink, updates)
    }

    fn keepalive(wal_end: u64, reply: u8) -> Vec<u8> {
        [
            &b"d\0\0\0\x16k"[..],
            &wal_end.to_be_bytes(),
            &7_i64.to_be_bytes(),
            &[reply],
        ]
        .concat()
    }

    const PATIENT: Duration = Duration::from_secs(3600);

    #[tokio::test]
    async fn a_stream_comes_message_by_message_to_its_end() {
        let (mut reader, _sender, mut sink, _updates) = reader(PATIENT);
        let xlog = [
            &b"d\0\0\0\x20w"[..],
            &1_u64.to_be_bytes(),
            &2_u64.to_be_bytes(),
            &(-3_i64).to_be_bytes(),
            b"row",
        ];
        let stream = [
            &keepalive(9, 1)[..],
            b"N\0\0\0\x05\0S\0\0\0\x08a\0b\0",
            &xlog.concat(),
            b"c\0\0\0\x04",
        ]
        .concat();
        sink.write_all(&stream).await.unwrap();
        let expected = [
            StreamMessage::Keepalive {
                wal_end: Lsn::new(9),
                server_time_us: 7,
                reply_requested: true,
            },
            StreamMessage::XLogData {
                start: Lsn::new(1),
                wal_end: Lsn::new(2),
                server_time_us: -3,
                data: Bytes::from_static(b"row"),
            },
            StreamMessage::End,
            StreamMessage::End,
        ];
        assert_eq!(reader.try_next().unwrap(), None, "nothing has been read yet");
        for message in expected {
            assert_eq!(reader.next().await.unwrap(), message);
        }
        assert_eq!(reader.try_next().unwrap(), None);
        assert_eq!(reader.bytes_received(), stream.len() as u64);
    }

    #[test]
    fn messages_of_the_stream_are_consumed_exactly() {
        let whole = keepalive(1, 0);
        let body = Bytes::copy_from_slice(&whole[5..]);
        assert!(StreamMessage::parse(body.clone()).is_ok());
        for length in 0..body.len() {
            assert!(StreamMessage::parse(body.slice(..length)).is_err(), "{length}");
        }
        let too_long = [&body[..], b"\0"].concat();
        let wrong_reply = [&body[..17], b"\x02"].concat();
        for hostile in [
            &too_long[..],
            &wrong_reply,
            b"x",
            b"w\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        ] {
            assert!(
                StreamMessage::parse(Bytes::copy_from_slice(hostile)).is_err(),
                "{hostile:?}"
            );
        }
    }

    #[tokio::test]
    async fn an_error_of_the_server_ends_the_stream_with_its_sqlstate() {
        let (mut reader, _sender, mut sink, _updates) = reader(PATIENT);
        sink.write_all(b"E\0\0\0\x11C57P01\0Mbye\0\0\0").await.unwrap();
        let error = reader.next().await.unwrap_err();
        assert_eq!(error.sqlstate(), Some("57P01"));
        assert!(error.is_transient());
    }

    #[tokio::test]
    async fn a_closed_connection_is_an_error_and_not_an_end() {
        let (mut reader, _sender, sink, _updates) = reader(PATIENT);
        drop(sink);
        assert!(matches!(reader.next().await, Err(ReplicationError::Closed { .. })));
    }

    #[tokio::test]
    async fn a_message_that_does_not_belong_into_a_stream_is_refused() {
        let (mut reader, _sender, mut sink, _updates) = reader(PATIENT);
        sink.write_all(b"D\0\0\0\x04").await.unwrap();
        assert!(matches!(reader.next().await, Err(ReplicationError::Protocol { .. })));
    }

    #[tokio::test]
    async fn a_silent_server_is_given_up_also_when_the_wait_is_cancelled_over_and_over() {
        let (mut reader, _sender, _sink, _updates) = reader(Duration::from_millis(60));
        let error = loop {
            if let Ok(outcome) = timeout(Duration::from_millis(10), reader.next()).await {
                break outcome.unwrap_err();
            }
        };
        assert!(matches!(error, ReplicationError::ServerSilent(limit) if limit == Duration::from_millis(60)));
    }

    #[tokio::test]
    async fn time_in_which_nobody_waits_is_not_the_servers_silence() {
        let (mut reader, _sender, mut sink, _updates) = reader(Duration::from_millis(40));
        tokio::time::sleep(Duration::from_millis(80)).await;
        let (message, ()) = tokio::join!(reader.next(), async {
            tokio::task::yield_now().await;
            sink.write_all(&keepalive(1, 0)).await.unwrap();
        });
        assert!(message.is_ok());
    }

    #[tokio::test]
    async fn a_failed_status_update_ends_the_stream() {
        let (mut reader, sender, _sink, updates) = reader(PATIENT);
        drop(updates);
        sender.reply_requested(Lsn::ZERO);
        assert!(matches!(reader.next().await, Err(ReplicationError::Io { .. })));
    }

    #[tokio::test]
    async fn a_failure_is_told_even_if_the_wait_for_it_was_cancelled() {
        let (mut reader, sender, _sink, updates) = reader(PATIENT);
        drop(updates);
        sender.reply_requested(Lsn::ZERO);
        let mut cancelled = 0;
        let error = loop {
            match timeout(Duration::from_millis(20), reader.next()).await {
                Err(_) => cancelled += 1,
                Ok(outcome) => break outcome.unwrap_err(),
            }
        };
        assert!(matches!(error, ReplicationError::Io { .. }));
        assert!(
            cancelled > 1,
            "the wait for the server's last words was never cancelled"
        );
        assert!(matches!(reader.next().await, Err(ReplicationError::Closed { .. })));
    }

    #[tokio::test]
    async fn after_an_error_leave_is_taken_without_waiting_for_the_server() {
        let (mut reader, sender, sink, _updates) = reader(PATIENT);
        drop(sink);
        assert!(reader.next().await.is_err());
        drop(reader);
        let begun = Instant::now();
        sender.finish().await.unwrap();
        assert!(begun.elapsed() < Duration::from_secs(4));
    }

    #[tokio::test]
    async fn a_server_that_has_ended_the_stream_and_closed_is_not_an_error_at_the_end() {
        let (mut reader, sender, mut sink, updates) = reader(PATIENT);
        sink.write_all(b"C\0\0\0\x0BCOPY 0\0").await.unwrap();
        assert_eq!(reader.next().await.unwrap(), StreamMessage::End);
        drop((sink, updates, reader));
        sender.finish().await.unwrap();
    }

    #[tokio::test]
    async fn the_servers_word_is_preferred_to_the_failed_write_that_follows_from_it() {
        let (mut reader, sender, mut sink, updates) = reader(PATIENT);
        sink.write_all(&keepalive(1, 0)).await.unwrap();
        sink.write_all(b"E\0\0\0\x11C57P01\0Mbye\0\0\0").await.unwrap();
        drop(updates);
        sender.reply_requested(Lsn::ZERO);
        let error = loop {
            if let Err(error) = reader.next().await {
                break error;
            }
        };
        assert_eq!(error.sqlstate(), Some("57P01"));
    }
}
