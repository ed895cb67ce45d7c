//! What an error of the server or of the way to it means for the one who asked.
//!
//! Sessions and batches ask for the [`Remedy`]. What must stay true:
//!
//! - A statement is repeated only if nothing of it has happened, or if it does no harm twice.
//! - A fault of one row never fails the calls about others.
//! - What is not known is reported as unknown (`StoreError::Unavailable`), never as done or not done.

use std::{borrow::Cow, error::Error, fmt, io::ErrorKind, sync::Arc, time::Duration};

use crate::{message::Key, store::StoreError};

/// What went wrong for a whole batch, told to each of its callers.
#[derive(Debug, Clone)]
pub(super) enum Fault {
    /// The driver or the server has said what.
    Said(Arc<sqlx::Error>),
    /// Nothing was heard for this long. The statement may have been carried out, or may be still.
    Silent(Duration),
    /// Nothing was sent, and nothing will be sent for this long, because too much was left unanswered.
    Resting(Duration),
}

/// `lock_not_available`: a row, or an order of the outbox, stayed locked for longer than `lock_timeout`.
pub(super) const LOCKED: &str = "55P03";

/// `undefined_table`.
const MISSING_TABLE: &str = "42P01";

/// `insufficient_privilege`.
const MISSING_RIGHT: &str = "42501";

/// The code with which the schema's functions refuse a transaction that the handler has ended by
/// itself: what `atomic/begin.sql` has set is gone then.
const OWN_END: &str = "IDEM1";

/// What to do about a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Remedy {
    /// Nothing has happened, and asking again at once may help: a transaction of others was in the
    /// way.
    Repeat,
    /// The connection is of no use any more, and another one may be. Whether the statement was
    /// carried out is not known.
    Reconnect,
    /// The server is fine and nothing has happened: one of these rows is refused or locked, and the
    /// others can go without it.
    Divide,
    /// Neither helps: the caller is told. The connection is as good as before.
    Report,
}

impl Fault {
    /// What a caller is told if nothing is known about its call.
    pub(super) fn unavailable(&self) -> StoreError {
        if self.is_missing_right() {
            return StoreError::Refused(Box::new(self.clone()));
        }
        StoreError::unavailable(self.clone())
    }

    /// What it means for the one call that a divided batch is left with: its row is locked, or
    /// refused.
    pub(super) fn about(&self, key: &Key) -> StoreError {
        // A lock ends by itself, so the call is worth another try. A refused row needs a person.
        if self.is_locked() {
            return self.unavailable();
        }
        StoreError::Corrupt {
            key: key.to_string(),
            source: Box::new(self.clone()),
        }
    }

    /// Whether a table is not there.
    pub(super) fn is_missing_table(&self) -> bool {
        self.code().as_deref() == Some(MISSING_TABLE)
    }

    /// Whether the role may not do this.
    pub(super) fn is_missing_right(&self) -> bool {
        self.code().as_deref() == Some(MISSING_RIGHT)
    }

    /// Whether a column or a function is not there, or has another type.
    pub(super) fn is_of_another_form(&self) -> bool {
        // undefined_column, undefined_function, datatype_mismatch, cannot_coerce
        matches!(
            self.code().as_deref(),
            Some("42703" | "42883" | "42804" | "42846")
        )
    }

    /// Whether somebody has kept a row locked for longer than the statement waits.
    pub(super) fn is_locked(&self) -> bool {
        self.code().as_deref() == Some(LOCKED)
    }

    /// Whether the driver's pool could not connect for so long that it gave up. It does not say
    /// why.
    pub(super) fn is_of_the_pool(&self) -> bool {
        matches!(self, Self::Said(error) if matches!(**error, sqlx::Error::PoolTimedOut))
    }

    /// Whether a transaction was to be ended that was not the handler's any more, because it had
    /// ended it by itself.
    pub(super) fn is_own_end(&self) -> bool {
        self.code().as_deref() == Some(OWN_END)
    }

    /// Whether the server cannot read a value as one of its type, or the type does not have it.
    pub(super) fn is_about_the_value(&self) -> bool {
        let code = self.code();
        matches!(
            code.as_deref().and_then(|code| code.get(..2)),
            Some("22" | "23")
        )
    }

