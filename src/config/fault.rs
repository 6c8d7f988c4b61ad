//! What is wrong with a configuration: every fault at once, each with its key, its value and what would be right.

use std::fmt;
use std::path::PathBuf;

use super::secret::REDACTED;

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A line of the file, counted from 1.
    File {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
    },
    /// The file as a whole.
    WholeFile(PathBuf),
    /// An environment variable.
    Environment(String),
    /// Nobody gave one.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line } => write!(f, "{}, line {line}", path.display()),
            Self::WholeFile(path) => path.display().fmt(f),
            Self::Environment(variable) => write!(f, "environment variable {variable}"),
            Self::Default => f.write_str("not set"),
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The key's path, such as `postgres.port`; empty for the file as a whole.
    pub key: String,
    /// Where the value stands.
    pub origin: Origin,
    /// The value, redacted; none where it is missing or could be a secret.
    pub value: Option<String>,
    /// What is wrong.
    pub problem: String,
    /// What would be right.
    pub remedy: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.key.as_str(), &self.value) {
            ("", _) => write!(f, "{}: ", self.origin)?,
            (key, Some(value)) => write!(f, "{key} = {value} ({}): ", self.origin)?,
            (key, None) => write!(f, "{key} ({}): ", self.origin)?,
        }
        f.write_str(&self.problem)?;
        if !self.remedy.is_empty() {
            write!(f, "; {}", self.remedy)?;
        }
        Ok(())
    }
}

/// Everything that is wrong with a configuration; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigErrors {
    /// In the order of the file, as far as there is one.
    pub faults: Vec<Fault>,
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.faults.len() {
            1 => f.write_str("the configuration has a fault:")?,
            count => write!(f, "the configuration has {count} faults:")?,
        }
        for fault in &self.faults {
            write!(f, "\n  {fault}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

/// Takes out of a text whatever may be a password: what stands before the `@` of a URL, and connection strings with
/// a `password=`.
pub(super) fn redact(text: &str) -> String {
    if text.to_ascii_lowercase().contains("password=") {
        return REDACTED.to_owned();
    }
    // The last `@`: a password may itself hold `/`, `,` or `@`.
    match (text.find("://"), text.rfind('@')) {
        (Some(scheme), Some(at)) if scheme < at => {
            let (before, after) = (text.get(..scheme + 3), text.get(at..));
            format!("{}{REDACTED}{}", before.unwrap_or_default(), after.unwrap_or_default())
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_taken_out_of_urls_and_connection_strings() {
        assert_eq!(
            redact("http://u:p@registry:8081/x"),
            "http://<redacted>@registry:8081/x"
        );
        assert_eq!(redact("http://u:p,/@q@registry"), "http://<redacted>@registry");
        assert_eq!(redact("host=a Password=b"), "<redacted>");
        assert_eq!(redact("http://registry:8081"), "http://registry:8081");
        assert_eq!(redact("plain@text"), "plain@text");
    }
}
