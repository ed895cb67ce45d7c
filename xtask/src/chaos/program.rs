//! The program that carries a plan out.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
};

use super::Plan;
use idem_servers::{Error, Result};

use crate::cargo::{Workspace, cargo};

/// The plan, as JSON, for the program.
pub const PLAN_VARIABLE: &str = "IDEM_CHAOS_PLAN";

const NAME: &str = "chaos";

/// The program `chaos`, beside which cargo puts the workers' program.
#[derive(Debug)]
pub(crate) struct Program(PathBuf);

impl Program {
    /// Builds it without optimisation, as tests are: what it finds does not depend on speed.
    pub(crate) fn build(workspace: &Workspace) -> Result<Self> {
        Self::build_with(workspace, "build --package idem-tests --bins")
    }

    /// Builds it as a part of all tests, with their features: nothing to do after these.
    pub(crate) fn build_with_all_tests(workspace: &Workspace) -> Result<Self> {
        Self::build_with(workspace, "build --workspace --all-features --tests")
    }

    fn build_with(workspace: &Workspace, arguments: &str) -> Result<Self> {
        let mut build = cargo(&workspace.root);
        build.args(arguments.split(' '));
        succeeded(&mut build, &format!("cargo {arguments}"))?;
        Ok(Self(workspace.target.join("debug").join(NAME)))
    }

    pub(crate) fn run(&self, plan: &Plan) -> Result<()> {
        let json = serde_json::to_string(plan).expect("plans are plain data");
        let mut program = Command::new(&self.0);
        succeeded(program.env(PLAN_VARIABLE, json), NAME)
    }
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
