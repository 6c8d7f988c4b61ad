//! `walferry snapshot`: tells the pipeline that runs on this machine what to read, and asks how far it is.

mod table;
mod wait;

use std::net::SocketAddr;
use std::time::Duration;

use clap::{ArgGroup, Args};
use serde::de::DeserializeOwned;

use super::neighbour::{self, AskError, Question, reachable};
use super::{Exit, logs, output};
use crate::config::Loaded;
use crate::config::glob::TablePattern;
use crate::telemetry::control::{SnapshotAnswer, SnapshotCommand};
use crate::telemetry::http::COMMAND_TIMEOUT;
use crate::telemetry::snapshots::SnapshotView;

/// A look is answered from memory.
const LOOK_TIMEOUT: Duration = Duration::from_secs(10);

/// A thousand tables have some hundred kilobytes.
const LONGEST_ANSWER: u64 = 64 * 1024 * 1024;

/// What is asked, and how the answer is shown.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("action").args(["status", "pause", "resume", "cancel"]))]
pub(super) struct SnapshotArgs {
    /// Read only rows for which this condition holds, such as "id > 1000". The tables must be named.
    #[arg(long = "where", value_name = "SQL", conflicts_with = "action", requires = "tables")]
    filter: Option<String>,
    /// Follow it to its end, with progress on stderr.
    #[arg(long, conflicts_with = "action")]
    wait: bool,
    /// Show how far the snapshots are.
    #[arg(long, conflicts_with = "tables")]
    status: bool,
    /// Read nothing until told to go on; the stream is not touched.
    #[arg(long, conflicts_with = "tables")]
    pause: bool,
    /// Go on.
    #[arg(long, conflicts_with = "tables")]
    resume: bool,
    /// Read these tables no longer; without any, none of those that are read or wait.
    #[arg(long)]
    cancel: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// The tables: schema.table, with * and ?. Without any, all published ones that have a key.
    #[arg(value_name = "TABLE", value_parser = table_text)]
    tables: Vec<String>,
}

