//! Commands of the streaming replication protocol (manual, section "Streaming Replication Protocol").

use bytes::{Bytes, BytesMut};
use postgres_protocol::message::frontend;
use tokio::io::AsyncWriteExt;

use super::dial;
use super::error::{ConnectError, ProtocolError, ReplicationError, ServerError, protocol};
use super::frames::{Cursor, Frame, FrameReader, lost};
use super::reader::ReplicationReader;
use super::settings::{PostgresSettings, StartReplication};
use super::socket::Transport;
use super::startup::{WalsenderStartup, notice};
use super::status::{self, StatusSender};
use crate::lsn::Lsn;
use crate::quote::quote_identifier;

/// A connection to a walsender that does not stream yet.
pub struct ReplicationClient {
    frames: FrameReader<Transport>,
    server_version: u32,
}

/// The answer to IDENTIFY_SYSTEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemIdentity {
    /// Of the cluster; a copy of its files has the same, a dump does not.
    pub system_identifier: String,
    /// Changes when a standby is promoted.
    pub timeline: u32,
    /// The end of what has been flushed to the log.
    pub xlogpos: Lsn,
    /// The database connected to.
    pub database: Option<String>,
}

/// How a slot is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CreateSlot {
    /// The slot goes with this connection.
    pub temporary: bool,
    /// The slot is copied to standbys, so that it is there after a switchover. Postgres 17 on.
    pub failover: bool,
}

/// The answer to CREATE_REPLICATION_SLOT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatedSlot {
    /// As asked for.
    pub name: String,
    /// Every transaction that commits after this comes from the slot.
    pub consistent_point: Lsn,
}

/// The newest version of the logical replication protocol that a server speaks (manual, section "Logical Streaming
/// Replication Protocol"); `server_version` as in `server_version_num`.
pub fn protocol_version(server_version: u32) -> u32 {
    match server_version / 10_000 {
        ..14 => 1,
        14 => 2,
        15 => 3,
        16.. => 4,
    }
}

const IDENTIFY_SYSTEM: &str = "IDENTIFY_SYSTEM";
const CREATE_REPLICATION_SLOT: &str = "CREATE_REPLICATION_SLOT";
const TIMELINE_HISTORY: &str = "TIMELINE_HISTORY";
const ALTER_REPLICATION_SLOT: &str = "ALTER_REPLICATION_SLOT";
const START_REPLICATION: &str = "START_REPLICATION";

impl ReplicationClient {
    /// Connects with `replication=database`, authenticates, and sets what makes values the same under every
    /// configuration of the server.
    ///
    /// # Errors
    ///
    /// Lists what became of every host and address.
    pub async fn connect(settings: &PostgresSettings) -> Result<Self, ConnectError> {
        let session = dial::connect(settings, &WalsenderStartup(settings)).await?;
        Ok(ReplicationClient {
            frames: session.frames,
            server_version: session.server_version,
        })
    }

    /// As `server_version_num` has it: 150004 is 15.4.
    pub fn server_version(&self) -> u32 {
        self.server_version
    }

    /// Whether the connection is encrypted.
    pub fn is_encrypted(&mut self) -> bool {
        self.frames.io_mut().is_tls()
    }

    /// Asks who the server is.
    ///
    /// # Errors
    ///
    /// [`ReplicationError::NotAWalsender`] if the other side does not know the command, as a connection pooler.
    pub async fn identify_system(&mut self) -> Result<SystemIdentity, ReplicationError> {
        let doing = IDENTIFY_SYSTEM;
        let row = match self.query(doing, IDENTIFY_SYSTEM).await {
            Err(ReplicationError::Server { error, .. }) if matches!(error.sqlstate.as_str(), "42601" | "08P01") => {
                return Err(ReplicationError::NotAWalsender { error: Some(error) });
            }
            Ok(rows) => rows
                .into_iter()
                .next()
                .ok_or(ReplicationError::NotAWalsender { error: None })?,
            Err(error) => return Err(error),
        };
        let answer = Answer { doing, row };
        Ok(SystemIdentity {
            system_identifier: answer.text(0, "systemid")?.to_owned(),
            timeline: answer.parse(1, "timeline")?,
            xlogpos: answer.parse(2, "xlogpos")?,
            database: answer.text(3, "dbname").ok().map(str::to_owned),
        })
    }

