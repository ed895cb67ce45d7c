//! Makes a private Redis refuse writes, as its operator's settings or its own troubles would.

use std::{
    fs,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use super::{Node, Redis};
use crate::{Error, Result, Server, server::failure};

/// Why a Redis that is there, and answers, takes no writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoWrites {
    /// It has reached its `maxmemory` and forgets nothing: `OOM`.
    OutOfMemory,
    /// It could not save its data to disk: `MISCONF`.
    CannotSave,
    /// It has fewer replicas than `min-replicas-to-write`: `NOREPLICAS`.
    TooFewReplicas,
    /// It was made a replica: `READONLY`.
    Replica,
    /// It loads its data: `LOADING`. It refuses reads, too.
    Loading,
}

impl NoWrites {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::OutOfMemory,
        Self::CannotSave,
        Self::TooFewReplicas,
        Self::Replica,
        Self::Loading,
    ];
}

impl Redis {
    /// Starts a server that can be made to refuse writes.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn start_to_refuse() -> Result<Self> {
        Self::start_with(&[
            ("save", "86400 1"),
            ("maxmemory-policy", "noeviction"),
            ("enable-debug-command", "local"),
            ("loading-process-events-interval-bytes", "1024"),
        ])
    }
}

impl Node {
    /// Lets the server refuse writes from now on; it has been started by [`Redis::start_to_refuse`].
    ///
    /// # Errors
    ///
    /// The server does not do as it is told.
    pub fn refuse_writes(&self, why: NoWrites) -> Result<()> {
        match why {
            NoWrites::OutOfMemory => self.set("maxmemory", "1"),
            NoWrites::CannotSave => {
                // The file cannot take the place of a folder, not even for root.
                let _ = fs::remove_file(self.dump());
                fs::create_dir(self.dump()).map_err(Error::io("make a folder"))?;
                self.save("err")
            }
            NoWrites::TooFewReplicas => self.set("min-replicas-to-write", "1"),
            // Nobody listens there.
            NoWrites::Replica => self.ask(["REPLICAOF", "127.0.0.1", "1"]).map(drop),
            NoWrites::Loading => {
                self.ask(["DEBUG", "POPULATE", "1000", "ballast", "200"])?;
                self.set("key-load-delay", "20000")?;
                let server = self.clone();
                thread::spawn(move || server.ask(["DEBUG", "RELOAD"]));
                self.until("loaded its data", "persistence", "\nloading:1")
            }
        }
    }

    /// Lets it take writes again.
    ///
    /// # Errors
    ///
    /// As [`refuse_writes`](Self::refuse_writes).
    pub fn take_writes(&self, why: NoWrites) -> Result<()> {
        match why {
            NoWrites::OutOfMemory => self.set("maxmemory", "0"),
            NoWrites::CannotSave => {
                fs::remove_dir(self.dump()).map_err(Error::io("remove a folder"))?;
                self.save("ok")
            }
            NoWrites::TooFewReplicas => self.set("min-replicas-to-write", "0"),
            NoWrites::Replica => self.ask(["REPLICAOF", "NO", "ONE"]).map(drop),
            NoWrites::Loading => {
                self.set("key-load-delay", "0")?;
                self.until("had its data", "persistence", "\nloading:0")
            }
        }
    }

    fn dump(&self) -> PathBuf {
        self.folder().join("dump.rdb")
    }

    fn set(&self, setting: &str, value: &str) -> Result<()> {
        self.ask(["CONFIG", "SET", setting, value]).map(drop)
    }

    fn save(&self, ends: &str) -> Result<()> {
        self.ask(["BGSAVE"])?;
        let told = format!("rdb_last_bgsave_status:{ends}");
        self.until("saved, or failed to", "persistence", &told)
    }

    /// Waits until the server tells this of itself.
    fn until(&self, what: &str, section: &str, told: &str) -> Result<()> {
        let deadline = Instant::now() + Self::BOOT_LIMIT;
        while !self.ask(["INFO", section])?.contains(told) {
            if Instant::now() > deadline {
                return Err(failure(self, &format!("never {what}")));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}
