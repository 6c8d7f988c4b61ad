//! The password file of libpq (manual, "The Password File"): `host:port:database:user:password`, the first line that
//! matches; `*` matches anything; `\:` and `\\` stand for `:` and `\`.

use std::fs;
use std::path::PathBuf;

use super::environment::Environment;
use super::secret::Secret;

/// The directories in which servers put their sockets by default; `localhost` in the file means them, too.
const SOCKET_DIRECTORIES: &[&str] = &["/tmp", "/var/run/postgresql", "/run/postgresql"];

/// Whom a password is looked up for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Login<'a> {
    pub(super) hosts: &'a [String],
    pub(super) port: u16,
    pub(super) database: &'a str,
    pub(super) user: &'a str,
}

/// Asks `$PGPASSFILE`, or `~/.pgpass`, for the first host that it knows. A file that cannot be used is no fault, as
/// with libpq: a warning is left, and the server may not ask for a password at all.
pub(super) fn look_up(env: &dyn Environment, login: Login<'_>, warnings: &mut Vec<String>) -> Option<Secret> {
    let given = env
        .variable("PGPASSFILE")
        .filter(|path| !path.is_empty())
        .map(PathBuf::from);
    let asked_for = given.is_some();
    let home = || {
        env.variable("HOME")
            .filter(|home| !home.is_empty())
            .map(|home| PathBuf::from(home).join(".pgpass"))
    };
    let path = given.or_else(home)?;
    let metadata = match fs::metadata(&path) {
        Ok(metadata) => metadata,
        Err(error) => {
            if asked_for {
                warnings.push(format!("the password file {} is ignored: {error}", path.display()));
            }
            return None;
        }
    };
    if !metadata.is_file() {
        warnings.push(format!(
            "the password file {} is ignored: it is not a plain file",
            path.display()
        ));
        return None;
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        if metadata.permissions().mode() & 0o077 != 0 {
            warnings.push(format!(
                "the password file {} is ignored: group or others may use it; chmod 0600 it",
                path.display()
            ));
            return None;
        }
    }
    match fs::read_to_string(&path) {
        Ok(text) => find(&text, login),
        Err(error) => {
            warnings.push(format!("the password file {} is ignored: {error}", path.display()));
            None
        }
    }
}

fn find(text: &str, login: Login<'_>) -> Option<Secret> {
    let port = login.port.to_string();
    login.hosts.iter().find_map(|host| {
        text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
            let fields = fields(line);
            let [in_host, in_port, in_database, in_user, password] = fields.as_slice() else {
                return None;
            };
            let is = |field: &Field, value: &str| field.any || field.text == value;
            let socket = SOCKET_DIRECTORIES.contains(&host.as_str()) && in_host.text == "localhost";
            let matches = (is(in_host, host) || socket)
                && is(in_port, &port)
                && is(in_database, login.database)
                && is(in_user, login.user);
            matches.then(|| Secret::new(password.text.clone()))
        })
    })
}

struct Field {
    text: String,
    /// A lone `*`, not escaped.
    any: bool,
}

/// Five fields at most: the password takes what is left of the line, up to a further colon, as libpq does.
fn fields(line: &str) -> Vec<Field> {
    let mut fields = Vec::new();
    let mut field = Field {
        text: String::new(),
        any: false,
    };
    let mut escaped_any = false;
    let mut chars = line.trim_end_matches(['\r', '\n']).chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(next) => {
                    escaped_any = true;
                    field.text.push(next);
                }
                None => field.text.push('\\'),
            },
            ':' if fields.len() < 4 => {
                field.any = field.text == "*" && !escaped_any;
                fields.push(std::mem::replace(
                    &mut field,
                    Field {
                        text: String::new(),
                        any: false,
                    },
                ));
                escaped_any = false;
            }
            ':' => break,
            c => field.text.push(c),
        }
    }
    fields.push(field);
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    fn password(text: &str, host: &str) -> Option<String> {
        let hosts = [host.to_owned()];
        let login = Login {
            hosts: &hosts,
            port: 5432,
            database: "shop",
            user: "walferry",
        };
        find(text, login).map(|secret| secret.expose().to_owned())
    }

    #[test]
    fn the_first_line_that_matches_counts() {
        let text = "# comment\ndb:5433:shop:walferry:wrong port\ndb:5432:*:walferry:first\n*:*:*:*:second\n";
        assert_eq!(password(text, "db").as_deref(), Some("first"));
        assert_eq!(password(text, "other").as_deref(), Some("second"));
        assert_eq!(password("db:5432:shop:somebody:x\n", "db"), None);
        assert_eq!(password("db:5432:shop\n", "db"), None);
    }

    #[test]
    fn colons_and_backslashes_are_escaped() {
        assert_eq!(
            password(r"fe80\:\:1:5432:shop:walferry:a\:b\\c", "fe80::1").as_deref(),
            Some(r"a:b\c")
        );
        assert_eq!(password(r"\*:5432:shop:walferry:x", "db"), None);
    }

    #[test]
    fn localhost_means_the_default_socket_directories_too() {
        assert_eq!(
            password("localhost:5432:shop:walferry:x", "/var/run/postgresql").as_deref(),
            Some("x")
        );
        assert_eq!(password("localhost:5432:shop:walferry:x", "/srv/sockets"), None);
        assert_eq!(
            password("/srv/sockets:5432:shop:walferry:x", "/srv/sockets").as_deref(),
            Some("x")
        );
    }
}