    /// Makes a logical slot for pgoutput. Waits until every transaction that runs now has ended.
    ///
    /// # Errors
    ///
    /// Among others SQLSTATE 42710 if there is one of this name, 53400 if there are too many.
    pub async fn create_slot(&mut self, slot: &str, options: &CreateSlot) -> Result<CreatedSlot, ReplicationError> {
        let doing = CREATE_REPLICATION_SLOT;
        let rows = self.query(doing, &create_slot_command(slot, options)?).await?;
        let missing = ReplicationError::Answer { doing, field: "row" };
        let answer = Answer {
            doing,
            row: rows.into_iter().next().ok_or(missing)?,
        };
        Ok(CreatedSlot {
            name: answer.text(0, "slot_name")?.to_owned(),
            consistent_point: answer.parse(1, "consistent_point")?,
        })
    }

    /// Asks which timelines this one descends from, and where each of them ended: the content of its history file.
    ///
    /// # Errors
    ///
    /// Among others SQLSTATE 58P01 if the file is not there: the first timeline has none.
    pub async fn timeline_history(&mut self, timeline: u32) -> Result<String, ReplicationError> {
        let doing = TIMELINE_HISTORY;
        let rows = self.query(doing, &format!("{TIMELINE_HISTORY} {timeline}")).await?;
        let missing = ReplicationError::Answer { doing, field: "row" };
        let answer = Answer {
            doing,
            row: rows.into_iter().next().ok_or(missing)?,
        };
        Ok(answer.text(1, "content")?.to_owned())
    }

    /// Has the slot copied to standbys from now on. Postgres 17 on.
    ///
    /// # Errors
    ///
    /// Among others SQLSTATE 55006 if another connection streams from the slot.
    pub async fn set_failover(&mut self, slot: &str) -> Result<(), ReplicationError> {
        let command = format!("ALTER_REPLICATION_SLOT \"{}\" (FAILOVER true)", slot_name(slot)?);
        self.query(ALTER_REPLICATION_SLOT, &command).await.map(drop)
    }

    /// Begins to stream. The connection's two directions part: the reader gets what comes, a task of its own sends
    /// status updates.
    ///
    /// # Errors
    ///
    /// Among others SQLSTATE 55006 if another connection streams from the slot, 42704 if there is no such slot,
    /// 55000 if it can no longer be used.
    pub async fn start(
        mut self,
        options: &StartReplication,
    ) -> Result<(ReplicationReader, StatusSender), ReplicationError> {
        let doing = START_REPLICATION;
        self.send(doing, &start_command(options)?).await?;
        let frame = self.receive(doing).await?;
        if frame.tag != b'W' {
            return Err(protocol(doing)(frame.unexpected("CopyBothResponse")));
        }
        copy_both(&frame.body).map_err(protocol(doing))?;
        self.frames.io_mut().coalesce();
        let mut writing = None;
        let frames = self.frames.map(|transport| {
            let (read, write) = tokio::io::split(transport);
            writing = Some(write);
            read
        });
        let writing = writing.ok_or(ReplicationError::StatusTask)?;
        let (sender, link) = status::spawn(writing, options);
        Ok((ReplicationReader::new(frames, link), sender))
    }

    async fn send(&mut self, doing: &'static str, command: &str) -> Result<(), ReplicationError> {
        let io_error = |error| ReplicationError::Io { doing, error };
        let mut out = BytesMut::new();
        frontend::query(command, &mut out).map_err(io_error)?;
        self.frames.io_mut().write_all(&out).await.map_err(io_error)?;
        self.frames.io_mut().flush().await.map_err(io_error)
    }

