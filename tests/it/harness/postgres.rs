//! Postgres: shared by version, or private and made to be stopped.

use super::{Env, eventually, free_port, fresh, run, tail, test_env_script};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// How `pg_ctl stop` is asked to stop.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    Fast,
    Immediate,
}

pub struct Postgres {
    pub version: u32,
    pub port: u16,
    /// Holds the socket, `data/` and `postgres.log`.
    pub dir: PathBuf,
    private: bool,
}

impl Postgres {
    /// The server of this major version that all tests share.
    pub fn shared(version: u32) -> Self {
        let port = super::variable(&format!("WALFERRY_TEST_POSTGRES_{version}_PORT"))
            .parse()
            .unwrap();
        let dir = super::variable(&format!("WALFERRY_TEST_POSTGRES_{version}_DIR")).into();
        Postgres {
            version,
            port,
            dir,
            private: false,
        }
    }

    /// A server of the test's own, started, with these settings beside the usual ones.
    pub fn private(version: u32, settings: &[(&str, &str)]) -> Self {
        let dir = Env::get().private_dir(&fresh("pg"));
        let port = free_port();
        run(Command::new(test_env_script())
            .arg("postgres-init")
            .arg(version.to_string())
            .arg(&dir)
            .arg(port.to_string()));
        let postgres = Postgres {
            version,
            port,
            dir,
            private: true,
        };
        postgres.configure(settings);
        postgres.start();
        postgres
    }

    /// A standby of a server that is stopped, as a copy of its files; neither is started. The primary needs a physical slot
    /// `standby`.
    fn standby_of(primary: &Postgres, settings: &[(&str, &str)]) -> Self {
        let dir = Env::get().private_dir(&fresh("pg"));
        std::fs::create_dir_all(&dir).unwrap();
        append(
            &primary.dir.join("data/pg_hba.conf"),
            "host replication postgres 127.0.0.1/32 trust",
        );
        run(Command::new("cp").arg("-a").arg(primary.dir.join("data")).arg(&dir));
        run(Command::new("chown").arg("--reference").arg(&primary.dir).arg(&dir));
        std::fs::write(dir.join("data/standby.signal"), "").unwrap();
        let standby = Postgres {
            version: primary.version,
            port: free_port(),
            dir,
            private: true,
        };
        standby.configure(&[
            ("port", &standby.port.to_string()),
            ("unix_socket_directories", standby.dir.to_str().unwrap()),
            (
                "primary_conninfo",
                &format!(
                    "host=127.0.0.1 port={} user=postgres dbname=postgres sslmode=disable",
                    primary.port
                ),
            ),
            ("primary_slot_name", "standby"),
            ("hot_standby_feedback", "on"),
        ]);
        standby.configure(settings);
        standby
    }

    /// A primary and its standby, both started.
    pub async fn with_standby(version: u32, primary: &[(&str, &str)], standby: &[(&str, &str)]) -> (Self, Self) {
        let primary = Self::private(version, primary);
        let slot = "SELECT pg_create_physical_replication_slot('standby', true)";
        primary.connect("postgres").await.query(slot, &[]).await.unwrap();
        primary.stop(Stop::Fast);
        let standby = Self::standby_of(&primary, standby);
        primary.start();
        standby.start();
        (primary, standby)
    }

    /// The same, where the standby is to have copies of the primary's slots.
    pub async fn pair(version: u32, primary: &[(&str, &str)], standby: &[(&str, &str)]) -> (Self, Self) {
        Self::with_standby(
            version,
            primary,
            &[&[("sync_replication_slots", "on")], standby].concat(),
        )
        .await
    }

    /// Waits until this standby has a copy of the primary's slot that would outlive a promotion.
    pub async fn has_copy_of(&self, slot: &str, database: &str) {
        let client = self.connect(database).await;
        let copied = format!(
            "SELECT FROM pg_replication_slots WHERE slot_name = '{slot}' AND synced AND NOT temporary \
             AND invalidation_reason IS NULL"
        );
        eventually("the slot's copy on the standby", Duration::from_secs(60), async || {
            (!client.query(&copied, &[]).await.unwrap().is_empty()).then_some(())
        })
        .await;
    }

    /// A copy of the files of a server that is stopped.
    pub fn copy_of_files(&self) -> PathBuf {
        let copy = self.dir.join("copy");
        run(Command::new("cp").arg("-a").arg(self.dir.join("data")).arg(&copy));
        copy
    }

    /// Puts a copy in the place of the files; the server is stopped.
    pub fn put_back(&self, copy: PathBuf) {
        std::fs::remove_dir_all(self.dir.join("data")).unwrap();
        std::fs::rename(copy, self.dir.join("data")).unwrap();
    }

