//! Holds the arrows between the modules: which may know of which.
//!
//! Comments and string literals do not count; everything else in a module's files does, its tests included.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::fs;
use std::path::{Path, PathBuf};

/// One claim: no file below `within` (but for `except`) names any of `forbidden`.
struct Arrow {
    within: &'static [&'static str],
    except: &'static [&'static str],
    forbidden: &'static [&'static str],
}

const PURE: &[&str] = &[
    "lsn", "quote", "pgoutput", "relation", "row", "envelope", "avro", "progress", "recovery", "snapshot",
];

const ARROWS: &[Arrow] = &[
    // The pure modules can be tested and fuzzed with bytes alone.
    Arrow {
        within: PURE,
        except: &["relation/catalog.rs", "snapshot/reader.rs", "snapshot/range.rs"],
        forbidden: &[
            "tokio",
            "rdkafka",
            "tokio_postgres",
            "reqwest",
            "axum",
            "std::net",
            "std::fs",
            "crate::replication",
            "crate::kafka",
            "crate::schema_registry",
            "crate::pipeline",
            "crate::config",
            "crate::telemetry",
            "crate::cli",
        ],
    },
    // What is kept of running transactions knows no thread and no stage.
    Arrow {
        within: &["spool"],
        except: &[],
        forbidden: &[
            "tokio",
            "rdkafka",
            "tokio_postgres",
            "std::net",
            "crate::replication",
            "crate::pgoutput",
            "crate::kafka",
            "crate::pipeline",
            "crate::config",
            "crate::telemetry",
            "crate::cli",
        ],
    },
    // One is given a ticket, the other watches a confirmed LSN.
    Arrow {
        within: &["kafka"],
        except: &[],
        forbidden: &["crate::replication"],
    },
    Arrow {
        within: &["replication"],
        except: &[],
        forbidden: &["crate::kafka"],
    },
    // A stage gets its own small settings.
    Arrow {
        within: &["replication", "relation", "schema_registry", "kafka", "telemetry"],
        except: &[],
        forbidden: &["crate::config::Config", "crate::config::Loaded", "crate::config::load"],
    },
];

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// The files of a module, `name.rs` or everything below `name/`, with paths relative to `src`.
fn files_of(module: &str) -> Vec<(String, String)> {
    let mut files = Vec::new();
    let single = source().join(format!("{module}.rs"));
    if single.is_file() {
        files.push(single);
    }
    let mut directories = vec![source().join(module)];
    while let Some(directory) = directories.pop() {
        let Ok(entries) = fs::read_dir(&directory) else {
            continue;
        };
        for entry in entries {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                files.push(path);
            }
        }
    }
    assert!(
        !files.is_empty(),
        "module `{module}` is in the list of layers but not in src"
    );
    files
        .into_iter()
        .map(|path| {
            let name = path.strip_prefix(source()).unwrap().to_string_lossy().into_owned();
            (name, fs::read_to_string(&path).unwrap())
        })
        .collect()
}

/// The code with comments and string literals blanked out; line breaks stay, so that line numbers do.
fn code_only(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    let blank =
        |out: &mut Vec<u8>, slice: &[u8]| out.extend(slice.iter().map(|b| if *b == b'\n' { b'\n' } else { b' ' }));
    while i < bytes.len() {
        let rest = &bytes[i..];
        let length = if rest.starts_with(b"//") {
            rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len())
        } else if rest.starts_with(b"/*") {
            let mut depth = 0;
            let mut j = 0;
            loop {
                if rest[j..].starts_with(b"/*") {
                    depth += 1;
                    j += 2;
                } else if rest[j..].starts_with(b"*/") {
                    depth -= 1;
                    j += 2;
                } else {
                    j += 1;
                }
                if depth == 0 || j >= rest.len() {
                    break j.min(rest.len());
                }
            }
        } else if rest[0] == b'"' {
            let mut j = 1;
            while j < rest.len() && rest[j] != b'"' {
                j += if rest[j] == b'\\' { 2 } else { 1 };
            }
            (j + 1).min(rest.len())
        } else if let Some(length) = raw_string(rest, i.checked_sub(1).map(|p| bytes[p])) {
            length
        } else if rest[0] == b'\'' {
            char_literal(rest)
        } else {
            0
        };
        if length == 0 {
            out.push(bytes[i]);
            i += 1;
        } else {
            blank(&mut out, &rest[..length]);
            i += length;
        }
    }
    String::from_utf8(out).unwrap()
}

/// The length of a raw string literal that begins here.
fn raw_string(rest: &[u8], before: Option<u8>) -> Option<usize> {
    if before.is_some_and(|b| b.is_ascii_alphanumeric() && b != b'b' || b == b'_') || rest[0] != b'r' {
        return None;
    }
    let hashes = rest[1..].iter().take_while(|b| **b == b'#').count();
    if rest.get(1 + hashes) != Some(&b'"') {
        return None;
    }
    let end = [b"\"".as_slice(), &b"#".repeat(hashes)].concat();
    let body = &rest[2 + hashes..];
    let length = body.windows(end.len()).position(|w| w == end).unwrap_or(body.len());
    Some((2 + hashes + length + end.len()).min(rest.len()))
}

