//! The command line: arguments, exit codes, and what goes where.
//!
//! Data goes to stdout, everything else to stderr. Exit codes: 0 stopped as asked, 1 failed for good, 64 bad usage, 78
//! bad configuration (sysexits.h's `EX_USAGE` and `EX_CONFIG`).

mod check;
mod config;
mod demo;
/// `walferry health`.
pub mod health;
mod indent;
mod logs;
mod neighbour;
/// Writing to stdout and stderr.
pub mod output;
mod progress;
mod render;
mod replay;
mod run;
mod schema;
mod signals;
mod slot;
mod snapshot;
mod tail;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::LazyLock;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand};

use crate::config::glob::TablePattern;
use crate::config::{Loaded, ProcessEnvironment, parse_duration};
use crate::lsn::Lsn;

/// Streams the committed changes of a PostgreSQL database to Kafka as Avro, one topic a table.
#[derive(Debug, Parser)]
#[command(name = "walferry", version, long_version = LONG_VERSION.as_str())]
#[command(
    after_help = "Examples:\n  walferry demo --for 20s\n  walferry config example > walferry.toml\n  \
                        walferry check && walferry run\n\n\
                        Exit codes: 0 stopped as asked, 1 failed for good, 64 bad usage, 78 bad configuration."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Stream until told to stop.
    ///
    /// The first SIGTERM or SIGINT drains: reading stops, and what is in flight is waited for, at most
    /// shutdown_timeout. A second one stops at once.
    #[command(after_help = "Example:\n  walferry run -c walferry.toml")]
    Run {
        #[command(flatten)]
        file: ConfigFile,
        /// Go on in spite of a gap in the changes, by the LSN where it begins, as the refusal names it.
        #[arg(long, value_name = "LSN")]
        accept_gap: Option<Lsn>,
    },
    /// Look at everything that `run` needs, and say what is wrong and how to mend it. Changes nothing.
    #[command(
        after_help = "Example:\n  walferry check -c walferry.toml --json\n\nExit code: 0 all is well, 1 something is not."
    )]
    Check {
        #[command(flatten)]
        file: ConfigFile,
        /// Print the findings as JSON.
        #[arg(long)]
        json: bool,
    },
    /// See it work: a throwaway Postgres, an embedded Kafka and registry, and a small workload.
    #[command(after_help = "Example:\n  walferry demo --for 20s")]
    Demo(DemoArgs),
    /// Print changes as they are committed, as JSON lines. Needs neither Kafka nor a registry, and confirms nothing of the pipeline's.
    ///
    /// Each line is a record that `run` would publish: topic, key, value, headers. It reads from a temporary slot that starts at
    /// the present; the publication must be there.
    #[command(after_help = "Example:\n  walferry tail -c walferry.toml --limit 10 public.orders 'sales.*'")]
    Tail {
        #[command(flatten)]
        file: ConfigFile,
        #[command(flatten)]
        args: tail::TailArgs,
    },
    /// Print the key and value schemas that `run` would register, and what the registry says of them. Changes nothing.
    #[command(after_help = "Example:\n  walferry schema -c walferry.toml public.orders\n\n\
                      Exit code: 0 run could use them all, 1 the registry would refuse one or does not answer.")]
    Schema {
        #[command(flatten)]
        file: ConfigFile,
        /// Print them as JSON, the text of each schema as it would be registered.
        #[arg(long)]
        json: bool,
        /// The tables: schema.table, with * and ?. Without any, all that are published.
        #[arg(value_name = "TABLE", value_parser = table_pattern)]
        tables: Vec<TablePattern>,
    },
    /// Publish the rows that went to the dead-letter topic, by the present configuration.
    ///
    /// Begins where the last replay left off. What still cannot be published is listed and stays for the next one.
    #[command(after_help = "Example:\n  walferry replay -c walferry.toml --dry-run\n\n\
                      Exit code: 0 nothing is left, 1 something cannot be published.")]
    Replay {
        #[command(flatten)]
        file: ConfigFile,
        #[command(flatten)]
        args: replay::ReplayArgs,
    },
    /// Have the running pipeline read rows that are there already, beside the stream; or ask how far that is.
    ///
    /// Each row becomes a record with op r, unless a newer change of it is in the topic. It talks to the pipeline that runs on
    /// this machine, at http.listen.
    #[command(after_help = "Examples:\n  walferry snapshot public.orders 'sales.*' --wait\n  \
                      walferry snapshot public.orders --where \"placed_at >= '2026-01-01'\"\n  walferry snapshot --status\n\n\
                      Exit code: 0 it was done, or will be; 1 a table was refused; with --wait, 0 all are done, 1 one is not.")]
    Snapshot {
        #[command(flatten)]
        file: ConfigFile,
        #[command(flatten)]
        args: snapshot::SnapshotArgs,
    },
    /// The replication slot: how it stands, who is on it, what it retains; make it or drop it.
    #[command(subcommand)]
    Slot(SlotCommand),
    /// The documented reference, or the configuration in force.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Ask the walferry beside this one whether it is well. For container health checks.
    #[command(hide = true)]
    Health(health::HealthArgs),
}

