//! The texts of a group, with what differs put in.

use std::fmt::Write as _;

use sqlx::{AssertSqlSafe, SqlSafeStr as _, SqlStr};

use super::seat::Member;
use crate::postgres::{atomic::hex, length::micros};

/// Makes room for the next member.
pub(super) const NEXT: &str = include_str!("next.sql");
/// The same, after the first member.
pub(super) const SECOND: &str = include_str!("second.sql");
/// Undoes what the last member has written, and makes room for the next.
pub(super) const UNDO: &str = "ROLLBACK TO SAVEPOINT idem_member; RESET ROLE";

/// What begins a group, up to the first member.
pub(in crate::postgres) fn begin(begin: &SqlStr) -> SqlStr {
    let text = format!("{}{}", begin.as_str(), include_str!("begin.sql"));
    AssertSqlSafe(text).into_sql_str()
}

/// A group without members, rolled back.
pub(super) fn rehearsal(begin: &str, commit: &SqlStr) -> SqlStr {
    let group = include_str!("begin.sql");
    let text = format!("{begin}{group}; {NEXT}; {}", complete(commit, &[], 0));
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
