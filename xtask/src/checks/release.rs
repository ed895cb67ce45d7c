//! What a release needs beside passing tests: crates that build as they are published, and dependencies that may
//! be used.

use std::process::{Command, Stdio};

use super::steps::Steps;
use idem_servers::{Error, Result};

use crate::cargo::{Workspace, cargo};

/// Packages the published crates, and builds each from its package alone.
///
/// # Errors
///
/// A crate lacks something that it needs, or the tree has changes that are not committed.
pub fn package() -> Result<()> {
    let workspace = Workspace::load()?;
    let mut steps = Steps::default();
    let mut packages = cargo(&workspace.root);
    packages.args(["package", "--locked"]);
    for package in workspace.packages.iter().filter(|one| one.is_published()) {
        packages.args(["--package", &package.name]);
    }
    steps.run(packages);
    steps.finish("package")
}

/// Licences, advisories, sources and duplicates of all dependencies, as `deny.toml` says.
///
/// # Errors
///
/// One of them is against it, or `cargo-deny` is not installed.
pub fn audit() -> Result<()> {
    let workspace = Workspace::load()?;
    needs("cargo-deny")?;
    let mut steps = Steps::default();
    let mut deny = cargo(&workspace.root);
    deny.args(["deny", "--all-features", "check"]);
    steps.run(deny);
    // But for mq-bridge and the peers, which have licences of their own, see CONTRIBUTING.md.
    let mut deny = cargo(&workspace.root.join("bench"));
    deny.args(["deny", "--all-features"]);
    deny.args(["--exclude", "bench-mq-bridge", "--exclude", "bench-peers"]);
    deny.args(["check", "--config", "../deny.toml"]);
    steps.run(deny);
    steps.finish("audit")
}

fn needs(tool: &str) -> Result<()> {
    let asked = Command::new(tool)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match asked {
        Ok(status) if status.success() => Ok(()),
        _ => Err(Error::Missing(format!(
            "{tool} is not installed: `cargo install --locked {tool}`"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_is_not_there_is_named_with_the_way_to_get_it() {
        let error = needs("cargo-of-nobody").expect_err("it is not there");
        assert_eq!(
            error.to_string(),
            "cargo-of-nobody is not installed: `cargo install --locked cargo-of-nobody`"
        );
        assert!(needs("cargo").is_ok());
    }
}
