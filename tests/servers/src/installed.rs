//! Where the programs of an installed server are.

use std::{
    env,
    path::{Path, PathBuf},
};

use crate::{Error, Result};

/// The folder with the programs of an installed server.
#[derive(Clone, Debug)]
pub struct Installed {
    folder: PathBuf,
}

impl Installed {
    /// Looks for a folder with all these `programs`: where the server's packages usually put them,
    /// then where the first of them is along `PATH`, links followed.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`], in words that say how to get it.
    pub(crate) fn find(
        product: &str,
        usual: impl IntoIterator<Item = PathBuf>,
        programs: &[&str],
    ) -> Result<Self> {
        if !cfg!(target_os = "linux") {
            return Err(missing("private servers are started on Linux only"));
        }
        usual
            .into_iter()
            .chain(along_path(programs[0]))
            .find(|folder| programs.iter().all(|name| folder.join(name).is_file()))
            .map(|folder| Self { folder })
            .ok_or_else(|| missing(&format!("{product} is not installed here")))
    }

    /// That folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The path of one of its programs.
    pub fn program(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

fn along_path(program: &str) -> impl Iterator<Item = PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders: Vec<_> = env::split_paths(&path).collect();
    folders
        .into_iter()
        .filter_map(move |folder| folder.join(program).canonicalize().ok())
        .filter_map(|program| program.parent().map(Path::to_owned))
}

fn missing(what: &str) -> Error {
    Error::Missing(format!(
        "{what}: on Debian and Ubuntu `cargo xtask services up` installs RabbitMQ, PostgreSQL and Redis, and `cargo xtask test` \
         all that tests start; elsewhere they say what to do; tests that neither kill, freeze nor configure a server take those at AMQP_URL, POSTGRES_URL and REDIS_URL, as of compose.yaml"
    ))
}
