//! `docs/proofs.md` as it is to be: the headings, the prose and the order of the rows are the page's own; the rows come
//! from the documentation of the tests, and the contents from the rows.
//!
//! Why the order is the page's: a section has rows of several modules, and a module rows of several sections. They are
//! read best in an order that no single file has. So a line of a table stands for the test that it names first, and all
//! else in it is written anew.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use super::{
    document::{RUNS_ON, Row, TEST, cells_of, rows},
    source::{Cell, Mode, Place, Promise, Says, Test},
};

const CONTENTS: &str = "<!-- contents -->";
const END_OF_CONTENTS: &str = "<!-- end of contents -->";

/// The page with its rows as the tests say them. A row whose test has gone goes; a new one is placed behind the last
/// row of its module.
pub(super) fn written(page: &str, tests: &[Test]) -> String {
    let placed = placed(page, tests);
    let columns = columns_by_line(&placed);
    let known: BTreeMap<_, _> = tests
        .iter()
        .filter_map(|test| match &test.says {
            Says::Promise(promise) => Some((test.path.as_str(), promise)),
            Says::Nothing | Says::Shares(_) => None,
        })
        .collect();
    let mut lines: Vec<Option<String>> = placed.iter().cloned().map(Some).collect();
    for row in rows(&placed.join("\n")) {
        let first = row.tests.first().map(String::as_str);
        let promise = first.and_then(|first| Some((first, *known.get(first)?)));
        lines[row.line] = promise.map(|(first, promise)| {
            let tests: Vec<_> = tests.iter().filter(|test| is_of(test, first)).collect();
            line(columns[&row.line].as_slice(), first, promise, &tests)
        });
    }
    let lines: Vec<_> = lines.into_iter().flatten().collect();
    with_contents(&with_cells(&lines, tests))
}

/// Whether a test is the one that a row stands above, or shares its promise.
fn is_of(test: &Test, first: &str) -> bool {
    test.path == first || matches!(&test.says, Says::Shares(other) if other == first)
}

/// The page's lines, and one more for each promise that has none yet.
fn placed(page: &str, tests: &[Test]) -> Vec<String> {
    let mut lines: Vec<String> = page.lines().map(str::to_owned).collect();
    loop {
        let rows = rows(&lines.join("\n"));
        let firsts: Vec<_> = rows.iter().filter_map(|row| row.tests.first()).collect();
        let is_new =
            |test: &&Test| matches!(test.says, Says::Promise(_)) && !firsts.contains(&&test.path);
        let Some(new) = tests.iter().find(is_new) else {
            return lines;
        };
        let (at, line) = place_of(new, &rows, &lines);
        lines.insert(at, line);
    }
}

/// Where a new row goes, and a line that stands for it.
fn place_of(new: &Test, rows: &[Row], lines: &[String]) -> (usize, String) {
    let is_neighbour = |row: &&Row| {
        let mut tests = row.tests.iter();
        tests.any(|test| module(test) == module(&new.path))
    };
    let neighbour = rows.iter().rfind(is_neighbour).unwrap_or_else(|| {
        panic!(
            "docs/proofs.md has no row of the module of {0}: write a line with `{0}` in the column `{TEST}` of the table \
             that it belongs to",
            new.path
        )
    });
    let columns = &columns_by_line(lines)[&neighbour.line];
    let cells = columns.iter().map(|column| match column.as_str() {
        TEST => format!(" `{}` |", new.path),
        _ => " |".to_owned(),
    });
    (
        neighbour.line + 1,
        format!("|{}", cells.collect::<String>()),
    )
}

fn module(path: &str) -> &str {
    path.split("::").next().unwrap_or_default()
}

/// The headings of the table that a line is in.
fn columns_by_line(lines: &[String]) -> BTreeMap<usize, Vec<String>> {
    let mut columns: Option<Vec<String>> = None;
    let mut by_line = BTreeMap::new();
    for (number, line) in lines.iter().enumerate() {
        if !line.starts_with('|') {
            columns = None;
            continue;
        }
        let headings = || cells_of(line).into_iter().map(str::to_owned).collect();
        by_line.insert(number, columns.get_or_insert_with(headings).clone());
    }
    by_line
}

/// How a column is called above a test.
fn label(heading: &str) -> &str {
    match heading {
        "what idem does" | "what the client does" => "does",
        "what is told" => "told",
        other => other,
    }
}

