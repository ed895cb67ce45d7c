//! What `docs/guarantees.md` says: its rows, what each promises, and which tests hold it to that.

use std::collections::BTreeSet;

use super::source::{Cell, Mode, Place};

/// A row of a table whose last column is headed `test`.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) section: String,
    pub(super) situation: String,
    /// Where something is promised: in its columns `atomic` and `leased`, on the stores that it names, or that its
    /// section is about.
    pub(super) promised: BTreeSet<Cell>,
    /// The tests that are its own.
    pub(super) tests: Vec<String>,
    /// Tests of other rows that settle what its own do not run on: named behind them, or for the whole section in a line
    /// that begins with `Settled by`.
    pub(super) settled_by: Vec<String>,
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
    for line in document.lines() {
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
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        if !line.starts_with('|') {
            columns = None;
        } else if cells.last() == Some(&"test") {
            columns = Some(cells);
        } else if let Some(columns) = &columns
            && !cells[0].starts_with("--")
        {
            rows.push(row(&section, columns, &cells));
        }
    }
    rows
}

fn row(section: &Section, columns: &[&str], cells: &[&str]) -> Row {
    let promises = |mode: Mode| {
        let columns = columns.iter().zip(cells);
        let mut columns = columns.filter(|(column, _)| **column == mode.column());
        columns.any(|(_, promise)| !matches!(*promise, "" | "\u{2014}"))
    };
    let mut places = Place::named_in(cells[0]);
    if places.is_empty() {
        places.clone_from(&section.places);
    }
    let concerned = |cell: &Cell| places.is_empty() || places.contains(&cell.place);
    let last = cells[cells.len() - 1];
    let (own, others) = last.split_once("settled by").unwrap_or((last, ""));
    Row {
        section: section.name.clone(),
        situation: cells[0].to_owned(),
        promised: Cell::all()
            .filter(|cell| promises(cell.mode) && concerned(cell))
            .collect(),
        tests: quoted(own).collect(),
        settled_by: quoted(others)
            .chain(section.settled_by.iter().cloned())
            .collect(),
    }
}

/// What stands in backticks and is a test's path.
fn quoted(text: &str) -> impl Iterator<Item = String> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.filter(|name| name.contains("::")).map(str::to_owned)
}
