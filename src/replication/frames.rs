//! Messages from the server, cut out of what was read.
//!
//! A message is a type byte, a 32-bit length that counts itself, and the body (manual, section "Message Formats").
//! Bodies are slices of the buffer that the socket was read into. Memory follows the bytes that have arrived, never
//! the length that was announced; a large message's buffer goes with its last slice.

use std::io;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::error::{ProtocolError, ReplicationError};
use crate::lsn::Lsn;

/// One buffer's size: what a slice that lives on can hold in memory beside itself.
const CHUNK: usize = 256 * 1024;
/// Less room than this, and the next buffer is begun: reads stay large.
const ROOM: usize = 64 * 1024;
/// Type and length.
const HEADER: usize = 5;

/// Nothing before the end of authentication needs more; whoever is on the other side is not yet known.
pub(super) const STARTUP_LIMIT: u32 = 64 * 1024;
/// As long as the length field can say: a row may have 1 GB.
pub(super) const STREAM_LIMIT: u32 = i32::MAX as u32;

/// Types that a server may send (manual, section "Message Formats", those marked B).
const TAGS: &[u8] = b"123ACDEGHIKNRSTVWZcdnstv";

/// A message: its type and its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    pub tag: u8,
    pub body: Bytes,
}

impl Frame {
    pub fn unexpected(&self, expected: &'static str) -> ProtocolError {
        ProtocolError::Unexpected {
            tag: char::from(self.tag),
            expected,
        }
    }
}

/// Why there is no next frame.
#[derive(Debug)]
pub(super) enum FrameError {
    Io(io::Error),
    /// The other side closed; in the middle of a message if `true`.
    Closed,
    Protocol(ProtocolError),
}

/// Cuts a byte stream into frames.
pub(super) struct FrameReader<R> {
    io: R,
    buffer: BytesMut,
    limit: u32,
    received: u64,
}

impl<R> FrameReader<R> {
    pub fn new(io: R) -> Self {
        FrameReader {
            io,
            buffer: BytesMut::new(),
            limit: STARTUP_LIMIT,
            received: 0,
        }
    }

    pub fn io_mut(&mut self) -> &mut R {
        &mut self.io
    }

    pub fn set_limit(&mut self, limit: u32) {
        self.limit = limit;
    }

    /// Bytes read from the socket (under TLS: from the decrypted stream) so far.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Exchanges the stream under the buffer, as when it is split in halves.
    pub fn map<S>(self, exchange: impl FnOnce(R) -> S) -> FrameReader<S> {
        FrameReader {
            io: exchange(self.io),
            buffer: self.buffer,
            limit: self.limit,
            received: self.received,
        }
    }

    /// Length of the message at the head, header included, if its header is there.
    fn announced(&self) -> Result<Option<usize>, ProtocolError> {
        let Some((&tag, rest)) = self.buffer.split_first() else {
            return Ok(None);
        };
        if !TAGS.contains(&tag) {
            return Err(ProtocolError::UnknownTag { tag });
        }
        let Some(length) = rest.first_chunk::<4>() else {
            return Ok(None);
        };
        let length = i32::from_be_bytes(*length);
        match u32::try_from(length) {
            Ok(plausible) if plausible >= 4 && plausible <= self.limit => Ok(Some(plausible as usize + 1)),
            _ => Err(ProtocolError::Length {
                tag: char::from(tag),
                length: i64::from(length),
            }),
        }
    }

    /// The next frame, if it has arrived whole. Makes no system call.
    pub fn pop(&mut self) -> Result<Option<Frame>, ProtocolError> {
        let Some(total) = self.announced()? else {
            return Ok(None);
        };
        if self.buffer.len() < total {
            return Ok(None);
        }
        let mut message = self.buffer.split_to(total);
        let tag = message.get_u8();
        message.advance(HEADER - 1);
        if total > CHUNK {
            // Else the buffer that was grown for this one would be reclaimed and kept for ever.
            let mut fresh = BytesMut::with_capacity(CHUNK.max(self.buffer.len()));
            fresh.extend_from_slice(&self.buffer);
            self.buffer = fresh;
        }
        Ok(Some(Frame {
            tag,
            body: message.freeze(),
        }))
    }

