//! The texts that begin, commit and roll back, with what differs put in.

use std::{fmt::Write as _, time::Duration};

use crate::{
    handler::Outcome,
    store::Lease,
    stores::postgres::{
        exchange::Nonce,
        length::micros,
        pooler::Sessions,
        session::{KEEPALIVES, Statement},
        sql::Sql,
        template::{Hex, Template, bare},
    },
};

/// What begins a transaction. The server ends it if the handler sends nothing for `idle`. Unless the
/// connection has keepalives, they are set for the transaction, and so the locks of a host that has
/// vanished are free after 25 s.
pub(in crate::stores::postgres) fn begin(
    idle: Option<Duration>,
    has_keepalives: bool,
    sessions: Sessions,
) -> String {
    let access = match sessions {
        Sessions::Own => " READ WRITE",
        Sessions::Shared => "",
    };
    let mut text = bare(include_str!("begin.sql")).replace("{access}", access);
    if !has_keepalives {
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

/// Outside of a transaction that is begun to write, the session only reads: a handler whose transaction has ended,
/// or was ended by the driver, would otherwise go on with commits of its own.
pub(in crate::stores::postgres) const ONLY_READS: &str = "SET default_transaction_read_only = on";

/// What a handler's session is set back to: a file's statements with the access that it had before.
pub(in crate::stores::postgres) fn reset(file: &str, sessions: Sessions) -> String {
    let access = match sessions {
        Sessions::Own => format!(" {ONLY_READS};"),
        Sessions::Shared => String::new(),
    };
    file.replace("{access}", &access)
}

/// What lets the statements of a transaction wait for a lock for at most so long. There are as many
/// texts as there are leases among the handlers.
pub(in crate::stores::postgres) fn lock_timeout(wait: Duration) -> String {
    format!("; SET LOCAL lock_timeout = {}", millis(wait))
}

/// As a setting takes it; zero would be for ever.
fn millis(duration: Duration) -> u128 {
    duration
        .as_millis()
        .clamp(1, i32::MAX.unsigned_abs().into())
}

/// What completes and commits. Nothing of key or outcome is put in but its hexadecimal digits.
pub(super) fn commit(
    template: &Template,
    lease: &Lease,
    outcome: &Outcome,
    retention: Duration,
    skew: i64,
    nonce: Nonce,
) -> String {
    template.fill(&[
        ("key", &Hex(lease.key.as_str().as_bytes())),
        ("token", &lease.token.get()),
        ("outcome", &Hex(outcome.as_bytes())),
        ("retention", &micros(retention)),
        ("skew", &skew),
        ("nonce", &nonce),
    ])
}

/// What extends the lease of an open transaction, from another connection.
pub(in crate::stores::postgres) fn extension(
    sql: &Sql,
    lease: &Lease,
    by: Duration,
    skew: i64,
) -> Statement {
    sqlx::query(sql.extend_open.clone())
        .bind(skew)
        .bind(lease.key.as_str().to_owned())
        .bind(lease.token.get())
        .bind(micros(by))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{handler::FencingToken, message::Key};

    #[test]
    fn nothing_of_a_key_or_an_outcome_is_read_as_sql() {
        let template = Template::new("{key} {token} {retention} {skew} {outcome}");
        let key = Key::new("s", "'; {outcome} \\' DROP").unwrap();
        let lease = Lease::new(key, FencingToken::new(-7), 1, false);
        let outcome = Outcome::new("'{token}\0");
        let retention = Duration::from_secs(1);
        let text = commit(&template, &lease, &outcome, retention, 0, Nonce::new());
        let (key, rest) = text.split_once(' ').unwrap();
        assert!(key.bytes().all(|byte| byte.is_ascii_hexdigit()), "{key}");
        assert_eq!(rest, "-7 1000000 0 277b746f6b656e7d00");
    }

    #[test]
    fn keepalives_are_set_for_a_transaction_only_if_its_connection_has_none() {
        assert!(!begin(None, true, Sessions::Own).contains("tcp_"));
        let text = begin(None, false, Sessions::Own);
        for (name, value) in KEEPALIVES {
            assert!(
                text.contains(&format!("; SET LOCAL {name} = {value}")),
                "{text}"
            );
        }
    }

    #[test]
    fn a_session_that_others_use_is_not_set() {
        let text = begin(None, true, Sessions::Shared);
        assert!(text.starts_with("BEGIN;"), "{text}");
        let file = include_str!("reset.sql");
        assert!(!reset(file, Sessions::Shared).contains("read_only"));
        assert!(reset(file, Sessions::Own).contains(ONLY_READS));
    }

    #[test]
    fn an_idle_transaction_ends_only_if_that_is_asked_for() {
        assert!(!begin(None, true, Sessions::Own).contains("idle_in_transaction"));
        let text = begin(Some(Duration::from_secs(90)), true, Sessions::Own);
        assert!(text.ends_with("; SET LOCAL idle_in_transaction_session_timeout = 90000"));
    }
}
