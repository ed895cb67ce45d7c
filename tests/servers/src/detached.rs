//! A server that outlives the process that starts it: until it is stopped, or its folder removed.

use std::{
    fs, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use super::server::{self, Server};
use crate::{Error, Result};

/// As long as this file is there, so is the server.
const WANTED: &str = "wanted";
const STOP_LIMIT: Duration = Duration::from_secs(15);

/// Starts a server that `lay_out` prepares in `folder`, and waits until it answers. What is left of
/// an earlier one in that folder, running or not, is removed first.
pub(crate) fn start<S: Server>(
    folder: &Path,
    lay_out: impl FnOnce(&Path) -> Result<S>,
) -> Result<S> {
    stop(folder)?;
    fs::create_dir(folder).map_err(Error::io(format!("create {}", folder.display())))?;
    let server = lay_out(folder)?;
    server::save(&server)?;
    let wanted = wanted(folder);
    fs::write(&wanted, "remove this file to stop the server\n")
        .map_err(Error::io(format!("write {}", wanted.display())))?;
    let group = server.launch().detach(&wanted)?;
    let started = server::wait_until_ready(&server, || group.leader_is_alive());
    if started.is_err() {
        stop(folder)?;
    }
    started.map(|()| server)
}

/// Stops the server of that folder, if there is one, and waits until the folder is gone.
pub(crate) fn stop(folder: &Path) -> Result<()> {
    let _ = fs::remove_file(wanted(folder));
    let deadline = Instant::now() + STOP_LIMIT;
    while any_process_at_home_in(folder) {
        if Instant::now() > deadline {
            let what = format!(
                "the server in {} did not stop within {STOP_LIMIT:?}",
                folder.display()
            );
            return Err(Error::Missing(what));
        }
        thread::sleep(Duration::from_millis(50));
    }
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io(format!("remove {}", folder.display()))(error))
        }
        _ => Ok(()),
    }
}

fn wanted(folder: &Path) -> PathBuf {
    folder.join(WANTED)
}

/// Whether any process of that folder's server runs, the shell that watches it included: the
/// folder is the home of all of them.
fn any_process_at_home_in(folder: &Path) -> bool {
    let home = [b"HOME=", folder.as_os_str().as_bytes(), b"\0"].concat();
    let processes = fs::read_dir("/proc").into_iter().flatten();
    processes
        .filter_map(|entry| fs::read(entry.ok()?.path().join("environ")).ok())
        .any(|environment| environment.windows(home.len()).any(|part| part == home))
}
