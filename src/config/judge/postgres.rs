//! `[postgres]`.

use std::path::PathBuf;

use super::Judge;
use crate::config::environment::Environment;
use crate::config::pgpass;
use crate::config::settings::{Postgres, RootCert, SslMode};
use crate::config::value::Value;

impl Judge {
    pub(super) fn postgres(&mut self, env: &dyn Environment) -> Postgres {
        let hosts = self.texts("postgres.host");
        if hosts.is_empty() {
            self.fault(
                "postgres.host",
                "is empty",
                "give a name, an address or a socket directory",
            );
        }
        for host in &hosts {
            if host.contains("://") || host.contains('=') {
                self.fault(
                    "postgres.host",
                    "is a connection string",
                    "give only the host here, and the rest in its own keys",
                );
            } else if !host.starts_with('/') && host.contains(':') && host.parse::<std::net::Ipv6Addr>().is_err() {
                self.fault(
                    "postgres.host",
                    "has a colon, and is no IPv6 address",
                    "give the port in postgres.port",
                );
            }
        }
        let name_given = !self.text("name").is_empty();
        if self.text("postgres.database").is_empty() && name_given {
            self.fault("postgres.database", "is empty", "name the database");
        }
        if self.text("postgres.user").is_empty() {
            self.fault("postgres.user", "is empty", "name the role");
        }
        let (sslmode, sslrootcert) = self.tls();
        let sslcert = self.path("postgres.sslcert");
        let sslkey = self.path("postgres.sslkey");
        match (&sslcert, &sslkey) {
            (Some(_), None) => {
                self.fault(
                    "postgres.sslcert",
                    "is set without postgres.sslkey",
                    "give both, or neither",
                );
            }
            (None, Some(_)) => {
                self.fault(
                    "postgres.sslkey",
                    "is set without postgres.sslcert",
                    "give both, or neither",
                );
            }
            _ => {}
        }
        let mut postgres = Postgres {
            hosts,
            port: u16::try_from(self.integer("postgres.port")).unwrap_or(5432),
            database: self.text("postgres.database"),
            user: self.text("postgres.user"),
            password: self.secret("postgres.password", "postgres.password_file"),
            sslmode,
            sslrootcert,
            sslcert,
            sslkey,
            connect_timeout: self.duration("postgres.connect_timeout"),
        };
        if !self.is_given("postgres.password") && !self.is_given("postgres.password_file") {
            let login = pgpass::Login {
                hosts: &postgres.hosts,
                port: postgres.port,
                database: &postgres.database,
                user: &postgres.user,
            };
            postgres.password = pgpass::look_up(env, login, &mut self.warnings);
        }
        postgres
    }

    fn tls(&mut self) -> (SslMode, Option<RootCert>) {
        let root = match self.text("postgres.sslrootcert").as_str() {
            "" => None,
            "system" => Some(RootCert::System),
            path => Some(RootCert::File(PathBuf::from(path))),
        };
        if root == Some(RootCert::System) && !self.is_given("postgres.sslmode") {
            self.values
                .insert("postgres.sslmode", Value::Text("verify-full".to_owned()));
        }
        let mode = match self.text("postgres.sslmode").as_str() {
            "disable" => SslMode::Disable,
            "allow" => SslMode::Allow,
            "require" => SslMode::Require,
            "verify-ca" => SslMode::VerifyCa,
            "verify-full" => SslMode::VerifyFull,
            _ => SslMode::Prefer,
        };
        if root == Some(RootCert::System) && mode != SslMode::VerifyFull {
            self.fault(
                "postgres.sslmode",
                "is too weak for postgres.sslrootcert = \"system\": anybody can have a certificate that the system trusts",
                "set it to verify-full, or give the file of your own certificate authority as sslrootcert",
            );
        }
        if root.is_none() && matches!(mode, SslMode::VerifyCa | SslMode::VerifyFull) {
            self.fault(
                "postgres.sslmode",
                "needs postgres.sslrootcert to verify against",
                "set sslrootcert to a PEM file, or to \"system\"",
            );
        }
        (mode, root)
    }
}
