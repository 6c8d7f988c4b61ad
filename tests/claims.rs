//! The tests that tests/it/README.md names are there.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::fs;
use std::path::Path;

/// All Rust text below a directory.
fn source(dir: &Path, text: &mut String) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            source(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&fs::read_to_string(path).unwrap());
        }
    }
}

/// The words in backticks of the second column.
fn named(readme: &str) -> Vec<&str> {
    let cells = readme
        .lines()
        .filter(|line| line.starts_with("| "))
        .filter_map(|line| line.trim_end_matches('|').rsplit('|').next());
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect()
}

#[test]
fn each_test_that_is_named_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = fs::read_to_string(root.join("tests/it/README.md")).unwrap();
    let mut text = String::new();
    source(&root.join("tests"), &mut text);
    source(&root.join("src"), &mut text);
    let names = named(&readme);
    assert!(names.len() > 30, "{names:?}");
    // A macro makes one of `name: version;`.
    let exists = |name: &str| text.contains(&format!("fn {name}()")) || text.contains(&format!("    {name}: "));
    let missing: Vec<&str> = names.into_iter().filter(|name| !exists(name)).collect();
    assert!(missing.is_empty(), "no such tests: {missing:#?}");
}