    /// Adds to the configuration file; takes effect at the next start.
    pub fn configure(&self, settings: &[(&str, &str)]) {
        for (key, value) in settings {
            append(&self.dir.join("data/postgresql.conf"), &format!("{key} = '{value}'"));
        }
    }

    fn pg_ctl(&self) -> Command {
        let env = Env::get();
        let binary = env.postgres_bin.join(self.version.to_string()).join("bin/pg_ctl");
        let mut command = match &env.postgres_os_user {
            Some((user, group)) => {
                let mut command = Command::new("setpriv");
                command
                    .args(["--reuid", user, "--regid", group, "--clear-groups"])
                    .arg(binary);
                command
            }
            None => Command::new(binary),
        };
        command
            .current_dir("/")
            .env("LC_ALL", "C")
            .env("LOCPATH", env.postgres_bin.with_file_name("locale"))
            .arg("-D")
            .arg(self.dir.join("data"));
        command
    }

    pub fn start(&self) {
        let log = self.dir.join("postgres.log");
        // To a file: the server would inherit a pipe and keep it open.
        let out = std::fs::File::create(self.dir.join("pg_ctl.log")).unwrap();
        let status = self
            .pg_ctl()
            .arg("-l")
            .arg(&log)
            .args(["-w", "-t", "60", "start"])
            .stdout(out.try_clone().unwrap())
            .stderr(out)
            .status()
            .unwrap();
        assert!(
            status.success(),
            "Postgres {} did not start:\n{}",
            self.version,
            tail(&log, 30)
        );
    }

    /// Stops the server and tells how long `pg_ctl stop` took.
    pub fn stop(&self, how: Stop) -> Duration {
        assert!(self.private, "a shared server is not for one test to stop");
        let mode = match how {
            Stop::Fast => "fast",
            Stop::Immediate => "immediate",
        };
        let begin = Instant::now();
        run(self.pg_ctl().args(["-w", "-t", "120", "-m", mode, "stop"]));
        begin.elapsed()
    }

    /// As `postgres`, with settings under which values print the way that the reader prints them.
    pub async fn connect(&self, database: &str) -> Client {
        connect_to(self.port, database)
            .await
            .unwrap_or_else(|e| panic!("connecting to Postgres {}: {e:?}", self.version))
    }

    /// A database of the test's own.
    pub async fn database(&self) -> Database<'_> {
        self.database_with("").await
    }

    /// The same, with options of CREATE DATABASE.
    pub async fn database_with(&self, options: &str) -> Database<'_> {
        let name = fresh("db");
        self.connect("postgres")
            .await
            .batch_execute(&format!("CREATE DATABASE {name} {options}"))
            .await
            .unwrap();
        let client = self.connect(&name).await;
        Database {
            postgres: self,
            name,
            client,
        }
    }

    /// This server's copy of another one's database, once it is there.
    pub async fn copy_of(&self, other: &Database<'_>) -> Database<'_> {
        let name = other.name.clone();
        let connect = async || connect_to(self.port, &name).await.ok();
        let client = eventually("the database's copy", Duration::from_secs(60), connect).await;
        Database {
            postgres: self,
            name,
            client,
        }
    }

    pub fn log(&self) -> String {
        tail(&self.dir.join("postgres.log"), 40)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if self.private && self.dir.join("data/postmaster.pid").exists() {
            let _ = self
                .pg_ctl()
                .args(["-w", "-t", "20", "-m", "immediate", "stop"])
                .output();
        }
        if self.private && !std::thread::panicking() {
            let _ = std::fs::remove_dir_all(self.dir.join("data"));
        }
    }
}

/// As `postgres`, with settings under which values print the way that the reader prints them.
///
/// # Errors
/// While the server is away.
pub async fn connect_to(port: u16, database: &str) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::Config::new()
        .host("127.0.0.1")
        .port(port)
        .user("postgres")
        .dbname(database)
        .application_name("walferry test")
        .connect(NoTls)
        .await?;
    // Its end is seen by the client's next query.
    tokio::spawn(connection);
    client
        .batch_execute(
            "SET TimeZone = 'UTC'; SET DateStyle = 'ISO'; SET IntervalStyle = 'iso_8601'; \
             SET bytea_output = 'hex'; SET extra_float_digits = 3; SET lc_monetary = 'C'; \
             SET client_min_messages = 'error'",
        )
        .await?;
    Ok(client)
}

/// Appends a line, and leaves the file whose it is.
fn append(path: &Path, line: &str) {
    use std::io::Write;
    let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
    writeln!(file, "{line}").unwrap();
}

pub type Row = BTreeMap<String, Option<String>>;

pub struct Database<'a> {
    pub postgres: &'a Postgres,
    pub name: String,
    pub client: Client,
}

