//! The built binary as a process.

use super::{Clock, Config, Env, eventually, free_port, fresh, http, signal, tail};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How a process ended, and what it said.
#[derive(Debug)]
pub struct Exit {
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Exit {
    /// The last log line says why and what to do: it holds each of these, whatever the case of letters.
    #[track_caller]
    pub fn says(&self, words: &[&str]) {
        let text = self.stderr.to_lowercase();
        for word in words {
            assert!(text.contains(&word.to_lowercase()), "no {word:?} in:\n{}", self.stderr);
        }
    }
}

impl Exit {
    /// Somewhere in what it printed each of these stands.
    #[track_caller]
    pub fn says_on_both(&self, words: &[&str]) {
        let text = format!("{}{}", self.stdout, self.stderr).to_lowercase();
        for word in words {
            assert!(text.contains(&word.to_lowercase()), "no {word:?} in:\n{text}");
        }
    }
}

pub struct Walferry {
    child: Child,
    dir: PathBuf,
    http_port: u16,
    slot: String,
}

/// The program under test. `WALFERRY_TEST_BINARY` is for long runs, which want it optimised.
fn binary() -> PathBuf {
    let built = PathBuf::from(env!("CARGO_BIN_EXE_walferry"));
    std::env::var_os("WALFERRY_TEST_BINARY").map_or(built, PathBuf::from)
}

impl Walferry {
    /// `walferry run` with this configuration.
    pub fn start(config: &Config) -> Self {
        Self::spawn(config, "run")
    }

    /// `walferry run` that gets to a place where something happens to it: `name:n`, `name:n:terminate` or `name:n:freeze`.
    pub fn start_with_failpoint(config: &Config, failpoint: &str) -> Self {
        Self::spawn_with(config, "run", &[("WALFERRY_FAILPOINT", failpoint)])
    }

    /// `walferry run` with a wall clock that can be set.
    pub fn start_by(config: &Config, clock: &Clock) -> Self {
        let variables = clock.variables();
        Self::spawn_with(
            config,
            "run",
            &variables.each_ref().map(|(name, value)| (*name, value.as_str())),
        )
    }

    /// `walferry run` with these environment variables.
    pub fn start_with_variables(config: &Config, variables: &[(&str, &str)]) -> Self {
        Self::spawn_with(config, "run", variables)
    }

    /// `walferry run` for which this directory is a disk of its own, of so many bytes.
    pub fn start_with_disk(config: &Config, directory: &Path, bytes: u64) -> Self {
        // In a mount namespace of its own: the disk goes with the process.
        let script = format!(
            "mount -t tmpfs -o size={bytes},mode=1777 tmpfs '{}' && exec \"$0\" \"$@\"",
            directory.display()
        );
        let wrapper = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", &script];
        Self::spawn_by(&wrapper, config, "run", &[])
    }

    /// `walferry` with a command and its arguments, blanks between them.
    pub fn spawn(config: &Config, command: &str) -> Self {
        Self::spawn_with(config, command, &[])
    }

    fn spawn_with(config: &Config, command: &str, variables: &[(&str, &str)]) -> Self {
        Self::spawn_by(&[], config, command, variables)
    }

    /// By way of another program, which becomes it.
    fn spawn_by(wrapper: &[&str], config: &Config, command: &str, variables: &[(&str, &str)]) -> Self {
        let dir = Env::get().private_dir(&fresh("walferry"));
        let http_port = free_port();
        let file = dir.join("walferry.toml");
        let listening = config.clone().text("http.listen", &format!("127.0.0.1:{http_port}"));
        std::fs::write(&file, listening.to_toml()).unwrap();
        let walferry = binary();
        let mut words = wrapper.iter().map(OsStr::new).chain([walferry.as_ref()]);
        let child = Command::new(words.next().unwrap_or(walferry.as_ref()))
            .args(words)
            .args(command.split_whitespace())
            .arg("-c")
            .arg(&file)
            .env_remove("RUST_LOG")
            .env_remove("PGPASSFILE")
            .envs(variables.iter().copied())
            .current_dir(&dir)
            .stdin(Stdio::null())
            .stdout(File::create(dir.join("stdout")).unwrap())
            .stderr(File::create(dir.join("stderr")).unwrap())
            .spawn()
            .unwrap();
        std::fs::write(dir.join("pid"), child.id().to_string()).unwrap();
        Walferry {
            child,
            dir,
            http_port,
            slot: config.slot(),
        }
    }

    /// Starts a command and waits for its end.
    pub async fn to_end(config: &Config, command: &str, limit: Duration) -> Exit {
        Self::spawn(config, command).end(limit).await
    }

