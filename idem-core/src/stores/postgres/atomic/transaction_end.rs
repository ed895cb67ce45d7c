//! How a transaction ends, and what the server's answer means.
//!
//! `atomic`, `group`, `batch_commit` and `recorded_by` end their transactions by it. What must stay true:
//!
//! - A commit counts as done only if its own answer says so.
//! - Nothing is called refused that may be committed.
//! - A connection is clean only if the answer to its clean-up was seen.

use std::borrow::Cow;

use sqlx::{
    Connection as _, PgConnection, Row as _,
    error::DatabaseError,
    postgres::{PgDatabaseError, PgSeverity},
};

use crate::{
    store::{Finished, StoreError},
    stores::postgres::{
        exchange::{self, Nonce, send_and_read},
        fault::{Fault, LOCKED},
        template::{Template, bare},
    },
};

/// What is known of a connection after its transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::stores::postgres) enum Connection {
    /// All that the handler may have left behind is gone: it may be lent again.
    Clean,
    /// Nobody has seen that. It is not vouched for, so the pool closes it.
    Unknown,
}

/// How many statements of a `commit.sql` are done when the transaction is committed, from the one with the nonce on.
const COMMITTED: usize = 2;

/// How many answers to earlier statements are read, one for each time of asking, until the server's own comes.
const LATE_ANSWERS: usize = 1000;

/// The SQLSTATE with which `idem_records_complete_one` refuses a lease that is not the current one, and
/// `idem_records_move_mark` a mark that was moved before, too.
const FENCED: &str = "IDEM2";

/// The SQLSTATEs of `idle_in_transaction_session_timeout`, and of `transaction_timeout` of PostgreSQL 17. With these
/// the server ends a session whose handler keeps its transaction open for too long.
pub(in crate::stores::postgres) const OVERDUE: [&str; 2] = ["25P03", "25P04"];

/// Completes, commits and cleans up, in one round trip. An error is one that came before the commit
/// was answered.
pub(in crate::stores::postgres) async fn commit(
    connection: &mut PgConnection,
    statements: String,
    nonce: Nonce,
) -> (Result<(), sqlx::Error>, Connection) {
    let answer = send_and_read(connection, statements, nonce).await;
    match answer.error {
        // All of it was carried out, the clean-up included.
        None if answer.proof.is_some() => (Ok(()), Connection::Clean),
        // What came back was the answer to something earlier.
        None => (Err(exchange::late()), Connection::Unknown),
        // The error came after the commit: only the clean-up has failed.
        Some(error) if answer.done >= COMMITTED => {
            tracing::debug!(%error, "a handler's connection could not be cleaned up");
            (Ok(()), Connection::Unknown)
        }
        // The server reads nothing behind an error, so nothing was committed, unless it was the connection that broke.
        Some(error) => (Err(error), Connection::Unknown),
    }
}

/// Rolls back and cleans up. What the driver has prepared goes, too: it may be what the attempt
/// failed of, because a table was altered or the handler has deallocated it.
pub(super) async fn roll_back(
    connection: &mut PgConnection,
    template: &Template,
) -> Result<(), sqlx::Error> {
    let nonce = Nonce::new();
    let statements = template.fill(&[("nonce", &nonce)]);
    // The text rolls back with `AND CHAIN`, so a transaction is open again when this has been answered.
    send_and_read(connection, statements, nonce).await.whole()?;
    if !connection.is_in_transaction() {
        // It would leave the one open that is begun behind the rollback.
        return Err(sqlx::Error::Protocol(
            "the driver has ended the handler's transaction".into(),
        ));
    }
    connection.clear_cached_statements().await
}

/// Whether a failure can be blamed on the handler: its session is there, and one that can write. What it has
/// written is rolled back, because nothing is answered in a transaction that is aborted.
///
/// What comes back first may be answers to the handler's statements. Asking once more reads one more of them, and what
/// they say of the server is as old as they are.
pub(super) async fn is_writable(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    let nonce = Nonce::new();
    let statements = bare(include_str!("is_writable.sql")).replace("{nonce}", &nonce.to_string());
    for _ in 0..LATE_ANSWERS {
        let answer = send_and_read(connection, statements.clone(), nonce).await;
        // Its own answer, an end of the session, or an answer to something earlier: then it is asked once more.
        match (answer.proof, answer.error) {
            (Some(proof), _) => return proof.try_get("is_writable"),
            (None, Some(error)) if has_ended(&error) => return Err(error),
            (None, _) => {}
        }
    }
    Err(exchange::late())
}

/// Whether nothing more comes on a connection, going by an error on it.
fn has_ended(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Database(said) => {
            let said = said.try_downcast_ref::<PgDatabaseError>();
            // An `ERROR` fails a statement, and the session goes on. Anything above it ends the session.
            said.is_none_or(|said| said.severity() != PgSeverity::Error)
        }
        // The driver's own, about an answer that it did not expect: the next one may be the right one.
        sqlx::Error::Protocol(_) => false,
        _ => true,
    }
}

/// What an error means that came before the commit was answered: the lease is over, the attempt has failed, or nobody
/// knows.
pub(in crate::stores::postgres) fn read_commit_error(
    error: sqlx::Error,
) -> Result<Finished, StoreError> {
    let said = error
        .as_database_error()
        .and_then(|error| error.try_downcast_ref::<PgDatabaseError>());
    match said {
        Some(said) if said.code() == FENCED => Ok(Finished::Fenced),
        // The session has ended, before the commit: only in one that waits, or runs, is it ended by these.
        Some(said) if OVERDUE.contains(&said.code()) => Ok(refused(said.message())),
        // The transaction is aborted, and the session goes on.
        Some(said) if said.severity() == PgSeverity::Error => Ok(refused(explained(said))),
        // The session has ended, perhaps after the commit.
        _ => Err(Fault::from(error).unavailable()),
    }
}

/// The same, of a transaction that moves the mark of a stream. Where the function that does is missing, nothing is
/// committed.
pub(super) fn read_move_error(error: sqlx::Error) -> Result<Finished, StoreError> {
    if lacks_function(&error) {
        let cure = "the store's tables lack the function that moves marks: let their owner run `idem migrate`";
        return Err(StoreError::Refused(cure.into()));
    }
    read_commit_error(error)
}

/// Tables of an earlier version have none. The function of a trigger may be missing as well, and the server names it.
fn lacks_function(error: &sqlx::Error) -> bool {
    let said = error.as_database_error();
    said.is_some_and(|said| {
        said.code().as_deref() == Some("42883") && said.message().contains("_move_mark")
    })
}

/// Whether the server only objects that the lease is not the current one.
pub(in crate::stores::postgres) fn is_fenced(error: &sqlx::Error) -> bool {
    let said = error.as_database_error();
    said.and_then(DatabaseError::code).as_deref() == Some(FENCED)
}

/// Certainly not committed: the attempt has failed of this.
fn refused(error: impl Into<String>) -> Finished {
    Finished::Refused {
        error: error.into(),
    }
}

/// The server's words, or ours where these say too little to whoever has written the handler.
fn explained(said: &PgDatabaseError) -> Cow<'_, str> {
    let message = said.message();
    match said.code() {
        "25P02" => "the handler went on after an error of the database, which had aborted its \
                    transaction"
            .into(),
        "40001" | "40P01" => format!(
            "another transaction was in the way of the handler's, which may succeed next time: \
             {message}"
        )
        .into(),
        LOCKED => format!(
            "another transaction kept the commit waiting for too long, for example one that publishes in the \
             same order and stays open: {message}"
        )
        .into(),
        _ => message.into(),
    }
}
