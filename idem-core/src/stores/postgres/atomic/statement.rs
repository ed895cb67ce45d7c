//! The texts that complete and extend, with what differs put in.

use std::time::Duration;

use crate::{
    store::{Completion, Lease},
    stores::postgres::{
        exchange::Nonce, length::micros, link::Statement, outbox::sent, sql::Sql, template::Hex,
    },
};

/// What completes and commits. Nothing of key or outcome is put in but its hexadecimal digits.
pub(in crate::stores::postgres) fn completion(
    sql: &Sql,
    completion: &Completion<'_>,
    skew: i64,
    nonce: Nonce,
) -> String {
    let Completion { lease, outcome, .. } = completion;
    sql.commit.fill(&[
        ("sent", &sent(&sql.send, &[*completion], skew)),
        ("key", &Hex(lease.key.as_str().as_bytes())),
        ("token", &lease.token.get()),
        ("outcome", &Hex(outcome.as_bytes())),
        ("retention", &micros(completion.retention)),
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
    use crate::{
        handler::{FencingToken, Outcome},
        message::Key,
        stores::postgres::{names::Names, pooler::ServerProcess},
    };

    #[test]
    fn nothing_of_a_key_or_an_outcome_is_read_as_sql() {
        let names = Names::new(None, "idem_records").unwrap();
        let sql = Sql::new(&names, Duration::from_secs(10), ServerProcess::Own);
        let key = Key::new("s", "'; {outcome} \\' DROP").unwrap();
        let lease = Lease::new(key, FencingToken::new(-7), 1, false);
        let outcome = Outcome::new("'{token}\0");
        let done = Completion::new(&lease, &outcome, Duration::from_secs(1));
        let text = completion(&sql, &done, 0, Nonce::new());
        let (_, call) = text.split_once("complete_one\"('").unwrap();
        let (key, rest) = call.split_once("', ").unwrap();
        assert!(key.bytes().all(|byte| byte.is_ascii_hexdigit()), "{key}");
        assert!(
            rest.starts_with("'-7', '277b746f6b656e7d00', '1000000', '0')"),
            "{rest}"
        );
    }
}
