//! A worker as a process of its own, to be stopped, continued and killed.

use std::{
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::{Pid, Uid},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, BufReader},
    process::{Child, Command},
};

use crate::journal::{Journal, within};

mod clock;
mod event;
mod settings;

pub use clock::Clock;
pub use event::Event;
pub use settings::{Crash, Gate, Keys, Mode, Settings};

/// The worker's settings, as JSON.
pub const SETTINGS_VARIABLE: &str = "LEDGER_WORKER";

/// A worker that charges orders to a ledger. Killed when dropped.
#[derive(Debug)]
pub struct Process {
    /// What it said.
    pub events: Journal<Event>,
    /// What it logged.
    pub log: Journal<String>,
    child: Child,
    pid: Pid,
}

impl Process {
    /// Starts the worker, whose program the test names by `env!("CARGO_BIN_EXE_ledger-worker")`.
    pub fn start(program: impl AsRef<Path>, settings: &Settings) -> Self {
        Self::spawn(Command::new(program.as_ref()), settings)
    }

    /// Starts the worker, which trusts this authority, and not those of the system.
    pub fn start_trusting(
        authority: &Path,
        program: impl AsRef<Path>,
        settings: &Settings,
    ) -> Self {
        let mut command = Command::new(program.as_ref());
        command.env("SSL_CERT_FILE", authority);
        command.env_remove("SSL_CERT_DIR");
        Self::spawn(command, settings)
    }

    /// Starts the worker with another clock than this machine's.
    pub fn start_with(clock: &Clock, program: impl AsRef<Path>, settings: &Settings) -> Self {
        let mut command = Command::new(program.as_ref());
        command.envs(clock.variables());
        Self::spawn(command, settings)
    }

    /// Starts the worker where this folder is a disk of this many bytes, which only the worker sees.
    ///
    /// Whoever is not root needs namespaces of his own for it; where users may have none, the worker ends and says so.
    pub fn start_beside_a_disk(
        folder: &Path,
        bytes: u64,
        program: impl AsRef<Path>,
        settings: &Settings,
    ) -> Self {
        let mut command = Command::new("unshare");
        if !Uid::effective().is_root() {
            command.args(["--user", "--map-root-user"]);
        }
        let mount = format!("mount -t tmpfs -o size={bytes} idem \"$1\"; exec \"$0\"");
        command.args(["--mount", "sh", "-ec", &mount]);
        command.arg(program.as_ref()).arg(folder);
        Self::spawn(command, settings)
    }

    /// The path under which a file of its own disk can be reached from here.
    pub fn from_here(&self, path: &Path) -> PathBuf {
        let inside = path.strip_prefix("/").expect("an absolute path");
        Path::new("/proc")
            .join(self.pid.to_string())
            .join("root")
            .join(inside)
    }

    fn spawn(mut command: Command, settings: &Settings) -> Self {
        let settings = serde_json::to_string(settings).expect("JSON expresses settings");
        let mut child = command
            .env(SETTINGS_VARIABLE, settings)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the worker's program");
        let (events, log) = (Journal::default(), Journal::default());
        let said = events.clone();
        lines(child.stdout.take(), move |line| {
            said.write(serde_json::from_str(&line).expect("each line is an event"));
        });
        let logged = log.clone();
        lines(child.stderr.take(), move |line| logged.write(line));
        let pid = child.id().expect("a process that nobody has waited for");
        Self {
            pid: Pid::from_raw(pid.try_into().expect("process ids are small")),
            events,
            log,
            child,
        }
    }

    /// Waits until a handler has started.
    pub async fn started(&self) {
        self.said("a handler starts", |event| {
            matches!(event, Event::Started { .. })
        })
        .await;
    }

    /// Waits until so many messages have ended in this kind.
    pub async fn ended(&self, kind: &str, count: usize) {
        let awaited = format!("{count} messages end as {kind}");
        let enough = |events: &[Event]| events.iter().filter(|e| e.is_end(kind)).count() >= count;
        self.events.until(&awaited, enough).await;
    }

    /// Waits until so many messages have ended so at one of two workers. The other may be given fewer.
    pub async fn one_ended([one, other]: &[Self; 2], kind: &str, count: usize) {
        tokio::select! {
            () = one.ended(kind, count) => {}
            () = other.ended(kind, count) => {}
        }
    }

    /// Waits until it says this.
    pub async fn said(&self, awaited: &str, this: impl Fn(&Event) -> bool) {
        let enough = |events: &[Event]| events.iter().any(&this);
        self.events.until(awaited, enough).await;
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill(self.pid, signal).expect("the worker runs");
    }

    /// Waits until the process has ended, for as long as it takes.
    ///
    /// # Cancel safety
    /// May be called again.
    pub async fn ended_by_itself(&mut self) -> ExitStatus {
        self.child.wait().await.expect("a child process")
    }

    /// Waits until the process has ended.
    pub async fn exit(&mut self) -> ExitStatus {
        within("the worker's process ends", self.ended_by_itself()).await
    }

    /// Waits until the process has been killed by itself.
    ///
    /// # Panics
    /// If it ended in any other way.
    pub async fn died(mut self) {
        use std::os::unix::process::ExitStatusExt as _;
        let status = self.exit().await;
        assert_eq!(status.signal(), Some(9), "{status}");
    }

    /// Sends SIGTERM, waits until the worker has drained, and returns its balance.
    ///
    /// # Panics
    /// If it fails, or its balance is not even.
    pub async fn stop(mut self) -> Vec<(String, u64)> {
        self.signal(Signal::SIGTERM);
        let status = self.exit().await;
        assert!(status.success(), "{status}");
        let balanced = |events: &[Event]| matches!(events.last(), Some(Event::WorkerStats { .. }));
        let events = self.events.until("it prints its balance", balanced).await;
        let Some(Event::WorkerStats { even, ended }) = events.last() else {
            unreachable!("waited for it");
        };
        assert!(even, "uneven: {ended:?}");
        ended.clone()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for line in self.log.entries() {
                eprintln!("worker {}: {line}", self.pid);
            }
        }
    }
}

fn lines(
    from: Option<impl AsyncRead + Unpin + Send + 'static>,
    to: impl Fn(String) + Send + 'static,
) {
    let mut lines = BufReader::new(from.expect("piped")).lines();
    tokio::spawn(async move {
        while let Ok(Some(line)) = lines.next_line().await {
            to(line);
        }
    });
}
