//! A server's processes: signals for all of them, and whether any of them is still alive.

use std::{
    collections::BTreeSet,
    fs, thread,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{Error, Result};

/// The process group of a server, named by the process that leads it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessGroup(Pid);

impl ProcessGroup {
    pub(crate) fn led_by(pid: i32) -> Self {
        Self(Pid::from_raw(pid))
    }

    pub(crate) fn signal_leader(self, signal: Signal) -> Result<()> {
        kill(self.0, signal).map_err(|errno| refused(signal, errno))
    }

    /// Stops every process where it is, those that have left the group included, and tells which.
    pub(crate) fn freeze(self) -> Result<Members> {
        // First the leader, so that it starts no more while the others are counted.
        self.signal_leader(Signal::SIGSTOP)?;
        let mut frozen = BTreeSet::from([self.0.as_raw()]);
        loop {
            let found: Vec<_> = Members::of(self).0.difference(&frozen).copied().collect();
            if found.is_empty() {
                return Ok(Members(frozen));
            }
            for pid in found {
                signal_if_there(pid, Signal::SIGSTOP)?;
                frozen.insert(pid);
            }
        }
    }

    /// Lets all processes run on.
    pub(crate) fn thaw(self) -> Result<()> {
        let mut members = Members::of(self).0.into_iter();
        members.try_for_each(|pid| signal_if_there(pid, Signal::SIGCONT))
    }

    /// The one to ask whether the server runs: RabbitMQ's port mapper may live on.
    pub(crate) fn leader_is_alive(self) -> bool {
        runs(self.0.as_raw())
    }

    /// Waits until the leader has ended, whatever the others do; `false` if `limit` passed before.
    pub(crate) fn wait_until_leader_is_gone(self, limit: Duration) -> bool {
        holds_within(limit, || !self.leader_is_alive())
    }
}

/// The processes of a server at one moment, by their ids.
#[derive(Debug)]
pub(crate) struct Members(BTreeSet<i32>);

impl Members {
    /// The group, and all that descend from its leader: PostgreSQL gives each of its processes a
    /// group and a session of its own.
    pub(crate) fn of(group: ProcessGroup) -> Self {
        let entries = fs::read_dir("/proc").into_iter().flatten();
        let processes = entries
            .filter_map(|entry| fs::read_to_string(entry.ok()?.path().join("stat")).ok())
            .filter_map(|stat| Process::read(&stat))
            .filter(|process| process.runs);
        Self(family(group.0.as_raw(), processes.collect()))
    }

    /// Waits until none of them runs any more; `false` if `limit` passed before that.
    pub(crate) fn wait_until_gone(&self, limit: Duration) -> bool {
        holds_within(limit, || !self.0.iter().copied().any(runs))
    }
}

fn family(leader: i32, mut processes: Vec<Process>) -> BTreeSet<i32> {
    let mut family = BTreeSet::from([leader]);
    loop {
        let (joining, others): (Vec<_>, Vec<_>) = processes
            .into_iter()
            .partition(|process| process.group == leader || family.contains(&process.parent));
        if joining.is_empty() {
            return family;
        }
        family.extend(joining.iter().map(|process| process.pid));
        processes = others;
    }
}

/// The dead that nobody has reaped do not count.
fn runs(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| Process::read(&stat).is_some_and(|process| process.runs))
}

fn signal_if_there(pid: i32, signal: Signal) -> Result<()> {
    match kill(Pid::from_raw(pid), signal) {
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        Err(errno) => Err(refused(signal, errno)),
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

fn refused(signal: Signal, errno: Errno) -> Error {
    Error::io(format!("send {signal} to the server"))(errno.into())
}

#[derive(Debug, PartialEq, Eq)]
struct Process {
    pid: i32,
    parent: i32,
    group: i32,
    runs: bool,
}

impl Process {
    /// Reads a line of `/proc/<pid>/stat`: `pid (name) state parent group …`, where the name may
    /// hold anything, closing parentheses included.
    fn read(stat: &str) -> Option<Self> {
        let (front, rest) = stat.rsplit_once(") ")?;
        let (pid, _) = front.split_once(' ')?;
        let mut fields = rest.split_ascii_whitespace();
        let state = fields.next()?;
        Some(Self {
            pid: pid.parse().ok()?,
            parent: fields.next()?.parse().ok()?,
            group: fields.next()?.parse().ok()?,
            runs: !matches!(state, "Z" | "X"),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Process, family};

    fn process(pid: i32, parent: i32, group: i32, runs: bool) -> Process {
        Process {
            pid,
            parent,
            group,
            runs,
        }
    }

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
            let expected = expected.map(|(group, runs)| process(12, 10, group, runs));
            assert_eq!(Process::read(stat), expected, "{stat}");
        }
    }

    #[test]
    fn the_group_and_all_descendants_belong_to_a_server() {
        let leader = process(7, 1, 7, true);
        let orphan_of_the_group = process(8, 1, 7, true);
        let child = process(9, 7, 9, true);
        let grandchild = process(4, 9, 4, true);
        let neighbour = process(5, 1, 5, true);
        let all = vec![grandchild, neighbour, leader, orphan_of_the_group, child];
        assert_eq!(family(7, all), BTreeSet::from([4, 7, 8, 9]));
    }
}
