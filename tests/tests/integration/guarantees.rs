//! `docs/proofs.md` and the tests match: no row without its test, no test without its row, and no promise for a store
//! and a mode without a test that runs on that store in that mode, or a note which one settles it.
//!
//! A row stands in the documentation of its first test, and the page is written from there:
//!
//! ```text
//! /// The worker is stopped while the store is away.
//! ///
//! /// - does: returns its messages
//! /// - atomic: nothing lost
//! /// - leased: nothing lost
//! ```
//!
//! Tests of Kafka (`idem-kafka/tests`) need no row; one that has a row is named `kafka::module::test`.
//!
//! A label is a column of the table; a mode that is left out is promised nothing. `settled by` names tests of other
//! rows. A further test of the row says `Shares the promise of` and the first one's path.
//!
//! `IDEM_WRITE_PROOFS=1 cargo test -p idem-tests --test integration the_page` writes the page. It places a new row
//! behind the others of its module; move its line to where it is read best. Each section has its link in
//! `docs/guarantees.md`.
// docs/decisions/0038

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::{Path, PathBuf},
};

use self::{
    document::{Row, rows},
    page::{anchor, written},
    source::{Cell, Promise, Says, Test, cells, tests},
};

mod document;
mod page;
mod source;

const PROOFS: &str = "../docs/proofs.md";

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn read(path: &str) -> String {
    let path = here(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn table() -> Vec<Row> {
    rows(&read(PROOFS))
}

/// Where each test runs, by its path.
fn all_tests() -> BTreeMap<String, BTreeSet<Cell>> {
    let tests = documented_tests().into_iter();
    tests.map(|test| (test.path, test.cells)).collect()
}

/// All tests of this binary but those of this module, and those of Kafka that have a row.
fn documented_tests() -> Vec<Test> {
    let mut documented = tests_in("tests/integration", "");
    let of_kafka = tests_in("../idem-kafka/tests/kafka", "kafka::");
    let with_a_row = of_kafka.into_iter().filter(|it| it.says != Says::Nothing);
    documented.extend(with_a_row);
    documented
}

/// The tests of a binary, whose paths begin so.
fn tests_in(folder: &str, begin: &str) -> Vec<Test> {
    let modules = read(&format!("{folder}/main.rs"));
    let modules = modules.lines().filter_map(|line| line.strip_prefix("mod "));
    let modules = modules.map(|name| name.trim_end_matches(';'));
    let others = modules.filter(|name| *name != "guarantees");
    others
        .flat_map(|name| {
            let source = read(&format!("{folder}/{name}.rs"));
            tests(&format!("{begin}{name}"), &source)
        })
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
fn the_page_is_what_the_tests_say() {
    let page = read(PROOFS);
    let expected = written(&page, &documented_tests());
    if env::var_os("IDEM_WRITE_PROOFS").is_some() {
        fs::write(here(PROOFS), expected).expect("the page can be written");
        return;
    }
    let differs = page
        .lines()
        .zip(expected.lines())
        .find(|(is, to_be)| is != to_be);
    assert!(
        page == expected,
        "docs/proofs.md is not what the tests say. Write it with `IDEM_WRITE_PROOFS=1 cargo test -p idem-tests --test \
         integration the_page`, and look at what has changed. The first line that differs, and what it is to be: \
         {differs:#?}"
    );
}

#[test]
fn each_section_of_the_proofs_is_linked_from_the_promises() {
    let proofs = read(PROOFS);
    let headed = |mark: &str| -> BTreeSet<String> {
        let headings = proofs.lines().filter_map(|line| line.strip_prefix(mark));
        headings.map(anchor).collect()
    };
    let (sections, parts) = (headed("## "), headed("### "));
    let promises = read("../docs/guarantees.md");
    let links = promises.split("(proofs.md#").skip(1);
    let links: BTreeSet<_> = links.filter_map(|link| link.split(')').next()).collect();
    let unlinked = sections
        .iter()
        .filter(|section| !links.contains(section.as_str()));
    assert_eq!(
        unlinked.collect::<Vec<_>>(),
        Vec::<&String>::new(),
        "have no link"
    );
    let astray = links
        .iter()
        .filter(|link| !sections.contains(**link) && !parts.contains(**link));
    assert_eq!(
        astray.collect::<Vec<_>>(),
        Vec::<&&str>::new(),
        "lead nowhere"
    );
}

#[test]
fn a_test_that_shares_a_promise_shares_that_of_a_row() {
    let tests = documented_tests();
    let of_a_row = |path: &String| {
        let mut tests = tests.iter();
        tests.any(|test| test.path == *path && matches!(test.says, Says::Promise(_)))
    };
    let stray: Vec<_> = tests
        .iter()
        .filter(|test| matches!(&test.says, Says::Shares(other) if !of_a_row(other)))
        .collect();
    assert!(stray.is_empty(), "{stray:#?}");
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

| situation | what idem does | atomic | leased | test | runs on |
|---|---|---|---|---|---|
| one | acks | once | \u{2014} | `a::one` settled by `c::three` | \u{2014} |

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

async fn three<C: Further>() {}

leased_on_each_store! {
    two,
}

on_further_stores! {
    two,
    three,
}
";
    let tests: Vec<_> = tests("a", source)
        .into_iter()
        .map(|test| (test.path, test.cells.len(), test.further))
        .collect();
    let [one, two, three] = ["a::one", "a::two", "a::three"].map(str::to_owned);
    // Atomic behind a cache on PostgreSQL is a cell that `two` has only on further stores.
    assert_eq!(tests, [(one, 1, false), (two, 4, true), (three, 3, true)]);
}

/// Two tests of one row, and one of another; the second table has the columns of a mode.
const DOCUMENTED: &str = "\
/// A call is made.
///
/// - does: sends a request, and brings
///   its reply
#[tokio::test]
async fn one() {}

/// Shares the promise of `a::one`.
///
/// With another client.
#[tokio::test]
async fn two() {}

/// A copy comes later.
///
/// - does: acks
/// - leased: once
/// - settled by: `c::three`
///
/// This is said to whom reads the test.
async fn later<C: Cell>() {}

leased_on_each_store! {
    later,
}
";

#[test]
fn a_row_stands_above_its_first_test() {
    let tests = tests("a", DOCUMENTED);
    let column = |label: &str, text: &str| (label.to_owned(), text.to_owned());
    let call = Promise {
        situation: "A call is made".to_owned(),
        columns: vec![column("does", "sends a request, and brings its reply")],
        settled_by: None,
    };
    let copy = Promise {
        situation: "A copy comes later".to_owned(),
        columns: vec![column("does", "acks"), column("leased", "once")],
        settled_by: Some("`c::three`".to_owned()),
    };
    let says: Vec<_> = tests.into_iter().map(|test| test.says).collect();
    let shares = Says::Shares("a::one".to_owned());
    assert_eq!(says, [Says::Promise(call), shares, Says::Promise(copy)]);
}

#[test]
fn rows_are_written_in_the_order_of_the_page_and_new_ones_behind_their_module() {
    let page = "\
<!-- contents -->
<!-- end of contents -->

## Calls

| situation | what the client does | test |
|---|---|---|
| old | old | `a::gone` |
| | | `a::one` |

## Copies

| situation | what idem does | atomic | leased | test | runs on |
|---|---|---|---|---|---|
| | | | | `a::later` | |
";
    let expected = "\
<!-- contents -->
| section | rows | tests |
|---|--:|--:|
| [Calls](#calls) | 1 | 2 |
| [Copies](#copies) | 2 | 2 |
| all | 3 | 4 |
<!-- end of contents -->

## Calls

| situation | what the client does | test |
|---|---|---|
| A call is made | sends a request, and brings its reply | `a::one` `a::two` |

## Copies

| situation | what idem does | atomic | leased | test | runs on |
|---|---|---|---|---|---|
| A copy comes later | acks | \u{2014} | once | `a::later` settled by `c::three` | leased: each store |
| It is new | acks | once | \u{2014} | `a::atomic_and_new` | atomic: SQLite; rest settled |
";
    let new = "\
/// It is new.
///
/// - does: acks
/// - atomic: once
#[tokio::test]
async fn atomic_and_new() {}
";
    let tests = tests("a", &format!("{DOCUMENTED}{new}"));
    assert_eq!(written(page, &tests), expected);
    assert_eq!(written(expected, &tests), expected);
}
