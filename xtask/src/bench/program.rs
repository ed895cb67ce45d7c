//! A benchmark program as a process.

use std::{
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Command, Stdio},
};

use idem_servers::{Error, Result};
use serde::de::DeserializeOwned;

use crate::cargo::{Workspace, cargo};

#[derive(Debug)]
pub(crate) struct Program {
    name: &'static str,
    path: PathBuf,
}

impl Program {
    /// Builds the program of the package of this name.
    pub(crate) fn build(workspace: &Workspace, name: &'static str) -> Result<Self> {
        Self::build_package(workspace, name, &["--package", name])
    }

    /// Builds the program of the package of this name in `tests`, which is a workspace of its own.
    pub(crate) fn build_apart(workspace: &Workspace, name: &'static str) -> Result<Self> {
        let manifest = format!("tests/{name}/Cargo.toml");
        let target = workspace.target.to_string_lossy();
        let package = ["--manifest-path", &manifest, "--target-dir", &target];
        Self::build_package(workspace, name, &package)
    }

    fn build_package(workspace: &Workspace, name: &'static str, package: &[&str]) -> Result<Self> {
        eprintln!("building {name}");
        let mut build = cargo(&workspace.root);
        build.args(["build", "--release"]).args(package);
        let status = build
            .stdin(Stdio::null())
            .status()
            .map_err(Error::io(format!("build {name}")))?;
        if !status.success() {
            return Err(Error::Command {
                command: format!("cargo build --release {}", package.join(" ")),
                status: status.to_string(),
                output: String::new(),
            });
        }
        let path = workspace.release_program(name);
        Ok(Self { name, path })
    }

    /// Runs it, and returns what it told: one JSON object per line.
    pub(crate) fn run<T: DeserializeOwned>(&self, arguments: &[&str]) -> Result<Vec<T>> {
        let mut program = Command::new(&self.path)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(Error::io(format!("start {}", self.name)))?;
        let output = BufReader::new(program.stdout.take().expect("stdout is piped"));
        let told = output.lines().map(|line| self.read(line)).collect();
        let ended = program.wait();
        let status = ended.map_err(Error::io(format!("wait for {}", self.name)))?;
        if status.success() {
            return told;
        }
        Err(Error::Command {
            command: format!("{} {}", self.name, arguments.join(" ")),
            status: status.to_string(),
            output: String::new(),
        })
    }

    fn read<T: DeserializeOwned>(&self, line: std::io::Result<String>) -> Result<T> {
        line.and_then(|line| Ok(serde_json::from_str(&line)?))
            .map_err(Error::io(format!("understand {}", self.name)))
    }
}
