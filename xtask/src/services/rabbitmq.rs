//! RabbitMQ: a private broker from the installed server, to be killed, frozen and restarted at will.

mod broker;
pub(crate) mod detached;
mod installed;
mod layout;
mod probe;

use std::{
    ops::Deref,
    path::Path,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use nix::sys::signal::Signal;
use tempfile::TempDir;

use self::layout::Layout;
pub use self::{
    broker::{Broker, QueueState},
    installed::Installed,
};
use super::{process_group::ProcessGroup, watchdog::Watchdog};
use crate::{Error, Result};

/// The variable with which `cargo xtask test` hands the folder of its broker to test binaries.
pub const FOLDER_VARIABLE: &str = "IDEM_TEST_RABBITMQ";

const BOOT_LIMIT: Duration = Duration::from_secs(90);
const STOP_LIMIT: Duration = Duration::from_secs(30);
const KILL_LIMIT: Duration = Duration::from_secs(10);

/// A RabbitMQ of one's own: its ports, its data, its Erlang port mapper; gone when dropped.
///
/// Everything that can be asked of a running broker is on [`Broker`], to which this dereferences.
#[derive(Debug)]
pub struct RabbitMq {
    broker: Broker,
    // Dropped before the folder: the server must not write into it any more.
    server: Mutex<Server>,
    _folder: TempDir,
}

#[derive(Debug)]
struct Server {
    watchdog: Watchdog,
    group: ProcessGroup,
}

impl RabbitMq {
    /// Starts a broker and waits until it accepts connections.
    ///
    /// # Errors
    ///
    /// RabbitMQ is not installed, or did not come up; the end of its log is in the error.
    pub fn start() -> Result<Self> {
        let installed = Installed::find()?;
        // Somebody else may take a port between our look and the server's: look again, then.
        let mut attempts = 3;
        loop {
            attempts -= 1;
            match Self::start_on_free_ports(&installed) {
                Err(Error::Server { tail, .. }) if attempts > 0 && tail.contains("eaddrinuse") => {}
                started => return started,
            }
        }
    }

    fn start_on_free_ports(installed: &Installed) -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("idem-rabbitmq-")
            .tempdir()
            .map_err(Error::io("create a temporary folder for RabbitMQ"))?;
        let broker = Broker::new(Layout::create(folder.path(), installed)?);
        let mut watchdog = Watchdog::over(&broker.layout().launch())?;
        let group = watchdog.start()?;
        let server = Mutex::new(Server { watchdog, group });
        let this = Self {
            broker,
            server,
            _folder: folder,
        };
        this.wait_until_ready(group)?;
        Ok(this)
    }

    /// Kills the whole server with SIGKILL, the Erlang machine included, and waits until it is dead.
    ///
    /// RabbitMQ may forget what was declared moments before: declare, [`restart`](Self::restart)
    /// cleanly once, then kill.
    ///
    /// # Errors
    ///
    /// It did not die.
    pub fn kill(&self) -> Result<()> {
        let mut server = self.server();
        server.watchdog.end()?;
        self.wait_until_gone(server.group, KILL_LIMIT)
    }

    /// Stops the server's processes where they are (SIGSTOP): connections stay open and silent.
    ///
    /// # Errors
    ///
    /// The server does not run.
    pub fn freeze(&self) -> Result<()> {
        self.server().group.signal_all(Signal::SIGSTOP)
    }

    /// Lets a frozen server run on (SIGCONT).
    ///
    /// # Errors
    ///
    /// The server does not run.
    pub fn thaw(&self) -> Result<()> {
        self.server().group.signal_all(Signal::SIGCONT)
    }

    /// Stops the server as an operator would: queues are synced to disk. [`restart`](Self::restart) brings it back.
    ///
    /// # Errors
    ///
    /// It did not stop within 30 s.
    pub fn stop(&self) -> Result<()> {
        let mut server = self.server();
        if server.group.leader_is_alive() {
            server.group.signal_leader(Signal::SIGTERM)?;
            // The leader ends after the broker; the port mapper stays and is killed below.
            self.wait_until_leader_is_gone(server.group)?;
        }
        server.watchdog.end()?;
        self.wait_until_gone(server.group, KILL_LIMIT)
    }

    /// Starts the server again on the same ports and data, and waits until it accepts connections.
    ///
    /// One that still runs is stopped cleanly first; call [`kill`](Self::kill) before for a crash.
    ///
    /// # Errors
    ///
    /// It did not stop, or did not come up again.
    pub fn restart(&self) -> Result<()> {
        self.stop()?;
        let mut server = self.server();
        server.group = server.watchdog.start()?;
        self.wait_until_ready(server.group)
    }

    fn server(&self) -> MutexGuard<'_, Server> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_until_ready(&self, group: ProcessGroup) -> Result<()> {
        let layout = self.broker.layout();
        probe::wait_until_ready(layout, BOOT_LIMIT, || group.leader_is_alive())
    }

    fn wait_until_leader_is_gone(&self, group: ProcessGroup) -> Result<()> {
        if group.wait_until_leader_is_gone(STOP_LIMIT) {
            return Ok(());
        }
        Err(self
            .broker
            .layout()
            .error(format!("RabbitMQ did not stop within {STOP_LIMIT:?}")))
    }

    fn wait_until_gone(&self, group: ProcessGroup, limit: Duration) -> Result<()> {
        if group.wait_until_gone(limit) {
            return Ok(());
        }
        Err(self
            .broker
            .layout()
            .error(format!("RabbitMQ did not die within {limit:?}")))
    }
}

impl Deref for RabbitMq {
    type Target = Broker;

    fn deref(&self) -> &Broker {
        &self.broker
    }
}

/// The broker that ordinary tests share: the one of `cargo xtask test` if it runs us, else one
/// of our own, started on the first call and gone with this process.
///
/// Isolate tests from each other by a vhost each ([`Broker::add_vhost`]).
///
/// # Errors
///
/// As [`RabbitMq::start`].
pub fn shared() -> Result<&'static Broker> {
    static OWN: OnceLock<RabbitMq> = OnceLock::new();
    static GIVEN: OnceLock<Broker> = OnceLock::new();
    static STARTING: Mutex<()> = Mutex::new(());

    let _one_at_a_time = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(folder) = std::env::var_os(FOLDER_VARIABLE) {
        if GIVEN.get().is_none() {
            let _ = GIVEN.set(Broker::attach(Path::new(&folder))?);
        }
        return Ok(GIVEN.get().expect("set above"));
    }
    if OWN.get().is_none() {
        let _ = OWN.set(RabbitMq::start()?);
    }
    Ok(OWN.get().expect("set above"))
}