    /// Whether a connection was there, and has ended: by its other end, or by the server in words. Nobody listening is
    /// another matter, and so is a server that takes no session for now.
    pub(super) fn was_cut(&self) -> bool {
        let Self::Said(error) = self else {
            return false;
        };
        match &**error {
            sqlx::Error::Io(error) => matches!(
                error.kind(),
                ErrorKind::UnexpectedEof
                    | ErrorKind::ConnectionReset
                    | ErrorKind::ConnectionAborted
                    | ErrorKind::BrokenPipe
            ),
            // The end of the stream, where the driver expects an answer to its question for TLS.
            sqlx::Error::Protocol(_) => true,
            sqlx::Error::Database(error) => error.code().is_some_and(|code| is_end(&code)),
            _ => false,
        }
    }

    /// The SQLSTATE, if the server has answered with an error.
    fn code(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Said(error) => error.as_database_error()?.code(),
            Self::Silent(_) | Self::Resting(_) => None,
        }
    }

    /// What to do about it.
    pub(super) fn remedy(&self) -> Remedy {
        match self {
            Self::Silent(_) => Remedy::Reconnect,
            Self::Resting(_) => Remedy::Report,
            Self::Said(error) => match &**error {
                sqlx::Error::Database(error) => {
                    error.code().map_or(Remedy::Report, |code| remedy(&code))
                }
                // The link or the driver's view of it is broken: what comes next over it may be
                // anything.
                sqlx::Error::Io(_)
                | sqlx::Error::Tls(_)
                | sqlx::Error::Protocol(_)
                | sqlx::Error::WorkerCrashed => Remedy::Reconnect,
                _ => Remedy::Report,
            },
        }
    }
}

/// Whether the server has ended the session, or takes none now, by this SQLSTATE.
fn is_end(code: &str) -> bool {
    // admin_shutdown, crash_shutdown; not cannot_connect_now, which lasts.
    matches!(code, "57P01" | "57P02") || code.starts_with("08")
}

/// What helps after this SQLSTATE. Decided by the code, because the server's messages are
/// translated.
fn remedy(code: &str) -> Remedy {
    match code {
        // serialization_failure, deadlock_detected
        "40001" | "40P01" => Remedy::Repeat,
        // read_only_sql_transaction: this is a standby now, and the primary is elsewhere.
        "25006"
        // admin_shutdown, crash_shutdown, cannot_connect_now, idle timeouts
        | "57P01" | "57P02" | "57P03" | "57P05" | "25P03"
        // Prepared statements that are not there, are there already, or answer otherwise since
        // the table was altered: prepared anew, they work.
        | "26000" | "42P05" | "0A000" => Remedy::Reconnect,
        // Not `Repeat`: whoever keeps the row locked may do so for long, and all the others of the
        // batch would wait for it again.
        LOCKED => Remedy::Divide,
        _ => match code.get(..2) {
            // Connection exceptions and insufficient resources.
            Some("08" | "53") => Remedy::Reconnect,
            // Data exceptions, integrity constraints, views' check options, limits exceeded, and
            // exceptions that a trigger has raised: all of them are about a row.
            Some("22" | "23" | "44" | "54" | "P0") => Remedy::Divide,
            _ => Remedy::Report,
        },
    }
}

/// What a caller is told if nothing is known about its call, from anything that can become a [`Fault`].
pub(super) fn unavailable(fault: impl Into<Fault>) -> StoreError {
    fault.into().unavailable()
}

impl From<sqlx::Error> for Fault {
    fn from(error: sqlx::Error) -> Self {
        Self::Said(Arc::new(error))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Said(error) => error.fmt(f),
            Self::Silent(patience) => write!(f, "the server did not answer within {patience:?}"),
            Self::Resting(pause) => write!(
                f,
                "the server has left statements unanswered and is not asked for {pause:?}"
            ),
        }
    }
}

impl Error for Fault {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            // `Display` shows the error as a whole already; as a source, it would be shown twice.
            Self::Said(_) | Self::Silent(_) | Self::Resting(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sqlstate_says_what_helps() {
        let table = [
            (Remedy::Repeat, ["40001", "40P01"].as_slice()),
            (
                Remedy::Reconnect,
                &[
                    "25006", "57P01", "57P02", "57P03", "53300", "08006", "26000",
                ],
            ),
            (
                Remedy::Divide,
                &["22021", "23514", "54000", "P0001", "55P03"],
            ),
            (Remedy::Report, &["42P01", "42501", "57014", "XX000"]),
        ];
        for (expected, codes) in table {
            for code in codes {
                assert_eq!(remedy(code), expected, "{code}");
            }
        }
    }
}
