//! A benchmark program as a process.

use std::{
    env,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Command, Stdio},
};

use idem_servers::{Error, Result};
use serde::de::DeserializeOwned;

#[derive(Debug)]
pub(crate) struct Program {
    name: &'static str,
    path: PathBuf,
}

impl Program {
    /// Builds the program of the package of this name, into the target folder that this program is in.
    pub(crate) fn build(name: &'static str) -> Result<Self> {
        eprintln!("building {name}");
        let target = target_folder()?;
        let mut build = cargo();
        build.args(["build", "--release", "--package", name, "--target-dir"]);
        let status = build
            .arg(&target)
            .stdin(Stdio::null())
            .status()
            .map_err(Error::io(format!("build {name}")))?;
        if !status.success() {
            return Err(Error::Command {
                command: format!("cargo build --release --package {name}"),
                status: status.to_string(),
                output: String::new(),
            });
        }
        let path = target.join("release").join(name);
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

fn target_folder() -> Result<PathBuf> {
    let own = env::current_exe().map_err(Error::io("find this program"))?;
    let folder = own.ancestors().nth(2);
    Ok(folder.expect("cargo builds into two folders").to_owned())
}

/// Cargo, in this workspace.
fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    command
}
