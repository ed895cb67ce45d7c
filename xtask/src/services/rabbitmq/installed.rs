//! Where the installed RabbitMQ is.

use std::{
    env,
    path::{Path, PathBuf},
};

use crate::{Error, Result};

/// The folder with the scripts `rabbitmq-server` and `rabbitmqctl` of an installed RabbitMQ.
#[derive(Clone, Debug)]
pub struct Installed {
    scripts: PathBuf,
}

impl Installed {
    /// Looks where Debian and Ubuntu put it, then along `PATH`.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`], in words that say how to get it.
    pub fn find() -> Result<Self> {
        if !cfg!(target_os = "linux") {
            return Err(missing("private servers are started on Linux only"));
        }
        candidates().find(|folder| has_scripts(folder)).map_or_else(
            || Err(missing("RabbitMQ is not installed here")),
            |scripts| Ok(Self { scripts }),
        )
    }

    pub(crate) fn script(&self, name: &str) -> PathBuf {
        self.scripts.join(name)
    }
}

fn missing(what: &str) -> Error {
    Error::Missing(format!(
        "{what}: `cargo xtask services up` installs it on Debian and Ubuntu, and says elsewhere what to do"
    ))
}

/// The folders of the plain scripts. What a package puts on the `PATH` is often a wrapper that
/// insists on root and on the system's own server, so the Debian folder comes first.
fn candidates() -> impl Iterator<Item = PathBuf> {
    let on_path = env::var_os("PATH").unwrap_or_default();
    let on_path: Vec<_> = env::split_paths(&on_path)
        .filter_map(|folder| folder.join("rabbitmq-server").canonicalize().ok())
        .filter_map(|script| script.parent().map(Path::to_owned))
        .collect();
    std::iter::once(PathBuf::from("/usr/lib/rabbitmq/bin")).chain(on_path)
}

fn has_scripts(folder: &Path) -> bool {
    ["rabbitmq-server", "rabbitmqctl", "rabbitmq-env"]
        .iter()
        .all(|script| folder.join(script).is_file())
}
