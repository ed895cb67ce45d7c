//! A broker that outlives the process that starts it: until it is stopped, or its folder removed.

use std::{
    fs, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use super::{BOOT_LIMIT, Broker, Installed, layout::Layout, probe};
use crate::{Error, Result};

/// As long as this file is there, so is the server.
const WANTED: &str = "wanted";
const STOP_LIMIT: Duration = Duration::from_secs(15);

/// Starts a broker in `folder` and waits until it accepts connections. What is left of an earlier
/// one in that folder, running or not, is removed first.
pub(crate) fn start(folder: &Path, installed: &Installed) -> Result<Broker> {
    stop(folder)?;
    fs::create_dir(folder).map_err(Error::io(format!("create {}", folder.display())))?;
    let layout = Layout::create(folder, installed)?;
    let wanted = wanted(folder);
    fs::write(&wanted, "remove this file to stop the server\n")
        .map_err(Error::io(format!("write {}", wanted.display())))?;
    let server = layout.launch().detach(&wanted)?;
    let started = probe::wait_until_ready(&layout, BOOT_LIMIT, || server.leader_is_alive());
    if started.is_err() {
        stop(folder)?;
    }
    started.map(|()| Broker::new(layout))
}

/// Stops the broker of that folder, if there is one, and waits until the folder is gone.
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