    /// Makes room for the next read.
    fn make_room(&mut self) -> Result<(), ProtocolError> {
        let held = self.buffer.len();
        let wanted = self.announced()?.unwrap_or(HEADER);
        if wanted > CHUNK {
            // Doubled as bytes arrive, up to what was announced.
            let target = wanted.min(held.saturating_mul(2)).max(CHUNK);
            self.buffer.reserve(target.saturating_sub(held).max(ROOM));
        } else if self.buffer.capacity() - held < ROOM && !self.buffer.try_reclaim(CHUNK - held.min(CHUNK)) {
            let mut fresh = BytesMut::with_capacity(CHUNK.max(held + ROOM));
            fresh.extend_from_slice(&self.buffer);
            self.buffer = fresh;
        }
        Ok(())
    }
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    /// Reads once, whatever there is. Cancel safe.
    pub async fn fill(&mut self) -> Result<(), FrameError> {
        self.make_room().map_err(FrameError::Protocol)?;
        match self.io.read_buf(&mut self.buffer).await {
            Ok(0) => Err(FrameError::Closed),
            Ok(read) => {
                self.received += read as u64;
                Ok(())
            }
            Err(error) => Err(FrameError::Io(error)),
        }
    }

    /// The next frame. Cancel safe.
    pub async fn next(&mut self) -> Result<Frame, FrameError> {
        loop {
            if let Some(frame) = self.pop().map_err(FrameError::Protocol)? {
                return Ok(frame);
            }
            self.fill().await?;
        }
    }
}

/// A place in a message's body; whoever is done asks for [`Cursor::end`].
pub(super) struct Cursor<'a> {
    message: &'static str,
    body: &'a [u8],
    offset: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(message: &'static str, body: &'a [u8]) -> Self {
        Cursor {
            message,
            body,
            offset: 0,
        }
    }

    pub fn offset(&self) -> usize {
        self.offset
    }

    pub fn malformed(&self, field: &'static str) -> ProtocolError {
        ProtocolError::Malformed {
            message: self.message,
            offset: self.offset,
            field,
        }
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], ProtocolError> {
        let (head, tail) = self
            .body
            .split_first_chunk::<N>()
            .ok_or_else(|| self.malformed(field))?;
        self.body = tail;
        self.offset += N;
        Ok(*head)
    }

    pub fn u8(&mut self, field: &'static str) -> Result<u8, ProtocolError> {
        self.array::<1>(field).map(|[byte]| byte)
    }

    pub fn i16(&mut self, field: &'static str) -> Result<i16, ProtocolError> {
        self.array(field).map(i16::from_be_bytes)
    }

    pub fn i32(&mut self, field: &'static str) -> Result<i32, ProtocolError> {
        self.array(field).map(i32::from_be_bytes)
    }

    pub fn i64(&mut self, field: &'static str) -> Result<i64, ProtocolError> {
        self.array(field).map(i64::from_be_bytes)
    }

    pub fn lsn(&mut self, field: &'static str) -> Result<Lsn, ProtocolError> {
        self.array(field).map(|bytes| Lsn::new(u64::from_be_bytes(bytes)))
    }

    pub fn bytes(&mut self, length: usize, field: &'static str) -> Result<&'a [u8], ProtocolError> {
        let (head, tail) = self
            .body
            .split_at_checked(length)
            .ok_or_else(|| self.malformed(field))?;
        self.body = tail;
        self.offset += length;
        Ok(head)
    }

    /// A string up to its zero byte.
    pub fn text(&mut self, field: &'static str) -> Result<&'a str, ProtocolError> {
        let length = self
            .body
            .iter()
            .position(|&byte| byte == 0)
            .ok_or_else(|| self.malformed(field))?;
        let text = str::from_utf8(self.bytes(length, field)?).map_err(|_| self.malformed(field))?;
        self.u8(field)?;
        Ok(text)
    }

    pub fn rest(&mut self) -> &'a [u8] {
        self.offset += self.body.len();
        std::mem::take(&mut self.body)
    }

    pub fn end(self) -> Result<(), ProtocolError> {
        if self.body.is_empty() {
            Ok(())
        } else {
            Err(self.malformed("bytes left over"))
        }
    }
}

