//! Test binaries, and how many tests they say they ran.

use std::{
    collections::BTreeMap,
    fmt,
    io::{BufRead, BufReader},
    mem,
    process::{Command, ExitStatus, Stdio},
};

use idem_servers::{Error, Result};

/// How many tests ran, by what became of them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    passed: u32,
    failed: u32,
    failures: Vec<String>,
    reading: Reading,
    /// What ended the tests that failed, as far as they said it: the message of each panic.
    panics: BTreeMap<String, Vec<String>>,
}

/// Where in a binary's account of its failures the next line stands.
#[derive(Debug, Default, PartialEq, Eq)]
enum Reading {
    /// In none.
    #[default]
    Elsewhere,
    /// In that of this test.
    Of(String),
    /// Behind `thread '…' panicked at …:` of this test: the message comes.
    PanicOf(String),
}

/// How the panic of a test begins that has waited in vain: see `idem_tests::journal`.
const WAITED_IN_VAIN: &str = "not within ";

/// Runs a command that runs tests; what it prints goes where our output goes.
pub(crate) fn run(mut tests: Command) -> Result<(ExitStatus, Count)> {
    let failed = || Error::io("run the tests");
    let mut running = tests
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed())?;
    let output = BufReader::new(running.stdout.take().expect("stdout is piped"));
    let mut count = Count::default();
    for line in output.split(b'\n') {
        let line = line.map_err(failed())?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        count.add(&line);
    }
    Ok((running.wait().map_err(failed())?, count))
}

impl Count {
    /// The names of the tests that failed.
    pub(crate) fn failures(&self) -> &[String] {
        &self.failures
    }

    /// Whether so many tests ran, or more, and none failed.
    pub(crate) fn all_passed(&self, at_least: usize) -> bool {
        self.failed == 0 && self.passed as usize >= at_least
    }

    /// The first failed test that anything but a wait in vain has ended, if there is one. A test that found a
    /// message lost, doubled or stuck, or an uneven balance, has found a defect, however rarely it shows.
    ///
    /// A process that was killed tells of no panic, and tests of the same name in two binaries cannot be told apart.
    pub(crate) fn beyond_patience(&self) -> Option<&str> {
        let waited = |name: &&String| {
            let same_name = self.failures.iter().filter(|other| other == name).count();
            let panics = self.panics.get(*name);
            same_name == 1 && panics.is_some_and(|all| all.iter().all(|one| is_a_wait(one)))
        };
        let found = self.failures.iter().find(|name| !waited(name));
        found.map(String::as_str)
    }

    /// What each failed test said in the end.
    pub(crate) fn last_words(&self) -> String {
        let words = self.failures.iter().map(|name| {
            let last = self.panics.get(name).and_then(|all| all.last());
            format!("{name}: {}", last.map_or("no panic", String::as_str))
        });
        words.collect::<Vec<_>>().join("; ")
    }

    /// Reads `test result: ok. 2 passed; 0 failed; …`, `test some::name ... FAILED`, and the panics below
    /// `---- some::name stdout ----`.
    fn add(&mut self, line: &str) {
        self.read_panic(line);
        let Some(result) = line.strip_prefix("test result: ") else {
            let name = line
                .strip_prefix("test ")
                .and_then(|rest| rest.strip_suffix(" ... FAILED"));
            self.failures.extend(name.map(str::to_owned));
            return;
        };
        let words: Vec<_> = result.split_ascii_whitespace().collect();
        for pair in words.windows(2) {
            let number: u32 = pair[0].parse().unwrap_or_default();
            match pair[1] {
                "passed;" => self.passed += number,
                "failed;" => self.failed += number,
                _ => {}
            }
        }
    }

    fn read_panic(&mut self, line: &str) {
        let heading = line
            .strip_prefix("---- ")
            .and_then(|rest| rest.strip_suffix(" stdout ----"));
        self.reading = match (mem::take(&mut self.reading), heading) {
            (_, Some(name)) => Reading::Of(name.to_owned()),
            (Reading::PanicOf(name), None) => {
                let panics = self.panics.entry(name.clone()).or_default();
                panics.push(line.to_owned());
                Reading::Of(name)
            }
            (_, None) if line == "failures:" || line.starts_with("test result: ") => {
                Reading::Elsewhere
            }
            (Reading::Of(name), None) if is_a_panic(line) => Reading::PanicOf(name),
            (reading, None) => reading,
        };
    }
}