/// A row, but for where it runs.
fn line(columns: &[String], first: &str, promise: &Promise, tests: &[&Test]) -> String {
    let labels: BTreeSet<_> = columns.iter().map(|heading| label(heading)).collect();
    let stray = promise
        .columns
        .iter()
        .find(|(of, _)| !labels.contains(of.as_str()));
    assert_eq!(
        stray, None,
        "{first} says what is no column of its table: {columns:?}"
    );
    let mut line = "|".to_owned();
    for heading in columns {
        let cell = match heading.as_str() {
            "situation" => promise.situation.clone(),
            TEST => named(first, promise, tests),
            RUNS_ON => String::new(),
            other => promise.under(label(other)).unwrap_or("\u{2014}").to_owned(),
        };
        write!(line, " {cell} |").expect("a string takes it");
    }
    line
}

/// The row's tests, the one that it stands above first, and those that settle the rest.
fn named(first: &str, promise: &Promise, tests: &[&Test]) -> String {
    let others = tests.iter().map(|test| test.path.as_str());
    let others = others.filter(|path| *path != first);
    let own = [first]
        .into_iter()
        .chain(others)
        .map(|path| format!("`{path}`"));
    let own = own.collect::<Vec<_>>().join(" ");
    match &promise.settled_by {
        Some(settled_by) => format!("{own} settled by {settled_by}"),
        None => own,
    }
}

/// The page with its columns [`RUNS_ON`].
fn with_cells(lines: &[String], tests: &[Test]) -> String {
    let mut lines = lines.to_vec();
    for row in rows(&lines.join("\n"))
        .into_iter()
        .filter(|row| row.says_where)
    {
        let own = || tests.iter().filter(|test| row.tests.contains(&test.path));
        let further = own().any(|test| test.further);
        let own: BTreeSet<_> = own().flat_map(|test| test.cells.iter().copied()).collect();
        let line = &mut lines[row.line];
        let end = line.trim_end_matches(['|', ' ']).len();
        line.truncate(end);
        let also = if further { "; further stores" } else { "" };
        let runs_on = runs_on(&own, &row.promised);
        write!(line, " | {runs_on}{also} |").expect("a string takes it");
    }
    lines.join("\n") + "\n"
}

/// Where a row's own tests run, if it promises something anywhere.
fn runs_on(own: &BTreeSet<Cell>, promised: &BTreeSet<Cell>) -> String {
    if promised.is_empty() {
        return "\u{2014}".to_owned();
    }
    let all: BTreeSet<_> = Cell::all().collect();
    if *own == all {
        return "each store, both modes".to_owned();
    }
    let of = |cells: &BTreeSet<Cell>, mode| -> Vec<_> {
        let of_mode = cells.iter().filter(|cell| cell.mode == mode);
        of_mode.map(|cell| cell.place).collect()
    };
    let modes = [Mode::Atomic, Mode::Leased].into_iter().filter_map(|mode| {
        let places = of(own, mode);
        let stores = match places.as_slice() {
            [] => return None,
            some if *some == of(&all, mode) => "each store".to_owned(),
            some => some
                .iter()
                .map(|place| place.of(mode))
                .collect::<Vec<_>>()
                .join(", "),
        };
        Some(format!("{}: {stores}", mode.column()))
    });
    let mut said: Vec<_> = modes.collect();
    if !promised.is_subset(own) {
        said.push("rest settled".to_owned());
    }
    said.join("; ")
}

impl Place {
    fn of(self, mode: Mode) -> &'static str {
        match (self, mode) {
            (Self::Local, Mode::Atomic) => "SQLite",
            (Self::Local, Mode::Leased) => "memory or SQLite",
            (Self::Postgres, _) => "PostgreSQL",
            (Self::Redis, _) => "Redis",
        }
    }
}

/// The page with how many rows and tests each section has, between the marks.
fn with_contents(page: &str) -> String {
    let (head, rest) = page
        .split_once(CONTENTS)
        .expect("the page has a place for its contents");
    let (_, rest) = rest.split_once(END_OF_CONTENTS).expect("the contents end");
    let rows = rows(page);
    let mut contents = "| section | rows | tests |\n|---|--:|--:|\n".to_owned();
    let mut total = (0, 0);
    for section in rest.lines().filter_map(|line| line.strip_prefix("## ")) {
        let of = rows.iter().filter(|row| row.section == section);
        let of: Vec<_> = of.map(|row| row.tests.len()).collect();
        let (rows, tests) = (of.len(), of.iter().sum::<usize>());
        total = (total.0 + rows, total.1 + tests);
        writeln!(
            contents,
            "| [{section}](#{}) | {rows} | {tests} |",
            anchor(section)
        )
        .expect("a string takes it");
    }
    let (rows, tests) = total;
    writeln!(contents, "| all | {rows} | {tests} |").expect("a string takes it");
    format!("{head}{CONTENTS}\n{contents}{END_OF_CONTENTS}{rest}")
}

/// The link to a heading.
pub(super) fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase();
    let kept = kept
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}
