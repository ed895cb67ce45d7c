//! What all private servers have in common: a folder, a launch, and an answer once they are up.

use std::{
    fmt::Debug,
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use serde::{Serialize, de::DeserializeOwned};

use super::watchdog::Launch;
use crate::{Error, Result};

const LAYOUT: &str = "layout.json";
const TAIL_LINES: usize = 30;

/// A kind of server, and everything one needs to know to start one or to talk to one that runs.
pub trait Server: Clone + Debug + Serialize + DeserializeOwned {
    /// Its name in messages.
    const PRODUCT: &'static str;
    /// How long it may take to start.
    const BOOT_LIMIT: Duration;
    /// What makes it stop as its operator would have it.
    const STOP_SIGNAL: Signal = Signal::SIGTERM;

    /// The folder with its data, configuration and log.
    fn folder(&self) -> &Path;

    /// Whether it, and not another one on its port, answers clients right now.
    fn is_ready(&self) -> bool;

    /// How its process is started.
    fn launch(&self) -> Launch;

    /// Where it writes its log; what it says before it has one is in `server.out`.
    fn log(&self) -> PathBuf {
        self.folder().join("server.out")
    }

    /// The server whose folder this is; it was started by another process.
    ///
    /// # Errors
    ///
    /// There is no such server's folder at that path.
    fn attach(folder: &Path) -> Result<Self> {
        let path = folder.join(LAYOUT);
        let text =
            fs::read_to_string(&path).map_err(Error::io(format!("read {}", path.display())))?;
        serde_json::from_str(&text)
            .map_err(|error| Error::io(format!("understand {}", path.display()))(error.into()))
    }
}

/// Leaves in the server's folder what [`Server::attach`] reads.
pub(crate) fn save(server: &impl Server) -> Result<()> {
    let path = server.folder().join(LAYOUT);
    serde_json::to_string_pretty(server)
        .map_err(Into::into)
        .and_then(|text| fs::write(&path, text))
        .map_err(Error::io(format!("write {}", path.display())))
}

/// Waits until the server answers; gives up when `is_alive` says that it is dead.
pub(crate) fn wait_until_ready<S: Server>(
    server: &S,
    mut is_alive: impl FnMut() -> bool,
) -> Result<()> {
    let deadline = Instant::now() + S::BOOT_LIMIT;
    while !server.is_ready() {
        if !is_alive() {
            return Err(failure(server, "ended while it was starting"));
        }
        if Instant::now() > deadline {
            let what = format!("did not answer within {:?}", S::BOOT_LIMIT);
            return Err(failure(server, &what));
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// An error that quotes what the server said last.
pub(crate) fn failure<S: Server>(server: &S, what: &str) -> Error {
    let log = server.log();
    let mut files = vec![server.folder().join("server.out"), log.clone()];
    files.dedup();
    let said: Vec<_> = files
        .iter()
        .map(|file| last_lines(&fs::read_to_string(file).unwrap_or_default(), TAIL_LINES))
        .collect();
    Error::Server {
        what: format!("{} {what}", S::PRODUCT),
        log,
        tail: said.join("\n").trim().to_owned(),
    }
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}
