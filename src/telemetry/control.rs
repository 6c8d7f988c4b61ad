//! What a running pipeline can be told about its snapshots, and the way from HTTP to the session that does it.
//!
//! The body of `POST /snapshot` becomes a [`SnapshotCommand`]; whoever streams takes it from [`SnapshotCommands`] and answers.

use std::fmt;

use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};

/// Commands that wait to be taken; more than that are refused.
const WAITING: usize = 16;

/// What is to be done. The text of tables is as it was given: `schema.table`, with `*` and `?`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SnapshotCommand {
    /// Read these tables; every published one that has a key, if there is none.
    Read {
        /// Patterns.
        tables: Vec<String>,
        /// A condition in SQL, for the rows that are wanted.
        filter: Option<String>,
    },
    /// Read nothing for now.
    Pause,
    /// Go on.
    Resume,
    /// Read these no longer; all that are read or wait, if there is none.
    Cancel {
        /// Patterns.
        tables: Vec<String>,
    },
}

/// What became of a command, table by table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotAnswer {
    /// The tables for which it is done, or will be.
    pub accepted: Vec<String>,
    /// The tables, or patterns, for which it is not.
    pub refused: Vec<Refused>,
}

/// What a command cannot do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// The table, or the pattern.
    pub table: String,
    /// Why not.
    pub reason: String,
}

/// The answer, or why the command as a whole cannot be done.
pub type SnapshotReply = Result<SnapshotAnswer, String>;

/// A command, and where its answer goes. The board must show what was accepted before the answer is sent: whoever asked looks there next.
#[derive(Debug)]
pub struct SnapshotRequest {
    /// What is to be done.
    pub command: SnapshotCommand,
    /// Who waits for it.
    pub reply: oneshot::Sender<SnapshotReply>,
}

/// Where commands are given.
#[derive(Debug, Clone)]
pub struct SnapshotControl(mpsc::Sender<SnapshotRequest>);

/// Where they are taken.
#[derive(Debug)]
pub struct SnapshotCommands(mpsc::Receiver<SnapshotRequest>);

/// Both ends.
pub fn channel() -> (SnapshotControl, SnapshotCommands) {
    let (sender, receiver) = mpsc::channel(WAITING);
    (SnapshotControl(sender), SnapshotCommands(receiver))
}

/// Nobody took the command, or whoever took it is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("nobody takes commands")]
pub struct NotTaken;

impl SnapshotControl {
    /// Gives a command and waits for its answer. Dropped while it waits, the command is done only if somebody had taken it.
    ///
    /// # Errors
    ///
    /// Too many commands wait already, or the session that took this one has ended without an answer.
    pub async fn give(&self, command: SnapshotCommand) -> Result<SnapshotReply, NotTaken> {
        let (reply, answer) = oneshot::channel();
        self.0
            .try_send(SnapshotRequest { command, reply })
            .map_err(|_| NotTaken)?;
        answer.await.map_err(|_| NotTaken)
    }
}

impl SnapshotCommands {
    /// Where there is nobody who gives any.
    pub fn none() -> Self {
        channel().1
    }

    /// The next command whose asker still waits; never, once there is nobody left to give one. Nothing is lost if this is dropped.
    pub async fn next(&mut self) -> SnapshotRequest {
        loop {
            match self.0.recv().await {
                Some(request) if request.reply.is_closed() => {}
                Some(request) => return request,
                None => std::future::pending().await,
            }
        }
    }
}

/// The body of `POST /snapshot`, as it is written.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    action: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tables: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    filter: Option<String>,
}

/// What is wrong with the body of a command.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// No JSON, or not of that form.
    #[error("the body is no command: {0}")]
    Form(#[from] serde_json::Error),
    /// Not one of the actions.
    #[error("{0:?} is no action: it must be read, pause, resume or cancel")]
    Action(String),
    /// Something that the action has no use for.
    #[error("{action} takes no {field}")]
    Field {
        /// Which action.
        action: &'static str,
        /// Which field.
        field: &'static str,
    },
    /// An empty filter would read everything.
    #[error("filter is empty")]
    EmptyFilter,
}

impl SnapshotCommand {
    /// Reads `{"action":"read","tables":["public.t"],"filter":null}` and the like.
    ///
    /// # Errors
    ///
    /// What is wrong with it, to be shown to whoever wrote it.
    pub fn parse(body: &[u8]) -> Result<Self, CommandError> {
        let Written { action, tables, filter } = serde_json::from_slice(body)?;
        let without_filter = |action| match filter {
            Some(_) => Err(CommandError::Field {
                action,
                field: "filter",
            }),
            None => Ok(()),
        };
        let without_tables = |action| match tables.is_empty() {
            true => Ok(()),
            false => Err(CommandError::Field {
                action,
                field: "tables",
            }),
        };
        match action.as_str() {
            "read" => match filter.as_ref().is_some_and(|filter| filter.trim().is_empty()) {
                true => Err(CommandError::EmptyFilter),
                false => Ok(Self::Read { tables, filter }),
            },
            "pause" => {
                without_filter("pause")?;
                without_tables("pause").map(|()| Self::Pause)
            }
            "resume" => {
                without_filter("resume")?;
                without_tables("resume").map(|()| Self::Resume)
            }
            "cancel" => without_filter("cancel").map(|()| Self::Cancel { tables }),
            _ => Err(CommandError::Action(action)),
        }
    }