/// For `map_err`: what a connection that failed while something was being done was lost by.
pub(super) fn lost(doing: &'static str) -> impl FnOnce(FrameError) -> ReplicationError {
    move |error| match error {
        FrameError::Io(error) => ReplicationError::Io { doing, error },
        FrameError::Closed => ReplicationError::Closed { doing },
        FrameError::Protocol(error) => ReplicationError::Protocol { doing, error },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(tag: u8, body: &[u8]) -> Vec<u8> {
        let mut bytes = vec![tag];
        bytes.extend_from_slice(&i32::try_from(body.len() + 4).unwrap().to_be_bytes());
        bytes.extend_from_slice(body);
        bytes
    }

    async fn all(bytes: &[u8], limit: u32) -> (Vec<Frame>, FrameError) {
        let mut reader = FrameReader::new(bytes);
        reader.set_limit(limit);
        let mut frames = Vec::new();
        loop {
            match reader.next().await {
                Ok(frame) => frames.push(frame),
                Err(error) => return (frames, error),
            }
        }
    }

    #[tokio::test]
    async fn messages_come_out_as_they_went_in_however_they_are_cut() {
        let bytes = [message(b'd', b"abc"), message(b'Z', b"I"), message(b'c', b"")].concat();
        for cut in 1..bytes.len() {
            let (head, tail) = bytes.split_at(cut);
            let mut reader = FrameReader::new(AsyncReadExt::chain(head, tail));
            for (tag, body) in [(b'd', &b"abc"[..]), (b'Z', b"I"), (b'c', b"")] {
                assert_eq!(
                    reader.next().await.unwrap(),
                    Frame {
                        tag,
                        body: Bytes::copy_from_slice(body)
                    },
                    "cut {cut}"
                );
            }
            assert!(matches!(reader.next().await, Err(FrameError::Closed)));
            assert_eq!(reader.received(), bytes.len() as u64);
        }
    }

    #[tokio::test]
    async fn a_length_that_cannot_be_is_refused_before_its_bytes_arrive() {
        for length in [-1_i32, i32::MIN, 0, 3, 65_537] {
            let mut bytes = vec![b'd'];
            bytes.extend_from_slice(&length.to_be_bytes());
            let (frames, error) = all(&bytes, STARTUP_LIMIT).await;
            assert!(frames.is_empty());
            let FrameError::Protocol(error) = error else {
                panic!("{length} was borne")
            };
            assert_eq!(
                error,
                ProtocolError::Length {
                    tag: 'd',
                    length: i64::from(length)
                }
            );
        }
    }

    #[tokio::test]
    async fn an_unknown_type_is_refused_at_its_first_byte() {
        let (_, error) = all(b"\x00", STREAM_LIMIT).await;
        assert!(matches!(
            error,
            FrameError::Protocol(ProtocolError::UnknownTag { tag: 0 })
        ));
        let (_, error) = all(b"HTTP/1.1 400 Bad Request\r\n", STARTUP_LIMIT).await;
        assert!(matches!(
            error,
            FrameError::Protocol(ProtocolError::Length { tag: 'H', .. })
        ));
    }

    #[tokio::test]
    async fn an_announced_gigabyte_that_does_not_arrive_takes_no_memory() {
        let mut bytes = vec![b'd'];
        bytes.extend_from_slice(&1_000_000_000_i32.to_be_bytes());
        bytes.extend_from_slice(&[7; 1000]);
        let mut reader = FrameReader::new(&bytes[..]);
        reader.set_limit(STREAM_LIMIT);
        assert!(matches!(reader.next().await, Err(FrameError::Closed)));
        assert!(reader.buffer.capacity() <= 2 * CHUNK, "{}", reader.buffer.capacity());
    }

    #[tokio::test]
    async fn a_large_messages_buffer_goes_with_it() {
        let large = vec![5; 20 << 20];
        let bytes = [message(b'd', &large), message(b'd', b"next")].concat();
        let mut reader = FrameReader::new(&bytes[..]);
        reader.set_limit(STREAM_LIMIT);
        assert_eq!(reader.next().await.unwrap().body, large);
        assert_eq!(reader.next().await.unwrap().body, b"next"[..]);
        assert!(reader.buffer.capacity() <= 2 * CHUNK, "{}", reader.buffer.capacity());
    }

    #[tokio::test]
    async fn a_slice_that_lives_on_is_not_overwritten() {
        let bytes: Vec<u8> = (0..100_000_u32)
            .flat_map(|number| message(b'd', &number.to_be_bytes()))
            .collect();
        let mut reader = FrameReader::new(&bytes[..]);
        let mut kept = Vec::new();
        while let Ok(frame) = reader.next().await {
            kept.push(frame.body);
        }
        assert_eq!(kept.len(), 100_000);
        assert!(
            (0..100_000_u32)
                .zip(&kept)
                .all(|(number, body)| body[..] == number.to_be_bytes())
        );
    }

    #[test]
    fn a_body_is_consumed_exactly() {
        let mut cursor = Cursor::new("Keepalive", &[1, 2]);
        assert_eq!(cursor.u8("a"), Ok(1));
        let malformed = |field| ProtocolError::Malformed {
            message: "Keepalive",
            offset: 1,
            field,
        };
        assert_eq!(cursor.i32("b"), Err(malformed("b")));
        assert_eq!(cursor.end(), Err(malformed("bytes left over")));
        let mut cursor = Cursor::new("ParameterStatus", b"name");
        assert!(cursor.text("name").is_err());
        assert!(Cursor::new("DataRow", b"ab").bytes(usize::MAX, "value").is_err());
    }
}
