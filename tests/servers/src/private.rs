//! A server of one's own, to be killed, frozen and restarted at will.

use std::{
    ops::Deref,
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tempfile::TempDir;

use super::{
    process_group::{Members, ProcessGroup},
    server::{self, Server},
    watchdog::Watchdog,
};
use crate::{Error, Result};

const STOP_LIMIT: Duration = Duration::from_secs(30);
const KILL_LIMIT: Duration = Duration::from_secs(10);

/// A server of one's own: its port, its data, all its processes; gone when dropped.
///
/// Everything that can be asked of a running server is on `S`, to which this dereferences.
#[derive(Debug)]
pub struct Private<S> {
    server: S,
    // Dropped before the folder: the server must not write into it any more.
    run: Mutex<Run>,
    _folder: TempDir,
}

#[derive(Debug)]
struct Run {
    watchdog: Watchdog,
    /// `None` while the server is down: its process id may be somebody else's by now.
    group: Option<ProcessGroup>,
}

impl<S: Server> Private<S> {
    /// Starts a server that `lay_out` prepares in a new folder, and waits until it answers.
    pub(crate) fn create(lay_out: impl Fn(&Path) -> Result<S>) -> Result<Self> {
        // Somebody else may take a port between our look and the server's: look again, then.
        let mut attempts = 3;
        loop {
            attempts -= 1;
            match Self::create_on_free_ports(&lay_out) {
                Err(Error::Server { tail, .. }) if attempts > 0 && names_a_taken_port(&tail) => {}
                created => return created,
            }
        }
    }

    fn create_on_free_ports(lay_out: impl Fn(&Path) -> Result<S>) -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix(&format!("idem-{}-", S::PRODUCT.to_ascii_lowercase()))
            .tempdir()
            .map_err(Error::io("create a temporary folder for a server"))?;
        let server = lay_out(folder.path())?;
        server::save(&server)?;
        let watchdog = Watchdog::over(&server.launch())?;
        let run = Run {
            watchdog,
            group: None,
        };
        let this = Self {
            server,
            run: Mutex::new(run),
            _folder: folder,
        };
        this.launch(&mut this.run())?;
        Ok(this)
    }

    /// Kills all processes of the server with SIGKILL, and waits until they are dead.
    ///
    /// # Errors
    ///
    /// They did not die.
    pub fn kill(&self) -> Result<()> {
        self.end(&mut self.run())
    }

    /// Stops the server's processes where they are (SIGSTOP): connections stay open and silent.
    ///
    /// # Errors
    ///
    /// The server does not run.
    pub fn freeze(&self) -> Result<()> {
        self.running(&self.run())?.freeze().map(drop)
    }

    /// Lets a frozen server run on (SIGCONT).
    ///
    /// # Errors
    ///
    /// The server does not run.
    pub fn thaw(&self) -> Result<()> {
        self.running(&self.run())?.thaw()
    }

    /// Stops the server as its operator would; a frozen one is thawed for it.
    /// [`restart`](Self::restart) brings it back.
    ///
    /// # Errors
    ///
    /// It did not stop within 30 s.
    pub fn stop(&self) -> Result<()> {
        self.stop_running(&mut self.run())
    }

    /// Starts the server again on the same port and data, and waits until it answers.
    ///
    /// One that still runs is stopped cleanly first; call [`kill`](Self::kill) before for a crash.
    ///
    /// # Errors
    ///
    /// It did not stop, or did not come up again.
    pub fn restart(&self) -> Result<()> {
        let mut run = self.run();
        self.stop_running(&mut run)?;
        self.launch(&mut run)
    }

    fn run(&self) -> MutexGuard<'_, Run> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn running(&self, run: &Run) -> Result<ProcessGroup> {
        let down = || server::failure(&self.server, "does not run");
        run.group
            .filter(|group| group.leader_is_alive())
            .ok_or_else(down)
    }

    fn launch(&self, run: &mut Run) -> Result<()> {
        let group = run.watchdog.start()?;
        run.group = Some(group);
        server::wait_until_ready(&self.server, || group.leader_is_alive())
    }

    fn stop_running(&self, run: &mut Run) -> Result<()> {
        if let Ok(group) = self.running(run) {
            group.signal_leader(S::STOP_SIGNAL)?;
            group.thaw()?;
            if !group.wait_until_leader_is_gone(STOP_LIMIT) {
                let what = format!("did not stop within {STOP_LIMIT:?}");
                return Err(server::failure(&self.server, &what));
            }
        }
        // What the leader left behind, such as RabbitMQ's port mapper.
        self.end(run)
    }

    fn end(&self, run: &mut Run) -> Result<()> {
        let Some(group) = run.group.take() else {
            return Ok(());
        };
        // Frozen, it starts no process of which we would not know that it has to die.
        let members = group.freeze().unwrap_or_else(|_| Members::of(group));
        run.watchdog.end()?;
        if members.wait_until_gone(KILL_LIMIT) {
            return Ok(());
        }
        let what = format!("did not die within {KILL_LIMIT:?}");
        Err(server::failure(&self.server, &what))
    }
}

impl<S> Deref for Private<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.server
    }
}

fn names_a_taken_port(log: &str) -> bool {
    log.contains("eaddrinuse") || log.contains("Address already in use")
}
