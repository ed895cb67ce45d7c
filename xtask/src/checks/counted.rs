//! Test binaries, and how many tests they say they ran.

use std::{
    fmt,
    io::{BufRead, BufReader},
    process::{Command, ExitStatus, Stdio},
};

use crate::{Error, Result};

/// How many tests ran, by what became of them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    passed: u32,
    failed: u32,
    failures: Vec<String>,
}

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

    /// Reads `test result: ok. 2 passed; 0 failed; …` and `test some::name ... FAILED`.
    fn add(&mut self, line: &str) {
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
                failures: Vec::new(),
            }
        );
    }
}