    /// The next message that is neither a notice nor a parameter; an error if it is one.
    async fn receive(&mut self, doing: &'static str) -> Result<Frame, ReplicationError> {
        loop {
            let frame = self.frames.next().await.map_err(lost(doing))?;
            match frame.tag {
                b'E' => {
                    return Err(ReplicationError::Server {
                        doing,
                        error: Box::new(ServerError::parse(&frame.body)),
                    });
                }
                b'N' => notice(&frame),
                b'S' => {}
                _ => return Ok(frame),
            }
        }
    }

    /// Sends a command and gives the rows of its answer. After an error the connection takes no more commands.
    async fn query(&mut self, doing: &'static str, command: &str) -> Result<Vec<Row>, ReplicationError> {
        self.send(doing, command).await?;
        let mut rows = Vec::new();
        loop {
            let frame = self.receive(doing).await?;
            match frame.tag {
                b'T' | b'C' => {}
                b'D' => rows.push(data_row(&frame.body).map_err(protocol(doing))?),
                b'Z' => return Ok(rows),
                _ => return Err(protocol(doing)(frame.unexpected("rows"))),
            }
        }
    }
}

type Row = Vec<Option<Bytes>>;

fn data_row(body: &Bytes) -> Result<Row, ProtocolError> {
    let mut cursor = Cursor::new("DataRow", body);
    let columns = u16::try_from(cursor.i16("column count")?).map_err(|_| cursor.malformed("column count"))?;
    let mut row = Vec::new();
    for _ in 0..columns {
        let value = match cursor.i32("length")? {
            -1 => None,
            length => {
                let length = usize::try_from(length).map_err(|_| cursor.malformed("length"))?;
                Some(body.slice_ref(cursor.bytes(length, "value")?))
            }
        };
        row.push(value);
    }
    cursor.end()?;
    Ok(row)
}

fn copy_both(body: &[u8]) -> Result<(), ProtocolError> {
    let mut cursor = Cursor::new("CopyBothResponse", body);
    cursor.u8("format")?;
    for _ in 0..cursor.i16("column count")? {
        cursor.i16("column format")?;
    }
    cursor.end()
}

struct Answer {
    doing: &'static str,
    row: Row,
}

impl Answer {
    fn text(&self, column: usize, field: &'static str) -> Result<&str, ReplicationError> {
        let value = self.row.get(column).and_then(Option::as_ref);
        value
            .and_then(|bytes| str::from_utf8(bytes).ok())
            .ok_or(ReplicationError::Answer {
                doing: self.doing,
                field,
            })
    }

    fn parse<T: std::str::FromStr>(&self, column: usize, field: &'static str) -> Result<T, ReplicationError> {
        self.text(column, field)?.parse().map_err(|_| ReplicationError::Answer {
            doing: self.doing,
            field,
        })
    }
}

/// A slot's name as Postgres takes it, which is also one that needs no escaping.
fn slot_name(name: &str) -> Result<&str, ReplicationError> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    if (1..=63).contains(&name.len()) && name.bytes().all(allowed) {
        Ok(name)
    } else {
        Err(ReplicationError::SlotName(name.to_owned()))
    }
}

/// In the syntax without parentheses, which every version since 10 takes, unless an option is wanted that came later.
fn create_slot_command(slot: &str, options: &CreateSlot) -> Result<String, ReplicationError> {
    let temporary = if options.temporary { " TEMPORARY" } else { "" };
    let rest = match options.failover {
        true => "(SNAPSHOT 'nothing', FAILOVER)",
        false => "NOEXPORT_SNAPSHOT",
    };
    Ok(format!(
        "CREATE_REPLICATION_SLOT \"{}\"{temporary} LOGICAL pgoutput {rest}",
        slot_name(slot)?
    ))
}

