//! Mutants of the statements and scripts: each is changed in one place, and a test has to notice.
//!
//! SQL and Lua are compiled into the test programs as they stand in their files. So a mutant needs no build: the file is
//! looked for in a copy of the program, and overwritten by a changed one of the same length.

use std::{collections::BTreeSet, fs, path::Path};

use crate::{
    Error, Result,
    cargo::Workspace,
    checks::{Servers, Steps},
};

mod change;
mod known;
mod program;

use change::{Language, Mutant};
use known::Known;
use program::{Programs, Ran};

/// Which files to change.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Only files of this store
    #[arg(long, value_enum)]
    store: Option<Store>,
    /// Only files with this in their path
    #[arg(long, value_name = "TEXT")]
    file: Option<String>,
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

/// Changes each statement and script in one place after the other, and runs the tests of its store.
///
/// # Errors
///
/// A mutant survived of which it is not written down why nobody can notice it.
pub fn run(options: &Options) -> Result<()> {
    let workspace = Workspace::load()?;
    let sources = workspace.root.join("idem-core/src/stores");
    let known = Known::read(&workspace.root.join("idem-core/mutants.txt"))?;
    let mut files = Vec::new();
    for store in Store::ALL {
        if options.store.is_none_or(|only| only == store) {
            collect(&sources.join(store.name()), store, &mut files)?;
        }
    }
    let chosen = |path: &str| options.file.as_ref().is_none_or(|part| path.contains(part));
    let mut score = Score::default();
    let mut sound = BTreeSet::new();
    let mut steps = Steps::default();
    let mut programs = if options.list {
        None
    } else {
        let servers = Servers::start(&mut steps, None);
        Some(Programs::build(&workspace, servers)?)
    };
    for (path, store) in files {
        let name = path.strip_prefix(&sources).unwrap_or(&path);
        let name = name.to_string_lossy().into_owned();
        if !chosen(&name) {
            continue;
        }
        let text = fs::read_to_string(&path).map_err(Error::io(format!("read {name}")))?;
        if let Some(programs) = &mut programs
            && sound.insert(store.name())
        {
            programs.check(store.name())?;
        }
        let places = programs.as_ref().map(|programs| programs.find(&text));
        let mut places = places.transpose()?;
        for mutant in change::mutants(&name, &text, store.language()) {
            let (Some(programs), Some(places)) = (&programs, &mut places) else {
                println!("{mutant}");
                continue;
            };
            let ran = match mutant.fitted(&text) {
                Some(changed) => programs.run(store.name(), places, &changed)?,
                None => Ran::Passed,
            };
            let told = match ran {
                Ran::Failed => {
                    score.killed += 1;
                    "killed"
                }
                Ran::Hung => {
                    score.hung += 1;
                    "hung"
                }
                Ran::Passed if known.explains(&mutant) => {
                    score.equivalent += 1;
                    "equivalent"
                }
                Ran::Passed => {
                    score.survived.push(mutant.clone());
                    "SURVIVED"
                }
            };
            println!("{told:<10} {mutant}");
        }
    }
    if options.list {
        return Ok(());
    }
    score.tell()
}

fn collect(
    folder: &Path,
    store: Store,
    files: &mut Vec<(std::path::PathBuf, Store)>,
) -> Result<()> {
    let doing = || Error::io(format!("list {}", folder.display()));
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder).map_err(doing())? {
        entries.push(entry.map_err(doing())?.path());
    }
    entries.sort();
    for path in entries {
        if path.is_dir() {
            collect(&path, store, files)?;
        } else if path
            .extension()
            .is_some_and(|it| it == "sql" || it == "lua")
        {
            files.push((path, store));
        }
    }
    Ok(())
}

impl Score {
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
