//! The configuration as TOML: the documented reference, and the effective one.

use super::keys::{Default, KEYS, Key, SECTIONS};
use super::value::{self, Raw};

const WIDTH: usize = 100;

/// Every key with its default and its meaning, as a file to begin with.
pub fn example() -> String {
    let head = "# The configuration of walferry: every key, with its default.\n\
                #\n\
                # An environment variable WALFERRY__<SECTION>__<KEY> overrides a key (WALFERRY__POSTGRES__PASSWORD,\n\
                # WALFERRY__NAME). Lists are comma-separated there, tables are inline TOML. An empty string is the\n\
                # same as no value. Durations are in ms, s, m or h, sizes in B, kB, MB, GB, KiB, MiB or GiB.\n\n";
    let body = render(true, |key| {
        let text = match key.default {
            Default::Is(text) | Default::Name { example: text } | Default::Required { example: text } => text,
        };
        value::read(key.kind, &Raw::Loose(text.to_owned()))
            .ok()
            .map(|value| value.to_toml())
    });
    format!("{head}{body}")
}

/// Writes every key for which there is a value, section by section.
pub(super) fn render(documented: bool, mut show: impl FnMut(&Key) -> Option<String>) -> String {
    let mut text = String::new();
    for (section, doc) in SECTIONS {
        if !section.is_empty() {
            text.push('\n');
            if documented {
                comment(doc, &mut text);
            }
            text.push_str(&format!("[{section}]\n"));
        }
        for key in KEYS.iter().filter(|key| key.split().0 == *section) {
            let Some(value) = show(key) else { continue };
            if documented {
                comment(key.doc, &mut text);
            }
            text.push_str(&format!("{} = {value}\n", key.split().1));
        }
    }
    text
}

fn comment(doc: &str, text: &mut String) {
    let mut line = String::from("#");
    for word in doc.split_whitespace() {
        if line.len() + 1 + word.len() > WIDTH {
            text.push_str(&line);
            text.push('\n');
            line = String::from("#");
        }
        line.push(' ');
        line.push_str(word);
    }
    text.push_str(&line);
    text.push('\n');
}
