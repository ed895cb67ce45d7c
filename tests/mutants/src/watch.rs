//! What the tests of a program say while they run.

use std::{
    collections::BTreeSet,
    io::{BufRead as _, BufReader},
    process::Child,
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};

/// What the tests made of a changed file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ran {
    /// All passed.
    Passed,
    /// One failed.
    Failed,
    /// They took much longer than without the change.
    Hung,
}

/// Until the first test fails, which is told, or nothing more is to be expected.
pub(super) fn until_known(mut child: Child, longest: Duration) -> (Ran, Option<String>) {
    let told = tell(&mut child);
    let deadline = Instant::now() + longest;
    loop {
        match told.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok((_, true)) => {}
            Ok((test, false)) => {
                end(child);
                return (Ran::Failed, Some(test));
            }
            Err(RecvTimeoutError::Timeout) => {
                end(child);
                return (Ran::Hung, None);
            }
            Err(RecvTimeoutError::Disconnected) => {
                let passed = child.wait().is_ok_and(|status| status.success());
                return (if passed { Ran::Passed } else { Ran::Failed }, None);
            }
        }
    }
}

/// All tests that pass in this time.
pub(super) fn passing(mut child: Child, longest: Duration) -> BTreeSet<String> {
    let told = tell(&mut child);
    let deadline = Instant::now() + longest;
    let mut passing = BTreeSet::new();
    while let Ok((test, passed)) =
        told.recv_timeout(deadline.saturating_duration_since(Instant::now()))
    {
        if passed {
            passing.insert(test);
        }
    }
    end(child);
    passing
}

/// What the tests say of themselves: whether each passed. It ends with the program.
fn tell(child: &mut Child) -> mpsc::Receiver<(String, bool)> {
    let (tell, told) = mpsc::channel();
    let output = child.stdout.take().map(BufReader::new);
    thread::spawn(move || {
        let lines = output.into_iter().flat_map(BufReader::lines);
        for line in lines.map_while(Result::ok) {
            let said = line
                .strip_prefix("test ")
                .and_then(|line| line.rsplit_once(" ... "));
            let Some((test, result @ ("ok" | "FAILED"))) = said else {
                continue;
            };
            if tell.send((test.to_owned(), result == "ok")).is_err() {
                return;
            }
        }
    });
    told
}

fn end(mut child: Child) {
    let group = Pid::from_raw(child.id().cast_signed());
    let _ = killpg(group, Signal::SIGKILL);
    let _ = child.wait();
}