/// What `demo` may be told.
#[derive(Debug, Clone, Args)]
pub struct DemoArgs {
    /// Stop after this time instead of at Ctrl-C, such as 20s or 5m.
    #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
    pub limit: Option<Duration>,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Print every key with its default and its meaning, as a file to begin with.
    #[command(after_help = "Example:\n  walferry config example > walferry.toml")]
    Example,
    /// Print the configuration that is in force, secrets redacted.
    #[command(after_help = "Example:\n  WALFERRY__LOG__LEVEL=debug walferry config show -c walferry.toml")]
    Show {
        #[command(flatten)]
        file: ConfigFile,
    },
}

#[derive(Debug, Subcommand)]
enum SlotCommand {
    /// Print where the slot stands, its lag, what it retains, and whether anyone is on it.
    #[command(after_help = "Example:\n  walferry slot status -c walferry.toml --json\n\n\
                      Exit code: 0 run could stream from it, 1 there is none or it cannot be used.")]
    Status {
        #[command(flatten)]
        file: ConfigFile,
        /// Print it as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Make the slot, and before it the publication if that is missing; nothing is streamed yet.
    ///
    /// What commits from then on is kept by the server until `run` has it in Kafka.
    #[command(after_help = "Example:\n  walferry slot create -c walferry.toml")]
    Create {
        #[command(flatten)]
        file: ConfigFile,
    },
    /// Drop the slot: the pipeline is given up, and the server keeps nothing for it any more.
    ///
    /// One that somebody streams from is not dropped.
    #[command(after_help = "Example:\n  walferry slot drop -c walferry.toml")]
    Drop {
        #[command(flatten)]
        file: ConfigFile,
    },
}

/// Where the configuration is.
#[derive(Debug, Args)]
struct ConfigFile {
    /// The configuration file [default: $WALFERRY_CONFIG, ./walferry.toml, /etc/walferry/walferry.toml].
    #[arg(short = 'c', long = "config", value_name = "FILE")]
    path: Option<PathBuf>,
}

impl ConfigFile {
    /// Loads it; the faults are on stderr where there are any.
    fn load(&self) -> Result<Loaded, Exit> {
        crate::config::load(self.path.as_deref(), &ProcessEnvironment).map_err(|errors| {
            output::notice(&format!("walferry: {errors}\n"));
            Exit::Config
        })
    }
}

/// How the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// As it was asked to.
    Stopped,
    /// For good, and not well.
    Failed,
    /// The arguments make no sense.
    Usage,
    /// The configuration makes no sense.
    Config,
}

impl Exit {
    /// The process's exit code.
    pub const fn code(self) -> u8 {
        match self {
            Self::Stopped => 0,
            Self::Failed => 1,
            Self::Usage => 64,
            Self::Config => 78,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit.code())
    }
}

/// Runs what the arguments of this process ask for.
pub fn main() -> ExitCode {
    run_with(std::env::args_os()).into()
}

fn run_with(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    match Cli::try_parse_from(arguments) {
        Ok(cli) => dispatch(cli.command),
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => output::data(&error.render().to_string()),
            _ => {
                output::notice(&error.render().to_string());
                Exit::Usage
            }
        },
    }
}

fn dispatch(command: Command) -> Exit {
    match command {
        Command::Run { file, accept_gap } => {
            with_configuration(&file, |loaded| on_runtime(run::run(loaded, accept_gap)))
        }
        Command::Check { file, json } => with_configuration(&file, |loaded| on_runtime(check::check(loaded, json))),
        Command::Demo(args) => on_runtime(demo::demo(args)),
        Command::Tail { file, args } => with_configuration(&file, |loaded| on_runtime(tail::tail(loaded, args))),
        Command::Schema { file, json, tables } => {
            with_configuration(&file, |loaded| on_runtime(schema::schema(loaded, tables, json)))
        }
        Command::Replay { file, args } => with_configuration(&file, |loaded| on_runtime(replay::replay(loaded, args))),
        Command::Snapshot { file, args } => with_configuration(&file, |loaded| snapshot::snapshot(&loaded, &args)),
        Command::Slot(SlotCommand::Status { file, json }) => {
            with_configuration(&file, |loaded| on_runtime(slot::status(loaded, json)))
        }
        Command::Slot(SlotCommand::Create { file }) => {
            with_configuration(&file, |loaded| on_runtime(slot::create(loaded)))
        }
        Command::Slot(SlotCommand::Drop { file }) => with_configuration(&file, |loaded| on_runtime(slot::drop(loaded))),
        Command::Config(ConfigCommand::Example) => config::example(),
        Command::Config(ConfigCommand::Show { file }) => with_configuration(&file, config::show),
        Command::Health(args) => match health::health(&args, Duration::from_secs(4)) {
            Ok(()) => Exit::Stopped,
            Err(error) => {
                output::notice(&format!("walferry: {}\n", output::chain(&error)));
                Exit::Failed
            }
        },
    }
}

