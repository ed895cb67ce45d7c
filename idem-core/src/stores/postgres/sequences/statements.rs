//! The statements about sequences, with the names of the schema and the table put in.
//!
//! The SQL stands in files beside this one; `step` sends it. What must stay true: every statement
//! here is also in `check`, so that a table that lacks a column, or a role that lacks a right, is
//! found when the store connects and not at a message.

use std::time::Duration;

use sqlx::{PgConnection, SqlStr};

use crate::{
    random,
    store::rules::sequence::Sequence,
    stores::{
        postgres::{check, link::Statement, names::Names, sessions::lock_wait},
        rows::number,
    },
};

/// One text for each file, the same for as long as the store lives.
pub(crate) struct Statements {
    /// Begins the transaction, and sets for how long it waits for a lock.
    pub(super) begin_step: SqlStr,
    /// Locks the rows of sequences.
    pub(super) lock: SqlStr,
    /// Inserts the rows of sequences that begin.
    pub(super) begin: SqlStr,
    /// Begins a sequence in the row of one that has expired.
    pub(super) begin_anew: SqlStr,
    /// How numbers stand.
    pub(super) standings: SqlStr,
    /// Writes a sequence, removes the records that the mark has passed, lists the exceptions.
    pub(super) save: SqlStr,
    /// Keeps records for as long as their sequence.
    pub(super) keep: SqlStr,
    /// What is known of numbers below the mark.
    pub(super) below: SqlStr,
    /// Removes exceptions of sequences that have expired, and then the sequences themselves.
    pub(super) purge_exceptions: SqlStr,
    pub(super) purge: SqlStr,
}

impl Statements {
    /// The statements for these names. A lock is waited for only for a part of the response
    /// time-out, so that there is time left to divide the batch and answer the other claims.
    pub(super) fn new(names: &Names, response_timeout: Duration) -> Self {
        let begin_step = include_str!("../sessions/begin.sql")
            .replace("{lock_timeout}", &lock_wait(response_timeout));
        Self {
            begin_step: names.put_into(&begin_step),
            lock: names.put_into(include_str!("lock.sql")),
            begin: names.put_into(include_str!("begin.sql")),
            begin_anew: names.put_into(include_str!("begin_anew.sql")),
            standings: names.put_into(include_str!("standings.sql")),
            save: names.put_into(include_str!("save.sql")),
            keep: names.put_into(include_str!("keep.sql")),
            below: names.put_into(include_str!("below.sql")),
            purge_exceptions: names.put_into(include_str!("purge_exceptions.sql")),
            purge: names.put_into(include_str!("purge.sql")),
        }
    }

    /// Fails unless the tables answer as this version's do, and this role may use them.
    pub(super) async fn check(&self, connection: &mut PgConnection) -> Result<(), sqlx::Error> {
        // A key of its own: stores that start at once must not wait for each other's row.
        let key = format!("idem~{}", random::name());
        // A statement about that key, with so many numbers as parameters.
        let of_key = |sql: &SqlStr, numbers: usize| {
            let query = sqlx::query(sql.clone()).bind(key.clone());
            (0..numbers).fold(query, |query, _| query.bind(0_i64))
        };
        let none: [i64; 0] = [];
        // Whatever it says: nothing of the rehearsal stays.
        let sequence = Sequence {
            joined: 0,
            mark: 0,
            window: 0,
            ahead_since: 0,
            ahead_at: 0,
            look_by: 0,
            expires_at: 0,
        };
        let statements = vec![
            lock(&self.lock, &[&key], 0),
            // First what changes the records, in the order in which the tables are created. Another
            // store may be creating them, and two that lock tables in different orders could wait
            // for each other.
            of_key(&self.keep, 4),
            of_key(&self.save, 6).bind(none).bind(none),
            begin(&self.begin, &[(&key, &sequence)]),
            of_key(&self.begin_anew, 4),
            of_key(&self.standings, 2),
            below(&self.below, &[(&key, 0)], 0),
            sqlx::query(self.purge_exceptions.clone())
                .bind(0_i64)
                .bind(0_i64),
            sqlx::query(self.purge.clone()).bind(0_i64).bind(0_i64),
        ];
        check::rehearse(connection, &self.begin_step, statements).await
    }
}

/// Locks these sequences. `skew` is what tests add to the server's clock, in microseconds.
pub(super) fn lock(sql: &SqlStr, keys: &[&str], skew: i64) -> Statement {
    sqlx::query(sql.clone()).bind(texts(keys)).bind(skew)
}

/// Begins these sequences, each at the number that it was first seen with.
pub(super) fn begin(sql: &SqlStr, begun: &[(&str, &Sequence)]) -> Statement {
    let keys: Vec<&str> = begun.iter().map(|(key, _)| *key).collect();
    let of = |column: fn(&Sequence) -> i64| -> Vec<i64> {
        begun.iter().map(|(_, begun)| column(begun)).collect()
    };
    sqlx::query(sql.clone())
        .bind(texts(&keys))
        .bind(of(|begun| number(begun.joined)))
        .bind(of(|begun| begun.window.into()))
        .bind(of(|begun| begun.look_by))
        .bind(of(|begun| begun.expires_at))
}

/// Asks for what is known of these numbers, each of one sequence.
pub(super) fn below(sql: &SqlStr, places: &[(&str, u64)], skew: i64) -> Statement {
    let keys: Vec<&str> = places.iter().map(|(key, _)| *key).collect();
    let numbers: Vec<i64> = places.iter().map(|(_, of)| number(*of)).collect();
    sqlx::query(sql.clone())
        .bind(texts(&keys))
        .bind(numbers)
        .bind(skew)
}

/// Owned, because a [`Statement`] outlives what it was made of.
fn texts(keys: &[&str]) -> Vec<String> {
    keys.iter().copied().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_placeholder_is_left() {
        let names = Names::new(Some("shop"), "dedup").unwrap();
        let sql = Statements::new(&names, Duration::from_secs(10));
        for text in [
            &sql.begin_step,
            &sql.lock,
            &sql.begin,
            &sql.begin_anew,
            &sql.standings,
            &sql.save,
            &sql.keep,
            &sql.below,
            &sql.purge_exceptions,
            &sql.purge,
        ] {
            assert!(!text.as_str().contains(['{', '}']), "{}", text.as_str());
        }
    }
}
