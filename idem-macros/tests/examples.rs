//! Every example that a reader may copy gives its handler a scope. The default scope changes with the names of package
//! and function, and a handler with a new scope forgets what it has handled.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Where examples stand, from the root of the workspace.
const PLACES: [&str; 8] = [
    "README.md",
    "docs",
    "examples",
    "idem-core/src",
    "idem-amqp/src",
    "idem-macros/src",
    "idem-macros/docs",
    "idem-cli/src",
];

fn files(path: PathBuf) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(&path) else {
        return vec![path];
    };
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths.flat_map(files).collect()
}

/// A line of code, also one of an example in a comment, shown or hidden.
fn code(line: &str) -> &str {
    let line = line.trim();
    let comment = line
        .strip_prefix("///")
        .or_else(|| line.strip_prefix("//!"));
    let line = comment.unwrap_or(line).trim();
    line.strip_prefix("# ").unwrap_or(line)
}

/// The attributes of handlers, by the line in which each begins.
fn attributes(text: &str) -> Vec<(usize, String)> {
    let lines: Vec<_> = text.lines().map(code).collect();
    let begins = |at: &usize| lines[*at].starts_with("#[idempotent");
    let starts = (0..lines.len()).filter(begins);
    starts
        .filter_map(|start| {
            let end = (start..lines.len()).find(|end| is_whole(&lines[start..=*end].concat()))?;
            let mut after = lines[end + 1..].iter();
            let next = after.find(|line| !line.is_empty() && !line.starts_with(['#', '/']))?;
            let is_function = next.split(' ').any(|word| word == "fn");
            is_function.then(|| (start + 1, lines[start..=end].concat()))
        })
        .collect()
}

/// Whether all brackets are closed.
fn is_whole(attribute: &str) -> bool {
    attribute.matches('[').count() == attribute.matches(']').count()
}

#[test]
fn every_example_gives_its_handler_a_scope() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (mut found, mut without) = (0, Vec::new());
    for path in PLACES.iter().flat_map(|place| files(root.join(place))) {
        if path.extension().is_none_or(|it| it != "md" && it != "rs") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("it is text");
        for (line, attribute) in attributes(&text) {
            found += 1;
            if !attribute.contains("scope = \"") {
                without.push(format!("{}:{line}: {attribute}", path.display()));
            }
        }
    }
    assert!(found > 40, "{found} examples were found");
    assert!(without.is_empty(), "{without:#?}");
}
