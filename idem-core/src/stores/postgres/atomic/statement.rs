//! The texts that complete, move marks and extend, with what differs put in.
//!
//! `atomic` sends them, and `check` rehearses them when the store connects. What must stay true: nothing of a key, an
//! outcome, a stream or a message is read as SQL. The completion shares one message with `COMMIT`, and only a text
//! without parameters can hold both, so its values stand in the text itself: as numbers and hexadecimal digits, which
//! mean the same under each setting that a handler may have made.

use std::time::Duration;

use crate::{
    handler::Outgoing,
    store::{Completion, Lease, MarkMove},
    stores::{
        postgres::{
            exchange::Nonce,
            length::micros,
            link::Statement,
            outbox::{sent, sent_by},
            sql::Sql,
            template::Hex,
        },
        rows::number,
    },
};

/// What completes, fenced by the token, and commits. What the handler has published is inserted before that, and the
/// mark of its stream is moved, in the same transaction.
pub(in crate::stores::postgres) fn completion(
    sql: &Sql,
    completion: &Completion<'_>,
    skew: i64,
    nonce: Nonce,
) -> String {
    let Completion { lease, outcome, .. } = completion;
    sql.commit.fill(&[
        // Empty where nothing was published.
        ("sent", &sent(sql, &[*completion], skew)),
        // Empty where no mark is moved. The function's error ends the text before the completion.
        (
            "moved",
            &completion
                .mark
                .map_or_else(String::new, |it| moved(sql, it)),
        ),
        ("key", &Hex(lease.key.as_str().as_bytes())),
        // The function refuses any but the current one. Its error ends the text before `COMMIT`.
        ("token", &lease.token.get()),
        ("outcome", &Hex(outcome.as_bytes())),
        ("retention", &micros(completion.retention)),
        // What tests add to the server's clock; 0 otherwise.
        ("skew", &skew),
        // It comes back with the answer, and proves that it is the answer to this.
        ("nonce", &nonce),
    ])
}

/// The part that moves a mark together with a completion.
fn moved(sql: &Sql, mark: MarkMove<'_>) -> String {
    sql.moved.fill(&[
        ("stream", &Hex(mark.lease.stream.as_str().as_bytes())),
        ("token", &mark.lease.token.get()),
        ("from", &number(mark.from)),
        ("to", &number(mark.to)),
    ])
}

/// What moves a mark, fenced by the token and by where the mark is, and commits. What the handler has published is
/// inserted before that.
pub(in crate::stores::postgres) fn move_mark(
    sql: &Sql,
    mark: MarkMove<'_>,
    outgoing: &[Outgoing],
    skew: i64,
    nonce: Nonce,
) -> String {
    sql.move_mark.fill(&[
        ("sent", &sent_by(sql, outgoing, skew)),
        ("stream", &Hex(mark.lease.stream.as_str().as_bytes())),
        ("token", &mark.lease.token.get()),
        ("from", &number(mark.from)),
        ("to", &number(mark.to)),
        ("nonce", &nonce),
    ])
}

/// What extends the lease of an open transaction, from another connection. It shares its message with nothing, so its
/// values are parameters, and the server keeps its plan.
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
        store::StreamLease,
        stores::postgres::{names::Names, pooler::ServerProcess},
    };

    #[test]
    fn nothing_of_a_stream_is_read_as_sql() {
        let names = Names::new(None, "idem_records").unwrap();
        let sql = Sql::new(&names, Duration::from_secs(10), ServerProcess::Own);
        let stream = Key::new("s", "'; {from} \\' DROP").unwrap();
        let lease = StreamLease::new(stream, FencingToken::new(-7));
        let mark = MarkMove::new(&lease, 3, u64::MAX);
        let alone = move_mark(&sql, mark, &[], 0, Nonce::new());
        for text in [alone, moved(&sql, mark)] {
            let (_, call) = text.split_once("move_mark\"('").unwrap();
            let (stream, rest) = call.split_once("', ").unwrap();
            assert!(
                stream.bytes().all(|byte| byte.is_ascii_hexdigit()),
                "{stream}"
            );
            assert!(
                rest.starts_with("'-7', '3', '9223372036854775807')"),
                "{rest}"
            );
        }
    }

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
