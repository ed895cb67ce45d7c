//! Another system's files, as a root for processes of its RabbitMQ.

use std::{
    env, fmt,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::Generation;
use crate::{Error, Result};

/// The folder that processes take for `/`.
///
/// Whatever runs in there does so in a mount namespace of its own: there is nothing to unmount when
/// it ends, be it killed, and the folder can be removed whenever no server of it runs.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(transparent)]
pub(super) struct Root {
    folder: PathBuf,
}

impl Root {
    pub(super) fn at(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// The one that is kept for a generation.
    pub(super) fn of(generation: Generation) -> Result<Self> {
        let folder = place_of(generation)?;
        if folder.exists() {
            return Ok(Self::at(folder));
        }
        let version = generation.version();
        Err(Error::Missing(format!(
            "RabbitMQ {version} is not here: `cargo xtask test --rabbitmq {version}` gets it"
        )))
    }

    /// A path of the server, from our own root on.
    pub(super) fn outside(&self, path: &Path) -> PathBuf {
        self.folder.join(path.strip_prefix("/").unwrap_or(path))
    }
}

impl fmt::Display for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.folder.display().fmt(f)
    }
}

/// Where the root of a generation is kept; it is there when it is complete.
pub(crate) fn place_of(generation: Generation) -> Result<PathBuf> {
    let home = || Some(variable("HOME")?.join(".cache"));
    let cache = variable("XDG_CACHE_HOME").or_else(home).ok_or_else(|| {
        Error::Missing(
            "set HOME or XDG_CACHE_HOME, to have a folder to keep RabbitMQ in".to_owned(),
        )
    })?;
    Ok(cache.join(format!("idem/rabbitmq-{}", generation.version())))
}

fn variable(name: &str) -> Option<PathBuf> {
    let value = env::var_os(name).filter(|value| !value.is_empty());
    value.map(PathBuf::from)
}
