//! The texts of a group, with what differs put in.

use std::fmt::{Display, Write as _};

use sqlx::{AssertSqlSafe, SqlSafeStr as _, SqlStr};

use super::mark::Mark;
use crate::{
    random,
    store::Completion,
    stores::postgres::{
        exchange::Nonce,
        length::micros,
        outbox::sent,
        sql::Sql,
        template::{Hex, Template, bare},
    },
};

/// What is said between two members, with a savepoint of a name that no handler uses for its own.
#[derive(Debug)]
pub(in crate::stores::postgres) struct Steps {
    /// What goes behind the begin of a transaction, up to the first member.
    pub(in crate::stores::postgres) begin: String,
    /// Makes shared for the next member.
    pub(super) next: Template,
    /// Undoes what the last member has written, and makes shared for the next.
    pub(in crate::stores::postgres) undo: Template,
}

impl Steps {
    pub(in crate::stores::postgres) fn new() -> Self {
        let savepoint = format!("idem_{}", random::name());
        let text = |text: &str| bare(text).replace("{savepoint}", &savepoint);
        let step = |template| Template::new(&text(template));
        Self {
            begin: text(include_str!("begin.sql")),
            next: step(include_str!("next.sql")),
            undo: step("ROLLBACK TO SAVEPOINT {savepoint}; RESET ROLE; SELECT '{nonce}' AS nonce"),
        }
    }
}

/// A group without members, rolled back.
pub(super) fn rehearsal(begin: &str, sql: &Sql) -> SqlStr {
    let Steps {
        begin: group, next, ..
    } = Steps::new();
    let (nonce, mark) = (Nonce::new(), Mark::new());
    let next = step(&next, nonce, &mark.put_into(&sql.group_mark));
    let end = complete_all(sql, &[], 0, nonce, Some(mark));
    let text = format!("{begin}{group}; {next}; {end}; ROLLBACK");
    AssertSqlSafe(text.replace("COMMIT AND CHAIN", "ROLLBACK AND CHAIN")).into_sql_str()
}

/// One of the steps between two members, with what sets the mark, if anything does.
pub(super) fn step(template: &Template, nonce: Nonce, mark: &str) -> String {
    template.fill(&[("nonce", &nonce), ("mark", &mark)])
}

/// What completes all keys and commits. Nothing of a key or an outcome is put in but its hexadecimal digits. What was
/// published is written in the order of the members, and keys are locked in their own.
pub(in crate::stores::postgres) fn complete_all(
    sql: &Sql,
    members: &[Completion<'_>],
    skew: i64,
    nonce: Nonce,
    mark: Option<Mark>,
) -> String {
    let sent = sent(sql, members, skew);
    let mut members = members.to_vec();
    members.sort_by_key(|it| it.lease.key.as_str());
    let members = &members;
    let unmark = mark.map(|mark| mark.put_into(&sql.group_unmark));
    sql.commit_group.fill(&[
        ("sent", &sent),
        (
            "keys",
            &array(members, |it| Hex(it.lease.key.as_str().as_bytes())),
        ),
        ("tokens", &array(members, |it| it.lease.token.get())),
        ("outcomes", &array(members, |it| Hex(it.outcome.as_bytes()))),
        ("retentions", &array(members, |it| micros(it.retention))),
        ("skew", &skew),
        ("unmark", &unmark.unwrap_or_default()),
        ("nonce", &nonce),
    ])
}

fn array<'a, T: Display>(
    members: &[Completion<'a>],
    column: impl Fn(&Completion<'a>) -> T,
) -> String {
    let mut text = String::from("{");
    for (i, member) in members.iter().enumerate() {
        let comma = if i > 0 { "," } else { "" };
        // In quotes, because an outcome may be empty.
        write!(text, "{comma}\"{}\"", column(member)).expect("a string takes what is written");
    }
    text.push('}');
    text
}
