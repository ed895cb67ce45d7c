//! The test programs, and their copies with a changed file in them.

use std::{
    fs::{self, OpenOptions},
    io::{BufRead as _, BufReader},
    os::unix::{fs::FileExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use serde::Deserialize;

use crate::{
    Error, Result,
    cargo::{Workspace, cargo},
    checks::Servers,
};

/// How many tests run at once: most of them wait for a server, or for a file.
const THREADS: &str = "8";

/// What the tests made of a changed file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ran {
    /// All passed.
    Passed,
    /// One failed.
    Failed,
    /// They took much longer than without the change.
    Hung,
}

/// Copies of the conformance suite, and of the crate's own tests: the quicker one first.
pub(super) struct Programs {
    package: PathBuf,
    copies: [Program; 2],
    servers: Servers,
}

struct Program {
    path: PathBuf,
    /// What names the tests of a store.
    filters: fn(store: &str) -> Vec<String>,
    /// How long these tests take, without a change.
    takes: Duration,
}

/// A file in the programs.
pub(super) struct Places {
    text: String,
    /// In the order of the programs.
    each: Vec<Place>,
}

struct Place {
    /// Where the file begins, in bytes from the beginning of the program.
    at: Vec<u64>,
    /// The tests that noticed a mutant of the file. They are run before all others.
    noticed: Vec<String>,
}

/// What cargo tells of what it has built.
#[derive(Deserialize)]
struct Built {
    executable: Option<PathBuf>,
    target: Option<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

impl Programs {
    pub(super) fn build(workspace: &Workspace, servers: Servers) -> Result<Self> {
        let mut build = cargo(&workspace.root);
        build.args(["test", "--package", "idem-core", "--all-features"]);
        build.args(["--lib", "--test", "conformance", "--no-run"]);
        build.args(["--message-format", "json-render-diagnostics"]);
        let doing = "build the tests of idem-core";
        let output = build
            .stderr(Stdio::inherit())
            .output()
            .map_err(Error::io(doing))?;
        if !output.status.success() {
            return Err(Error::Missing(format!("cannot {doing}: see above")));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let find = |name: &str| {
            let lines = text
                .lines()
                .filter_map(|line| serde_json::from_str::<Built>(line).ok());
            let mut programs =
                lines.filter(|it| it.target.as_ref().is_some_and(|it| it.name == name));
            let program = programs.find_map(|it| it.executable);
            program.ok_or_else(|| Error::Missing(format!("cargo has built no tests of `{name}`")))
        };
        let folder = workspace.target.join("mutants");
        fs::create_dir_all(&folder).map_err(Error::io(format!("create {}", folder.display())))?;
        let copy = |name: &str, filters| -> Result<Program> {
            let path = folder.join(name);
            // Not overwritten: one of an earlier run may still be at work.
            let _ = fs::remove_file(&path);
            fs::copy(find(name)?, &path).map_err(Error::io(format!("write {}", path.display())))?;
            Ok(Program {
                path,
                filters,
                takes: Duration::ZERO,
            })
        };
        Ok(Self {
            package: workspace.root.join("idem-core"),
            copies: [
                copy("conformance", in_suite)?,
                copy("idem_core", of_its_own)?,
            ],
            servers,
        })
    }

    /// Runs the tests of this store without a change.
    ///
    /// # Errors
    ///
    /// One fails; what the tests said last is in the error.
    pub(super) fn check(&mut self, store: &str) -> Result<()> {
        const LAST: usize = 40;
        for at in 0..self.copies.len() {
            let program = &self.copies[at];
            let begin = Instant::now();
            let mut tests = self.tests(program, &(program.filters)(store));
            let output = tests.output().map_err(Error::io("run a test program"))?;
            if !output.status.success() {
                let said = String::from_utf8_lossy(&output.stdout);
                let lines: Vec<_> = said.lines().collect();
                let last = lines[lines.len().saturating_sub(LAST)..].join("\n");
                return Err(Error::Unmet(format!(
                    "the tests of {store} fail without any change:\n{last}"
                )));
            }
            self.copies[at].takes = begin.elapsed();
        }
        self.copies.sort_by_key(|program| program.takes);
        let each = self.copies.each_ref().map(|program| program.takes);
        println!("unchanged, the tests of {store} take {each:.1?}");
        Ok(())
    }

    /// Where the programs have this file, in their order after [`check`](Self::check).
    pub(super) fn find(&self, text: &str) -> Result<Places> {
        let of = |program: &Program| -> Result<Place> {
            let bytes = fs::read(&program.path).map_err(Error::io("read a test program"))?;
            let first = text.as_bytes().first().copied().unwrap_or_default();
            let begins =
                |at: &usize| bytes[*at] == first && bytes[*at..].starts_with(text.as_bytes());
            let at = (0..bytes.len()).filter(begins).map(|at| at as u64);
            Ok(Place {
                at: at.collect(),
                noticed: Vec::new(),
            })
        };
        Ok(Places {
            text: text.to_owned(),
            each: self.copies.iter().map(of).collect::<Result<_>>()?,
        })
    }

    /// What the tests of this store make of the file when it is changed.
    pub(super) fn run(&self, store: &str, places: &mut Places, changed: &str) -> Result<Ran> {
        let Places { text, each } = places;
        for again in [true, false] {
            for (program, place) in self.copies.iter().zip(each.iter_mut()) {
                if place.at.is_empty() || again && place.noticed.is_empty() {
                    continue;
                }
                let filters = if again {
                    [&["--exact".to_owned()], &place.noticed[..]].concat()
                } else {
                    (program.filters)(store)
                };
                write(&program.path, &place.at, changed)?;
                let tests = self.tests(program, &filters).spawn();
                let child = tests.map_err(Error::io("run a changed test program"))?;
                let (ran, failed) = until_known(child, program.takes * 3 + Duration::from_mins(1));
                write(&program.path, &place.at, text)?;
                if ran != Ran::Passed {
                    place.noticed.extend(failed.filter(|_| !again));
                    return Ok(ran);
                }
            }
        }
        Ok(Ran::Passed)
    }

    fn tests(&self, program: &Program, filters: &[String]) -> Command {
        let mut tests = Command::new(&program.path);
        tests
            .args(filters)
            .args(["--test-threads", THREADS])
            .current_dir(&self.package)
            .env("CARGO_MANIFEST_DIR", &self.package)
            .env("RUST_BACKTRACE", "0");
        self.servers.hand_to(&mut tests);
        tests
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0);
        tests
    }
}

/// The store by itself, in all its modes.
fn in_suite(store: &str) -> Vec<String> {
    let kinds = ["", "_atomic", "_grouped", "_transaction"];
    let mut filters = kinds.map(|kind| format!("{store}{kind}::")).to_vec();
    for wrapped in ["any", "cached"] {
        filters.extend(["--skip".to_owned(), format!("{wrapped}_{store}")]);
    }
    filters
}

fn of_its_own(store: &str) -> Vec<String> {
    vec![format!("{store}::")]
}

fn write(program: &Path, places: &[u64], text: &str) -> Result<()> {
    let doing = || Error::io(format!("change {}", program.display()));
    let file = OpenOptions::new()
        .write(true)
        .open(program)
        .map_err(doing())?;
    for at in places {
        file.write_all_at(text.as_bytes(), *at).map_err(doing())?;
    }
    Ok(())
}

/// Until the first test fails, which is told, or nothing more is to be expected.
fn until_known(mut child: Child, longest: Duration) -> (Ran, Option<String>) {
    let (tell, told) = mpsc::channel();
    let output = child.stdout.take().map(BufReader::new);
    let reading = thread::spawn(move || {
        for line in output
            .into_iter()
            .flat_map(BufReader::lines)
            .map_while(Result::ok)
        {
            let failed = line.strip_suffix(" ... FAILED");
            if let Some(test) = failed.and_then(|line| line.strip_prefix("test ")) {
                let _ = tell.send(test.to_owned());
                return;
            }
        }
    });
    let deadline = Instant::now() + longest;
    let mut failed;
    let ended = loop {
        failed = told.try_recv().ok();
        if failed.is_some() {
            break Ran::Failed;
        }
        if Instant::now() > deadline {
            break Ran::Hung;
        }
        match child.try_wait() {
            Ok(Some(status)) if status.success() => break Ran::Passed,
            Ok(Some(_)) | Err(_) => break Ran::Failed,
            Ok(None) => thread::sleep(Duration::from_millis(20)),
        }
    };
    if ended != Ran::Passed {
        let group = Pid::from_raw(child.id().cast_signed());
        let _ = killpg(group, Signal::SIGKILL);
        let _ = child.wait();
    }
    let _ = reading.join();
    (ended, failed.or_else(|| told.try_recv().ok()))
}
