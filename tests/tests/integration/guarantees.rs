//! The failure table and the tests match: no row without its test, no test without its row.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The rows of all tables whose last column is headed `test`: the situation, and its tests.
fn rows(document: &str) -> Vec<(String, Vec<String>)> {
    let mut rows = Vec::new();
    let mut in_table = false;
    for line in document.lines() {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        in_table = line.starts_with('|') && (in_table || cells.last() == Some(&"test"));
        if !in_table || cells.last() == Some(&"test") || cells[0].starts_with("--") {
            continue;
        }
        let tests = cells[cells.len() - 1].split('`').skip(1).step_by(2);
        rows.push((cells[0].to_owned(), tests.map(str::to_owned).collect()));
    }
    rows
}

/// The names of the test functions in a module's source.
fn tests(source: &str) -> Vec<String> {
    let mut tests = Vec::new();
    let mut marked = false;
    for line in source.lines() {
        if line.starts_with("#[tokio::test") || line == "#[test]" {
            marked = true;
        } else if marked {
            let name = line.trim_start_matches("async ").strip_prefix("fn ");
            let name = name.and_then(|rest| rest.split('(').next());
            tests.push(name.expect("a test is a function").to_owned());
            marked = false;
        }
    }
    tests
}

/// All tests of this binary but those of this module, by their module's path.
fn all_tests() -> BTreeSet<String> {
    let modules = read("tests/integration/main.rs");
    let modules = modules.lines().filter_map(|line| line.strip_prefix("mod "));
    let modules = modules.map(|name| name.trim_end_matches(';'));
    let others = modules.filter(|name| *name != "guarantees");
    others
        .flat_map(|module| {
            let tests = tests(&read(&format!("tests/integration/{module}.rs")));
            tests
                .into_iter()
                .map(move |test| format!("{module}::{test}"))
        })
        .collect()
}

fn named_in_the_table() -> BTreeMap<String, usize> {
    let mut named = BTreeMap::new();
    for (_, tests) in rows(&read("../docs/guarantees.md")) {
        for test in tests {
            *named.entry(test).or_default() += 1;
        }
    }
    named
}

#[test]
fn every_row_names_a_test() {
    let rows = rows(&read("../docs/guarantees.md"));
    assert!(rows.len() > 80, "{} rows were found", rows.len());
    let without: Vec<_> = rows.iter().filter(|(_, tests)| tests.is_empty()).collect();
    assert!(without.is_empty(), "{without:#?}");
}

#[test]
fn every_test_named_in_a_row_exists() {
    let tests = all_tests();
    let named = named_in_the_table();
    let missing: Vec<_> = named.keys().filter(|name| !tests.contains(*name)).collect();
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn every_test_stands_in_exactly_one_row() {
    let named = named_in_the_table();
    let tests = all_tests();
    let stray: Vec<_> = tests
        .iter()
        .filter(|test| named.get(*test) != Some(&1))
        .collect();
    assert!(stray.is_empty(), "{stray:#?}");
}
