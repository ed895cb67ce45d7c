//! Asks before something is changed.

use std::io::{self, IsTerminal as _, Write as _};

use crate::{arguments::Sure, error::Error};

/// Whether the operator wants this, who has said so already or is asked now. Where nobody can be
/// asked, it is not done.
pub(crate) fn confirm(question: &str, sure: &Sure) -> Result<(), Error> {
    if sure.yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        return Err(Error::NotConfirmed);
    }
    eprint!("{question} [yes/no] ");
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    match answer.trim() {
        "yes" | "y" => Ok(()),
        _ => Err(Error::NotConfirmed),
    }
}
