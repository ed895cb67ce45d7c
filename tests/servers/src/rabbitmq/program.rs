//! A RabbitMQ that can be started: of this machine, or in a root of its own.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Generation, Version, root::Root};
use crate::{Error, Installed, Result};

/// The variable that names the [`Generation`] of the brokers that tests start, as `4.0`; the
/// machine's own RabbitMQ if it is not set.
pub const VERSION_VARIABLE: &str = "IDEM_TEST_RABBITMQ_VERSION";

/// Where the scripts are, from the server's root on: of Debian's package, of the Docker image.
const SCRIPTS: [&str; 2] = ["/usr/lib/rabbitmq/bin", "/opt/rabbitmq/sbin"];

/// A RabbitMQ that can be started.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Program {
    scripts: PathBuf,
    root: Option<Root>,
    version: Version,
}

impl Program {
    /// What [`VERSION_VARIABLE`] asks for.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`]: it is not here, or no generation has that name.
    pub(crate) fn wanted() -> Result<Self> {
        match wanted_generation()? {
            Some(generation) => Self::of(generation),
            None => Self::of_this_machine(),
        }
    }

    /// That of a broker that somebody else has started: it is never started by us.
    pub(super) fn outside(version: Version) -> Self {
        Self {
            scripts: PathBuf::new(),
            root: None,
            version,
        }
    }

    /// The machine's own.
    pub(crate) fn of_this_machine() -> Result<Self> {
        let scripts = installed()?.folder().to_owned();
        let unknown = || {
            Error::Missing(format!(
                "the RabbitMQ in {} has no version",
                scripts.display()
            ))
        };
        Ok(Self {
            version: Version::of_scripts(&scripts).ok_or_else(unknown)?,
            scripts,
            root: None,
        })
    }

    /// The machine's own if it is of that generation, else the one in the root that is kept for it.
    pub(crate) fn of(generation: Generation) -> Result<Self> {
        match Self::of_this_machine() {
            Ok(own) if own.version == generation.version() => Ok(own),
            _ => Self::in_root(&Root::of(generation)?, generation.version()),
        }
    }

    fn in_root(root: &Root, expected: Version) -> Result<Self> {
        let mut known = SCRIPTS.map(Path::new).into_iter();
        let found = known.find_map(|scripts| {
            let version = Version::of_scripts(&root.outside(scripts))?;
            Some((scripts, version))
        });
        let (scripts, version) = found.ok_or_else(|| {
            Error::Missing(format!(
                "there is no RabbitMQ in {root}: remove that folder to make it again"
            ))
        })?;
        if version != expected {
            return Err(Error::Missing(format!(
                "RabbitMQ in {root} is {version}, not {expected}: its source has moved on; remove that folder to \
                 look there again"
            )));
        }
        Ok(Self {
            scripts: scripts.to_owned(),
            root: Some(root.clone()),
            version,
        })
    }

    /// Its version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// `None` if it is of this machine.
    pub(super) fn root(&self) -> Option<&Root> {
        self.root.as_ref()
    }

    /// The path of a script, as the server sees it.
    pub(super) fn script(&self, name: &str) -> PathBuf {
        self.scripts.join(name)
    }
}

/// What [`VERSION_VARIABLE`] says.
pub(crate) fn wanted_generation() -> Result<Option<Generation>> {
    let Some(name) = std::env::var_os(VERSION_VARIABLE) else {
        return Ok(None);
    };
    let generation = Generation::named(&name.to_string_lossy());
    generation.map(Some).ok_or_else(|| {
        let known = Generation::ALL
            .map(|known| known.version().to_string())
            .join(", ");
        Error::Missing(format!(
            "{VERSION_VARIABLE} is `{}`: set it to one of {known}, or not at all",
            name.display()
        ))
    })
}

/// The plain scripts come first: what the package puts on the `PATH` insists on root and on the
/// system's own server.
pub(crate) fn installed() -> Result<Installed> {
    let scripts = ["rabbitmq-server", "rabbitmqctl", "rabbitmq-env"];
    Installed::find("RabbitMQ", [PathBuf::from(SCRIPTS[0])], &scripts)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn a_root_with(version: &str) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().expect("a folder");
        let server = folder.path().join("opt/rabbitmq");
        fs::create_dir_all(server.join("sbin")).expect("it is ours");
        fs::create_dir_all(server.join("plugins").join(format!("rabbit-{version}")))
            .expect("it is ours");
        fs::write(server.join("sbin/rabbitmqctl"), "").expect("it is ours");
        let root = Root::at(folder.path().to_owned());
        (folder, root)
    }

    #[test]
    fn what_a_root_holds_is_found_and_has_to_be_of_the_version_asked_for() {
        let (_folder, root) = a_root_with("4.3.6");
        let program = Program::in_root(&root, Version::new(4, 3)).expect("it is there");
        assert_eq!(
            program.script("rabbitmqctl"),
            Path::new("/opt/rabbitmq/sbin/rabbitmqctl")
        );
        assert_eq!(program.version(), Version::new(4, 3));

        let other = Program::in_root(&root, Version::new(4, 0)).expect_err("it is another version");
        assert!(other.to_string().contains("is 4.3, not 4.0"), "{other}");
    }

    #[test]
    fn a_root_without_a_server_is_to_be_made_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let empty = Program::in_root(&Root::at(folder.path().to_owned()), Version::new(4, 0));
        let error = empty.expect_err("it is empty").to_string();
        assert!(error.contains("remove that folder"), "{error}");
    }
}
