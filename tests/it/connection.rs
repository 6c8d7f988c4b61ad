//! Ways to be let in, and what is encrypted: every authentication method and `sslmode`, with and without a right to it.

use crate::harness::{Config, Database, Env, Kafka, Link, Postgres, Proxy, Walferry, fresh, run};
use crate::workload::pipeline;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use walferry::config::secret::Secret;
use walferry::replication::{
    ConnectError, PostgresSettings, ReplicationClient, RootCert, SqlClient, SslMode, connect_sql,
};

const SOON: Duration = Duration::from_secs(30);

/// The oldest server, the first with channel binding, the newest.
const VERSIONS: [u32; 3] = [10, 11, 18];

fn settings(postgres: &Postgres, user: &str, password: Option<&str>, sslmode: SslMode) -> PostgresSettings {
    PostgresSettings {
        hosts: vec!["127.0.0.1".to_owned()],
        port: postgres.port,
        database: "postgres".to_owned(),
        user: user.to_owned(),
        password: password.map(Secret::new),
        sslmode,
        sslrootcert: None,
        sslcert: None,
        sslkey: None,
        connect_timeout: Duration::from_secs(10),
        application_name: fresh("walferry"),
    }
}

fn authority() -> Option<RootCert> {
    Some(RootCert::File(Env::get().tls.join("ca.crt")))
}

/// Both kinds of connection, held open.
struct Connected {
    replication: ReplicationClient,
    sql: SqlClient,
}

impl Connected {
    /// Whether they are encrypted; the client's opinion and the server's are one.
    async fn is_encrypted(&mut self, settings: &PostgresSettings) -> bool {
        let rows = self
            .sql
            .query(
                "SELECT a.pid = pg_backend_pid(), s.ssl FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) \
                 WHERE a.application_name = $1",
                &[&settings.application_name],
            )
            .await
            .unwrap();
        let of_server: Vec<(bool, bool)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        let encrypted = self.replication.is_encrypted();
        let mut own: Vec<bool> = of_server.iter().map(|(own, _)| *own).collect();
        own.sort_unstable();
        assert_eq!(own, [false, true], "one of each kind: {of_server:?}");
        for (own, ssl) in of_server {
            assert_eq!(ssl, encrypted, "pg_stat_ssl, own connection: {own}");
        }
        encrypted
    }
}

/// # Errors
/// When they are refused: both alike.
async fn connect(settings: &PostgresSettings) -> Result<Connected, ConnectError> {
    let replication = ReplicationClient::connect(settings).await;
    let sql = connect_sql(settings).await;
    match (replication, sql) {
        (Ok(replication), Ok(sql)) => Ok(Connected { replication, sql }),
        (Err(one), Err(other)) => {
            assert_eq!(one.sqlstate(), other.sqlstate(), "{one}\n{other}");
            Err(one)
        }
        (Ok(_), Err(error)) => panic!("the ordinary connection alone is refused: {error}"),
        (Err(error), Ok(_)) => panic!("the replication connection alone is refused: {error}"),
    }
}

async fn identifies(mut connected: Connected, settings: &PostgresSettings) -> bool {
    let encrypted = connected.is_encrypted(settings).await;
    let identity = connected.replication.identify_system().await.unwrap();
    assert_eq!(identity.database.as_deref(), Some("postgres"));
    encrypted
}

