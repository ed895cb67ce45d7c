//! The benchmark program as a process.

use std::{
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Command, Stdio},
};

use super::{Measurement, StoreKind, plan::Part};
use crate::{
    Error, Result,
    cargo::{Workspace, cargo},
};

const NAME: &str = "bench-stores";

#[derive(Debug)]
pub(crate) struct Program(PathBuf);

impl Program {
    pub(crate) fn build(workspace: &Workspace) -> Result<Self> {
        eprintln!("building the benchmark program");
        let mut build = cargo(&workspace.root);
        build.args(["build", "--release", "--package", NAME]);
        succeeded(&mut build, "cargo build --release -p bench-stores")?;
        Ok(Self(workspace.release_program(NAME)))
    }

    /// Runs it, and returns what it measured.
    pub(crate) fn run(
        &self,
        store: StoreKind,
        part: &Part,
        url: Option<&str>,
    ) -> Result<Vec<Measurement>> {
        let arguments = part.arguments();
        let mut command = Command::new(&self.0);
        command.args(&arguments).stdout(Stdio::piped());
        if !matches!(part, Part::Crowd { .. }) {
            command.args(["--store", store.name()]);
        }
        command.args(url.iter().flat_map(|url| ["--url", url]));
        let mut program = command
            .stdin(Stdio::null())
            .spawn()
            .map_err(Error::io("start bench-stores"))?;
        let output = BufReader::new(program.stdout.take().expect("stdout is piped"));
        let measurements = output.lines().map(read).collect();
        let status = program.wait().map_err(Error::io("wait for bench-stores"))?;
        if status.success() {
            return measurements;
        }
        Err(Error::Command {
            command: format!("{NAME} {}", arguments.join(" ")),
            status: status.to_string(),
            output: String::new(),
        })
    }
}

fn read(line: std::io::Result<String>) -> Result<Measurement> {
    let understand = Error::io("understand bench-stores");
    line.and_then(|line| Ok(serde_json::from_str(&line)?))
        .map_err(understand)
}

fn succeeded(command: &mut Command, name: &str) -> Result<()> {
    let status = command
        .stdin(Stdio::null())
        .status()
        .map_err(Error::io(format!("run `{name}`")))?;
    if status.success() {
        return Ok(());
    }
    Err(Error::Command {
        command: name.to_owned(),
        status: status.to_string(),
        output: String::new(),
    })
}
