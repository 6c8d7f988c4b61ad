//! The `walferry` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    walferry::cli::main()
}
