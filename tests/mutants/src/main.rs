//! `cargo xtask mutants`: mutants of the statements and scripts. Each is changed in one place, and a test has to
//! notice.
//!
//! SQL and Lua are compiled into the test programs as they stand in their files. So a mutant needs no build: the file
//! is looked for in a copy of the program, and overwritten by a changed one of the same length.

use std::{
    collections::BTreeMap,
    fs,
    num::NonZero,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};

use clap::Parser;
use idem_servers::{Error, Result, install};

mod change;
mod known;
mod program;
mod watch;

use change::{Language, Mutant};
use known::Known;
use program::{Noticed, Programs};
use watch::Ran;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Changes each SQL statement and Lua script in one place after the other: a test has to notice
#[derive(Clone, Debug, Parser)]
#[command(bin_name = "cargo xtask mutants")]
struct Options {
    /// Only files of this store
    #[arg(long, value_enum)]
    store: Option<Store>,
    /// Only files with this in their path, or with one of these
    #[arg(long, value_name = "TEXT")]
    file: Vec<String>,
    /// Tells the mutants, and runs nothing
    #[arg(long)]
    list: bool,
}

/// Whose statements they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Store {
    Sqlite,
    Redis,
    Postgres,
}

impl Store {
    const ALL: [Self; 3] = [Self::Sqlite, Self::Redis, Self::Postgres];

    /// Its folder, and the module of its unit tests.
    fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Redis => "redis",
            Self::Postgres => "postgres",
        }
    }

    fn language(self) -> Language {
        match self {
            Self::Redis => Language::Lua,
            Self::Sqlite | Self::Postgres => Language::Sql,
        }
    }
}

/// How the mutants of some files fared.
#[derive(Debug, Default)]
struct Score {
    /// A test failed.
    killed: usize,
    /// The tests did not end.
    hung: usize,
    /// Nobody can notice them, and it is written down why.
    equivalent: usize,
    /// No test noticed them, or none could be run: the changed file is longer than the place that it has.
    survived: Vec<Mutant>,
}

/// A statement or script, and what is changed in it.
struct File {
    store: Store,
    folder: PathBuf,
    text: String,
    mutants: Vec<Mutant>,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", error.with_causes());
            ExitCode::FAILURE
        }
    }
}

/// Changes each statement and script in one place after the other, and runs the tests of its store.
///
/// # Errors
///
/// A mutant survived of which it is not written down why nobody can notice it.
fn run(options: &Options) -> Result<()> {
    let core = Path::new(ROOT).join("idem-core");
    let known = Known::read(&core.join("mutants.txt"))?;
    // All are read now: the files may be mended while their mutants run.
    let files = options.files(&core.join("src/stores"))?;
    if options.list {
        let mutants = files.iter().flat_map(|file| &file.mutants);
        mutants.for_each(|mutant| println!("{mutant}"));
        return Ok(());
    }
    install::all_for_tests()?;
    let mut programs = Programs::build(core)?;
    let lanes = thread::available_parallelism().map_or(1, NonZero::get);
    for lane in 0..lanes {
        programs.copy(lane)?;
    }
    let score = Mutex::new(Score::default());
    for store in Store::ALL {
        let files: Vec<_> = files.iter().filter(|file| file.store == store).collect();
        if files.is_empty() {
            continue;
        }
        programs.serve(store.name(), lanes)?;
        programs.check(store.name())?;
        let mut mutants = Vec::new();
        let mut noticed: BTreeMap<_, Arc<Noticed>> = BTreeMap::new();
        for file in files {
            let noticed = noticed.entry(file.folder.as_path()).or_default();
            let places = Arc::new(programs.find(&file.text, noticed.clone()));
            mutants.extend((file.mutants.iter()).map(|mutant| (file, mutant, places.clone())));
        }
        let next = Mutex::new(mutants.into_iter());
        let work = |lane| -> Result<()> {
            loop {
                let Some((file, mutant, places)) = locked(&next).next() else {
                    return Ok(());
                };
                let ran = match mutant.fitted(&file.text) {
                    Some(changed) => programs.run(lane, store.name(), &places, &changed)?,
                    None => Ran::Passed,
                };
                locked(&score).note(mutant, ran, &known);
            }
        };
        thread::scope(|scope| {
            let lanes: Vec<_> = (0..lanes)
                .map(|lane| scope.spawn(move || work(lane)))
                .collect();
            let ended = |lane: thread::ScopedJoinHandle<'_, _>| {
                lane.join().expect("running a mutant does not panic")
            };
            lanes.into_iter().try_for_each(ended)
        })?;
    }
    score
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner)
        .tell()
}

fn locked<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    it.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Options {
    fn files(&self, sources: &Path) -> Result<Vec<File>> {
        let mut files = Vec::new();
        for store in Store::ALL {
            if self.store.is_some_and(|only| only != store) {
                continue;
            }
            let mut paths = Vec::new();
            collect(&sources.join(store.name()), &mut paths)?;
            for path in paths {
                let name = path.strip_prefix(sources).unwrap_or(&path);
                let name = name.to_string_lossy();
                let is_named = self.file.iter().any(|part| name.contains(part));
                if !self.file.is_empty() && !is_named {
                    continue;
                }
                let text = fs::read_to_string(&path).map_err(Error::io(format!("read {name}")))?;
                let mutants = change::mutants(&name, &text, store.language());
                files.push(File {
                    store,
                    folder: path.parent().unwrap_or(sources).to_owned(),
                    text,
                    mutants,
                });
            }
        }
        Ok(files)
    }
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let doing = || Error::io(format!("list {}", folder.display()));
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder).map_err(doing())? {
        entries.push(entry.map_err(doing())?.path());
    }
    entries.sort();
    for path in entries {
        if path.is_dir() {
            collect(&path, files)?;
        } else if path
            .extension()
            .is_some_and(|it| it == "sql" || it == "lua")
        {
            files.push(path);
        }
    }
    Ok(())
}

impl Score {
    fn note(&mut self, mutant: &Mutant, ran: Ran, known: &Known) {
        let told = match ran {
            Ran::Failed => {
                self.killed += 1;
                "killed"
            }
            Ran::Hung => {
                self.hung += 1;
                "hung"
            }
            Ran::Passed if known.explains(mutant) => {
                self.equivalent += 1;
                "equivalent"
            }
            Ran::Passed => {
                self.survived.push(mutant.clone());
                "SURVIVED"
            }
        };
        println!("{told:<10} {mutant}");
    }

    fn tell(self) -> Result<()> {
        let Self {
            killed,
            hung,
            equivalent,
            survived,
        } = self;
        println!(
            "mutants: killed={killed} hung={hung} equivalent={equivalent} survived={}",
            survived.len()
        );
        if survived.is_empty() {
            return Ok(());
        }
        let list: Vec<_> = survived.iter().map(ToString::to_string).collect();
        Err(Error::Unmet(format!(
            "these survived: write a case for each, or into idem-core/mutants.txt why nobody can notice it\n{}",
            list.join("\n")
        )))
    }
}
