//! `walferry check`: what was found, for people or as JSON.

use super::output::{self, Colour};
use super::{Exit, logs};
use crate::config::Loaded;
use crate::pipeline::check::{self, Outcome, Report};

/// Prints the findings on stdout.
pub(super) async fn check(loaded: Loaded, json: bool) -> Exit {
    if let Err(exit) = logs::start(&loaded) {
        return exit;
    }
    let report = check::check(&loaded.config).await;
    let text = if json {
        match output::json(&report) {
            Ok(text) => text,
            Err(exit) => return exit,
        }
    } else {
        describe(&report, output::coloured())
    };
    match output::data(&text) {
        Exit::Stopped if !report.passed() => Exit::Failed,
        exit => exit,
    }
}

fn describe(report: &Report, coloured: bool) -> String {
    let width = report
        .checks
        .iter()
        .map(|check| check.subject.len())
        .max()
        .unwrap_or_default();
    let mut text = String::new();
    for check in &report.checks {
        let subject = check.subject;
        match &check.outcome {
            Outcome::Passed { detail } => {
                let ok = Colour::Green.paint("ok     ", coloured);
                text.push_str(&format!("{ok}  {subject:width$}  {detail}\n"));
            }
            Outcome::Failed { reason, remedy } => {
                let failed = Colour::Red.paint("failed ", coloured);
                text.push_str(&format!("{failed}  {subject:width$}  {reason}\n"));
                for line in remedy.iter().flat_map(|remedy| remedy.lines()) {
                    text.push_str(&format!("         {:width$}  {line}\n", ""));
                }
            }
            Outcome::Skipped { because } => {
                let skipped = Colour::Faint.paint("skipped", coloured);
                text.push_str(&format!("{skipped}  {subject:width$}  since {because} failed\n"));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::check::Check;

    #[test]
    fn a_finding_stands_with_its_remedy() {
        let report = Report {
            checks: vec![
                Check {
                    subject: "postgres",
                    outcome: Outcome::Passed {
                        detail: "connected".to_owned(),
                    },
                },
                Check {
                    subject: "wal_level",
                    outcome: Outcome::Failed {
                        reason: "wal_level is replica".to_owned(),
                        remedy: Some("Set wal_level = logical.\nRestart the server.".to_owned()),
                    },
                },
                Check {
                    subject: "slot",
                    outcome: Outcome::Skipped { because: "wal_level" },
                },
            ],
        };
        assert_eq!(
            describe(&report, false),
            "ok       postgres   connected\n\
             failed   wal_level  wal_level is replica\n\
             \u{20}                   Set wal_level = logical.\n\
             \u{20}                   Restart the server.\n\
             skipped  slot       since wal_level failed\n"
        );
        assert!(!report.passed());
        let mut coloured = describe(&report, true);
        assert!(coloured.contains("\x1b[31mfailed \x1b[0m"), "{coloured}");
        for code in ["\x1b[32m", "\x1b[31m", "\x1b[2m", "\x1b[0m"] {
            coloured = coloured.replace(code, "");
        }
        assert_eq!(coloured, describe(&report, false));
    }
}
