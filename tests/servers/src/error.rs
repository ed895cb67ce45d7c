//! What can go wrong with a server, or with a task that runs on some, in words that say what to do.

use std::{io, path::PathBuf, process::Output};

/// Why a task or a private server could not do its work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Something has to be installed, set or started first; the text says what.
    #[error("{0}")]
    Missing(String),

    /// The operating system refused something.
    #[error("cannot {doing}")]
    Io {
        /// What was being done, to be read after "cannot".
        doing: String,
        /// The refusal itself.
        source: io::Error,
    },

    /// A command ended with a failure.
    #[error("`{command}` failed ({status}){output}")]
    Command {
        /// The command as one would type it.
        command: String,
        /// Its exit status.
        status: String,
        /// What it printed, on lines of its own; may be empty.
        output: String,
    },

    /// A private server did not do what was asked of it.
    #[error("{what}\n--- the end of {} ---\n{tail}", log.display())]
    Server {
        /// What it did not do.
        what: String,
        /// Where its log is, or was: the folder goes away with the server.
        log: PathBuf,
        /// The last lines of that log.
        tail: String,
    },

    /// Everything ran, and the result is not the one that is promised.
    #[error("{0}")]
    Unmet(String),
}

/// The result of a task, or of what is asked of a server.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// The error and what caused it, in one line.
    pub fn with_causes(&self) -> String {
        let error: &(dyn std::error::Error + 'static) = self;
        let causes = std::iter::successors(error.source(), |cause| cause.source());
        causes.fold(self.to_string(), |text, cause| format!("{text}: {cause}"))
    }

    /// What to make of the refusal of `doing`, which is read after "cannot".
    pub fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io { doing, source }
    }

    /// A command that has failed, as one would type it, and what it printed.
    pub fn command(command: impl Into<String>, output: &Output) -> Self {
        let text = [&output.stdout[..], &output.stderr[..]].concat();
        let text = String::from_utf8_lossy(&text);
        let text = text.trim();
        Self::Command {
            command: command.into(),
            status: output.status.to_string(),
            output: if text.is_empty() {
                String::new()
            } else {
                format!("\n{text}")
            },
        }
    }
}
