//! The socket, and how it is read.
//!
//! The walsender writes one small message a row. A client that is woken for each spends more on waking than on the
//! rows. So while a TCP connection is busy, nobody watches it: what has come is read at once, and if that was little,
//! [`PAUSE`] passes before the next read, so that one read takes in what came meanwhile. Only when a read finds
//! nothing is the socket watched again, without any timer; then the first byte wakes the reader at once. A message
//! after a lull is thus never delayed, and one in a stream by at most about two milliseconds.
//!
//! "Nobody watches" must be meant literally: in the poller's set, each segment would wake the runtime's thread, even
//! though no task waits for it. Hence two descriptors of one socket, each in the set only while it is waited for. Adding
//! a descriptor to the set reports what is the case already, so nothing is missed in between.
//!
//! A unix socket is never left alone: its buffer is small, and the sender would stall.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, BufReader, ReadBuf};
use tokio::net::UnixStream;
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_rustls::client::TlsStream;

/// How long bytes may gather.
const PAUSE: Duration = Duration::from_millis(1);
/// The most that one read takes; after a read of less there was nothing more.
const READ: usize = 64 * 1024;
/// What TLS decrypts from, so that its small reads do not reach the socket.
const TLS_BUFFER: usize = 128 * 1024;

/// Whether reads wait for company.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// Questions and answers: each answer is wanted at once.
    Prompt,
    /// A stream: bytes may gather while it flows.
    Coalesced,
}

/// One descriptor of the socket.
enum Descriptor {
    /// In the poller's set.
    Watched(tokio::net::TcpStream),
    /// Out of it.
    Unwatched(TcpStream),
    /// Changing over has failed; only ever seen after an error.
    Lost,
}

impl Descriptor {
    fn watch(&mut self) -> io::Result<()> {
        *self = match std::mem::replace(self, Self::Lost) {
            Self::Unwatched(stream) => Self::Watched(tokio::net::TcpStream::from_std(stream)?),
            other => other,
        };
        Ok(())
    }

    fn unwatch(&mut self) -> io::Result<()> {
        *self = match std::mem::replace(self, Self::Lost) {
            Self::Watched(stream) => Self::Unwatched(stream.into_std()?),
            other => other,
        };
        Ok(())
    }
}

/// A TCP connection whose reads are coalesced once it streams.
pub(super) struct TcpSocket {
    reading: Descriptor,
    writing: Descriptor,
    pace: Pace,
    /// No read before this is over; allocated once.
    pause: Pin<Box<Sleep>>,
    pausing: bool,
}

impl TcpSocket {
    /// Takes over a connected, non-blocking stream. Must be called within a runtime.
    pub fn new(stream: TcpStream) -> io::Result<Self> {
        Ok(TcpSocket {
            writing: Descriptor::Unwatched(stream.try_clone()?),
            reading: Descriptor::Unwatched(stream),
            pace: Pace::Prompt,
            pause: Box::pin(sleep_until(Instant::now())),
            pausing: false,
        })
    }

    /// Changes to the pace of a stream: bytes may gather from now on.
    fn coalesce(&mut self) {
        self.pace = Pace::Coalesced;
    }

    /// After a read of `read` bytes into `room`.
    fn after_read(&mut self, read: usize, room: usize) -> io::Result<()> {
        if self.pace == Pace::Prompt {
            return Ok(());
        }
        self.reading.unwatch()?;
        self.pausing = read < room;
        if self.pausing {
            self.pause.as_mut().reset(Instant::now() + PAUSE);
        }
        Ok(())
    }
}

/// One read of at most [`READ`] bytes.
fn read_once(stream: &mut TcpStream, buf: &mut ReadBuf<'_>) -> io::Result<usize> {
    let room = buf.remaining().min(READ);
    loop {
        match io::Read::read(stream, buf.initialize_unfilled_to(room)) {
            Ok(read) => {
                buf.advance(read);
                return Ok(read);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

impl AsyncRead for TcpSocket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let room = buf.remaining().min(READ);
        if room == 0 {
            return Poll::Ready(Ok(()));
        }
        if this.pausing {
            ready!(this.pause.as_mut().poll(cx));
            this.pausing = false;
        }
        loop {
            let read = match &mut this.reading {
                Descriptor::Watched(stream) => {
                    ready!(stream.poll_read_ready(cx))?;
                    match stream.try_read(buf.initialize_unfilled_to(room)) {
                        Ok(read) => {
                            buf.advance(read);
                            read
                        }
                        // A false alarm, which is cleared thereby.
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                        Err(error) => return Poll::Ready(Err(error)),
                    }
                }
                Descriptor::Unwatched(stream) => match read_once(stream, buf) {
                    Ok(read) => read,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        this.reading.watch()?;
                        continue;
                    }
                    Err(error) => return Poll::Ready(Err(error)),
                },
                Descriptor::Lost => return Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
            };
            return Poll::Ready(this.after_read(read, room));
        }
    }
}

impl AsyncWrite for TcpSocket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            match &mut self.writing {
                Descriptor::Watched(stream) => {
                    let written = ready!(Pin::new(stream).poll_write(cx, bytes));
                    self.writing.unwatch()?;
                    return Poll::Ready(written);
                }
                Descriptor::Unwatched(stream) => match io::Write::write(stream, bytes) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.writing.watch()?,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    written => return Poll::Ready(written),
                },
                Descriptor::Lost => return Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().writing {
            Descriptor::Watched(stream) => Pin::new(stream).poll_shutdown(cx),
            Descriptor::Unwatched(stream) => Poll::Ready(stream.shutdown(Shutdown::Write)),
            Descriptor::Lost => Poll::Ready(Ok(())),
        }
    }
}

