use std::{fs, path::Path};

use super::*;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn of(krate: &str) -> Crate {
    Crate::read(&root().join(krate).join("src"))
}

fn rows(krate: &str) -> Rows {
    let document = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    Rows::read(&document, &format!("{krate}/src"))
}

/// The crates whose rows stand in `ARCHITECTURE.md`.
const CRATES: [&str; 4] = ["idem-core", "idem-amqp", "idem-http", "idem-kafka"];

#[test]
fn no_module_names_a_row_above_its_own() {
    for krate in CRATES {
        let found = upward(&of(krate), &rows(krate));
        assert!(found.is_empty(), "{krate}:\n{}", found.join("\n"));
    }
}

#[test]
fn no_modules_name_each_other_in_a_circle() {
    for krate in CRATES {
        let found = circles(&of(krate));
        let steps: Vec<_> = found
            .iter()
            .map(|(parent, steps)| format!("in {parent}:\n    {}", steps.join("\n    ")))
            .collect();
        assert!(found.is_empty(), "{krate}:\n{}", steps.join("\n"));
    }
}

/// What another word says better: the one that the field has for it.
const LEFT_OUT: [&str; 29] = [
    "acker",
    "attend",
    "attendant",
    "attended",
    "befall",
    "befalls",
    "befell",
    "checkup",
    "clerk",
    "company",
    "courier",
    "course",
    "desk",
    "epitaph",
    "hearts",
    "keeper",
    "lending",
    "mender",
    "patient",
    "reception",
    "receptionist",
    "seat",
    "seats",
    "setback",
    "switchboard",
    "thief",
    "untold",
    "vitals",
    "ward",
];

/// The crates, each with the words that it still uses.
const WITH: [(&str, &[&str]); 7] = [
    ("idem-amqp", &[]),
    ("idem-cli", &[]),
    // In tests: two requests, of which one waits; whoever takes a lease away.
    ("idem-core", &["patient", "thief"]),
    ("idem-http", &[]),
    ("idem-kafka", &[]),
    ("idem-macros", &[]),
    ("idem-testing", &[]),
];

#[test]
fn no_word_that_was_left_out_comes_back() {
    for (krate, with) in WITH {
        let words = LEFT_OUT.into_iter().filter(|word| !with.contains(word));
        let words: Vec<_> = words.collect();
        let found: Vec<_> = found(&words, &root().join(krate).join("src"))
            .into_iter()
            .collect();
        assert!(found.is_empty(), "{krate}:\n{}", found.join("\n"));
    }
}

/// The crates that are published, but for the macros and the command.
const WITH_ERRORS: [&str; 5] = [
    "idem-core",
    "idem-amqp",
    "idem-http",
    "idem-kafka",
    "idem-testing",
];

/// `main` shows the `Debug` of the error that it returns: it is to be words, as `debug_as_chain!` makes them.
#[test]
fn no_public_error_derives_debug() {
    for krate in WITH_ERRORS {
        let modules = of(krate).modules;
        let found = modules
            .iter()
            .flat_map(|(path, module)| {
                let path = path.join("::");
                let errors = module.derived_errors.iter();
                errors.map(move |error| format!("{path}::{error}"))
            })
            .collect::<Vec<_>>();
        assert!(found.is_empty(), "{krate}: {found:?}");
    }
}

#[test]
fn an_error_that_derives_debug_is_found() {
    for (error, is_found) in [
        ("#[derive(Debug, thiserror::Error)] pub struct No;", true),
        (
            "#[derive(Debug)] pub struct No; impl std::error::Error for No {}",
            true,
        ),
        (
            "#[derive(Clone, thiserror::Error)] pub enum No { A }",
            false,
        ),
        (
            "#[derive(Debug, thiserror::Error)] pub(super) enum No { A }",
            false,
        ),
        ("#[derive(Debug)] pub struct No;", false),
    ] {
        let planted = Crate::of(&[("", error)]);
        let found = &planted.modules[&ModulePath::new()].derived_errors;
        assert_eq!(!found.is_empty(), is_found, "{error}");
    }
}

const TABLE: &str = "
| row | a/src | holds |
|---|---|---|
| 1 | `high/` | what users call |
| 0 | `low/`, `other.rs` | what that is made of |
";

#[test]
fn an_import_upward_is_found() {
    let lib = "mod high; mod low; mod other; pub use high::Thing;";
    for import in [
        "use crate::high::Thing;",
        "use crate::Thing;",
        "use super::{high::{self as h}, other};",
        "use super::*; fn f() -> super::Thing { todo!() }",
        "fn f() { let _ = crate::high::Thing; }",
        "mod inner { use super::super::high::Thing; }",
    ] {
        let planted = Crate::of(&[
            ("", lib),
            ("high", "pub struct Thing;"),
            ("low", import),
            ("other", ""),
        ]);
        let found = upward(&planted, &Rows::read(TABLE, "a/src"));
        assert!(
            found.iter().any(|it| it.contains("row 0 names row 1")),
            "{import}: {found:?}"
        );
    }
}

#[test]
fn a_module_without_a_row_and_a_row_without_a_module_are_found() {
    let planted = Crate::of(&[("", ""), ("high", ""), ("low", ""), ("stray", "")]);
    let found = upward(&planted, &Rows::read(TABLE, "a/src"));
    assert_eq!(
        found,
        ["stray stands in no row", "there is no module other"]
    );
}

#[test]
fn a_circle_is_found_at_any_depth_and_a_tests_own_imports_are_none() {
    let lib = ("", "mod a;");
    let a = ("a", "mod b; mod c; mod d; pub use d::D;");
    let circle = |b, c| {
        circles(&Crate::of(&[
            lib,
            a,
            ("a::b", b),
            ("a::c", c),
            ("a::d", "use super::b::B; pub struct D;"),
        ]))
    };
    assert_eq!(circle("pub struct B;", "use super::b::B;"), []);
    let found = circle("use crate::a::c::C; pub struct B;", "use super::D;");
    assert_eq!(found.len(), 1, "{found:?}");
    for step in [
        "a::b names a::c as `crate::a::c::C`",
        "a::c names a::d as `super::D`",
        "a::d names a::b as `super::b::B`",
    ] {
        assert!(found[0].1.iter().any(|it| it == step), "{found:?}");
    }
    let in_tests = "pub struct B; #[cfg(test)] mod tests { use super::super::c::C; } #[cfg(test)] use super::c::C;";
    assert_eq!(circle(in_tests, "use super::D;"), []);
}

/// Otherwise they measure something else than what is tested.
#[test]
fn the_benchmarks_are_built_with_the_same_versions() {
    let version_of = |name: &str, lock: &str| {
        let lock = fs::read_to_string(root().join(lock)).unwrap();
        let (_, rest) = lock.split_once(&format!("\nname = \"{name}\"\n")).unwrap();
        rest.lines().next().unwrap_or_default().to_owned()
    };
    for name in ["lapin", "redis", "sqlx", "tokio"] {
        let [own, benched] = ["Cargo.lock", "bench/Cargo.lock"].map(|lock| version_of(name, lock));
        assert_eq!(own, benched, "{name}: see CONTRIBUTING.md");
    }
}
