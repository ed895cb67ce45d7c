//! The failure table and the tests match: no row without its test, no test without its row, and no promise for a store
//! and a mode without a test that runs on that store in that mode, or a note which one settles it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use self::{
    document::{Row, rows},
    source::{Cell, cells, tests},
};

mod document;
mod source;

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn table() -> Vec<Row> {
    rows(&read("../docs/guarantees.md"))
}

/// All tests of this binary but those of this module, by their module's path, and where they run.
fn all_tests() -> BTreeMap<String, BTreeSet<Cell>> {
    let modules = read("tests/integration/main.rs");
    let modules = modules.lines().filter_map(|line| line.strip_prefix("mod "));
    let modules = modules.map(|name| name.trim_end_matches(';'));
    let others = modules.filter(|name| *name != "guarantees");
    others
        .flat_map(|module| tests(module, &read(&format!("tests/integration/{module}.rs"))))
        .collect()
}

fn named_in_the_table() -> BTreeMap<String, usize> {
    let mut named = BTreeMap::new();
    for test in table().into_iter().flat_map(|row| row.tests) {
        *named.entry(test).or_default() += 1;
    }
    named
}

#[test]
fn every_row_names_a_test() {
    let rows = table();
    assert!(rows.len() > 80, "{} rows were found", rows.len());
    let without: Vec<_> = rows.iter().filter(|row| row.tests.is_empty()).collect();
    assert!(without.is_empty(), "{without:#?}");
}

#[test]
fn every_test_named_in_a_row_exists() {
    let tests = all_tests();
    let rows = table();
    let named = rows
        .iter()
        .flat_map(|row| row.tests.iter().chain(&row.settled_by));
    let missing: BTreeSet<_> = named.filter(|name| !tests.contains_key(*name)).collect();
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn every_test_stands_in_exactly_one_row() {
    let named = named_in_the_table();
    let tests = all_tests();
    let stray: Vec<_> = tests
        .keys()
        .filter(|test| named.get(*test) != Some(&1))
        .collect();
    assert!(stray.is_empty(), "{stray:#?}");
}

#[test]
fn what_a_row_promises_is_tested_on_each_store_and_in_each_mode() {
    let tests = all_tests();
    let mut missing = Vec::new();
    for row in table() {
        let named = row.tests.iter().chain(&row.settled_by);
        let tested: BTreeSet<_> = named.filter_map(|name| tests.get(name)).flatten().collect();
        let untested = row.promised.iter().filter(|cell| !tested.contains(cell));
        let untested: Vec<_> = untested.map(ToString::to_string).collect();
        if !untested.is_empty() {
            let section = row.section;
            missing.push(format!(
                "{section}: {} | {}",
                row.situation,
                untested.join(", ")
            ));
        }
    }
    assert!(
        missing.is_empty(),
        "these rows promise something for stores and modes that none of their tests runs on. Make the test's body \
         generic (`async fn name<C: Cell>()`) and list it in `on_each_store!`, `leased_on_each_store!` or \
         `atomic_on_each_store!` at the end of its module (see tests/src/cell.rs); or, if what the row says is decided \
         where store and mode make no difference, write behind its tests which tests of other rows settle it: \
         `module::test` settled by `duplicates::a_copy_that_comes_later_is_acknowledged_without_running`; or put \u{2014} \
         where nothing is promised:\n{missing:#?}"
    );
}

#[test]
fn a_row_is_settled_by_its_tests_or_by_those_it_names() {
    let document = "\
## Copies

Settled by `b::two`: the store is not asked.

| situation | what idem does | atomic | leased | test |
|---|---|---|---|---|
| one | acks | once | \u{2014} | `a::one` settled by `c::three` |

| situation | effect | test |
|---|---|---|
| two | none | `a::two` |
";
    let rows = rows(document);
    assert_eq!(rows[0].tests, ["a::one"]);
    assert_eq!(rows[0].settled_by, ["c::three", "b::two"]);
    let promised: Vec<_> = rows[0].promised.iter().map(ToString::to_string).collect();
    assert_eq!(promised, ["atomic on SQLite", "atomic on PostgreSQL"]);
    assert_eq!(rows[1].tests, ["a::two"]);
    assert!(rows[1].promised.is_empty());
}

#[test]
fn a_section_about_some_stores_promises_nothing_for_others() {
    let document = "\
## Redis

The store is a Redis of the test's own.

| situation | what idem does | atomic | leased | test |
|---|---|---|---|---|
| one | acks | \u{2014} | once | `a::one` |
";
    let promised: Vec<_> = rows(document)[0]
        .promised
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(promised, ["leased on Redis"]);
}

#[test]
fn where_a_test_runs_is_in_its_name_or_in_the_macro_that_makes_it() {
    let of = |name: &str| -> Vec<_> { cells(name).iter().map(ToString::to_string).collect() };
    assert_eq!(
        of("a::a_copy_is_acknowledged"),
        ["leased in memory or SQLite"]
    );
    assert_eq!(of("a::an_atomic_worker_is_killed"), ["atomic on SQLite"]);
    assert_eq!(
        of("a::a_commit_that_postgres_answers"),
        ["atomic on PostgreSQL"]
    );
    assert_eq!(of("a::a_leased_worker_on_redis"), ["leased on Redis"]);

    let source = "\
#[tokio::test]
async fn one() {}

async fn two<C: Cell>() {}

leased_on_each_store! {
    two,
}
";
    let tests: Vec<_> = tests("a", source)
        .into_iter()
        .map(|(name, cells)| (name, cells.len()))
        .collect();
    assert_eq!(tests, [("a::one".to_owned(), 1), ("a::two".to_owned(), 3)]);
}
