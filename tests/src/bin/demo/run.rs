//! One run of a demonstration: its folder, the names of its things, and what its programs are told.

use std::{env, fs, path::PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde::de::DeserializeOwned;
use tempfile::TempDir;
use tokio::process::Command;

const LAST_LINES: usize = 20;

#[derive(Debug)]
pub(crate) struct Run {
    name: String,
    folder: TempDir,
    variables: Vec<(&'static str, String)>,
}

impl Run {
    /// Without a store's URL the store is a SQLite file.
    pub(crate) fn new(store_url: Option<String>) -> Result<Self> {
        let suffix: String = std::iter::repeat_with(|| fastrand::char('a'..='z'))
            .take(6)
            .collect();
        let folder = tempfile::Builder::new().prefix("idem-demo-").tempdir()?;
        let file = || format!("sqlite:{}", folder.path().join("store.db").display());
        Ok(Self {
            name: format!("demo-{suffix}"),
            variables: vec![("STORE_URL", store_url.unwrap_or_else(file))],
            folder,
        })
    }

    /// Tells this to every program, too.
    pub(crate) fn tell(&mut self, variable: &'static str, value: String) {
        self.variables.push((variable, value));
    }

    /// Where the programs keep what they have done.
    pub(crate) fn store_url(&self) -> &str {
        &self.variables[0].1
    }

    /// Names this run, and is the beginning of the name of everything in it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The names of so many orders or leases, as the examples make them up.
    pub(crate) fn names(&self, count: u32) -> Vec<String> {
        let names = (1..=count).map(|number| format!("{}-{number:06}", self.name));
        names.collect()
    }

    /// The path of something in the folder of this run.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A program of the examples.
    pub(crate) fn command(&self, program: &str) -> Result<Command> {
        let path = env::current_exe()?.with_file_name(program);
        let mut command = Command::new(path);
        command
            .envs(self.variables.iter().cloned())
            .env_remove("PREFETCH");
        Ok(command)
    }

    /// A program under a shell that kills it when we are gone, see `guard.sh`; its log is kept.
    pub(crate) fn guarded(&self, program: &str) -> Result<Command> {
        let program = self.command(program)?;
        let mut log = fs::OpenOptions::new();
        let log = log.create(true).append(true).open(self.file("log"))?;
        let mut shell = Command::new("sh");
        shell.args(["-c", include_str!("guard.sh"), "guard"]);
        shell.arg(program.as_std().get_program()).stderr(log);
        for (name, value) in program.as_std().get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        Ok(shell)
    }

    /// What a program has written down, of this run and of others.
    pub(crate) async fn ledger<T: DeserializeOwned>(&self, program: &str) -> Result<Vec<T>> {
        let output = self.command(program)?.arg("ledger").output().await?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "`{program} ledger` failed: {complaint}"
        );
        let rows = String::from_utf8(output.stdout)?;
        let rows = rows.lines().map(serde_json::from_str);
        rows.collect::<Result<_, _>>()
            .with_context(|| format!("cannot understand `{program} ledger`"))
    }

    /// The end of what the programs wrote to their logs.
    pub(crate) fn last_words(&self) -> String {
        let log = fs::read_to_string(self.file("log")).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
        format!("--- the end of the programs' log ---\n{}", last.join("\n"))
    }
}