    /// A command beside this one, with its configuration; `snapshot --status` for one.
    pub async fn beside(&self, arguments: &[&str]) -> Exit {
        let mut command = Command::new(binary());
        command
            .args(arguments)
            .arg("-c")
            .arg(self.dir.join("walferry.toml"))
            .env_remove("RUST_LOG")
            .env_remove("PGPASSFILE")
            .current_dir(&self.dir)
            .stdin(Stdio::null());
        let output = tokio::task::spawn_blocking(move || command.output())
            .await
            .unwrap()
            .unwrap();
        Exit {
            code: output.status.code(),
            signal: output.status.signal(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    pub fn slot(&self) -> &str {
        &self.slot
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.http_port)
    }

    /// The status code and body of /health/ready; None while nothing listens.
    pub async fn readiness(&self) -> Option<(u16, String)> {
        http("GET", &self.url("/health/ready"), None).await.ok()
    }

    /// Waits until it streams.
    pub async fn ready(&mut self, limit: Duration) {
        let begin = std::time::Instant::now();
        let mut last = None;
        while begin.elapsed() < limit {
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("walferry ended with {status} before it was ready:\n{}", self.log());
            }
            last = self.readiness().await;
            if last.as_ref().is_some_and(|(status, _)| *status == 200) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("walferry was not ready within {limit:?}: {last:?}\n{}", self.log());
    }

    /// Waits until readiness is refused with a reason that holds this.
    pub async fn not_ready_because(&self, reason: &str, limit: Duration) {
        eventually(
            &format!("503 from /health/ready with {reason:?}\n{}", self.log()),
            limit,
            async || {
                let (status, body) = self.readiness().await?;
                (status == 503 && body.to_lowercase().contains(&reason.to_lowercase())).then_some(())
            },
        )
        .await;
    }

    pub async fn metrics(&self) -> Metrics {
        let (status, text) = http("GET", &self.url("/metrics"), None).await.unwrap();
        assert_eq!(status, 200, "{text}");
        Metrics::parse(&text)
    }

    pub async fn status(&self) -> serde_json::Value {
        let (status, text) = http("GET", &self.url("/status"), None).await.unwrap();
        assert_eq!(status, 200, "{text}");
        serde_json::from_str(&text).unwrap()
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// SIGTERM, and the end that follows.
    pub async fn terminate(&mut self, limit: Duration) -> Exit {
        signal(&self.child, Signal::TERM);
        self.end(limit).await
    }

    /// Waits until it has frozen itself.
    pub async fn frozen(&mut self, limit: Duration) {
        let begin = std::time::Instant::now();
        loop {
            assert!(self.is_running(), "walferry ended and was to freeze:\n{}", self.log());
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
            // The state stands behind the name, which is in parentheses.
            if stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T')) {
                return;
            }
            assert!(
                begin.elapsed() < limit,
                "walferry did not freeze within {limit:?}:\n{}",
                self.log()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Another signal that it has to live with.
    pub fn signal(&self, which: Signal) {
        signal(&self.child, which);
    }

    /// The process stops, its sockets stay.
    pub fn freeze(&self) {
        signal(&self.child, Signal::STOP);
    }

    pub fn thaw(&self) {
        signal(&self.child, Signal::CONT);
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub async fn end(&mut self, limit: Duration) -> Exit {
        let begin = std::time::Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                let read = |name: &str| std::fs::read_to_string(self.dir.join(name)).unwrap();
                return Exit {
                    code: status.code(),
                    signal: status.signal(),
                    stdout: read("stdout"),
                    stderr: read("stderr"),
                };
            }
            assert!(
                begin.elapsed() < limit,
                "walferry did not end within {limit:?}:\n{}",
                self.log()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The most memory that was ever resident, in MiB.
    pub fn peak_memory_mib(&self) -> u64 {
        self.memory_mib("VmHWM:")
    }

    /// The memory that is resident now, in MiB.
    pub fn resident_memory_mib(&self) -> u64 {
        self.memory_mib("VmRSS:")
    }

    /// How many descriptors are open.
    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id()))
            .unwrap()
            .count()
    }

    fn memory_mib(&self, which: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status
            .lines()
            .find_map(|l| l.strip_prefix(which))
            .expect("a process that runs");
        line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap() / 1024
    }

    /// All that it has printed so far.
    pub fn stdout(&self) -> String {
        std::fs::read_to_string(self.dir.join("stdout")).unwrap()
    }

    /// All that it has logged so far.
    pub fn whole_log(&self) -> String {
        std::fs::read_to_string(self.dir.join("stderr")).unwrap()
    }

    pub fn log(&self) -> String {
        format!("--- walferry's log\n{}", tail(&self.dir.join("stderr"), 40))
    }
}

impl Drop for Walferry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("{}", self.log());
        } else {
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }
}

/// What /metrics said.
pub struct Metrics(BTreeMap<String, f64>);

impl Metrics {
    fn parse(text: &str) -> Self {
        Metrics(
            text.lines()
                .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
                .map(|line| {
                    let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("not a metric: {line}"));
                    (
                        series.to_owned(),
                        value.parse().unwrap_or_else(|_| panic!("not a number: {line}")),
                    )
                })
                .collect(),
        )
    }

    /// One series, labels and all; 0 while it has not been counted.
    pub fn series(&self, series: &str) -> f64 {
        self.0.get(series).copied().unwrap_or_default()
    }

    /// The sum of all series of that name.
    #[track_caller]
    pub fn value(&self, name: &str) -> f64 {
        let labelled = format!("{name}{{");
        let found: Vec<f64> = self
            .0
            .iter()
            .filter(|(series, _)| *series == name || series.starts_with(&labelled))
            .map(|(_, value)| *value)
            .collect();
        assert!(!found.is_empty(), "no {name} in {:?}", self.0.keys());
        found.iter().sum()
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(|series| series.split('{').next().unwrap())
    }
}
