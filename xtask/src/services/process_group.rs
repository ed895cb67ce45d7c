//! A server's process group: signals for all of it, and whether any of it is still alive.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill, killpg},
    unistd::Pid,
};

use crate::{Error, Result};

/// The group of a server, named by the process that leads it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessGroup(Pid);

impl ProcessGroup {
    pub(crate) fn led_by(pid: i32) -> Self {
        Self(Pid::from_raw(pid))
    }

    pub(crate) fn signal_all(self, signal: Signal) -> Result<()> {
        killpg(self.0, signal).map_err(|errno| refused(signal, errno))
    }

    pub(crate) fn signal_leader(self, signal: Signal) -> Result<()> {
        kill(self.0, signal).map_err(|errno| refused(signal, errno))
    }

    /// Whether the leader or any other process of the group still runs; the dead that nobody has
    /// reaped do not count. A leader that has just been forked has no group yet.
    fn is_alive(self) -> bool {
        self.leader_is_alive() || self.members().any(|member| member.runs)
    }

    /// The one to ask whether the server runs: its port mapper may live on.
    pub(crate) fn leader_is_alive(self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0));
        stat.is_ok_and(|stat| Process::read(&stat).is_some_and(|leader| leader.runs))
    }

    fn members(self) -> impl Iterator<Item = Process> {
        let processes = fs::read_dir("/proc").into_iter().flatten();
        processes
            .filter_map(|entry| fs::read_to_string(entry.ok()?.path().join("stat")).ok())
            .filter_map(|stat| Process::read(&stat))
            .filter(move |process| process.group == self.0.as_raw())
    }

    /// Waits until nothing of the group runs any more; `false` if `limit` passed before that.
    pub(crate) fn wait_until_gone(self, limit: Duration) -> bool {
        holds_within(limit, || !self.is_alive())
    }

    /// Waits until the leader has ended, whatever the others do; `false` if `limit` passed before.
    pub(crate) fn wait_until_leader_is_gone(self, limit: Duration) -> bool {
        holds_within(limit, || !self.leader_is_alive())
    }
}

fn holds_within(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    while !condition() {
        if Instant::now() > deadline {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
    true
}

fn refused(signal: Signal, errno: nix::errno::Errno) -> Error {
    Error::io(format!("send {signal} to the server"))(errno.into())
}

#[derive(Debug, PartialEq, Eq)]
struct Process {
    group: i32,
    runs: bool,
}

impl Process {
    /// Reads a line of `/proc/<pid>/stat`: `pid (name) state parent group …`, where the name may
    /// hold anything, closing parentheses included.
    fn read(stat: &str) -> Option<Self> {
        let (_, rest) = stat.rsplit_once(") ")?;
        let mut fields = rest.split_ascii_whitespace();
        let state = fields.next()?;
        let group = fields.nth(1)?.parse().ok()?;
        Some(Self {
            group,
            runs: !matches!(state, "Z" | "X"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Process;

    #[test]
    fn a_process_runs_until_it_is_a_zombie() {
        let cases = [
            ("12 (beam.smp) S 10 11 10 0 -1", Some((11, true))),
            ("12 (beam.smp) T 10 11 10 0 -1", Some((11, true))),
            ("12 (a) b) c) R 10 11 10 0 -1", Some((11, true))),
            ("12 (beam.smp) Z 10 11 10 0 -1", Some((11, false))),
            ("nonsense", None),
        ];
        for (stat, expected) in cases {
            let expected = expected.map(|(group, runs)| Process { group, runs });
            assert_eq!(Process::read(stat), expected, "{stat}");
        }
    }
}
