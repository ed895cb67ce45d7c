//! Asks before something is changed.

use std::io::{self, BufRead, IsTerminal as _, Write};

use crate::{arguments::Sure, error::Error};

/// Whether the operator wants this, who has said so already or is asked now. Where nobody can be
/// asked, it is not done.
pub(crate) fn confirm(question: &str, sure: &Sure) -> Result<(), Error> {
    if sure.yes {
        return Ok(());
    }
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        return Err(Error::NotConfirmed);
    }
    match ask(question, stdin.lock(), io::stderr()) {
        Ok(true) => Ok(()),
        Ok(false) | Err(_) => Err(Error::NotConfirmed),
    }
}

/// One answer counts, and whatever is not a yes is a no: so is the end of the input.
fn ask(question: &str, mut answers: impl BufRead, mut terminal: impl Write) -> io::Result<bool> {
    write!(terminal, "{question} [yes/no] ")?;
    terminal.flush()?;
    let mut answer = String::new();
    answers.read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "yes" | "y"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUESTION: &str = "Forget `orders.charge:o-1`?";

    /// Whether it is done, and what the operator sees.
    fn answered(typed: &str) -> (bool, String) {
        let mut seen = Vec::new();
        let done = ask(QUESTION, typed.as_bytes(), &mut seen).unwrap();
        (done, String::from_utf8(seen).unwrap())
    }

    #[test]
    fn a_yes_confirms_and_everything_else_does_not() {
        for (typed, expected) in [
            ("yes\n", true),
            ("y\n", true),
            (" yes \r\n", true),
            ("yes", true),
            ("n\n", false),
            ("no\n", false),
            ("\n", false),
            ("yesterday\n", false),
            ("no\nyes\n", false),
        ] {
            assert_eq!(answered(typed).0, expected, "{typed:?}");
        }
    }

    #[test]
    fn the_end_of_the_input_confirms_nothing() {
        assert!(!answered("").0);
    }

    #[test]
    fn the_question_is_asked_once_on_a_line_that_waits_for_the_answer() {
        let (_, seen) = answered("perhaps\n");
        assert_eq!(seen, format!("{QUESTION} [yes/no] "));
    }
}