    /// As `POST /snapshot` takes it.
    ///
    /// # Errors
    ///
    /// It cannot be written as JSON.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        let (tables, filter) = match self {
            Self::Read { tables, filter } => (tables.clone(), filter.clone()),
            Self::Cancel { tables } => (tables.clone(), None),
            Self::Pause | Self::Resume => (Vec::new(), None),
        };
        serde_json::to_string(&Written {
            action: self.to_string(),
            tables,
            filter,
        })
    }
}

/// The action alone.
impl fmt::Display for SnapshotCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read { .. } => "read",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Cancel { .. } => "cancel",
        })
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn strings(items: &[&str]) -> Vec<String> {
        items.iter().map(|item| (*item).to_owned()).collect()
    }

    #[test]
    fn a_command_reads_as_it_is_written() {
        for command in [
            SnapshotCommand::Read {
                tables: strings(&["public.a", "sales.*"]),
                filter: Some("id > 5 AND name <> '\"'".to_owned()),
            },
            SnapshotCommand::Read {
                tables: vec![],
                filter: None,
            },
            SnapshotCommand::Pause,
            SnapshotCommand::Resume,
            SnapshotCommand::Cancel {
                tables: strings(&["public.a"]),
            },
            SnapshotCommand::Cancel { tables: vec![] },
        ] {
            let text = command.to_json().unwrap();
            assert_eq!(SnapshotCommand::parse(text.as_bytes()).unwrap(), command, "{text}");
        }
        let with_null = br#"{"action":"read","tables":["public.a"],"filter":null}"#;
        assert_eq!(
            SnapshotCommand::parse(with_null).unwrap(),
            SnapshotCommand::Read {
                tables: strings(&["public.a"]),
                filter: None
            }
        );
    }

    #[test]
    fn what_is_no_command_says_why() {
        for (body, expected) in [
            (
                "",
                "the body is no command: EOF while parsing a value at line 1 column 0",
            ),
            (
                "{}",
                "the body is no command: missing field `action` at line 1 column 2",
            ),
            (
                r#"{"action":"stop"}"#,
                r#""stop" is no action: it must be read, pause, resume or cancel"#,
            ),
            (r#"{"action":"pause","tables":["a.b"]}"#, "pause takes no tables"),
            (r#"{"action":"resume","filter":"true"}"#, "resume takes no filter"),
            (r#"{"action":"cancel","filter":"true"}"#, "cancel takes no filter"),
            (r#"{"action":"read","filter":" "}"#, "filter is empty"),
        ] {
            let error = SnapshotCommand::parse(body.as_bytes()).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
        for (body, part) in [
            (r#"{"action":"read","table":"a"}"#, "unknown field `table`"),
            (r#"{"action":"read","tables":"a"}"#, "expected a sequence"),
        ] {
            let error = SnapshotCommand::parse(body.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[tokio::test]
    async fn a_command_whose_asker_is_gone_is_not_done() {
        let (control, mut commands) = channel();
        {
            let gone = control.give(SnapshotCommand::Pause);
            tokio::pin!(gone);
            assert_eq!(gone.as_mut().now_or_never(), None);
        }
        let (answer, ()) = tokio::join!(control.give(SnapshotCommand::Resume), async {
            let request = commands.next().await;
            assert_eq!(request.command, SnapshotCommand::Resume);
            request.reply.send(Ok(SnapshotAnswer::default())).unwrap();
        });
        assert_eq!(answer, Ok(Ok(SnapshotAnswer::default())));
    }

    #[tokio::test]
    async fn a_command_that_is_dropped_by_whoever_took_it_is_not_taken() {
        let (control, mut commands) = channel();
        let (answer, ()) = tokio::join!(control.give(SnapshotCommand::Pause), async {
            drop(commands.next().await);
        });
        assert_eq!(answer, Err(NotTaken));
    }

    #[tokio::test]
    async fn more_commands_than_may_wait_are_refused_at_once() {
        let (control, commands) = channel();
        let mut waiting: Vec<_> = (0..WAITING)
            .map(|_| Box::pin(control.give(SnapshotCommand::Pause)))
            .collect();
        for give in &mut waiting {
            assert!(give.as_mut().now_or_never().is_none());
        }
        assert_eq!(control.give(SnapshotCommand::Pause).await, Err(NotTaken));
        drop(commands);
        for give in waiting {
            assert_eq!(give.await, Err(NotTaken));
        }
    }

    #[tokio::test]
    async fn where_nobody_gives_commands_none_comes() {
        let mut commands = SnapshotCommands::none();
        let next = commands.next();
        tokio::pin!(next);
        assert!(next.as_mut().now_or_never().is_none());
    }
}