impl Drop for Database<'_> {
    /// Slots are few, and each holds the server's WAL back.
    fn drop(&mut self) {
        if self.postgres.private {
            return;
        }
        let (port, name) = (self.postgres.port, self.name.clone());
        // A thread and a runtime of its own: the test's may not be waited on from within.
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async { tokio::time::timeout(Duration::from_secs(10), drop_slots(port, &name)).await })
        });
        if !matches!(dropping.join(), Ok(Ok(Ok(())))) {
            eprintln!("slots of database {} are left behind", self.name);
        }
    }
}

async fn drop_slots(port: u16, database: &str) -> Result<(), tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::Config::new()
        .host("127.0.0.1")
        .port(port)
        .user("postgres")
        .dbname("postgres")
        .connect(NoTls)
        .await?;
    tokio::spawn(connection);
    loop {
        let slots = client
            .query(
                "SELECT slot_name::text, active_pid FROM pg_replication_slots WHERE database = $1",
                &[&database],
            )
            .await?;
        if slots.is_empty() {
            return Ok(());
        }
        for slot in slots {
            let (slot, holder): (String, Option<i32>) = (slot.get(0), slot.get(1));
            // One that is let go or taken in between has its turn in the next round.
            let _ = match holder {
                Some(pid) => client.execute("SELECT pg_terminate_backend($1)", &[&pid]).await,
                None => {
                    client
                        .execute("SELECT pg_drop_replication_slot($1::text::name)", &[&slot])
                        .await
                }
            };
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The rows of an answer, as text.
pub fn rows_of(answer: &[SimpleQueryMessage]) -> Vec<Row> {
    answer
        .iter()
        .filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(
                row.columns()
                    .iter()
                    .enumerate()
                    .map(|(i, column)| (column.name().to_owned(), row.get(i).map(str::to_owned)))
                    .collect(),
            ),
            _ => None,
        })
        .collect()
}

impl Database<'_> {
    /// After a restart of the server.
    pub async fn reconnect(&mut self) {
        self.client = self.postgres.connect(&self.name).await;
    }

    pub async fn execute(&self, sql: &str) {
        self.client
            .batch_execute(sql)
            .await
            .unwrap_or_else(|e| panic!("{sql}: {e:?}"));
    }

    /// Every row as the text that Postgres prints.
    pub async fn rows(&self, sql: &str) -> Vec<Row> {
        let answer = self
            .client
            .simple_query(sql)
            .await
            .unwrap_or_else(|e| panic!("{sql}: {e:?}"));
        rows_of(&answer)
    }

    /// The first column of the only row, None when there is no row or a NULL.
    pub async fn value(&self, sql: &str) -> Option<String> {
        let answer = self
            .client
            .simple_query(sql)
            .await
            .unwrap_or_else(|e| panic!("{sql}: {e:?}"));
        answer.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        })
    }

    pub async fn is(&self, condition: &str) -> bool {
        self.value(&format!("SELECT {condition}")).await.as_deref() == Some("t")
    }

    /// Where the WAL ends, as text.
    pub async fn wal_end(&self) -> String {
        self.value("SELECT pg_current_wal_lsn()").await.unwrap()
    }

    /// Waits until everything committed so far is confirmed.
    pub async fn confirmed(&self, slot: &str, limit: Duration, log: impl Fn() -> String) {
        let end = self.wal_end().await;
        self.confirmed_to(slot, &end, limit, log).await;
    }

    pub async fn confirmed_to(&self, slot: &str, lsn: &str, limit: Duration, log: impl Fn() -> String) {
        let begin = Instant::now();
        while !self
            .is(&format!(
                "(SELECT confirmed_flush_lsn >= '{lsn}' FROM pg_replication_slots WHERE slot_name = '{slot}')"
            ))
            .await
        {
            if begin.elapsed() > limit {
                let slots = self.rows("SELECT * FROM pg_replication_slots").await;
                panic!(
                    "slot {slot} was not confirmed to {lsn} within {limit:?}; slots: {slots:?}\n{}",
                    log()
                );
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// The process that serves the slot, if anyone is on it.
    pub async fn walsender(&self, slot: &str) -> Option<String> {
        self.value(&format!(
            "SELECT active_pid FROM pg_replication_slots WHERE slot_name = '{slot}'"
        ))
        .await
    }

    pub async fn walsender_gone(&self, slot: &str) {
        eventually(&format!("slot {slot} is let go"), Duration::from_secs(30), async || {
            self.walsender(slot).await.is_none().then_some(())
        })
        .await;
    }

    pub async fn retained_wal_bytes(&self, slot: &str) -> i64 {
        self.value(&format!(
            "SELECT (pg_current_wal_lsn() - restart_lsn)::bigint FROM pg_replication_slots WHERE slot_name = '{slot}'"
        ))
        .await
        .unwrap()
        .parse()
        .unwrap()
    }
}
