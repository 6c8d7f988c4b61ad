//! A throwaway Postgres: its own directory, reached by its unix socket only, gone at the end.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::DemoError;
use crate::replication::{PostgresSettings, SqlClient, SslMode, connect_sql};

pub(super) const PORT: u16 = 5432;
pub(super) const USER: &str = "walferry";
pub(super) const DATABASE: &str = "postgres";

/// A running server. Dropped, it is stopped and its directory removed.
pub(super) struct Postgres {
    /// Where everything of the demo lies, and the server's socket.
    directory: PathBuf,
    server: Option<Child>,
    pub(super) version: String,
}

/// Whom the server runs as: Postgres refuses root.
#[derive(Clone, Copy)]
struct Account {
    uid: u32,
    gid: u32,
}

impl Postgres {
    /// Finds the programs, makes a cluster and starts it.
    pub(super) async fn start() -> Result<Self, DemoError> {
        let programs = find_programs()?;
        let account = rustix::process::geteuid()
            .is_root()
            .then(unprivileged_account)
            .transpose()?;
        let directory = std::env::temp_dir().join(format!("walferry-demo-{}", std::process::id()));
        fs::create_dir(&directory).map_err(|source| DemoError::io(&directory, source))?;
        // From here on the directory goes when this does.
        let mut postgres = Postgres {
            directory: directory.clone(),
            server: None,
            version: String::new(),
        };
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o700))
            .map_err(|source| DemoError::io(&directory, source))?;
        if let Some(Account { uid, gid }) = account {
            chown(&directory, Some(uid), Some(gid)).map_err(|source| DemoError::io(&directory, source))?;
        }
        let data = directory.join("data");
        let mut initdb = program(&programs, "initdb", &directory, account);
        initdb
            .arg("-D")
            .arg(&data)
            .args(["-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "-N"]);
        let made = initdb
            .output()
            .map_err(|source| DemoError::io(&programs.join("initdb"), source))?;
        if !made.status.success() {
            return Err(DemoError::Postgres {
                what: "initdb",
                said: last_line(&made.stderr),
            });
        }
        let log = directory.join("postgres.log");
        let log_file = fs::File::create(&log).map_err(|source| DemoError::io(&log, source))?;
        let mut server = program(&programs, "postgres", &directory, account);
        server
            .arg("-D")
            .arg(&data)
            .arg("-k")
            .arg(&directory)
            .args(["-p", &PORT.to_string()]);
        for setting in [
            "listen_addresses=",
            "wal_level=logical",
            "fsync=off",
            "shared_buffers=16MB",
            "log_min_messages=fatal",
        ] {
            server.args(["-c", setting]);
        }
        server.stderr(log_file).stdout(Stdio::null());
        postgres.server = Some(
            server
                .spawn()
                .map_err(|source| DemoError::io(&programs.join("postgres"), source))?,
        );
        postgres.version = postgres.wait_until_ready(&log).await?;
        Ok(postgres)
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// An ordinary connection.
    pub(super) async fn connect(&self) -> Result<SqlClient, DemoError> {
        let settings = PostgresSettings {
            hosts: vec![self.directory.display().to_string()],
            port: PORT,
            database: DATABASE.to_owned(),
            user: USER.to_owned(),
            password: None,
            sslmode: SslMode::Disable,
            sslrootcert: None,
            sslcert: None,
            sslkey: None,
            connect_timeout: Duration::from_secs(5),
            application_name: "walferry demo".to_owned(),
        };
        Ok(connect_sql(&settings).await?)
    }

    async fn wait_until_ready(&mut self, log: &Path) -> Result<String, DemoError> {
        let started = Instant::now();
        loop {
            if let Ok(client) = self.connect().await {
                return Ok(client.query_one("SHOW server_version", &[]).await?.try_get(0)?);
            }
            let ended = self.server.as_mut().and_then(|server| server.try_wait().ok().flatten());
            if ended.is_some() || started.elapsed() > Duration::from_secs(30) {
                let said = last_line(&fs::read(log).unwrap_or_default());
                return Err(DemoError::Postgres { what: "postgres", said });
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn stop(&mut self) -> io::Result<()> {
        let Some(mut server) = self.server.take() else {
            return Ok(());
        };
        // SIGINT is Postgres's fast shutdown (manual, "Shutting Down the Server").
        if let Some(pid) = i32::try_from(server.id()).ok().and_then(rustix::process::Pid::from_raw) {
            rustix::process::kill_process(pid, rustix::process::Signal::INT)?;
        }
        let asked = Instant::now();
        while server.try_wait()?.is_none() {
            if asked.elapsed() > Duration::from_secs(5) {
                server.kill()?;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            tracing::warn!(%error, "the demo's postgres could not be stopped");
        }
        if let Err(error) = fs::remove_dir_all(&self.directory) {
            tracing::warn!(%error, directory = %self.directory.display(), "the demo's directory could not be removed");
        }
    }
}

fn program(programs: &Path, name: &str, directory: &Path, account: Option<Account>) -> Command {
    let mut command = Command::new(programs.join(name));
    command.current_dir(directory).stdin(Stdio::null()).env("LC_ALL", "C");
    // Ctrl-C is for walferry, which stops Postgres when it has drained.
    command.process_group(0);
    if let Some(Account { uid, gid }) = account {
        command.uid(uid).gid(gid);
    }
    command
}

/// The directory of `initdb` and `postgres`, the newest there is.
fn find_programs() -> Result<PathBuf, DemoError> {
    let mut candidates: Vec<PathBuf> = Vec::new();
    // Debian, Red Hat's packages (/usr/pgsql-17), Homebrew.
    for parent in ["/usr/lib/postgresql", "/usr", "/usr/local/opt", "/opt/homebrew/opt"] {
        let Ok(entries) = fs::read_dir(parent) else { continue };
        let mut versions: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        versions.retain(|path| version_of(path) > 0);
        versions.sort_by_key(|path| std::cmp::Reverse(version_of(path)));
        candidates.extend(versions.into_iter().map(|path| path.join("bin")));
    }
    candidates.push(PathBuf::from("/usr/local/pgsql/bin"));
    candidates.extend(std::env::var_os("PATH").iter().flat_map(std::env::split_paths));
    candidates
        .into_iter()
        .find(|directory| ["initdb", "postgres"].iter().all(|name| directory.join(name).is_file()))
        .ok_or(DemoError::NoPostgres)
}

/// `…/15`, `…/pgsql-15` or `…/postgresql@15` → 15; anything else → 0.
fn version_of(path: &Path) -> u32 {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let version = name
        .strip_prefix("postgresql@")
        .or_else(|| name.strip_prefix("pgsql-"))
        .unwrap_or(name);
    version.parse().unwrap_or_default()
}

/// `postgres` where a package made it, else `nobody`.
fn unprivileged_account() -> Result<Account, DemoError> {
    let path = Path::new("/etc/passwd");
    let accounts = fs::read_to_string(path).map_err(|source| DemoError::io(path, source))?;
    ["postgres", "nobody"]
        .iter()
        .find_map(|name| account(&accounts, name))
        .ok_or(DemoError::NoAccount)
}

/// A line of passwd(5): name, password, uid, gid, …
fn account(accounts: &str, name: &str) -> Option<Account> {
    accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then_some(())?;
        let uid = fields.nth(1)?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        Some(Account { uid, gid })
    })
}

fn last_line(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    text.lines()
        .rev()
        .find(|line| !line.trim().is_empty())
        .unwrap_or("nothing")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_found_by_its_name() {
        let accounts = "root:x:0:0:root:/root:/bin/sh\npostgres:x:107:114:PostgreSQL:/var/lib/postgresql:/bin/bash\n";
        let found = account(accounts, "postgres").unwrap();
        assert_eq!((found.uid, found.gid), (107, 114));
        assert!(account(accounts, "post").is_none());
    }

    #[test]
    fn the_newest_version_comes_first() {
        assert_eq!(version_of(Path::new("/usr/lib/postgresql/15")), 15);
        assert_eq!(version_of(Path::new("/opt/homebrew/opt/postgresql@17")), 17);
        assert_eq!(version_of(Path::new("/usr/pgsql-16")), 16);
        assert_eq!(version_of(Path::new("/opt/homebrew/opt/openssl@3")), 0);
    }
}
