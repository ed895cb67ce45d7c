//! Which crates a build of `idem-core` takes, and what `CONTRIBUTING.md` and `crates.txt` say of that.
//!
//! `crates.txt` has a line for each crate: its name, and the builds that take it. Versions are left out, so that
//! an update changes nothing; a crate of two versions has two lines.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    path::Path,
    process::Command,
};

/// The builds that are counted, and what cargo calls them.
pub const BUILDS: [(&str, &[&str]); 5] = [
    ("alone", &["--no-default-features"]),
    ("sqlite", &["--no-default-features", "--features=sqlite"]),
    (
        "postgres",
        &["--no-default-features", "--features=postgres"],
    ),
    ("redis", &["--no-default-features", "--features=redis"]),
    ("all", &["--all-features"]),
];

/// How many crates `idem-core` may take alone, itself included.
pub const MOST_ALONE: usize = 40;

/// The lines of `crates.txt`.
#[derive(Debug, PartialEq, Eq)]
pub struct Weight(Vec<String>);

impl Weight {
    /// Asks cargo, which downloads nothing that a build of the workspace has not downloaded already.
    ///
    /// # Panics
    /// If cargo cannot tell.
    pub fn measure(root: &Path) -> Self {
        Self::of(BUILDS.map(|(build, arguments)| (build, tree(root, arguments))))
    }

    /// Of what cargo says for each build.
    pub fn of<'a>(trees: impl IntoIterator<Item = (&'a str, String)>) -> Self {
        let mut crates: BTreeMap<(String, String), Vec<&str>> = BTreeMap::new();
        for (build, tree) in trees {
            let packages = tree.lines().filter_map(|line| {
                let (name, rest) = line.split_once(' ')?;
                let version = rest.split(' ').next()?;
                Some((name.to_owned(), version.to_owned()))
            });
            // Cargo names a package again wherever it is needed.
            for package in packages.collect::<BTreeSet<_>>() {
                crates.entry(package).or_default().push(build);
            }
        }
        let lines = crates.into_iter();
        let lines = lines.map(|((name, _), builds)| format!("{name}: {}", builds.join(" ")));
        Self(lines.collect()).sorted()
    }

    /// Reads `crates.txt`.
    pub fn read(text: &str) -> Self {
        Self(text.lines().map(str::to_owned).collect()).sorted()
    }

    /// How many crates a build takes.
    pub fn count(&self, build: &str) -> usize {
        let lines = self.0.iter().filter_map(|line| line.split_once(": "));
        let builds = lines.map(|(_, builds)| builds.split(' '));
        builds
            .filter(|builds| builds.clone().any(|it| it == build))
            .count()
    }

    /// What to write where, if this was measured: into `crates.txt`, and into the table of `CONTRIBUTING.md`.
    pub fn corrections(&self, told: &Self, document: &str) -> Vec<String> {
        let mut found = Vec::new();
        for line in without(&told.0, &self.0) {
            found.push(format!("tests/layers/crates.txt: remove `{line}`"));
        }
        for line in without(&self.0, &told.0) {
            found.push(format!("tests/layers/crates.txt: write `{line}`"));
        }
        for (build, _) in BUILDS {
            let row = format!("| {build} | {} |", self.count(build));
            if !document.lines().any(|line| line == row) {
                found.push(format!(
                    "CONTRIBUTING.md, \"What it weighs\": write `{row}`"
                ));
            }
        }
        let alone = self.count("alone");
        if alone > MOST_ALONE {
            found.push(format!(
                "idem-core alone takes {alone} crates, and may take {MOST_ALONE}: do without what came in addition"
            ));
        }
        found
    }

    fn sorted(mut self) -> Self {
        self.0.sort_unstable();
        self
    }
}

/// The lines of the first that the second has less often.
fn without<'a>(first: &'a [String], second: &[String]) -> Vec<&'a str> {
    let mut second = second.to_vec();
    let mut left = Vec::new();
    for line in first {
        match second.iter().position(|it| it == line) {
            Some(place) => drop(second.swap_remove(place)),
            None => left.push(line.as_str()),
        }
    }
    left
}

fn tree(root: &Path, arguments: &[&str]) -> String {
    let output = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(root)
        .args(["tree", "--locked", "--package=idem-core", "--edges=normal"])
        // One target, so that the same crates are counted on each machine.
        .args(["--target=x86_64-unknown-linux-gnu", "--prefix=none"])
        .args(arguments)
        .output()
        .expect("cargo can be started: it runs this test");
    assert!(
        output.status.success(),
        "cargo tree {}: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn idem_core_takes_the_crates_that_are_written_down_and_no_more() {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let document = fs::read_to_string(root.join("CONTRIBUTING.md")).unwrap();
        let measured = Weight::measure(root);
        let told = Weight::read(include_str!("../crates.txt"));
        let found = measured.corrections(&told, &document);
        assert!(found.is_empty(), "\n{}\n", found.join("\n"));
    }

    const ROWS: &str = "
| alone | 2 |
| sqlite | 3 |
| postgres | 0 |
| redis | 0 |
| all | 0 |
";

    fn planted(alone: &str, sqlite: &str) -> Weight {
        Weight::of([("alone", alone.to_owned()), ("sqlite", sqlite.to_owned())])
    }

    #[test]
    fn a_crate_that_came_and_one_that_went_are_found_with_what_to_write() {
        let told = planted("idem-core v0\na v1", "idem-core v0\na v1\nb v1");
        assert_eq!(told.corrections(&told, ROWS), [""; 0]);
        let now = planted("idem-core v0\na v1\nc v1", "idem-core v0\na v1\nc v1");
        let expected = [
            "tests/layers/crates.txt: remove `b: sqlite`",
            "tests/layers/crates.txt: write `c: alone sqlite`",
            "CONTRIBUTING.md, \"What it weighs\": write `| alone | 3 |`",
        ];
        assert_eq!(now.corrections(&told, ROWS), expected);
    }

    #[test]
    fn a_package_that_is_named_twice_counts_once_and_two_versions_twice() {
        let weight = planted(
            "a v1 (/path)\nb v1\na v1 (/path) (*)\nb v2 (proc-macro)",
            "",
        );
        assert_eq!(weight, Weight::read("a: alone\nb: alone\nb: alone"));
        assert_eq!(weight.count("alone"), 3);
    }

    #[test]
    fn more_crates_than_may_be_are_too_many_though_they_are_written_down() {
        let line = |it| format!("c{it} v1");
        let tree = |count| (0..count).map(line).collect::<Vec<_>>().join("\n");
        let weigh = |count| {
            let weight = Weight::of([("alone", tree(count))]);
            let rows = ROWS.replace("| alone | 2", &format!("| alone | {count}"));
            weight.corrections(&weight, &rows.replace("sqlite | 3", "sqlite | 0"))
        };
        assert_eq!(weigh(MOST_ALONE), [""; 0]);
        let found = weigh(MOST_ALONE + 1);
        assert!(
            found.len() == 1 && found[0].contains("takes 41 crates"),
            "{found:?}"
        );
    }
}
