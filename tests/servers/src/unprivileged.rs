//! The user as whom servers run that refuse to be root.

use std::{
    fs,
    os::unix::fs::{MetadataExt, chown},
    path::Path,
};

use nix::unistd::{Uid, User};

use crate::{Error, Result};

/// The launch scripts become it; PostgreSQL's packages create it.
const USER: &str = "postgres";

/// Gives a folder to that user, if we are root; anybody else runs the server as himself.
pub(crate) fn give(folder: &Path) -> Result<()> {
    if !Uid::effective().is_root() {
        return Ok(());
    }
    let user = User::from_name(USER)
        .map_err(|errno| Error::io(format!("look for the user `{USER}`"))(errno.into()))?
        .ok_or_else(|| Error::Missing(format!(
            "PostgreSQL refuses to run as root, and there is no user `{USER}`: `useradd --system {USER}`, or be another user"
        )))?;
    if let Some(closed) = folder.ancestors().skip(1).find(|parent| is_closed(parent)) {
        return Err(Error::Missing(format!(
            "PostgreSQL refuses to run as root, and the user `{USER}` may not enter {}: `chmod o+x` it, or set \
             TMPDIR and CARGO_TARGET_DIR to folders elsewhere",
            closed.display()
        )));
    }
    chown(folder, Some(user.uid.as_raw()), Some(user.gid.as_raw())).map_err(Error::io(format!(
        "give {} to the user `{USER}`",
        folder.display()
    )))
}

fn is_closed(folder: &Path) -> bool {
    fs::metadata(folder).is_ok_and(|metadata| metadata.mode() & 0o001 == 0)
}