fn with_configuration(file: &ConfigFile, command: impl FnOnce(Loaded) -> Exit) -> Exit {
    match file.load() {
        Ok(loaded) => command(loaded),
        Err(exit) => exit,
    }
}

/// What is left on the runtime when a command is done may take this long to end.
const RUNTIME_END: Duration = Duration::from_secs(1);

fn on_runtime(command: impl Future<Output = Exit>) -> Exit {
    match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => {
            let exit = runtime.block_on(command);
            runtime.shutdown_timeout(RUNTIME_END);
            exit
        }
        Err(error) => {
            output::notice(&format!("walferry: threads cannot be started: {error}\n"));
            Exit::Failed
        }
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "write a duration such as 20s or 5m".to_owned())
}

fn table_pattern(text: &str) -> Result<TablePattern, String> {
    TablePattern::parse(text).map_err(|error| error.to_string())
}

static LONG_VERSION: LazyLock<String> = LazyLock::new(|| {
    format!(
        "{} (revision {})",
        crate::telemetry::VERSION,
        crate::telemetry::REVISION
    )
});

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(arguments: &[&str]) -> Result<Cli, clap::Error> {
        Cli::try_parse_from([&["walferry"], arguments].concat())
    }

    #[test]
    fn every_command_has_help_with_an_example() {
        fn visit(command: &mut clap::Command) {
            let help = command.render_long_help().to_string();
            if command.get_subcommands().next().is_none() {
                assert!(help.contains("Example"), "{help}");
            }
            assert!(
                command.get_about().is_some() || command.get_long_about().is_some(),
                "{help}"
            );
            for inner in command.get_subcommands_mut().filter(|inner| inner.get_name() != "help") {
                visit(inner);
            }
        }
        Cli::command().debug_assert();
        let mut command = Cli::command();
        command.build();
        visit(&mut command);
    }

    #[test]
    fn the_exit_codes_are_those_of_the_contract() {
        assert_eq!(
            [Exit::Stopped, Exit::Failed, Exit::Usage, Exit::Config].map(Exit::code),
            [0, 1, 64, 78]
        );
        let run = |arguments: &[&str]| run_with(arguments.iter().map(OsString::from));
        assert_eq!(run(&["walferry", "--version"]), Exit::Stopped);
        assert_eq!(run(&["walferry", "run", "--help"]), Exit::Stopped);
        assert_eq!(run(&["walferry"]), Exit::Usage);
        assert_eq!(run(&["walferry", "fly"]), Exit::Usage);
        assert_eq!(run(&["walferry", "demo", "--for", "soon"]), Exit::Usage);
        assert_eq!(run(&["walferry", "schema", "orders"]), Exit::Usage);
        assert_eq!(run(&["walferry", "tail", "--limit", "-1"]), Exit::Usage);
        assert_eq!(run(&["walferry", "snapshot", "--pause", "--resume"]), Exit::Usage);
        assert_eq!(
            run(&["walferry", "config", "show", "-c", "/nowhere/at.toml"]),
            Exit::Config
        );
    }

    #[test]
    fn the_arguments_are_read() {
        let cli = parse(&["check", "-c", "x.toml", "--json"]).unwrap();
        assert!(
            matches!(cli.command, Command::Check { file: ConfigFile { path: Some(path) }, json: true } if path.as_os_str() == "x.toml")
        );
        let cli = parse(&["demo", "--for", "20s"]).unwrap();
        assert!(
            matches!(cli.command, Command::Demo(DemoArgs { limit: Some(limit) }) if limit == Duration::from_secs(20))
        );
        let cli = parse(&["tail", "--for", "20s", "--limit", "3", "public.a", "b.*"]).unwrap();
        assert!(matches!(
            cli.command,
            Command::Tail { args, .. }
                if args.limit == Some(Duration::from_secs(20)) && args.records == Some(3) && args.tables.len() == 2
        ));
        let cli = parse(&["run"]).unwrap();
        assert!(matches!(
            cli.command,
            Command::Run {
                file: ConfigFile { path: None },
                accept_gap: None,
            }
        ));
    }
}
