//! Packages of Debian and Ubuntu.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use nix::unistd::Uid;

use crate::{Error, Result};

const SCRIPT: &str = include_str!("debian.sh");

/// Installs packages as root, or through `sudo` where that asks for no password.
///
/// # Errors
///
/// [`Error::Missing`] where this is neither Debian nor Ubuntu or there is no way to become root;
/// [`Error::Command`] where the installation fails.
pub(crate) fn install(products: &[&str], packages: &[&str]) -> Result<()> {
    let names = packages.join(" ");
    let mut command = as_root()?;
    eprintln!(
        "not here: {}; installing {names} with apt-get; no service is started",
        products.join(", ")
    );
    let status = command
        .args(["sh", "-c", SCRIPT, "install"])
        .args(packages)
        .stdin(Stdio::null())
        // What is printed on standard output belongs to the task.
        .stdout(std::io::stderr())
        .status()
        .map_err(Error::io("run apt-get"))?;
    if status.success() {
        return Ok(());
    }
    Err(Error::Command {
        command: format!("apt-get install {names}"),
        status: status.to_string(),
        output: "; what it said is above".to_owned(),
    })
}

/// A command that runs its arguments as root, where packages are Debian's.
///
/// # Errors
///
/// [`Error::Missing`] where they are not, or there is no way to become root.
pub(super) fn as_root() -> Result<Command> {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    if !is_debian_or_ubuntu(&release) || !Path::new("/usr/bin/apt-get").exists() {
        return Err(Error::Missing(
            "only on Debian and Ubuntu are programs installed for you".to_owned(),
        ));
    }
    if Uid::effective().is_root() {
        return Ok(Command::new("env"));
    }
    let allowed = Command::new("sudo")
        .args(["-n", "true"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !allowed {
        return Err(Error::Missing(
            "this is neither root nor has `sudo` without a password".to_owned(),
        ));
    }
    let mut sudo = Command::new("sudo");
    sudo.arg("-n");
    Ok(sudo)
}

fn is_debian_or_ubuntu(os_release: &str) -> bool {
    os_release
        .lines()
        .filter_map(|line| line.split_once('='))
        .filter(|(name, _)| ["ID", "ID_LIKE"].contains(name))
        .flat_map(|(_, value)| value.trim_matches('"').split(' '))
        .any(|id| ["debian", "ubuntu"].contains(&id))
}

#[cfg(test)]
mod tests {
    use super::is_debian_or_ubuntu;

    #[test]
    fn debian_and_what_descends_from_it_is_known_by_its_release_file() {
        let cases = [
            ("PRETTY_NAME=\"Debian GNU/Linux 12\"\nID=debian\n", true),
            ("ID=ubuntu\nID_LIKE=debian\n", true),
            ("ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n", true),
            ("ID=fedora\nVARIANT_ID=debian\n", false),
            ("", false),
        ];
        for (release, expected) in cases {
            assert_eq!(is_debian_or_ubuntu(release), expected, "{release}");
        }
    }
}
