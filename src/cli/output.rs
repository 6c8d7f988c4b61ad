//! stdout is for data, stderr for everything else; both are written here and nowhere else.

use std::io::{self, ErrorKind, Write};

use serde::Serialize;

use super::Exit;
pub use crate::pipeline::chain;
use crate::telemetry::logs;

/// Whether what goes to stdout may have colours.
pub fn coloured() -> bool {
    logs::coloured(&io::stdout())
}

/// A colour of terminals (ECMA-48, "SGR").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// As it should be.
    Green,
    /// Worth a look.
    Yellow,
    /// Under way.
    Cyan,
    /// Given up.
    Magenta,
    /// Wrong.
    Red,
    /// Of less weight.
    Faint,
}

impl Colour {
    /// The text in this colour where `coloured`, as it is otherwise.
    pub fn paint(self, text: &str, coloured: bool) -> String {
        let code = match self {
            Self::Green => 32,
            Self::Yellow => 33,
            Self::Cyan => 36,
            Self::Magenta => 35,
            Self::Red => 31,
            Self::Faint => 2,
        };
        match coloured {
            true => format!("\x1b[{code}m{text}\x1b[0m"),
            false => text.to_owned(),
        }
    }
}

/// Writes data. A reader that has gone (`| head`) is a quiet end.
pub fn data(text: &str) -> Exit {
    end_of(try_data(text))
}

/// Writes data, for whoever has more to write; [`end_of`] says how an error ends the process.
///
/// # Errors
///
/// Whatever the system says.
pub fn try_data(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Anything as JSON over several lines, for stdout.
///
/// # Errors
///
/// It cannot be written so, which stderr has been told.
pub fn json(value: &impl Serialize) -> Result<String, Exit> {
    match serde_json::to_string_pretty(value) {
        Ok(text) => Ok(format!("{text}\n")),
        Err(error) => {
            notice(&format!("walferry: the answer cannot be written as JSON: {error}\n"));
            Err(Exit::Failed)
        }
    }
}

/// How the process ends after it has written.
pub fn end_of(written: io::Result<()>) -> Exit {
    match written {
        Ok(()) => Exit::Stopped,
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Exit::Stopped,
        Err(error) => {
            notice(&format!("walferry: stdout cannot be written: {error}\n"));
            Exit::Failed
        }
    }
}

/// Writes to stderr. There is nobody left to tell when that fails.
pub fn notice(text: &str) {
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_has_gone_is_a_quiet_end() {
        assert_eq!(end_of(Err(ErrorKind::BrokenPipe.into())), Exit::Stopped);
        assert_eq!(end_of(Err(ErrorKind::StorageFull.into())), Exit::Failed);
        assert_eq!(end_of(Ok(())), Exit::Stopped);
    }
}