#[tokio::test(flavor = "multi_thread")]
async fn each_password_method_lets_in_with_and_without_tls() {
    for version in VERSIONS {
        let postgres = Postgres::shared(version);
        for (user, password) in [
            ("walferry_password", "plain secret"),
            ("walferry_md5", "md5 secret"),
            ("walferry_scram", "scram secret"),
        ] {
            for (sslmode, encrypted) in [(SslMode::Disable, false), (SslMode::Require, true)] {
                let right = settings(&postgres, user, Some(password), sslmode);
                let connected = connect(&right)
                    .await
                    .unwrap_or_else(|e| panic!("Postgres {version}, {user}, {sslmode}: {e}"));
                assert_eq!(identifies(connected, &right).await, encrypted, "{user}, {sslmode}");

                let wrong = settings(&postgres, user, Some("md5 secreT"), sslmode);
                let error = connect(&wrong).await.err().expect("a wrong password is refused");
                assert_eq!(error.sqlstate(), Some("28P01"), "{user}, {sslmode}: {error}");
                assert!(!error.is_transient(), "{error}");

                let none = settings(&postgres, user, None, sslmode);
                let error = ReplicationClient::connect(&none)
                    .await
                    .err()
                    .expect("no password is refused");
                let hint = error.hint().unwrap_or_default();
                assert!(hint.contains("postgres.password_file"), "{user}: {error}; {hint}");
                assert!(!error.is_transient(), "{error}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn scram_over_tls_is_bound_to_the_channel_where_the_server_can() {
    let kafka = Kafka::shared();
    for (version, mechanism) in [
        (10, "mechanism=\"SCRAM-SHA-256\""),
        (11, "mechanism=\"SCRAM-SHA-256-PLUS\""),
        (18, "mechanism=\"SCRAM-SHA-256-PLUS\""),
    ] {
        let postgres = Postgres::shared(version);
        let database = postgres.database().await;
        database.execute("CREATE TABLE t (id int PRIMARY KEY)").await;
        let config = Config::new(&pipeline(), &database, &kafka)
            .text("postgres.user", "walferry_tls")
            .text("postgres.password", "scram secret")
            .text("postgres.sslmode", "verify-full")
            .text("postgres.sslrootcert", Env::get().tls.join("ca.crt").to_str().unwrap())
            .text("log.level", "debug");
        let exit = Walferry::to_end(&config, "check", SOON).await;
        assert_eq!(exit.code, Some(0), "{}{}", exit.stdout, exit.stderr);
        assert!(exit.stderr.contains(mechanism), "Postgres {version}: {}", exit.stderr);
        assert!(!exit.stderr.contains("scram secret"), "{}", exit.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_sslmode_encrypts_what_libpq_would() {
    use SslMode::{Allow, Disable, Prefer, Require, VerifyCa, VerifyFull};
    // Let in only with TLS, only without, and either way.
    let expected: [(&str, [Option<bool>; 6]); 3] = [
        (
            "walferry_tls",
            [None, Some(true), Some(true), Some(true), Some(true), Some(true)],
        ),
        (
            "walferry_plain",
            [Some(false), Some(false), Some(false), None, None, None],
        ),
        (
            "postgres",
            [Some(false), Some(false), Some(true), Some(true), Some(true), Some(true)],
        ),
    ];
    for version in [10, 18] {
        let postgres = Postgres::shared(version);
        for (user, outcomes) in expected {
            for (sslmode, outcome) in [Disable, Allow, Prefer, Require, VerifyCa, VerifyFull]
                .into_iter()
                .zip(outcomes)
            {
                let mut settings = settings(&postgres, user, Some("scram secret"), sslmode);
                settings.sslrootcert = authority();
                let found = match connect(&settings).await {
                    Ok(connected) => Some(identifies(connected, &settings).await),
                    Err(error) => {
                        assert_eq!(error.sqlstate(), Some("28000"), "{user}, {sslmode}: {error}");
                        let hint = error.hint().unwrap_or_default();
                        assert!(hint.contains("pg_hba.conf"), "{user}, {sslmode}: {error}; {hint}");
                        None
                    }
                };
                assert_eq!(found, outcome, "Postgres {version}, {user}, {sslmode}: encrypted?");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_tls_is_taken_by_the_modes_that_do_not_insist() {
    use SslMode::{Allow, Disable, Prefer, Require, VerifyCa, VerifyFull};
    let postgres = Postgres::private(18, &[("ssl", "off")]);
    for sslmode in [Disable, Allow, Prefer] {
        let settings = settings(&postgres, "postgres", None, sslmode);
        let connected = connect(&settings).await.unwrap_or_else(|e| panic!("{sslmode}: {e}"));
        assert!(!identifies(connected, &settings).await, "{sslmode}");
    }
    for sslmode in [Require, VerifyCa, VerifyFull] {
        let mut settings = settings(&postgres, "postgres", None, sslmode);
        settings.sslrootcert = authority();
        let error = connect(&settings).await.err().expect("TLS is insisted on");
        assert!(error.to_string().contains("does not speak TLS"), "{sslmode}: {error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("sslmode")), "{sslmode}");
    }
}

/// A certificate authority that has signed nothing here.
fn another_authority() -> PathBuf {
    let dir = Env::get().private_dir(&fresh("ca"));
    run(Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
        ])
        .args(["-nodes", "-days", "10", "-subj", "/CN=walferry test CA", "-keyout"])
        .arg(dir.join("ca.key"))
        .arg("-out")
        .arg(dir.join("ca.crt")));
    dir.join("ca.crt")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_of_another_authority_is_refused_by_the_modes_that_verify() {
    use SslMode::{Prefer, Require, VerifyCa, VerifyFull};
    let postgres = Postgres::shared(16);
    let other = another_authority();
    // With root certificates at hand, `require` verifies as `verify-ca` does.
    for sslmode in [Require, VerifyCa, VerifyFull] {
        let mut settings = settings(&postgres, "postgres", None, sslmode);
        settings.sslrootcert = Some(RootCert::File(other.clone()));
        let error = connect(&settings).await.err().expect("nobody vouches for the server");
        assert!(error.to_string().contains("TLS"), "{sslmode}: {error}");
        assert!(
            error.hint().is_some_and(|hint| hint.contains("sslrootcert")),
            "{sslmode}: {error}"
        );
        assert!(!error.is_transient(), "{error}");
    }
    // It would go on without TLS too: better encrypted to a stranger than plain to one.
    let mut settings = settings(&postgres, "postgres", None, Prefer);
    settings.sslrootcert = Some(RootCert::File(other));
    assert!(identifies(connect(&settings).await.unwrap(), &settings).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn verify_full_refuses_a_host_that_the_certificate_does_not_name() {
    let postgres = Postgres::shared(16);
    // The same server by an address that its certificate lacks.
    let proxy = Proxy::at("127.0.0.2", postgres.port, postgres.port).await;
    let mut settings = settings(&postgres, "postgres", None, SslMode::VerifyFull);
    settings.sslrootcert = authority();
    for (host, named) in [("127.0.0.1", true), ("localhost", true), ("127.0.0.2", false)] {
        settings.hosts = vec![host.to_owned()];
        match connect(&settings).await {
            Ok(connected) => {
                assert!(named, "{host}");
                assert!(identifies(connected, &settings).await);
            }
            Err(error) => {
                assert!(!named, "{host}: {error}");
                let text = error.to_string();
                assert!(text.contains("127.0.0.2") && text.contains("TLS"), "{text}");
            }
        }
    }
    // The authority alone is satisfied.
    settings.sslmode = SslMode::VerifyCa;
    assert!(identifies(connect(&settings).await.unwrap(), &settings).await);
    drop(proxy);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_certificate_lets_in_and_its_absence_does_not() {
    let tls = &Env::get().tls;
    for version in [10, 18] {
        let postgres = Postgres::shared(version);
        let mut settings = settings(&postgres, "walferry_cert", None, SslMode::VerifyFull);
        settings.sslrootcert = authority();
        let error = connect(&settings).await.err().expect("no certificate is refused");
        assert_eq!(error.sqlstate(), Some("28000"), "{error}");
        let hint = error.hint().unwrap_or_default();
        assert!(hint.contains("postgres.sslcert"), "Postgres {version}: {error}; {hint}");

        settings.sslcert = Some(tls.join("client.crt"));
        settings.sslkey = Some(tls.join("client.key"));
        let connected = connect(&settings)
            .await
            .unwrap_or_else(|e| panic!("Postgres {version}: {e}"));
        assert!(identifies(connected, &settings).await);
        // It is this role's certificate and no other's.
        settings.user = "walferry_tls".to_owned();
        assert!(connect(&settings).await.is_err());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_is_a_unix_socket_and_never_encrypted() {
    for version in [10, 18] {
        let postgres = Postgres::shared(version);
        for sslmode in [SslMode::Disable, SslMode::Prefer, SslMode::VerifyFull] {
            let mut settings = settings(&postgres, "postgres", None, sslmode);
            settings.hosts = vec![postgres.dir.to_str().unwrap().to_owned()];
            settings.sslrootcert = (sslmode == SslMode::VerifyFull).then(authority).flatten();
            let mut connected = connect(&settings)
                .await
                .unwrap_or_else(|e| panic!("Postgres {version}, {sslmode}: {e}"));
            assert!(!connected.is_encrypted(&settings).await);
            connected.replication.identify_system().await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_are_tried_in_turn_past_the_dead_and_the_silent() {
    let postgres = Postgres::shared(17);
    let silent = Proxy::at("127.0.0.3", postgres.port, postgres.port).await;
    silent.set(Link::BlackHole);
    let mut settings = settings(&postgres, "postgres", None, SslMode::Prefer);
    // Nothing listens at the first, nobody answers at the second, there is no socket at the third.
    settings.hosts = ["127.0.0.4", "127.0.0.3", "/nowhere", "127.0.0.1"]
        .map(str::to_owned)
        .to_vec();
    settings.connect_timeout = Duration::from_secs(3);
    let connected = connect(&settings).await.unwrap_or_else(|e| panic!("{e}"));
    assert!(identifies(connected, &settings).await);

    settings.hosts.pop();
    let error = connect(&settings).await.err().expect("there is no server");
    let text = error.to_string();
    for host in ["127.0.0.4", "127.0.0.3", "/nowhere"] {
        assert!(text.contains(host), "{text}");
    }
    assert!(error.is_transient(), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_of_the_server_the_database_and_the_role_do_not_reach_the_session() {
    for version in [10, 18] {
        let postgres = Postgres::shared(version);
        let database = postgres.database().await;
        let role = fresh("role");
        database
            .execute(&format!(
                "CREATE ROLE {role} LOGIN SUPERUSER REPLICATION; \
                 ALTER ROLE {role} SET TimeZone = 'America/New_York'; ALTER ROLE {role} SET DateStyle = 'SQL, DMY'; \
                 ALTER ROLE {role} SET statement_timeout = '1ms'; ALTER ROLE {role} SET extra_float_digits = -5; \
                 ALTER DATABASE {} SET IntervalStyle = 'postgres_verbose'",
                database.name
            ))
            .await;
        let mut settings = settings(&postgres, &role, None, SslMode::Disable);
        settings.database = database.name.clone();
        let connected = connect(&settings).await.unwrap_or_else(|e| panic!("{e}"));
        for (setting, value) in [
            ("TimeZone", "UTC"),
            ("IntervalStyle", "iso_8601"),
            ("bytea_output", "hex"),
            ("extra_float_digits", "3"),
            ("lc_monetary", "C"),
            ("statement_timeout", "0"),
            ("idle_in_transaction_session_timeout", "0"),
            ("client_encoding", "UTF8"),
        ] {
            let row = connected
                .sql
                .query_one("SELECT current_setting($1)", &[&setting])
                .await
                .unwrap();
            assert_eq!(row.get::<_, String>(0), value, "{setting} on Postgres {version}");
        }
        let row = connected.sql.query_one("SHOW DateStyle", &[]).await.unwrap();
        assert!(row.get::<_, String>(0).starts_with("ISO"), "Postgres {version}");
    }
}

/// Streams a row by this configuration, and leaves.
async fn streams(database: &Database<'_>, config: &Config, encrypted: bool) -> String {
    let mut walferry = Walferry::start(config);
    walferry.ready(SOON).await;
    let ssl = database
        .rows(&format!(
            "SELECT s.ssl FROM pg_stat_ssl s JOIN pg_replication_slots r ON r.active_pid = s.pid \
             WHERE r.slot_name = '{}'",
            walferry.slot()
        ))
        .await;
    let expected = if encrypted { "t" } else { "f" };
    assert_eq!(ssl.len(), 1);
    assert_eq!(ssl[0]["ssl"].as_deref(), Some(expected));
    database
        .execute("INSERT INTO t SELECT coalesce(max(id), 0) + 1 FROM t")
        .await;
    database.confirmed(walferry.slot(), SOON, || walferry.log()).await;
    let told = walferry.status().await.to_string();
    let exit = walferry.terminate(SOON).await;
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);
    format!("{told}\n{}\n{}", exit.stdout, exit.stderr)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_way_in_streams_and_a_password_never_appears_in_the_log() {
    let (kafka, tls) = (Kafka::shared(), &Env::get().tls);
    let path = |name: &str| tls.join(name).to_str().unwrap().to_owned();
    for version in [10, 18] {
        let postgres = Postgres::shared(version);
        let database = postgres.database().await;
        database.execute("CREATE TABLE t (id int PRIMARY KEY)").await;
        let name = pipeline();
        let config = Config::new(&name, &database, &kafka).text("log.level", "trace");
        for (user, password, sslmode, encrypted) in [
            ("walferry_password", "plain secret", "disable", false),
            ("walferry_md5", "md5 secret", "prefer", true),
            ("walferry_scram", "scram secret", "allow", false),
            ("walferry_tls", "scram secret", "verify-full", true),
        ] {
            let config = config
                .clone()
                .text("postgres.user", user)
                .text("postgres.password", password)
                .text("postgres.sslmode", sslmode)
                .text("postgres.sslrootcert", &path("ca.crt"));
            let told = streams(&database, &config, encrypted).await;
            assert!(!told.contains("secret"), "{told}");
        }
        let by_certificate = config
            .clone()
            .text("postgres.user", "walferry_cert")
            .text("postgres.sslmode", "verify-full")
            .text("postgres.sslrootcert", &path("ca.crt"))
            .text("postgres.sslcert", &path("client.crt"))
            .text("postgres.sslkey", &path("client.key"));
        let told = streams(&database, &by_certificate, true).await;
        assert!(!told.contains("PRIVATE KEY"), "{told}");
        let by_socket = config
            .clone()
            .text("postgres.host", postgres.dir.to_str().unwrap())
            .text("postgres.sslmode", "require");
        streams(&database, &by_socket, false).await;
    }
}