/// The length of a character literal that begins here, 0 for a lifetime.
fn char_literal(rest: &[u8]) -> usize {
    match rest.get(1) {
        Some(b'\\') => rest.iter().skip(3).position(|b| *b == b'\'').map_or(0, |p| p + 4),
        Some(_) => {
            let width = std::str::from_utf8(&rest[1..rest.len().min(5)])
                .ok()
                .or_else(|| rest.get(1..2).and_then(|b| std::str::from_utf8(b).ok()))
                .and_then(|s| s.chars().next())
                .map_or(1, char::len_utf8);
            if rest.get(1 + width) == Some(&b'\'') {
                width + 2
            } else {
                0
            }
        }
        None => 0,
    }
}

/// Does the code name this path? `use crate::{a, b}` is spelt out first; whole words only.
fn names(code: &str, path: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let found = |needle: &str, haystack: &str| {
        haystack.match_indices(needle).any(|(at, _)| {
            let before = haystack[..at].bytes().next_back();
            let after = haystack[at + needle.len()..].bytes().next();
            // A method or field of that name is no path: `.tokio`.
            before.is_none_or(|b| !word(b) && b != b'.') && after.is_none_or(|b| !word(b))
        })
    };
    found(path, code)
        || spelt_out(code)
            .iter()
            .any(|p| p == path || p.starts_with(&format!("{path}::")))
}

/// Every path of every `use` declaration, braces resolved.
fn spelt_out(code: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for (at, _) in code.match_indices("use ") {
        if code[..at]
            .bytes()
            .next_back()
            .is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_')
        {
            continue;
        }
        let Some(end) = code[at..].find(';') else { continue };
        expand("", &code[at + 4..at + end], &mut paths);
    }
    paths
}

fn expand(prefix: &str, tree: &str, paths: &mut Vec<String>) {
    let tree = tree.trim();
    match tree.find('{') {
        Some(open) if tree.ends_with('}') => {
            let prefix = format!("{prefix}{}", tree[..open].replace(char::is_whitespace, ""));
            let inner = &tree[open + 1..tree.len() - 1];
            let (mut depth, mut start) = (0, 0);
            for (i, c) in inner.char_indices() {
                match c {
                    '{' => depth += 1,
                    '}' => depth -= 1,
                    ',' if depth == 0 => {
                        expand(&prefix, &inner[start..i], paths);
                        start = i + 1;
                    }
                    _ => {}
                }
            }
            expand(&prefix, &inner[start..], paths);
        }
        _ if tree.is_empty() => {}
        _ => {
            let path = tree
                .split(" as ")
                .next()
                .unwrap_or_default()
                .replace(char::is_whitespace, "");
            paths.push(format!("{prefix}{path}"));
        }
    }
}

fn violations(file: &str, text: &str, forbidden: &[&str]) -> Vec<String> {
    let code = code_only(text);
    forbidden
        .iter()
        .filter(|path| names(&code, path))
        .map(|path| format!("src/{file} names {path}"))
        .collect()
}

#[test]
fn no_module_names_what_it_must_not_know() {
    let mut found = Vec::new();
    for arrow in ARROWS {
        for module in arrow.within {
            for (file, text) in files_of(module) {
                if !arrow.except.contains(&file.as_str()) {
                    found.extend(violations(&file, &text, arrow.forbidden));
                }
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
#[should_panic(expected = "module `no_such_module` is in the list of layers but not in src")]
fn a_listed_module_that_is_missing_is_an_error() {
    files_of("no_such_module");
}

#[test]
fn a_forbidden_name_is_found_however_it_is_written() {
    let pure = ARROWS[0].forbidden;
    for (text, found) in [
        ("use tokio::sync::watch;", "src/x.rs names tokio"),
        ("use ::rdkafka as kafka;", "src/x.rs names rdkafka"),
        ("fn f() { std::fs::read(\"x\"); }", "src/x.rs names std::fs"),
        ("use std::{io, net::TcpStream};", "src/x.rs names std::net"),
        (
            "use crate::{\n    lsn::Lsn,\n    config::{Config, Secret},\n};",
            "src/x.rs names crate::config",
        ),
        (
            "fn f<'a>(x: &'a str) { let q = '\"'; tokio::spawn(()); }",
            "src/x.rs names tokio",
        ),
        ("let a = r#\"\"#; tokio::spawn(a);", "src/x.rs names tokio"),
    ] {
        assert_eq!(violations("x.rs", text, pure), [found], "{text}");
    }
}

#[test]
fn a_name_in_a_comment_a_string_or_a_longer_word_is_no_violation() {
    for text in [
        "// tokio::spawn\n/// see [`tokio`]\n/* a /* tokio */ rdkafka */",
        "let a = \"tokio::spawn \\\" rdkafka\";",
        "let a = r#\"say \"tokio\" \"#;",
        "let my_tokio = 1; let tokio_like = 2; self.tokio;",
        "use std::{io, fmt::Write};",
        "use crate::configuration::Config;",
    ] {
        assert!(violations("x.rs", text, ARROWS[0].forbidden).is_empty(), "{text}");
    }
}
