//! What the tests' sources say: which there are, on which store each runs, and in which mode.

use std::{collections::BTreeSet, fmt};

/// A store and a mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cell {
    pub(super) mode: Mode,
    pub(super) place: Place,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mode {
    Atomic,
    Leased,
}

/// What the store is. For leased handlers memory and SQLite count as one: a process that is killed leaves no memory,
/// and the generic tests run on both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    Local,
    Postgres,
    Redis,
}

impl Cell {
    /// All that there are: no transaction can be had from Redis.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let all = |mode, places: &'static [Place]| {
            places.iter().map(move |place| Self {
                mode,
                place: *place,
            })
        };
        all(Mode::Atomic, &[Place::Local, Place::Postgres]).chain(all(
            Mode::Leased,
            &[Place::Local, Place::Postgres, Place::Redis],
        ))
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match (self.mode, self.place) {
            (Mode::Leased, Place::Local) => "in memory or SQLite",
            (Mode::Atomic, Place::Local) => "on SQLite",
            (_, Place::Postgres) => "on PostgreSQL",
            (_, Place::Redis) => "on Redis",
        };
        write!(f, "{} {place}", self.mode.column())
    }
}

impl Mode {
    /// The heading of its column.
    pub(super) fn column(self) -> &'static str {
        match self {
            Self::Atomic => "atomic",
            Self::Leased => "leased",
        }
    }
}

impl Place {
    pub(super) fn named_in(text: &str) -> Vec<Self> {
        let text = text.to_lowercase();
        let words = [
            ("sqlite", Self::Local),
            ("postgres", Self::Postgres),
            ("redis", Self::Redis),
            ("failover::", Self::Redis),
        ];
        let named = words.into_iter().filter(|(word, _)| text.contains(word));
        named.map(|(_, place)| place).collect()
    }
}

/// What the names of tests of atomic handlers have in them.
const ATOMIC: [&str; 4] = ["atomic", "commit", "rollback", "beginning"];

/// Where a test runs that is not made for each store: its name says so if it is not leased and in memory or SQLite.
pub(super) fn cells(name: &str) -> BTreeSet<Cell> {
    let is_atomic = ATOMIC.iter().any(|word| name.contains(word));
    let mode = if is_atomic {
        Mode::Atomic
    } else {
        Mode::Leased
    };
    let mut places = Place::named_in(name);
    if places.is_empty() {
        places.push(Place::Local);
    }
    places
        .into_iter()
        .map(|place| Cell { mode, place })
        .collect()
}

/// The tests in a module's source, by their paths, and where they run.
pub(super) fn tests(module: &str, source: &str) -> Vec<(String, BTreeSet<Cell>)> {
    let mut tests = Vec::new();
    let mut marked = false;
    let mut made_for: Option<BTreeSet<Cell>> = None;
    for line in source.lines() {
        if line.starts_with("#[tokio::test") || line == "#[test]" {
            marked = true;
        } else if marked {
            let name = line.trim_start_matches("async ").strip_prefix("fn ");
            let name = name.and_then(|rest| rest.split('(').next());
            let name = format!("{module}::{}", name.expect("a test is a function"));
            let cells = cells(&name);
            tests.push((name, cells));
            marked = false;
        } else if line == "}" {
            made_for = None;
        } else if let Some(cells) = &made_for {
            let name = line.trim().trim_end_matches(',');
            tests.push((format!("{module}::{name}"), cells.clone()));
        } else {
            made_for = made_by(line);
        }
    }
    tests
}

/// For which cells the macro makes tests that begins here.
fn made_by(line: &str) -> Option<BTreeSet<Cell>> {
    let of = |mode: Mode| Cell::all().filter(move |cell| cell.mode == mode).collect();
    match line {
        "on_each_store! {" => Some(Cell::all().collect()),
        "leased_on_each_store! {" => Some(of(Mode::Leased)),
        "atomic_on_each_store! {" => Some(of(Mode::Atomic)),
        _ => None,
    }
}
