//! What `docs/proofs.md` says: its rows, what each promises, and which tests hold it to that.

use std::collections::BTreeSet;

use super::source::{Cell, Mode, Place};

/// The heading of the column that names the tests. A table without it has no rows.
pub(super) const TEST: &str = "test";
/// The heading of the column that is written from the tests' sources.
pub(super) const RUNS_ON: &str = "runs on";

/// A row of a table that has a column [`TEST`].
#[derive(Debug)]
pub(super) struct Row {
    /// The line of the page, from 0.
    pub(super) line: usize,
    pub(super) section: String,
    pub(super) situation: String,
    /// Where something is promised: in its columns `atomic` and `leased`, on the stores that it names, or that its
    /// section is about.
    pub(super) promised: BTreeSet<Cell>,
    /// The tests that are its own.
    pub(super) tests: Vec<String>,
    /// Tests of other rows that settle what its own do not run on: named behind them, or for the whole section in a
    /// line that begins with `Settled by`.
    pub(super) settled_by: Vec<String>,
    /// Whether its table has the column [`RUNS_ON`], which then is the last one.
    pub(super) says_where: bool,
}

/// Each heading begins anew.
#[derive(Default)]
struct Section {
    name: String,
    settled_by: Vec<String>,
    /// Of a line that begins with `The store is`; without one, all.
    places: Vec<Place>,
}

pub(super) fn rows(document: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut section = Section::default();
    let mut columns: Option<Vec<&str>> = None;
    for (number, line) in document.lines().enumerate() {
        if let Some(name) = line.strip_prefix("## ") {
            section = Section {
                name: name.to_owned(),
                ..Section::default()
            };
        } else if line.starts_with("Settled by ") {
            section.settled_by.extend(quoted(line));
        } else if line.starts_with("The store is ") {
            section.places = Place::named_in(line);
        }
        let cells = cells_of(line);
        if !line.starts_with('|') {
            columns = None;
        } else if cells.contains(&TEST) {
            columns = Some(cells);
        } else if let Some(columns) = &columns
            && !cells[0].starts_with("--")
        {
            rows.push(row(number, &section, columns, &cells));
        }
    }
    rows
}

/// The cells of a table's line.
pub(super) fn cells_of(line: &str) -> Vec<&str> {
    let inner = line.strip_prefix('|').unwrap_or(line);
    let inner = inner.strip_suffix('|').unwrap_or(inner);
    inner.split('|').map(str::trim).collect()
}

fn row(line: usize, section: &Section, columns: &[&str], cells: &[&str]) -> Row {
    let under = |heading: &str| {
        let mut columns = columns.iter().zip(cells);
        columns.find_map(|(column, cell)| (*column == heading).then_some(*cell))
    };
    let promises = |mode: Mode| {
        let promise = under(mode.column()).unwrap_or_default();
        !matches!(promise, "" | "\u{2014}")
    };
    let mut places = Place::named_in(cells[0]);
    if places.is_empty() {
        places.clone_from(&section.places);
    }
    let concerned = |cell: &Cell| places.is_empty() || places.contains(&cell.place);
    let tests = under(TEST).unwrap_or_default();
    let (own, others) = tests.split_once("settled by").unwrap_or((tests, ""));
    Row {
        line,
        section: section.name.clone(),
        situation: cells[0].to_owned(),
        promised: Cell::all()
            .filter(|cell| promises(cell.mode) && concerned(cell))
            .collect(),
        tests: quoted(own).collect(),
        settled_by: quoted(others)
            .chain(section.settled_by.iter().cloned())
            .collect(),
        says_where: columns.last() == Some(&RUNS_ON),
    }
}

/// What stands in backticks and is a test's path.
fn quoted(text: &str) -> impl Iterator<Item = String> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.filter(|name| name.contains("::")).map(str::to_owned)
}
