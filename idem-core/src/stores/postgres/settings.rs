//! What the session of an atomic handler is set to, before its transaction and after it.
//!
//! The builder and `Sql` make their texts here, once for each store. What must stay true:
//!
//! - A handler that writes outside of idem's transaction is refused.
//! - A transaction whose host has vanished ends, and frees its locks.
//! - The texts are always the same, so that the server's statistics show few statements.

use std::{fmt::Write as _, time::Duration};

use super::{link::KEEPALIVES, pooler::ServerProcess, template::bare};

/// What begins a transaction. `idle` is for how long the handler may send nothing before the server
/// ends it; `None` leaves that to the server's own setting.
///
/// Unless the connection has keepalives, they are set for the transaction. So the locks of a host
/// that has vanished are free after 25 s.
pub(super) fn begin(
    idle: Option<Duration>,
    has_keepalives: bool,
    process: ServerProcess,
) -> String {
    let access = match process {
        // The session only reads by default (see `ONLY_READS`), and this transaction is the
        // exception.
        ServerProcess::Own => " READ WRITE",
        // Behind a pooler the session is not set, so the server's own default holds.
        ServerProcess::Shared => "",
    };
    let mut text = bare(include_str!("atomic/begin.sql")).replace("{access}", access);
    if !has_keepalives {
        // `SET LOCAL`: behind a pooler the session is somebody else's after the commit.
        for (name, value) in KEEPALIVES {
            write!(text, "; SET LOCAL {name} = {value}").expect("a string takes what is written");
        }
    }
    if let Some(idle) = idle {
        let millis = millis(idle);
        write!(
            text,
            "; SET LOCAL idle_in_transaction_session_timeout = {millis}"
        )
        .expect("a string takes what is written");
    }
    text
}

/// Outside of a transaction that is begun to write, the session only reads. Otherwise a handler
/// whose transaction has ended, or was ended by the driver, would go on with commits of its own:
/// they would stay when the attempt fails, and be made again by the next one.
// docs/decisions/0031
pub(super) const ONLY_READS: &str = "SET default_transaction_read_only = on";

/// What a handler's session is set back to: a file's statements, and reading only behind the
/// `RESET ALL` that would take it away.
pub(super) fn reset(file: &str, process: ServerProcess) -> String {
    let access = match process {
        ServerProcess::Own => format!(" {ONLY_READS};"),
        ServerProcess::Shared => String::new(),
    };
    file.replace("{access}", &access)
}

/// What lets the statements of a transaction wait for a lock for at most so long. There are as many
/// texts as there are different leases among the handlers.
pub(super) fn lock_timeout(wait: Duration) -> String {
    format!("; SET LOCAL lock_timeout = {}", millis(wait))
}

/// Milliseconds as a setting takes them: at least 1, because 0 would mean "for ever".
fn millis(duration: Duration) -> u128 {
    duration
        .as_millis()
        .clamp(1, i32::MAX.unsigned_abs().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keepalives_are_set_for_a_transaction_only_if_its_connection_has_none() {
        assert!(!begin(None, true, ServerProcess::Own).contains("tcp_"));
        let text = begin(None, false, ServerProcess::Own);
        for (name, value) in KEEPALIVES {
            assert!(
                text.contains(&format!("; SET LOCAL {name} = {value}")),
                "{text}"
            );
        }
    }

    #[test]
    fn a_session_that_others_use_is_not_set() {
        let text = begin(None, true, ServerProcess::Shared);
        assert!(text.starts_with("BEGIN;"), "{text}");
        let file = include_str!("atomic/reset.sql");
        assert!(!reset(file, ServerProcess::Shared).contains("read_only"));
        assert!(reset(file, ServerProcess::Own).contains(ONLY_READS));
    }

    #[test]
    fn an_idle_transaction_ends_only_if_that_is_asked_for() {
        assert!(!begin(None, true, ServerProcess::Own).contains("idle_in_transaction"));
        let text = begin(Some(Duration::from_secs(90)), true, ServerProcess::Own);
        assert!(text.ends_with("; SET LOCAL idle_in_transaction_session_timeout = 90000"));
    }
}