/// The text itself goes to the pipeline; whether it is a pattern is known here.
fn table_text(text: &str) -> Result<String, String> {
    match TablePattern::parse(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

impl SnapshotArgs {
    /// What is to be done; none where it is only looked.
    fn command(&self) -> Option<SnapshotCommand> {
        let tables = || self.tables.clone();
        match (self.status, self.pause, self.resume, self.cancel) {
            (true, ..) => None,
            (_, true, ..) => Some(SnapshotCommand::Pause),
            (_, _, true, _) => Some(SnapshotCommand::Resume),
            (.., true) => Some(SnapshotCommand::Cancel { tables: tables() }),
            _ => Some(SnapshotCommand::Read {
                tables: tables(),
                filter: self.filter.clone(),
            }),
        }
    }
}

/// Why the pipeline did not do it, or did not tell.
#[derive(Debug, thiserror::Error)]
enum SnapshotError {
    #[error("the pipeline cannot be asked")]
    Ask(#[from] AskError),
    #[error("{address} answers, but is no walferry that knows of snapshots")]
    NotWalferry { address: SocketAddr },
    #[error("refused: {0}")]
    Refused(String),
    #[error("the command cannot be written")]
    Write(#[source] serde_json::Error),
}

impl SnapshotError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Ask(_) => Some(
                "`walferry run` must be running on this machine (in its container: docker exec, kubectl exec), with the same http.listen.",
            ),
            Self::NotWalferry { .. } => Some("Is that address walferry's http.listen, and walferry of this version?"),
            Self::Refused(_) | Self::Write(_) => None,
        }
    }
}

/// Does what it is told, and ends as that ended.
pub(super) fn snapshot(loaded: &Loaded, args: &SnapshotArgs) -> Exit {
    if let Err(exit) = logs::start(loaded) {
        return exit;
    }
    let address = reachable(loaded.config.http.listen);
    match run(address, args) {
        Ok(exit) => exit,
        Err(error) => {
            let hint = error.hint().map_or_else(String::new, |hint| format!("\n{hint}"));
            output::notice(&format!("walferry: {}{hint}\n", output::chain(&error)));
            Exit::Failed
        }
    }
}

fn run(address: SocketAddr, args: &SnapshotArgs) -> Result<Exit, SnapshotError> {
    let Some(command) = args.command() else {
        let view = look(address)?;
        return Ok(print(args.json, &view, || table::describe(&view, output::coloured())));
    };
    let answer = give(address, &command)?;
    if !args.wait || answer.accepted.is_empty() {
        let shown = print(args.json, &answer, || said(&command, &answer));
        return Ok(worst(shown, exit_of(&command, &answer)));
    }
    for refused in &answer.refused {
        output::notice(&format!("{}: refused: {}\n", refused.table, refused.reason));
    }
    let (view, waited) = wait::wait(address, &answer.accepted)?;
    let shown = print(args.json, &view, || table::tables(&view.tables, output::coloured()));
    Ok(worst(shown, worst(waited, exit_of(&command, &answer))))
}

/// Asks how far the snapshots are.
fn look(address: SocketAddr) -> Result<SnapshotView, SnapshotError> {
    ask(address, Question::Get("/snapshot"), LOOK_TIMEOUT)
}

fn give(address: SocketAddr, command: &SnapshotCommand) -> Result<SnapshotAnswer, SnapshotError> {
    let body = command.to_json().map_err(SnapshotError::Write)?;
    ask(
        address,
        Question::Post("/snapshot", &body),
        COMMAND_TIMEOUT + LOOK_TIMEOUT,
    )
}

fn ask<A: DeserializeOwned>(
    address: SocketAddr,
    question: Question<'_>,
    timeout: Duration,
) -> Result<A, SnapshotError> {
    #[derive(serde::Deserialize)]
    struct Refusal {
        error: String,
    }
    let reply = neighbour::ask(address, question, timeout, LONGEST_ANSWER)?;
    let unknown = |_| SnapshotError::NotWalferry { address };
    match reply.status {
        200 => serde_json::from_str(&reply.body).map_err(unknown),
        _ => {
            let Refusal { error } = serde_json::from_str(&reply.body).map_err(unknown)?;
            Err(SnapshotError::Refused(error))
        }
    }
}

fn print(json: bool, value: &impl serde::Serialize, text: impl FnOnce() -> String) -> Exit {
    match json {
        true => match output::json(value) {
            Ok(text) => output::data(&text),
            Err(exit) => exit,
        },
        false => output::data(&text()),
    }
}

fn worst(one: Exit, other: Exit) -> Exit {
    match one {
        Exit::Stopped => other,
        exit => exit,
    }
}

/// A refused table is a failure, and so is to have nothing to do.
fn exit_of(command: &SnapshotCommand, answer: &SnapshotAnswer) -> Exit {
    let nothing =
        answer.accepted.is_empty() && matches!(command, SnapshotCommand::Read { .. } | SnapshotCommand::Cancel { .. });
    match nothing || !answer.refused.is_empty() {
        true => Exit::Failed,
        false => Exit::Stopped,
    }
}

/// The answer to a command, a table a line.
fn said(command: &SnapshotCommand, answer: &SnapshotAnswer) -> String {
    let accepted = match command {
        SnapshotCommand::Pause => return "nothing is read until --resume\n".to_owned(),
        SnapshotCommand::Resume => return "reading goes on\n".to_owned(),
        SnapshotCommand::Read { .. } => "will be read",
        SnapshotCommand::Cancel { .. } => "cancelled",
    };
    let names = answer
        .accepted
        .iter()
        .chain(answer.refused.iter().map(|refused| &refused.table));
    let width = names.map(|name| name.chars().count()).max().unwrap_or_default();
    let mut text = String::new();
    for table in &answer.accepted {
        text.push_str(&format!("{table:width$}  {accepted}\n"));
    }
    for refused in &answer.refused {
        text.push_str(&format!("{:width$}  refused: {}\n", refused.table, refused.reason));
    }
    match text.is_empty() {
        true => "no table is concerned\n".to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::neighbour::tests::{nobody, serve};
    use super::*;
    use crate::telemetry::control::Refused;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: SnapshotArgs,
    }

    fn parse(arguments: &[&str]) -> Result<SnapshotArgs, clap::Error> {
        Line::try_parse_from([&["snapshot"], arguments].concat()).map(|line| line.args)
    }

    fn strings(items: &[&str]) -> Vec<String> {
        items.iter().map(|item| (*item).to_owned()).collect()
    }

    fn ok(body: &str) -> String {
        format!("HTTP/1.1 200 OK\r\n\r\n{body}")
    }

    #[test]
    fn arguments_are_one_command() {
        let command = |arguments: &[&str]| parse(arguments).unwrap().command();
        assert_eq!(
            command(&[]),
            Some(SnapshotCommand::Read {
                tables: vec![],
                filter: None
            })
        );
        assert_eq!(
            command(&["public.a", "sales.*", "--where", "id > 5", "--wait"]),
            Some(SnapshotCommand::Read {
                tables: strings(&["public.a", "sales.*"]),
                filter: Some("id > 5".to_owned())
            })
        );
        assert_eq!(command(&["--status", "--json"]), None);
        assert_eq!(command(&["--pause"]), Some(SnapshotCommand::Pause));
        assert_eq!(command(&["--resume"]), Some(SnapshotCommand::Resume));
        assert_eq!(
            command(&["--cancel", "public.a"]),
            Some(SnapshotCommand::Cancel {
                tables: strings(&["public.a"])
            })
        );
        for senseless in [
            &["--status", "--pause"][..],
            &["--pause", "public.a"],
            &["--status", "--wait"],
            &["--cancel", "public.a", "--where", "true"],
            &["--where", "true"],
            &["orders"],
        ] {
            assert!(parse(senseless).is_err(), "{senseless:?}");
        }
    }

    #[test]
    fn a_refused_table_is_a_failure_and_the_others_are_read() {
        let body = r#"{"accepted":["public.a"],"refused":[{"table":"public.log","reason":"it has no key"}]}"#;
        let (address, server) = serve(vec![ok(body)]);
        let args = parse(&["public.*"]).unwrap();
        assert_eq!(run(address, &args).unwrap(), Exit::Failed);
        let asked = server.join().unwrap();
        assert_eq!(
            asked,
            [(
                "POST /snapshot HTTP/1.1".to_owned(),
                r#"{"action":"read","tables":["public.*"]}"#.to_owned()
            )]
        );
        let answer: SnapshotAnswer = serde_json::from_str(body).unwrap();
        assert_eq!(
            said(&args.command().unwrap(), &answer),
            "public.a    will be read\npublic.log  refused: it has no key\n"
        );
    }

    #[test]
    fn to_have_nothing_to_do_is_a_failure_but_for_a_pause() {
        let nothing = SnapshotAnswer::default();
        let refused = SnapshotAnswer {
            accepted: strings(&["public.a"]),
            refused: vec![Refused {
                table: "public.b".to_owned(),
                reason: "it is not published".to_owned(),
            }],
        };
        let cancel = SnapshotCommand::Cancel { tables: vec![] };
        assert_eq!(exit_of(&cancel, &nothing), Exit::Failed);
        assert_eq!(said(&cancel, &nothing), "no table is concerned\n");
        assert_eq!(exit_of(&SnapshotCommand::Pause, &nothing), Exit::Stopped);
        assert_eq!(exit_of(&cancel, &refused), Exit::Failed);
    }

    #[test]
    fn what_is_refused_as_a_whole_says_why() {
        let (address, server) = serve(vec![
            "HTTP/1.1 503 Service Unavailable\r\n\r\n{\"error\":\"it does not stream now: connecting\"}".to_owned(),
        ]);
        let error = run(address, &parse(&["--pause"]).unwrap()).unwrap_err();
        assert_eq!(error.to_string(), "refused: it does not stream now: connecting");
        assert_eq!(server.join().unwrap().len(), 1);
    }

    #[test]
    fn nobody_there_and_somebody_else_there_are_told_apart() {
        let args = parse(&["--status"]).unwrap();
        let address = nobody();
        let error = run(address, &args).unwrap_err();
        let told = output::chain(&error);
        assert!(told.contains(&format!("no answer from {address}")), "{told}");
        assert!(error.hint().is_some());
        for answer in [ok("<html>"), ok("{}"), "HTTP/1.1 404 Not Found\r\n\r\n".to_owned()] {
            let (address, server) = serve(vec![answer]);
            let error = run(address, &args).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("{address} answers, but is no walferry that knows of snapshots")
            );
            server.join().unwrap();
        }
    }
}