/// A connection to the server, encrypted or not.
pub(super) enum Transport {
    Tcp(TcpSocket),
    Unix(UnixStream),
    Tls(Box<TlsStream<BufReader<TcpSocket>>>),
}

impl Transport {
    /// Encrypts a connection.
    pub async fn encrypt(
        socket: TcpSocket,
        connector: &tokio_rustls::TlsConnector,
        name: rustls::pki_types::ServerName<'static>,
    ) -> io::Result<Self> {
        let stream = connector
            .connect(name, BufReader::with_capacity(TLS_BUFFER, socket))
            .await?;
        Ok(Transport::Tls(Box::new(stream)))
    }

    /// From now on bytes may gather before they are read.
    pub fn coalesce(&mut self) {
        match self {
            Self::Tcp(socket) => socket.coalesce(),
            Self::Tls(stream) => stream.get_mut().0.get_mut().coalesce(),
            Self::Unix(_) => {}
        }
    }

    /// The certificate that the server showed, DER.
    pub fn server_certificate(&self) -> Option<&[u8]> {
        match self {
            Self::Tls(stream) => stream
                .get_ref()
                .1
                .peer_certificates()?
                .first()
                .map(|certificate| certificate.as_ref()),
            Self::Tcp(_) | Self::Unix(_) => None,
        }
    }

    /// Whether it is encrypted.
    pub fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }
}

/// Calls the same method on whichever it is.
macro_rules! each {
    ($self:ident, $io:ident => $call:expr) => {
        match $self.get_mut() {
            Transport::Tcp($io) => {
                let $io = Pin::new($io);
                $call
            }
            Transport::Unix($io) => {
                let $io = Pin::new($io);
                $call
            }
            Transport::Tls($io) => {
                let $io = Pin::new($io);
                $call
            }
        }
    };
}

impl AsyncRead for Transport {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        each!(self, io => io.poll_read(cx, buf))
    }
}

impl AsyncWrite for Transport {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        each!(self, io => io.poll_write(cx, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, io => io.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, io => io.poll_shutdown(cx))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    fn pair(pace: Pace) -> (TcpSocket, TcpStream) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.set_nonblocking(true).unwrap();
        let mut socket = TcpSocket::new(client).unwrap();
        socket.pace = pace;
        (socket, listener.accept().unwrap().0)
    }

    #[tokio::test]
    async fn every_byte_arrives_in_order_at_either_pace() {
        for pace in [Pace::Prompt, Pace::Coalesced] {
            let (mut socket, mut server) = pair(pace);
            let writer = std::thread::spawn(move || {
                for number in 0..50_000_u32 {
                    server.write_all(&number.to_be_bytes()).unwrap();
                }
            });
            let mut bytes = Vec::new();
            socket.read_to_end(&mut bytes).await.unwrap();
            writer.join().unwrap();
            let numbers = bytes
                .chunks_exact(4)
                .map(|four| u32::from_be_bytes(four.try_into().unwrap()));
            assert!(numbers.eq(0..50_000), "{pace:?}");
        }
    }

    #[tokio::test]
    async fn a_stream_is_read_in_few_pieces() {
        let (mut socket, mut server) = pair(Pace::Coalesced);
        let writer = std::thread::spawn(move || {
            server.set_nodelay(true).unwrap();
            for _ in 0..20_000 {
                server.write_all(&[0; 200]).unwrap();
            }
        });
        let (mut total, mut reads) = (0, 0);
        let mut buffer = vec![0; READ];
        loop {
            match socket.read(&mut buffer).await.unwrap() {
                0 => break,
                read => (total, reads) = (total + read, reads + 1),
            }
        }
        writer.join().unwrap();
        assert_eq!(total, 4_000_000);
        assert!(reads < 5_000, "{reads} reads for 20000 writes");
    }

    #[tokio::test]
    async fn the_first_byte_after_a_lull_wakes_the_reader() {
        let (mut socket, mut server) = pair(Pace::Coalesced);
        let mut buffer = [0; 16];
        for byte in 0..3 {
            let (read, ()) = tokio::join!(socket.read(&mut buffer), async {
                tokio::time::sleep(PAUSE * 5).await;
                server.write_all(&[byte]).unwrap();
            });
            assert_eq!(read.unwrap(), 1);
            assert_eq!(buffer.first(), Some(&byte));
        }
        assert!(
            matches!(socket.reading, Descriptor::Unwatched(_)),
            "a busy descriptor is out of the poller's set"
        );
    }

    #[tokio::test]
    async fn both_directions_work_at_once() {
        let (socket, server) = pair(Pace::Coalesced);
        server.set_nonblocking(true).unwrap();
        let server = tokio::net::TcpStream::from_std(server).unwrap();
        let (mut there, mut back) = server.into_split();
        let echo = tokio::spawn(async move { tokio::io::copy(&mut there, &mut back).await });
        let (mut reading, mut writing) = tokio::io::split(socket);
        let sent = vec![9; 3_000_000];
        let length = sent.len();
        let write = tokio::spawn(async move {
            writing.write_all(&sent).await.unwrap();
            writing.shutdown().await.unwrap();
        });
        let mut received = Vec::new();
        reading.read_to_end(&mut received).await.unwrap();
        assert_eq!(received.len(), length);
        write.await.unwrap();
        assert_eq!(echo.await.unwrap().unwrap(), length as u64);
    }
}