/// `thread 'some::name' (4711) panicked at src/lib.rs:1:2:`
fn is_a_panic(line: &str) -> bool {
    line.starts_with("thread ") && line.contains(" panicked at ") && line.ends_with(':')
}

/// `not within 60s: …`
fn is_a_wait(panic: &str) -> bool {
    let time = panic.strip_prefix(WAITED_IN_VAIN);
    time.is_some_and(|time| time.starts_with(|c: char| c.is_ascii_digit()))
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        if self.failures.is_empty() {
            return Ok(());
        }
        write!(f, ": {}", self.failures.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_results_of_all_binaries_are_added_up() {
        let mut count = Count::default();
        let lines = [
            "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 7 filtered out; finished in 0.01s",
            "test a_test_about_40 passed; ... ok",
            "test queues::returned ... FAILED",
            "test queues::returned_late ... FAILED",
            "test result: FAILED. 40 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 9s",
        ];
        for line in lines {
            count.add(line);
        }
        assert_eq!(
            count.to_string(),
            "43 passed, 2 failed: queues::returned, queues::returned_late"
        );
    }

    /// The account that a binary gives of one failed test.
    fn account(panics: &[&str]) -> Count {
        let mut count = Count::default();
        count.add("test queues::returned ... FAILED");
        count.add("failures:");
        count.add("---- queues::returned stdout ----");
        count.add("2026-01-01T00:00:00Z  WARN the store says: not within 60s: patience");
        for message in panics {
            count.add("thread 'queues::returned' (4711) panicked at tests/src/journal.rs:58:9:");
            count.add(message);
            count.add(
                "note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace",
            );
        }
        count.add("failures:");
        count.add("    queues::returned");
        count
    }

    #[test]
    fn only_a_test_that_waited_in_vain_ended_for_want_of_patience() {
        let waited = "not within 60s: the worker drains; seen last: 3";
        assert_eq!(account(&[waited]).beyond_patience(), None);
        assert_eq!(account(&[waited, waited]).beyond_patience(), None);
        let defects = [
            vec!["assertion `left == right` failed: effects, and the orders expected"],
            vec!["stuck after 60s: no message waits; seen last: 1"],
            vec!["uneven: deliveries=2 executed=1"],
            vec!["doubled", waited],
            vec!["it was not within 60s: a look-alike"],
            vec!["not within the balance"],
            vec![],
        ];
        for panics in defects {
            let count = account(&panics);
            let found = count.beyond_patience();
            assert_eq!(found, Some("queues::returned"), "{panics:?}");
        }
    }

    #[test]
    fn tests_of_one_name_in_two_binaries_are_not_taken_for_each_other() {
        let mut count = account(&["not within 60s: the worker drains"]);
        count.add("test queues::returned ... FAILED");
        assert_eq!(count.beyond_patience(), Some("queues::returned"));
    }

    #[test]
    fn the_last_words_of_each_failed_test_are_kept() {
        let count = account(&["a bug in the handler", "not within 60s: the worker drains"]);
        let said = "queues::returned: not within 60s: the worker drains";
        assert_eq!(count.last_words(), said);
        assert_eq!(account(&[]).last_words(), "queues::returned: no panic");
    }

    #[test]
    fn what_a_binary_says_of_its_tests_is_counted() {
        let mut tests = Command::new("sh");
        tests.args([
            "-c",
            "echo 'test result: FAILED. 1 passed; 1 failed;'; exit 101",
        ]);
        let (status, count) = run(tests).expect("it runs");
        assert_eq!(status.code(), Some(101));
        assert_eq!(
            count,
            Count {
                passed: 1,
                failed: 1,
                ..Count::default()
            }
        );
    }
}
