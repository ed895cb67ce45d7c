//! The texts that complete and extend, with what differs put in.

use std::time::Duration;

use crate::{
    handler::Outcome,
    store::Lease,
    stores::postgres::{
        exchange::Nonce,
        length::micros,
        link::Statement,
        sql::Sql,
        template::{Hex, Template},
    },
};

/// What completes and commits. Nothing of key or outcome is put in but its hexadecimal digits.
pub(in crate::stores::postgres) fn completion(
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
        let text = completion(&template, &lease, &outcome, retention, 0, Nonce::new());
        let (key, rest) = text.split_once(' ').unwrap();
        assert!(key.bytes().all(|byte| byte.is_ascii_hexdigit()), "{key}");
        assert_eq!(rest, "-7 1000000 0 277b746f6b656e7d00");
    }
}
