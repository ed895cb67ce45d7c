//! The tests that need a broker, with several versions of it and types of queues.

use std::process::Command;

use idem_servers::{
    install,
    rabbitmq::{Generation, QUEUES_VARIABLE, VERSION_VARIABLE},
};

use super::{MANY, as_tests, cargo_with, servers, steps::Steps};
use crate::cargo::Workspace;

const ALL: &str = "all";

/// What to test with. Without any of these, all tests run.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Only the tests that need a broker, with RabbitMQ 3.10, 4.0, 4.3 or all of them, got once and
    /// kept in a cache where this machine has another
    #[arg(long, value_name = "VERSION", value_parser = ["3.10", "4.0", "4.3", ALL])]
    rabbitmq: Option<String>,
    /// Only the tests that need a broker, with queues of the type quorum, classic or all [default:
    /// quorum]
    #[arg(long, value_name = "TYPE", value_parser = ["quorum", "classic", ALL])]
    queues: Option<String>,
}

impl Options {
    pub(super) fn ask_for_a_part(&self) -> bool {
        self.rabbitmq.is_some() || self.queues.is_some()
    }

    /// `None` is the machine's own.
    fn generations(&self) -> Vec<Option<Generation>> {
        match self.rabbitmq.as_deref() {
            Some(ALL) => Generation::ALL.map(Some).to_vec(),
            Some(name) => vec![Generation::named(name)],
            None => vec![None],
        }
    }

    fn queues(&self) -> Vec<&str> {
        match self.queues.as_deref() {
            Some(ALL) => vec!["quorum", "classic"],
            Some(name) => vec![name],
            None => vec!["quorum"],
        }
    }
}

/// For each version the integration tests with each type of queue, and the tests of private brokers.
pub(super) fn run(workspace: &Workspace, options: &Options, steps: &mut Steps) {
    for generation in options.generations() {
        let asked_for = generation.map_or_else(String::new, |it| it.version().to_string());
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
        let servers = servers::start(steps, Some(&program));
        for queues in options.queues() {
            let what = format!("integration, RabbitMQ {version}, {queues} queues");
            steps.run_tests(&what, || {
                let mut tests = test("idem-tests --test integration");
                servers.hand_to(&mut tests);
                tests.env(QUEUES_VARIABLE, queues);
                tests
            });
        }
        drop(servers);
        let what = format!("private brokers, RabbitMQ {version}");
        steps.run_tests(&what, || test("idem-servers --test servers rabbitmq"));
    }
}

fn of_generation(mut tests: Command, generation: Option<Generation>) -> Command {
    if let Some(generation) = generation {
        tests.env(VERSION_VARIABLE, generation.version().to_string());
    }
    as_tests(tests, MANY)
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
        assert_eq!(versions.queues(), ["quorum"]);

        let types = options(&["--queues", "classic"]);
        assert!(types.ask_for_a_part());
        assert_eq!(types.generations(), [None]);
        assert_eq!(types.queues(), ["classic"]);
    }

    #[test]
    fn each_version_is_known_by_its_name() {
        for generation in Generation::ALL {
            let name = generation.version().to_string();
            let chosen = options(&["--rabbitmq", &name]);
            assert_eq!(chosen.generations(), [Some(generation)]);
        }
        assert!(Line::try_parse_from(["test", "--rabbitmq", "4.1"]).is_err());
    }
}
