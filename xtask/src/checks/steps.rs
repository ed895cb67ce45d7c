//! Steps that all run, whatever becomes of the others, and their summary.

use std::{
    iter,
    process::{Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use super::counted;
use idem_servers::{Error, Result};

/// How many tests may fail and are tried again.
const AGAIN: usize = 3;
/// How often in a row they must pass then.
const IN_A_ROW: usize = 3;

/// The steps that ran.
#[derive(Debug)]
pub(crate) struct Steps {
    begun: Instant,
    done: Vec<Step>,
}

impl Default for Steps {
    fn default() -> Self {
        Self {
            begun: Instant::now(),
            done: Vec::new(),
        }
    }
}

#[derive(Debug)]
struct Step {
    name: String,
    passed: bool,
    took: Duration,
}

impl Steps {
    /// Runs a command; what it prints goes where our output goes.
    pub(crate) fn run(&mut self, mut command: Command) {
        let name = as_typed(&command);
        self.attempt(&name.clone(), || {
            let status = command
                .stdin(Stdio::null())
                .status()
                .map_err(Error::io(format!("run `{name}`")))?;
            succeeded(name, status)
        });
    }

    /// The same beside tests: what it printed comes in one piece, if it failed.
    pub(crate) fn run_beside_tests(&mut self, command: Command) {
        self.run_apart(&as_typed(&command), command);
    }

    /// The same; it gets what the tests leave of the processors, so that none of them waits in vain because of it.
    pub(crate) fn run_with_what_tests_leave(&mut self, command: &Command) {
        self.run_apart(&as_typed(command), giving_way(command));
    }

    fn run_apart(&mut self, name: &str, mut command: Command) {
        self.attempt(name, || {
            let output = command.stdin(Stdio::null()).output();
            let output = output.map_err(Error::io(format!("run `{name}`")))?;
            if output.status.success() {
                return Ok(());
            }
            Err(Error::command(name, &output))
        });
    }

    /// Adds what another has run.
    pub(crate) fn append(&mut self, others: Self) {
        self.done.extend(others.done);
    }

    /// Runs a cargo command that runs tests; how many is said beside the name, and which failed.
    ///
    /// A few that only waited in vain run again, without the others beside them. Those that pass each time needed
    /// company to fail, such as a busy machine: the summary names them and what they awaited, to be mended, and they
    /// fail nothing. A test that ended in anything else has found a defect, and has failed: what is doubled only under
    /// load is doubled.
    pub(crate) fn run_tests(&mut self, name: &str, tests: impl Fn() -> Command) {
        let mut said = Vec::new();
        self.attempt(name, || {
            let (status, count) = counted::run(tests())?;
            said.push(format!(": {count}"));
            let failures = count.failures();
            if status.success() || !(1..=AGAIN).contains(&failures.len()) {
                return succeeded(as_typed(&tests()), status);
            }
            said.push(format!(" ({})", count.last_words()));
            if let Some(test) = count.beyond_patience() {
                said.push(format!("; not tried again: {test} did more than wait"));
                return succeeded(as_typed(&tests()), status);
            }
            for _ in 0..IN_A_ROW {
                let mut again = tests();
                again.args(["--", "--exact", "--test-threads", "1"]);
                again.args(failures);
                eprintln!("\n==> {}", as_typed(&again));
                let (second, alone) = counted::run(again)?;
                if !second.success() || !alone.all_passed(failures.len()) {
                    said.push(format!("; alone: {alone}"));
                    return succeeded(as_typed(&tests()), status);
                }
            }
            said.push(format!("; FLAKY, passed alone {IN_A_ROW} times"));
            Ok(())
        });
        if let Some(step) = self.done.last_mut() {
            step.name += &said.concat();
        }
    }

    /// Does something of our own.
    pub(crate) fn attempt<T>(&mut self, name: &str, work: impl FnOnce() -> Result<T>) -> Option<T> {
        eprintln!("\n==> {name}");
        let start = Instant::now();
        let result = work();
        if let Err(error) = &result {
            eprintln!("error: {}", error.with_causes());
        }
        self.done.push(Step {
            name: name.to_owned(),
            passed: result.is_ok(),
            took: start.elapsed(),
        });
        result.ok()
    }

    /// Prints what ran, how it went and how long it took.
    pub(crate) fn finish(self, task: &str) -> Result<()> {
        eprintln!("\n{}", self.summary(task));
        match self.done.iter().filter(|step| !step.passed).count() {
            0 => Ok(()),
            failed => Err(Error::Unmet(format!(
                "{failed} of {} steps failed, see above",
                self.done.len()
            ))),
        }
    }

    fn summary(&self, task: &str) -> String {
        // Some ran beside others.
        let total = self.begun.elapsed();
        let line = |passed: bool, took: Duration, name: &str| {
            format!(
                "{} {:>8.1} s  {name}\n",
                if passed { "ok    " } else { "FAILED" },
                took.as_secs_f64()
            )
        };
        let steps = self
            .done
            .iter()
            .map(|step| line(step.passed, step.took, &step.name));
        let all = self.done.iter().all(|step| step.passed);
        steps
            .chain([line(all, total, &format!("cargo xtask {task}"))])
            .collect()
    }
}

/// Runs a command so that it gives way. By `nice` alone it would keep a processor for a millisecond that another waits
/// for, and a broker that boots hands work from thread to thread ten thousand times.
const GIVE_WAY: &str =
    r#"if chrt --idle 0 true 2>/dev/null; then exec chrt --idle 0 "$@"; fi; exec nice -n 19 "$@""#;

/// The same command for when nobody else wants a processor.
fn giving_way(command: &Command) -> Command {
    let mut patient = Command::new("sh");
    patient.args(["-c", GIVE_WAY, "sh"]);
    patient.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => patient.env(name, value),
            None => patient.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        patient.current_dir(folder);
    }
    patient
}

fn succeeded(command: String, status: ExitStatus) -> Result<()> {
    if status.success() {
        return Ok(());
    }
    Err(Error::Command {
        command,
        status: status.to_string(),
        output: String::new(),
    })
}

fn as_typed(command: &Command) -> String {
    let words = iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    let program = words[0].rsplit('/').next().unwrap_or_default().to_owned();
    iter::once(program.as_str())
        .chain(words[1..].iter().map(AsRef::as_ref))
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_step_is_named_and_fails_the_whole_after_the_rest_ran() {
        let mut steps = Steps::default();
        assert_eq!(
            steps.attempt("first", || Err::<(), _>(Error::Unmet("no".to_owned()))),
            None
        );
        assert_eq!(steps.attempt("second", || Ok(2)), Some(2));
        let summary = steps.summary("test");
        let lines: Vec<_> = summary.lines().collect();
        assert_eq!(
            lines,
            [
                "FAILED      0.0 s  first",
                "ok          0.0 s  second",
                "FAILED      0.0 s  cargo xtask test"
            ]
        );
        assert!(steps.finish("test").is_err());
    }

    #[test]
    fn a_command_beside_tests_has_its_surroundings_and_gives_way() {
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "[ $PWD = / ] && [ $WORD = said ] && [ -z ${HOME+set} ] && \
             { chrt --pid $$ 2>/dev/null | grep -q SCHED_IDLE || [ $(nice) = 19 ]; }",
        ]);
        command
            .current_dir("/")
            .env("WORD", "said")
            .env_remove("HOME");
        let mut beside = Steps::default();
        beside.run_with_what_tests_leave(&command);
        beside.run_with_what_tests_leave(Command::new("sh").args(["-c", "exit 3"]));
        let mut steps = Steps::default();
        steps.append(beside);
        let summary = steps.summary("ci");
        let lines: Vec<_> = summary.lines().collect();
        assert!(
            lines[0].starts_with("ok ") && lines[0].contains(" s  sh -c ["),
            "{summary}"
        );
        assert!(lines[1].ends_with(" s  sh -c exit 3"), "{summary}");
        assert!(
            lines[1].starts_with("FAILED") && lines[2].starts_with("FAILED"),
            "{summary}"
        );
    }

    /// A test that waits in vain beside others; `alone` is what its runs without them print and end with.
    fn failing(alone: &str) -> impl Fn() -> Command {
        ending_in("not within 60s: the end", alone)
    }

    /// A test that ends in this panic beside others.
    fn ending_in(panic: &str, alone: &str) -> impl Fn() -> Command {
        let script = format!(
            "say() {{ echo \"test result: $1. $2 passed; $3 failed;\"; exit $3; }}; \
             [ $# = 0 ] || [ \"$*\" = '-- --exact --test-threads 1 spoilt' ] || exit 2; \
             [ $# = 0 ] || {alone}; \
             echo 'test spoilt ... FAILED'; echo '---- spoilt stdout ----'; \
             echo \"thread 'spoilt' (1) panicked at src/lib.rs:1:2:\"; echo '{panic}'; \
             say FAILED 7 1"
        );
        move || {
            let mut command = Command::new("sh");
            command.args(["-c", &script, "tests"]);
            command
        }
    }

    fn summary_of(tests: impl Fn() -> Command) -> String {
        let mut steps = Steps::default();
        steps.run_tests("integration", tests);
        steps.summary("test")
    }

    #[test]
    fn a_step_that_runs_tests_says_how_many_and_which_failed() {
        let summary = summary_of(failing("true"));
        assert!(summary.starts_with("FAILED"), "{summary}");
        let said = "integration: 7 passed, 1 failed: spoilt (spoilt: not within 60s: the end); \
                    alone: 7 passed, 1 failed: spoilt\n";
        assert!(summary.contains(said), "{summary}");
    }

    #[test]
    fn a_test_that_passes_alone_each_time_is_called_flaky_and_fails_nothing() {
        let summary = summary_of(failing("say ok 1 0"));
        assert!(summary.starts_with("ok"), "{summary}");
        let said = "integration: 7 passed, 1 failed: spoilt (spoilt: not within 60s: the end); \
                    FLAKY, passed alone 3 times\n";
        assert!(summary.contains(said), "{summary}");
    }

    #[test]
    fn a_test_that_found_a_defect_is_not_tried_again_and_has_failed() {
        for panic in ["doubled: 2 charges", "stuck after 60s: none", "uneven: 1"] {
            let summary = summary_of(ending_in(panic, "say ok 1 0"));
            assert!(summary.starts_with("FAILED"), "{summary}");
            let said = format!("(spoilt: {panic}); not tried again: spoilt did more than wait\n");
            assert!(summary.contains(&said), "{summary}");
        }
    }

    #[test]
    fn a_test_that_passes_alone_once_only_has_failed() {
        let marks = tempfile::tempdir().expect("a folder");
        let mark = marks.path().join("ran").display().to_string();
        let summary = summary_of(failing(&format!(
            "[ -e {mark} ] || {{ touch {mark}; say ok 1 0; }}"
        )));
        assert!(summary.starts_with("FAILED"), "{summary}");
    }

    #[test]
    fn a_test_that_is_not_found_again_has_failed() {
        let summary = summary_of(failing("say ok 0 0"));
        assert!(summary.starts_with("FAILED"), "{summary}");
        assert!(
            summary.contains("; alone: 0 passed, 0 failed\n"),
            "{summary}"
        );
    }

    #[test]
    fn many_tests_that_fail_are_not_tried_again() {
        let mut steps = Steps::default();
        steps.run_tests("integration", || {
            let mut command = Command::new("sh");
            let script = "for i in 1 2 3 4; do echo \"test t$i ... FAILED\"; done; exit 1";
            command.args(["-c", script, "tests"]);
            command
        });
        let summary = steps.summary("test");
        assert!(summary.contains("t3, t4\n"), "{summary}");
        assert!(steps.finish("test").is_err());
    }

    #[test]
    fn a_command_is_named_as_one_would_type_it() {
        let mut command = Command::new("/somewhere/bin/cargo");
        command.args(["test", "--workspace"]);
        assert_eq!(as_typed(&command), "cargo test --workspace");
    }
}
