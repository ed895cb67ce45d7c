//! The workspace as cargo describes it, and cargo itself as a command.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use idem_servers::{Error, Result};
use serde::{Deserialize, de::DeserializeOwned};

/// The workspace that the current folder belongs to.
#[derive(Debug, Deserialize)]
pub(crate) struct Workspace {
    #[serde(rename = "workspace_root")]
    pub(crate) root: PathBuf,
    #[serde(rename = "target_directory")]
    pub(crate) target: PathBuf,
    pub(crate) packages: Vec<Package>,
}

/// A package, of the workspace or a dependency.
#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) rust_version: Option<String>,
    /// The registries that it may be published to; any, if it does not say.
    pub(crate) publish: Option<Vec<String>>,
}

impl Package {
    /// Whether it may be published.
    pub(crate) fn is_published(&self) -> bool {
        self.publish.is_none()
    }
}

impl Workspace {
    /// The workspace's own packages.
    pub(crate) fn load() -> Result<Self> {
        metadata(&["--no-deps"])
    }

    /// The workspace with every package that it depends on, on any platform.
    pub(crate) fn with_dependencies() -> Result<Self> {
        metadata(&["--locked"])
    }

    pub(crate) fn package(&self, name: &str) -> Result<&Package> {
        let package = self.packages.iter().find(|package| package.name == name);
        package.ok_or_else(|| Error::Missing(format!("the workspace has no package `{name}`")))
    }
}

/// Cargo, in the given folder.
pub(crate) fn cargo(folder: &Path) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    without_package(command.current_dir(folder));
    command
}

/// Leaves out what the cargo that runs this task told us about `xtask`: some build scripts would take it for a reason
/// to run again.
pub(crate) fn without_package(command: &mut Command) {
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
}

fn metadata<T: DeserializeOwned>(arguments: &[&str]) -> Result<T> {
    let output = cargo(Path::new("."))
        .args(["metadata", "--format-version", "1"])
        .args(arguments)
        .output()
        .map_err(Error::io("run `cargo metadata`"))?;
    if !output.status.success() {
        return Err(Error::Command {
            command: "cargo metadata".to_owned(),
            status: output.status.to_string(),
            output: format!("\n{}", String::from_utf8_lossy(&output.stderr).trim()),
        });
    }
    serde_json::from_slice(&output.stdout)
        .map_err(|error| Error::io("understand `cargo metadata`")(error.into()))
}
