//! The tests that need a broker, with several versions of it and types of queues.

use std::process::Command;

use super::{
    cargo_with,
    choice::{Choice, name, one_or_all},
    servers::Servers,
    steps::Steps,
    with_threads,
};
use crate::{
    cargo::Workspace,
    chaos::Queues,
    install,
    services::rabbitmq::{Generation, VERSION_VARIABLE},
};

/// The variable that names the type of the queues that the integration tests use: `quorum`, also
/// if it is not set, or `classic`.
pub const QUEUES_VARIABLE: &str = "IDEM_TEST_QUEUES";

/// What to test with. Without any of these, all tests run.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Only the tests that need a broker, with RabbitMQ 3.10, 4.0, 4.3 or all of them, got once and
    /// kept in a cache where this machine has another
    #[arg(long, value_name = "VERSION", value_parser = one_or_all::<Generation>)]
    rabbitmq: Option<Choice<Generation>>,
    /// Only the tests that need a broker, with queues of the type quorum, classic or all [default:
    /// quorum]
    #[arg(long, value_name = "TYPE", value_parser = one_or_all::<Queues>)]
    queues: Option<Choice<Queues>>,
}

impl Options {
    pub(super) fn ask_for_a_part(&self) -> bool {
        self.rabbitmq.is_some() || self.queues.is_some()
    }

    /// `None` is the machine's own.
    fn generations(&self) -> Vec<Option<Generation>> {
        let Some(chosen) = &self.rabbitmq else {
            return vec![None];
        };
        chosen.values().into_iter().map(Some).collect()
    }

    fn queues(&self) -> Vec<Queues> {
        let chosen = self.queues.as_ref().map(Choice::values);
        chosen.unwrap_or_else(|| vec![Queues::Quorum])
    }
}

/// For each version the integration tests with each type of queue, and the tests of private brokers.
pub(super) fn run(workspace: &Workspace, options: &Options, steps: &mut Steps) {
    for generation in options.generations() {
        let asked_for = generation.as_ref().map_or_else(String::new, name);
        let found = steps.attempt(&format!("find RabbitMQ {asked_for}"), || match generation {
            Some(generation) => install::rabbitmq_of(generation),
            None => install::installed_rabbitmq(),
        });
        let Some(program) = found else { continue };
        let version = program.version();
        let test = |package_and_test: &str| {
            let arguments = format!("test --package {package_and_test}");
            of_generation(cargo_with(workspace, &arguments), generation)
        };
        let servers = Servers::start(steps, Some(&program));
        for queues in options.queues().iter().map(name) {
            let what = format!("integration, RabbitMQ {version}, {queues} queues");
            steps.run_tests(&what, || {
                let mut tests = test("idem-tests --test integration");
                servers.hand_to(&mut tests);
                tests.env(QUEUES_VARIABLE, &queues);
                tests
            });
        }
        drop(servers);
        let what = format!("private brokers, RabbitMQ {version}");
        steps.run_tests(&what, || test("xtask --test servers rabbitmq"));
    }
}

fn of_generation(mut tests: Command, generation: Option<Generation>) -> Command {
    if let Some(generation) = generation {
        tests.env(VERSION_VARIABLE, name(&generation));
    }
    with_threads(tests)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn options(words: &[&str]) -> Options {
        Line::parse_from([&["test"], words].concat()).options
    }

    #[test]
    fn a_version_or_a_type_alone_is_combined_with_the_usual_of_the_other() {
        assert!(!options(&[]).ask_for_a_part());

        let versions = options(&["--rabbitmq", "all"]);
        assert!(versions.ask_for_a_part());
        assert_eq!(versions.generations(), Generation::ALL.map(Some));
        assert_eq!(versions.queues(), [Queues::Quorum]);

        let types = options(&["--queues", "classic"]);
        assert!(types.ask_for_a_part());
        assert_eq!(types.generations(), [None]);
        assert_eq!(types.queues(), [Queues::Classic]);
    }
}
