//! Real servers for the tests: shared ones that `scripts/test` has started, private ones for what breaks them.
//!
//! Everything has a fresh name, so that tests run side by side, and everything started here is stopped on drop.

#![allow(dead_code, reason = "each handle offers what some test needs")]

mod browser;
mod clock;
mod config;
mod http_proxy;
mod kafka;
mod postgres;
mod proxy;
mod reader;
mod registry;
mod walferry;

pub use browser::Browser;
pub use clock::Clock;
pub use config::Config;
pub use http_proxy::{Asked, Fault, HttpProxy};
pub use kafka::Kafka;
pub use postgres::{Database, Postgres, Row, Stop, connect_to, rows_of};
pub use proxy::{Link, PAIR, Proxy};
pub use reader::{Reading, Record, Written, read, read_events, read_records, read_uncommitted, write_back};
pub use registry::{Registry, http, http_with_headers};
pub use walferry::{Exit, Walferry};

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The `WALFERRY_TEST_*` variables.
pub struct Env {
    pub dir: PathBuf,
    pub postgres_bin: PathBuf,
    /// Postgres refuses root: the user that it runs as, with its group, when the tests are root's.
    pub postgres_os_user: Option<(String, String)>,
    pub kafka: String,
    pub kafka_lib: PathBuf,
    pub registry: String,
    pub apicurio_jar: PathBuf,
    pub java: PathBuf,
    pub python: PathBuf,
    pub tls: PathBuf,
}

impl Env {
    /// # Panics
    /// When the servers were not started.
    pub fn get() -> &'static Env {
        static ENV: OnceLock<Env> = OnceLock::new();
        ENV.get_or_init(|| {
            let user = variable("WALFERRY_TEST_POSTGRES_OS_USER");
            Env {
                dir: variable("WALFERRY_TEST_DIR").into(),
                postgres_bin: variable("WALFERRY_TEST_POSTGRES_BIN").into(),
                postgres_os_user: (!user.is_empty()).then(|| {
                    let group = Command::new("id").args(["-g", &user]).output().unwrap().stdout;
                    (user, String::from_utf8(group).unwrap().trim().to_owned())
                }),
                kafka: variable("WALFERRY_TEST_KAFKA"),
                kafka_lib: variable("WALFERRY_TEST_KAFKA_LIB").into(),
                registry: variable("WALFERRY_TEST_REGISTRY"),
                apicurio_jar: variable("WALFERRY_TEST_APICURIO_JAR").into(),
                java: variable("WALFERRY_TEST_JAVA").into(),
                python: variable("WALFERRY_TEST_PYTHON").into(),
                tls: variable("WALFERRY_TEST_TLS").into(),
            }
        })
    }

    /// A directory of its own for a private server or process; `scripts/test-env down` looks there for leftovers.
    pub fn private_dir(&self, name: &str) -> PathBuf {
        let dir = self.dir.join("private").join(name);
        std::fs::create_dir_all(&dir).unwrap();
        dir
    }
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!("{name} is not set: these tests need real servers; run scripts/test, or scripts/test-env up DIR and . DIR/env")
    })
}

/// A name that no other test has: valid for slots, databases and topics.
pub fn fresh(prefix: &str) -> String {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    format!(
        "{prefix}_{}_{}",
        std::process::id(),
        COUNTER.fetch_add(1, Ordering::Relaxed)
    )
}

/// A port that nothing listens on, below the kernel's ephemeral range.
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap();
    let floor: u32 = range.split_whitespace().next().unwrap().parse().unwrap();
    let floor = if floor > 12_000 { floor } else { 32_768 };
    let span = floor - 10_000;
    for _ in 0..500 {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = 10_000 + (std::process::id().wrapping_mul(7919) + step * 13) % span;
        let port = u16::try_from(port).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no free port between 10000 and {floor}");
}

/// Asks until there is an answer, at most for so long.
///
/// # Panics
/// When there is none in time; with `what`.
pub async fn eventually<T>(what: &str, limit: Duration, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(begin.elapsed() < limit, "not within {limit:?}: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Runs a command to its end.
///
/// # Panics
/// When it fails; with all that it said.
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn signal(child: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_child(child);
    // One that has ended already is no failure of the caller's.
    let _ = rustix::process::kill_process(pid, signal);
}

/// The last lines of a log, for a failure's message.
pub fn tail(path: &Path, lines: usize) -> String {
    let text = std::fs::read(path)
        .map(|b| String::from_utf8_lossy(&b).into_owned())
        .unwrap_or_default();
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

pub fn test_env_script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/test-env")
}

/// At most one of the heavy tests at a time: the others have bounds on time.
pub async fn heavy() -> tokio::sync::MutexGuard<'static, ()> {
    static HEAVY: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    HEAVY.lock().await
}
