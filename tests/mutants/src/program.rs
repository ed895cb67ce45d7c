//! The test programs, and their copies with a changed file in them.

use std::{
    collections::BTreeSet,
    env,
    fs::{self, OpenOptions},
    io,
    os::unix::{fs::FileExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use idem_servers::{Error, Postgres, Redis, RedisCluster, Result, TestServers};
use serde::Deserialize;
use tempfile::TempDir;

use super::{
    locked,
    watch::{Ran, passing, until_known},
};

/// How many tests run at once: most of them wait for a server, or for a file.
const THREADS: &str = "8";

/// How often the tests are run on a mutant while one of them fails in the crowd and passes alone.
const TRIES: usize = 3;

/// The conformance suite, and the crate's own tests: the quicker one first. Each lane has copies of its own.
pub(super) struct Programs {
    package: PathBuf,
    /// Of the copies. It is removed in the end.
    folder: TempDir,
    each: [Program; 2],
    /// Of each lane. A script that never ends keeps a server from all that follow, so no other lane uses it.
    servers: Vec<Mutex<TestServers>>,
    /// Tests that failed without any change.
    unsteady: Mutex<BTreeSet<String>>,
}

struct Program {
    name: &'static str,
    built: PathBuf,
    /// What of it may be a text, and where that begins.
    texts: Vec<(usize, String)>,
    /// What names the tests of a store.
    filters: fn(store: &str) -> Vec<String>,
    /// How long these tests take, without a change.
    takes: Duration,
}

/// A file in the programs.
pub(super) struct Places {
    text: String,
    /// Where it begins, in bytes from the beginning of each program, in their order.
    each: Vec<Vec<u64>>,
    noticed: Arc<Noticed>,
    /// The tests of each program that need the file, once they are known.
    needing: [Mutex<Option<Vec<String>>>; 2],
}

/// The tests of each program that noticed a mutant of a folder. They are run before all others.
#[derive(Default)]
pub(super) struct Noticed([Mutex<BTreeSet<String>>; 2]);

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
    /// Builds them, of this package.
    pub(super) fn build(package: PathBuf) -> Result<Self> {
        let mut compile = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        compile.current_dir(&package);
        compile.args(["test", "--package", "idem-core", "--all-features"]);
        compile.args(["--lib", "--test", "conformance", "--no-run"]);
        compile.args(["--message-format", "json-render-diagnostics"]);
        let doing = "build the tests of idem-core";
        let output = compile
            .stderr(Stdio::inherit())
            .output()
            .map_err(Error::io(doing))?;
        if !output.status.success() {
            return Err(Error::Missing(format!("cannot {doing}: see above")));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let find = |name: &'static str, filters| {
            let lines = text
                .lines()
                .filter_map(|line| serde_json::from_str::<Built>(line).ok());
            let mut programs =
                lines.filter(|it| it.target.as_ref().is_some_and(|it| it.name == name));
            let program = programs.find_map(|it| it.executable);
            let built = program
                .ok_or_else(|| Error::Missing(format!("cargo has built no tests of `{name}`")))?;
            Ok(Program {
                name,
                texts: texts(&built)?,
                built,
                filters,
                takes: Duration::ZERO,
            })
        };
        let own = env::current_exe().map_err(Error::io("find this program"))?;
        // In the target folder, of which this program is in a folder, too.
        let target = own.ancestors().nth(2);
        let folder = target.unwrap_or(&package).join("mutants");
        let doing = || Error::io(format!("create {}", folder.display()));
        fs::create_dir_all(&folder).map_err(doing())?;
        Ok(Self {
            package,
            folder: TempDir::new_in(&folder).map_err(doing())?,
            each: [
                find("conformance", in_suite)?,
                find("idem_core", of_its_own)?,
            ],
            servers: Vec::new(),
            unsteady: Mutex::default(),
        })
    }

    /// Copies the programs for this lane.
    pub(super) fn copy(&self, lane: usize) -> Result<()> {
        for program in &self.each {
            let path = self.path(program, lane);
            let folder = path.parent().unwrap_or(self.folder.path());
            fs::create_dir_all(folder).map_err(Error::io("create a folder for test programs"))?;
            fs::copy(&program.built, &path).map_err(Error::io("copy a test program"))?;
        }
        Ok(())
    }

    /// Starts servers for each lane.
    pub(super) fn serve(&mut self, store: &str, lanes: usize) -> Result<()> {
        let start = |_| servers_of(store).map(Mutex::new);
        self.servers = (0..lanes).map(start).collect::<Result<_>>()?;
        Ok(())
    }

    fn serve_anew(&self, store: &str, lane: usize) -> Result<()> {
        *locked(&self.servers[lane]) = servers_of(store)?;
        Ok(())
    }

    fn path(&self, program: &Program, lane: usize) -> PathBuf {
        self.folder.path().join(lane.to_string()).join(program.name)
    }

    /// Runs the tests of this store without a change. One that fails now and passes alone notices no mutant.
    ///
    /// # Errors
    ///
    /// One fails alone, too; what the tests said last is in the error.
    pub(super) fn check(&mut self, store: &str) -> Result<()> {
        for at in 0..self.each.len() {
            let program = &self.each[at];
            let begin = Instant::now();
            let (failed, _) = self.failing(program, &(program.filters)(store))?;
            let takes = begin.elapsed();
            if !failed.is_empty() {
                let (again, said) = self.failing(program, &exactly(failed.clone()))?;
                if !again.is_empty() {
                    return Err(Error::Unmet(format!(
                        "tests of {store} fail without any change:\n{said}"
                    )));
                }
            }
            for test in failed {
                println!("left out, because it failed without any change: {test}");
                locked(&self.unsteady).insert(test);
            }
            self.each[at].takes = takes;
        }
        self.each.sort_by_key(|program| program.takes);
        let each = self.each.each_ref().map(|program| program.takes);
        println!("unchanged, the tests of {store} take {each:.1?}");
        Ok(())
    }

    /// The tests that fail without a change, and what was said last.
    fn failing(&self, program: &Program, filters: &[String]) -> Result<(Vec<String>, String)> {
        const LAST: usize = 40;
        let output = self.tests(0, &program.built, filters).output();
        let output = output.map_err(Error::io("run a test program"))?;
        let said = String::from_utf8_lossy(&output.stdout);
        let lines: Vec<_> = said.lines().collect();
        let failed = lines.iter().filter_map(|line| {
            let line = line.strip_prefix("test ")?;
            line.strip_suffix(" ... FAILED").map(str::to_owned)
        });
        let failed: Vec<_> = failed.collect();
        let last = lines[lines.len().saturating_sub(LAST)..].join("\n");
        if failed.is_empty() && !output.status.success() {
            return Err(Error::Unmet(last));
        }
        Ok((failed, last))
    }

    /// Where the programs have this file, in their order after [`check`](Self::check).
    pub(super) fn find(&self, text: &str, noticed: Arc<Noticed>) -> Places {
        let of = |program: &Program| {
            let texts = (program.texts.iter()).filter(|(_, all)| all.len() >= text.len());
            let at = texts.flat_map(|(begin, all)| {
                let places = all.match_indices(text);
                places.map(move |(at, _)| (begin + at) as u64)
            });
            at.collect()
        };
        Places {
            text: text.to_owned(),
            each: self.each.iter().map(of).collect(),
            noticed,
            needing: Default::default(),
        }
    }

    /// What the tests of this store make of the file when it is changed in the copies of this lane.
    pub(super) fn run(
        &self,
        lane: usize,
        store: &str,
        places: &Places,
        changed: &str,
    ) -> Result<Ran> {
        for again in [true, false] {
            for (at, program) in self.each.iter().enumerate() {
                let noticed = &places.noticed.0[at];
                let tests = if places.each[at].is_empty() {
                    Vec::new()
                } else if again {
                    locked(noticed).iter().cloned().collect()
                } else {
                    self.needing(lane, store, places, at)?
                };
                if tests.is_empty() {
                    continue;
                }
                let path = self.path(program, lane);
                write(&path, &places.each[at], changed)?;
                let (ran, failed) = self.judge(lane, program, &path, &exactly(tests))?;
                write(&path, &places.each[at], &places.text)?;
                let Some(test) = failed else {
                    if ran == Ran::Passed {
                        continue;
                    }
                    self.serve_anew(store, lane)?;
                    return Ok(ran);
                };
                if self.passes_unchanged(store, lane, program, &test)? {
                    locked(noticed).insert(test);
                    return Ok(ran);
                }
                locked(noticed).remove(&test);
                locked(&self.unsteady).insert(test);
            }
        }
        Ok(Ran::Passed)
    }

    /// Whether it was the change that a test has noticed. It may have left the servers of the lane unusable.
    fn passes_unchanged(
        &self,
        store: &str,
        lane: usize,
        program: &Program,
        test: &str,
    ) -> Result<bool> {
        let path = self.path(program, lane);
        for is_again in [false, true] {
            if is_again {
                self.serve_anew(store, lane)?;
            }
            let (ran, _) = self.once(lane, program, &path, &exactly([test.to_owned()]))?;
            if ran == Ran::Passed {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn once(
        &self,
        lane: usize,
        program: &Program,
        path: &Path,
        filters: &[String],
    ) -> Result<(Ran, Option<String>)> {
        let child = self.spawn(lane, path, filters)?;
        Ok(until_known(child, program.longest()))
    }

    /// The tests of a program that do not pass if nobody can make sense of the file: no other one notices a change in
    /// it.
    fn needing(&self, lane: usize, store: &str, places: &Places, at: usize) -> Result<Vec<String>> {
        let mut needing = locked(&places.needing[at]);
        if let Some(tests) = &*needing {
            return Ok(tests.clone());
        }
        let program = &self.each[at];
        let path = self.path(program, lane);
        let filters = (program.filters)(store);
        let doing = || Error::io("run a test program");
        let list = [filters.clone(), vec!["--list".to_owned()]].concat();
        let list = self.tests(lane, &path, &list).output().map_err(doing())?;
        write(&path, &places.each[at], &"?".repeat(places.text.len()))?;
        let child = self.spawn(lane, &path, &filters)?;
        let passed = passing(child, program.longest());
        write(&path, &places.each[at], &places.text)?;
        let list = String::from_utf8_lossy(&list.stdout);
        let all = list.lines().filter_map(|line| line.strip_suffix(": test"));
        let tests: Vec<_> = all
            .filter(|test| !passed.contains(*test) && !locked(&self.unsteady).contains(*test))
            .map(str::to_owned)
            .collect();
        Ok(needing.insert(tests).clone())
    }

    /// A test that fails now and then has noticed nothing: it has to fail alone too, or a second time.
    fn judge(
        &self,
        lane: usize,
        program: &Program,
        path: &Path,
        filters: &[String],
    ) -> Result<(Ran, Option<String>)> {
        let mut suspects = BTreeSet::new();
        for _ in 0..TRIES {
            let (ran, failed) = self.once(lane, program, path, filters)?;
            let Some(test) = failed else {
                return Ok((ran, None));
            };
            let alone = exactly([test.clone()]);
            if suspects.contains(&test) || self.once(lane, program, path, &alone)?.0 != Ran::Passed
            {
                return Ok((ran, Some(test)));
            }
            suspects.insert(test);
        }
        Ok((Ran::Passed, None))
    }

    fn spawn(&self, lane: usize, path: &Path, filters: &[String]) -> Result<Child> {
        loop {
            match self.tests(lane, path, filters).spawn() {
                // Another lane's program was started while this one was written to, and has yet to let go of it.
                Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => {
                    thread::sleep(Duration::from_millis(20));
                }
                spawned => return spawned.map_err(Error::io("run a test program")),
            }
        }
    }

    fn tests(&self, lane: usize, program: &Path, filters: &[String]) -> Command {
        let mut tests = Command::new(program);
        tests
            .args(filters)
            .args(["--test-threads", THREADS])
            .current_dir(&self.package)
            .env("CARGO_MANIFEST_DIR", &self.package)
            .env("RUST_BACKTRACE", "0");
        locked(&self.servers[lane]).hand_to(&mut tests);
        tests
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0);
        tests
    }
}

impl Program {
    /// Tests that take longer do not end.
    fn longest(&self) -> Duration {
        self.takes * 3 + Duration::from_mins(1)
    }
}

/// Those of a store alone, if it has any.
fn servers_of(store: &str) -> Result<TestServers> {
    let mut servers = TestServers::default();
    match store {
        "postgres" => servers.postgres = Some(Postgres::start()?),
        "redis" => {
            servers.redis = Some(Redis::start()?);
            servers.cluster = Some(RedisCluster::start()?);
        }
        _ => {}
    }
    Ok(servers)
}

/// The parts of a program that are text, except for those that are shorter than any file.
fn texts(program: &Path) -> Result<Vec<(usize, String)>> {
    const SHORTEST: usize = 16;
    let bytes = fs::read(program).map_err(Error::io("read a test program"))?;
    let mut texts = Vec::new();
    let mut at = 0;
    for chunk in bytes.utf8_chunks() {
        let text = chunk.valid();
        if text.len() >= SHORTEST {
            texts.push((at, text.to_owned()));
        }
        at += text.len() + chunk.invalid().len();
    }
    Ok(texts)
}

fn exactly(tests: impl IntoIterator<Item = String>) -> Vec<String> {
    let exact = ["--exact".to_owned()];
    exact.into_iter().chain(tests).collect()
}

/// The store by itself, in all its modes.
fn in_suite(store: &str) -> Vec<String> {
    let kinds = ["", "_atomic", "_grouped", "_transaction"];
    let mut filters = kinds.map(|kind| format!("{store}{kind}::")).to_vec();
    for wrapped in ["any", "cached", "shared"] {
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
