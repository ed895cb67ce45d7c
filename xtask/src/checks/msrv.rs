//! The oldest Rust that the crates promise to build with.

use std::process::Command;

use idem_servers::{Error, Result};

use crate::cargo::{Package, Workspace};

/// That no package in the graph demands a newer Rust than `idem-core` promises.
pub(crate) fn dependencies(workspace: &Workspace) -> Result<()> {
    let promised = promise(workspace)?;
    let too_new = demanding_more(&promised, &Workspace::with_dependencies()?.packages);
    if too_new.is_empty() {
        println!("no dependency needs more than Rust {promised}");
        return Ok(());
    }
    Err(Error::Unmet(format!(
        "the workspace promises Rust {promised}, but: {}; take an older version of them, or raise `rust-version`",
        too_new.join(", ")
    )))
}

/// A check of the published crates with that Rust itself, where rustup has it.
pub(crate) fn check(workspace: &Workspace) -> Result<Option<Command>> {
    let promised = promise(workspace)?;
    let Some(toolchain) = installed(&promised) else {
        eprintln!(
            "\nRust {promised} is not installed: `rustup toolchain install {promised}` adds a check with it"
        );
        return Ok(None);
    };
    let mut command = Command::new("rustup");
    command
        .current_dir(&workspace.root)
        .env_remove("RUSTUP_TOOLCHAIN");
    command.args(["run", &toolchain, "cargo", "check", "--all-features"]);
    for package in workspace.packages.iter().filter(|it| it.is_published()) {
        command.args(["--package", &package.name]);
    }
    Ok(Some(command))
}

fn promise(workspace: &Workspace) -> Result<String> {
    let package = workspace.package("idem-core")?;
    package.rust_version.clone().ok_or_else(|| {
        Error::Missing(
            "`rust-version` is missing in Cargo.toml: write down the oldest supported Rust"
                .to_owned(),
        )
    })
}

fn installed(version: &str) -> Option<String> {
    let output = Command::new("rustup")
        .args(["toolchain", "list", "--quiet"])
        .output()
        .ok()?;
    let toolchains = String::from_utf8_lossy(&output.stdout).into_owned();
    let is_wanted = |name: &&str| {
        name.strip_prefix(version)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '.']))
    };
    toolchains.lines().find(is_wanted).map(str::to_owned)
}

fn demanding_more(promised: &str, packages: &[Package]) -> Vec<String> {
    packages
        .iter()
        .filter_map(|package| Some((package, package.rust_version.as_deref()?)))
        .filter(|(_, demand)| numbers(demand) > numbers(promised))
        .map(|(package, demand)| format!("{} {} needs {demand}", package.name, package.version))
        .collect()
}

/// `1.94` is `1.94.0`.
fn numbers(version: &str) -> [u32; 3] {
    let mut numbers = [0; 3];
    for (number, text) in numbers.iter_mut().zip(version.split('.')) {
        *number = text.parse().unwrap_or_default();
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, rust_version: Option<&str>) -> Package {
        Package {
            name: name.to_owned(),
            version: "1.2.3".to_owned(),
            rust_version: rust_version.map(str::to_owned),
            publish: None,
        }
    }

    #[test]
    fn only_what_needs_a_newer_rust_is_too_new() {
        let packages = [
            package("silent", None),
            package("older", Some("1.9")),
            package("same", Some("1.94.0")),
            package("patch", Some("1.94.1")),
            package("newer", Some("1.100")),
        ];
        let expected = ["patch 1.2.3 needs 1.94.1", "newer 1.2.3 needs 1.100"];
        assert_eq!(demanding_more("1.94", &packages), expected);
    }
}
