//! A TCP proxy in front of a server: forwards, slows down, swallows, refuses, or cuts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What happens to bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Link {
    Forward,
    /// Nothing passes and nothing is closed, as when a firewall drops packets.
    BlackHole,
    /// Connections end, and new ones end at once.
    Refuse,
    /// What is read in one go waits before it is passed on.
    Delayed,
    /// Each byte is a packet of its own.
    Trickling,
    /// The server's side is closed towards the client, whose bytes go nowhere.
    HalfClosed,
}

impl Link {
    /// Whether bytes are read.
    fn reads(self) -> bool {
        !matches!(self, Link::BlackHole | Link::Refuse)
    }
}

const DELAY: Duration = Duration::from_millis(150);

pub struct Proxy {
    pub port: u16,
    link: watch::Sender<Link>,
    accept: JoinHandle<()>,
    connections: Arc<Mutex<Vec<JoinHandle<()>>>>,
    disturbed: Arc<AtomicU64>,
}

/// `postgres.host` for a [`Proxy::pair`].
pub const PAIR: &str = r#"["127.0.0.2", "127.0.0.3"]"#;

impl Proxy {
    pub async fn start(target_port: u16) -> Self {
        Self::with(("127.0.0.1", super::free_port()), target_port, false).await
    }

    /// At an address of its own: every 127.x.y.z is this machine's, and each has all the ports.
    pub async fn at(address: &str, port: u16, target_port: u16) -> Self {
        Self::with((address, port), target_port, false).await
    }

    /// Two hosts with one port, as a pair of servers has it: [`PAIR`] are their names.
    pub async fn pair(first: u16, second: u16) -> (Self, Self) {
        let port = super::free_port();
        (
            Self::at("127.0.0.2", port, first).await,
            Self::at("127.0.0.3", port, second).await,
        )
    }

    /// Like a connection pooler that knows nothing of replication: drops that parameter from the startup message.
    pub async fn pooler(target_port: u16) -> Self {
        Self::with(("127.0.0.1", super::free_port()), target_port, true).await
    }

    async fn with(address: (&str, u16), target_port: u16, pooler: bool) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (link, watching) = watch::channel(Link::Forward);
        let connections: Arc<Mutex<Vec<JoinHandle<()>>>> = Arc::default();
        let tasks = connections.clone();
        let disturbed: Arc<AtomicU64> = Arc::default();
        let count = disturbed.clone();
        let accept = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if *watching.borrow() == Link::Refuse {
                    continue;
                }
                let (watching, count) = (watching.clone(), count.clone());
                let task = tokio::spawn(async move {
                    // An end of either side, or of the link, ends both.
                    let _ = connection(client, target_port, pooler, watching, &count).await;
                });
                tasks.lock().unwrap().push(task);
            }
        });
        Proxy {
            port,
            link,
            accept,
            connections,
            disturbed,
        }
    }

    /// How many times bytes came that were not just passed on, or a connection was half closed.
    pub fn disturbed(&self) -> u64 {
        self.disturbed.load(Ordering::Relaxed)
    }

    pub fn set(&self, link: Link) {
        self.link.send_replace(link);
        if link == Link::Refuse {
            self.cut();
        }
    }

    /// Closes every connection there is; new ones are taken.
    pub fn cut(&self) {
        for task in self.connections.lock().unwrap().drain(..) {
            task.abort();
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accept.abort();
        self.cut();
    }
}

async fn connection(
    mut client: TcpStream,
    target_port: u16,
    pooler: bool,
    link: watch::Receiver<Link>,
    disturbed: &AtomicU64,
) -> std::io::Result<()> {
    let mut passing = link.clone();
    if passing.wait_for(|l| *l != Link::BlackHole).await.is_err() {
        return Ok(());
    }
    let mut server = TcpStream::connect(("127.0.0.1", target_port)).await?;
    for side in [&client, &server] {
        side.set_nodelay(true)?;
    }
    if pooler {
        startup_without_replication(&mut client, &mut server).await?;
    }
    let (client_read, client_write) = client.into_split();
    let (server_read, server_write) = server.into_split();
    tokio::select! {
        ended = pump(client_read, server_write, link.clone(), false, disturbed) => ended,
        ended = pump(server_read, client_write, link, true, disturbed) => ended,
    }
}

async fn pump(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    mut link: watch::Receiver<Link>,
    to_client: bool,
    disturbed: &AtomicU64,
) -> std::io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    let mut half_closed = false;
    loop {
        // Swallowing is not reading: the sender's window fills, as it does on a dead network.
        let Ok(now) = link.wait_for(|l| l.reads()).await.map(|l| *l) else {
            return Ok(());
        };
        if now == Link::HalfClosed && !half_closed {
            half_closed = true;
            disturbed.fetch_add(1, Ordering::Relaxed);
            if to_client {
                to.shutdown().await?;
            }
        }
        let n = tokio::select! {
            n = from.read(&mut buffer) => n?,
            changed = link.changed() => match changed {
                Ok(()) => continue,
                Err(_) => return Ok(()),
            },
        };
        if n == 0 {
            return Ok(());
        }
        let Ok(now) = link.wait_for(|l| l.reads()).await.map(|l| *l) else {
            return Ok(());
        };
        if half_closed {
            continue;
        }
        match now {
            Link::Delayed => {
                disturbed.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(DELAY).await;
                to.write_all(&buffer[..n]).await?;
            }
            Link::Trickling => {
                disturbed.fetch_add(1, Ordering::Relaxed);
                for byte in &buffer[..n] {
                    to.write_all(&[*byte]).await?;
                }
            }
            _ => to.write_all(&buffer[..n]).await?,
        }
    }
}

/// Forwards the startup message without its `replication` parameter.
async fn startup_without_replication(client: &mut TcpStream, server: &mut TcpStream) -> std::io::Result<()> {
    let length = client.read_u32().await?;
    let mut body = vec![0; length as usize - 4];
    client.read_exact(&mut body).await?;
    let (protocol, parameters) = body.split_at(4);
    let words: Vec<&[u8]> = parameters.split(|b| *b == 0).collect();
    let mut kept = protocol.to_vec();
    for pair in words
        .chunks_exact(2)
        .filter(|pair| !pair[0].is_empty() && pair[0] != b"replication")
    {
        kept.extend_from_slice(pair[0]);
        kept.push(0);
        kept.extend_from_slice(pair[1]);
        kept.push(0);
    }
    kept.push(0);
    server.write_u32(u32::try_from(kept.len()).unwrap() + 4).await?;
    server.write_all(&kept).await
}
