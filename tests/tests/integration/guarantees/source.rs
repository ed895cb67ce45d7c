//! What the tests' sources say: which there are, on which store each runs, in which mode, and which row stands above
//! it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

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

/// A test, where it runs, and what its documentation says of a row.
#[derive(Debug)]
pub(super) struct Test {
    /// `module::name`, and `kafka::module::name` of Kafka.
    pub(super) path: String,
    pub(super) cells: BTreeSet<Cell>,
    /// Whether it also runs on stores that are made of others.
    pub(super) further: bool,
    pub(super) says: Says,
}

/// What stands above a test.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Says {
    /// No row.
    Nothing,
    Promise(Promise),
    /// The row of another test is its row, too: the other one's path.
    Shares(String),
}

/// A row as it stands above its first test: the situation, then a list of `- label: text`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Promise {
    pub(super) situation: String,
    pub(super) columns: Vec<(String, String)>,
    /// Tests of other rows, as they are written.
    pub(super) settled_by: Option<String>,
}

impl Promise {
    pub(super) fn under(&self, label: &str) -> Option<&str> {
        let mut columns = self.columns.iter();
        columns.find_map(|(known, text)| (known == label).then_some(text.as_str()))
    }
}

const SHARES: &str = "Shares the promise of ";

impl Says {
    /// Of documentation whose first paragraph is a situation, and whose second one a list; or whose first one names the
    /// test that it shares the row with. What follows is not the row's.
    fn read(docs: &[&str]) -> Self {
        let mut paragraphs = docs.split(|line| line.is_empty());
        let first = paragraphs.next().unwrap_or_default().join(" ");
        if let Some(other) = first.strip_prefix(SHARES) {
            return Self::Shares(other.trim_matches(['`', '.']).to_owned());
        }
        let list = paragraphs.next().unwrap_or_default();
        if !list.first().is_some_and(|line| line.starts_with("- ")) {
            return Self::Nothing;
        }
        let mut promise = Promise {
            situation: first.trim_end_matches('.').to_owned(),
            ..Promise::default()
        };
        let list = list.join(" ");
        for item in format!(" {list}").split(" - ").skip(1) {
            let (label, text) = item.split_once(": ").unwrap_or((item, ""));
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            if label == "settled by" {
                promise.settled_by = Some(text);
            } else {
                promise.columns.push((label.to_owned(), text));
            }
        }
        Self::Promise(promise)
    }
}

/// The tests in a module's source, in their order.
pub(super) fn tests(module: &str, source: &str) -> Vec<Test> {
    let mut tests = Vec::new();
    let mut generic = BTreeMap::new();
    let (mut docs, mut marked) = (Vec::new(), false);
    let mut made_for: Option<Made> = None;
    for line in source.lines() {
        if let Some(text) = line.strip_prefix("///") {
            docs.push(text.strip_prefix(' ').unwrap_or(text));
        } else if line.starts_with("#[tokio::test") || line == "#[test]" {
            marked = true;
        } else if let Some(name) = function(line) {
            let (path, says) = (format!("{module}::{name}"), Says::read(&docs));
            if marked {
                let cells = cells(&path);
                tests.push(Test {
                    path,
                    cells,
                    further: false,
                    says,
                });
            } else {
                generic.insert(path, says);
            }
            (docs, marked) = (Vec::new(), false);
        } else if line == "}" {
            made_for = None;
        } else if let Some(Made { cells, further }) = &made_for {
            let path = format!("{module}::{}", line.trim().trim_end_matches(','));
            if let Some(test) = tests.iter_mut().find(|test| test.path == path) {
                test.further |= *further;
                test.cells.extend(cells);
                continue;
            }
            let says = generic.remove(&path).unwrap_or(Says::Nothing);
            tests.push(Test {
                path,
                cells: cells.clone(),
                further: *further,
                says,
            });
        } else {
            made_for = made_by(line);
            docs.clear();
        }
    }
    let mut left = generic.iter().filter(|(_, says)| **says != Says::Nothing);
    assert_eq!(left.next(), None, "a row stands above what is no test");
    tests
}

/// The name of the function that begins here, at the left margin.
fn function(line: &str) -> Option<&str> {
    let name = line.strip_prefix("async ").unwrap_or(line);
    name.strip_prefix("fn ")?.split(['(', '<']).next()
}

/// For which cells a macro makes tests.
struct Made {
    cells: BTreeSet<Cell>,
    further: bool,
}

/// For which cells the macro makes tests that begins here.
fn made_by(line: &str) -> Option<Made> {
    let of = |mode: Mode| Cell::all().filter(move |cell| cell.mode == mode).collect();
    let (cells, further) = match line {
        "on_each_store! {" | "batches_on_each_store! {" | "in_each_mode! {" => {
            (Cell::all().collect(), false)
        }
        "leased_on_each_store! {" => (of(Mode::Leased), false),
        "atomic_on_each_store! {" | "on_postgres_and_sqlite! {" => (of(Mode::Atomic), false),
        "on_further_stores! {" => {
            let cells = Cell::all().filter(|cell| cell.place != Place::Local);
            (cells.collect(), true)
        }
        _ => return None,
    };
    Some(Made { cells, further })
}
