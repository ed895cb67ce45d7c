//! The texts of a group, with what differs put in.

use std::fmt::Write as _;

use sqlx::{AssertSqlSafe, SqlSafeStr as _, SqlStr};

use super::seat::Member;
use crate::postgres::{atomic::hex, length::micros};

/// What is said between two members, with a savepoint of a name that no handler uses for its own.
#[derive(Debug)]
pub(in crate::postgres) struct Steps {
    /// What goes behind the begin of a transaction, up to the first member.
    begin: String,
    /// Makes room for the next member.
    pub(super) next: SqlStr,
    /// The same, after the first member.
    pub(super) second: SqlStr,
    /// Undoes what the last member has written, and makes room for the next.
    pub(super) undo: SqlStr,
}

impl Steps {
    pub(super) fn new() -> Self {
        let savepoint = format!("idem_{}", uuid::Uuid::new_v4().simple());
        let text = |text: &str| text.replace("{savepoint}", &savepoint);
        let step = |template| AssertSqlSafe(text(template)).into_sql_str();
        Self {
            begin: text(include_str!("begin.sql")),
            next: step(include_str!("next.sql")),
            second: step(include_str!("second.sql")),
            undo: step("ROLLBACK TO SAVEPOINT {savepoint}; RESET ROLE"),
        }
    }

    /// What begins a group.
    pub(in crate::postgres) fn begin(&self, begin: &SqlStr) -> SqlStr {
        let text = format!("{}{}", begin.as_str(), self.begin);
        AssertSqlSafe(text).into_sql_str()
    }
}

/// A group without members, rolled back.
pub(super) fn rehearsal(begin: &str, commit: &SqlStr) -> SqlStr {
    let Steps {
        begin: group, next, ..
    } = Steps::new();
    let end = complete(commit, &[], 0);
    let text = format!("{begin}{group}; {}; {end}", next.as_str());
    AssertSqlSafe(text.replace("COMMIT AND CHAIN", "ROLLBACK")).into_sql_str()
}

/// What completes all members and commits.
pub(super) fn commit(template: &SqlStr, members: &[&Member], skew: i64) -> SqlStr {
    AssertSqlSafe(complete(template, members, skew)).into_sql_str()
}

/// Nothing of a key or an outcome is put in but its hexadecimal digits.
fn complete(template: &SqlStr, members: &[&Member], skew: i64) -> String {
    let keys = |member: &Member| hex(member.lease.key.as_str().as_bytes());
    let outcomes = |member: &Member| hex(member.outcome.as_bytes());
    template
        .as_str()
        .replace("{skew}", &skew.to_string())
        .replace("{keys}", &array(members, keys))
        .replace("{tokens}", &array(members, |it| it.lease.token.get()))
        .replace("{outcomes}", &array(members, outcomes))
        .replace("{retentions}", &array(members, |it| micros(it.retention)))
}

fn array<T: std::fmt::Display>(members: &[&Member], column: impl Fn(&Member) -> T) -> String {
    let mut text = String::from("{");
    for (i, member) in members.iter().enumerate() {
        let comma = if i > 0 { "," } else { "" };
        // In quotes, because an outcome may be empty.
        write!(text, "{comma}\"{}\"", column(member)).expect("a string takes what is written");
    }
    text.push('}');
    text
}