fn start_command(options: &StartReplication) -> Result<String, ReplicationError> {
    let publications = options.publications.iter().map(|name| quote_identifier(name));
    let publications = publications.collect::<Vec<_>>().join(",");
    let mut command = format!(
        "START_REPLICATION SLOT \"{}\" LOGICAL {} (proto_version '{}', publication_names '{}'",
        slot_name(&options.slot)?,
        options.start_lsn,
        options.protocol_version,
        publications.replace('\'', "''"),
    );
    if options.messages {
        command.push_str(", messages 'true'");
    }
    if options.binary {
        command.push_str(", binary 'true'");
    }
    // Not 'parallel' (16 on): it adds when and where a transaction was aborted, which nobody asks for.
    if options.streaming {
        command.push_str(", streaming 'on'");
    }
    command.push(')');
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    use tokio::sync::watch;

    fn options(publications: &[&str]) -> StartReplication {
        StartReplication {
            slot: "shop".to_owned(),
            start_lsn: Lsn::new(0x16_B374_D848),
            publications: publications.iter().map(|&name| name.to_owned()).collect(),
            protocol_version: 3,
            binary: false,
            messages: false,
            streaming: false,
            status_interval: Duration::from_secs(10),
            wal_sender_timeout: None,
            confirmed: watch::channel(Lsn::ZERO).1,
        }
    }

    #[test]
    fn each_server_gets_the_newest_protocol_that_it_speaks() {
        for (server, protocol) in [
            (100_023, 1),
            (130_023, 1),
            (140_000, 2),
            (150_019, 3),
            (160_015, 4),
            (180_006, 4),
            (190_000, 4),
        ] {
            assert_eq!(protocol_version(server), protocol, "{server}");
        }
    }

    #[test]
    fn publications_are_quoted_as_identifiers_within_a_literal() {
        assert_eq!(
            start_command(&options(&["shop", "a\"b", "c'd", "E,f"])).unwrap(),
            "START_REPLICATION SLOT \"shop\" LOGICAL 16/B374D848 \
             (proto_version '3', publication_names '\"shop\",\"a\"\"b\",\"c''d\",\"E,f\"')"
        );
    }

    #[test]
    fn options_are_sent_only_where_they_are_wanted() {
        let options = StartReplication {
            binary: true,
            messages: true,
            streaming: true,
            ..options(&["p"])
        };
        assert!(
            start_command(&options)
                .unwrap()
                .ends_with("'\"p\"', messages 'true', binary 'true', streaming 'on')")
        );
    }

    #[test]
    fn a_slot_is_created_in_the_syntax_of_every_version() {
        let temporary = CreateSlot {
            temporary: true,
            failover: false,
        };
        assert_eq!(
            create_slot_command("tail_1", &temporary).unwrap(),
            "CREATE_REPLICATION_SLOT \"tail_1\" TEMPORARY LOGICAL pgoutput NOEXPORT_SNAPSHOT"
        );
        let failover = CreateSlot {
            temporary: false,
            failover: true,
        };
        assert_eq!(
            create_slot_command("shop", &failover).unwrap(),
            "CREATE_REPLICATION_SLOT \"shop\" LOGICAL pgoutput (SNAPSHOT 'nothing', FAILOVER)"
        );
    }

    #[test]
    fn a_slot_name_that_postgres_would_not_take_is_refused() {
        for name in ["", "Shop", "a-b", "a\"b", "ä", &"a".repeat(64)] {
            assert!(
                matches!(slot_name(name), Err(ReplicationError::SlotName(_))),
                "{name:?}"
            );
        }
        assert!(slot_name(&"a_9".repeat(21)).is_ok());
    }

    #[test]
    fn rows_are_consumed_exactly() {
        let row = Bytes::from_static(b"\0\x02\xFF\xFF\xFF\xFF\0\0\0\x01x");
        assert_eq!(data_row(&row), Ok(vec![None, Some(Bytes::from_static(b"x"))]));
        for hostile in [
            &b""[..],
            b"\xFF\xFF",
            b"\0\x01",
            b"\0\x01\xFF\xFF\xFF\xFE",
            b"\0\x01\x7F\xFF\xFF\xFFx",
            b"\0\0x",
            b"\x7F\xFF",
        ] {
            assert!(data_row(&Bytes::copy_from_slice(hostile)).is_err(), "{hostile:?}");
        }
        assert_eq!(copy_both(b"\0\0\0"), Ok(()));
        assert!(copy_both(b"\0\0\x01").is_err());
        assert!(copy_both(b"\0\0\0x").is_err());
    }
}
