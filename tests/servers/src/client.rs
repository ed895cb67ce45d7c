//! The command of a server's client where somebody else has started the server: `rabbitmqctl`, `psql`.

use std::{env, process::Command};

/// A program that a server is administered with.
#[derive(Debug)]
pub(crate) struct Client {
    name: &'static str,
    /// The variable that holds another command.
    pub(crate) variable: &'static str,
    /// In the container of compose.yaml.
    of_compose: &'static str,
}

pub(crate) const RABBITMQCTL: Client = Client {
    name: "rabbitmqctl",
    variable: "RABBITMQCTL",
    of_compose: "docker compose exec -T rabbitmq rabbitmqctl",
};

pub(crate) const PSQL: Client = Client {
    name: "psql",
    variable: "PSQL",
    of_compose: "docker compose exec -T postgres psql",
};

impl Client {
    /// What the variable holds; else this machine's program, if it is installed and there are arguments that lead it to
    /// the server; else the program beside the server in its container.
    pub(crate) fn command(&self, from_here: Option<&[&str]>) -> Command {
        let given = env::var(self.variable).ok();
        self.chosen(
            given.as_deref(),
            from_here.filter(|_| is_installed(self.name)),
        )
    }

    fn chosen(&self, given: Option<&str>, from_here: Option<&[&str]>) -> Command {
        if let (None, Some(arguments)) = (given, from_here) {
            let mut command = Command::new(self.name);
            command.args(arguments);
            return command;
        }
        let mut words = given.unwrap_or(self.of_compose).split_ascii_whitespace();
        let mut command = Command::new(words.next().unwrap_or(self.name));
        command.args(words);
        command
    }
}

fn is_installed(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_is_given_goes_before_the_machines_own_and_that_before_the_containers() {
        let chosen = |given, from_here| format!("{:?}", PSQL.chosen(given, from_here));
        let here: Option<&[&str]> = Some(&["--port", "5432"]);
        let given = r#""podman" "exec" "db" "psql""#;
        assert_eq!(chosen(Some("podman exec db psql"), here), given);
        assert_eq!(chosen(None, here), r#""psql" "--port" "5432""#);
        let in_container = r#""docker" "compose" "exec" "-T" "postgres" "psql""#;
        assert_eq!(chosen(None, None), in_container);
    }

    #[test]
    fn a_program_along_the_path_is_installed() {
        assert!(is_installed("sh"));
        assert!(!is_installed("sh-of-nobody"));
    }
}
