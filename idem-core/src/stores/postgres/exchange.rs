//! Statements that go out as one text, and the proof that what comes back is their answer.
//!
//! The ends of handlers' transactions are sent this way (`atomic`, `group`, `recorded_by`). The driver
//! reads one exchange's answer up to the server's word that it is ready for the next. Where it has
//! left such a word unread (after a `COPY` that failed, or whose end was cancelled), each further
//! answer comes one exchange late, and looks like any other.
//!
//! What must stay true: no answer is believed that does not bring back the exchange's own nonce.
//! Else a commit could be read from the answer to an earlier statement, though it never happened.
//! Once the nonce has come back, the rest of the answer is this exchange's, too, and nothing is
//! left unread behind it.

use std::fmt;

use futures_util::TryStreamExt as _;
use sqlx::{AssertSqlSafe, Either, PgConnection, Row as _, postgres::PgRow};

use crate::random;

/// A random number that goes out with one exchange, in a column `nonce`, and never with another. A
/// handler cannot guess it, so nothing of its own can bring it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Nonce(u128);

/// What came back of an exchange.
#[derive(Debug)]
pub(super) struct Answer {
    /// The row that brought the nonce; without it, nothing is known about any statement.
    pub(super) proof: Option<PgRow>,
    /// How many statements are known to be carried out, from the one with the nonce on. What came
    /// before the nonce may be the answer to something else, and is not counted.
    pub(super) done: usize,
    /// The first error. Without one, all statements are carried out, if there is a proof.
    pub(super) error: Option<sqlx::Error>,
}

impl Nonce {
    /// A nonce for one exchange.
    pub(super) fn new() -> Self {
        Self(u128::from_be_bytes(random::bytes()))
    }

    /// Whether the row brings this nonce. A row without such a column belongs to another statement.
    fn is_in(self, row: &PgRow) -> bool {
        let returned = row.try_get::<&str, _>("nonce");
        returned.is_ok_and(|returned| returned == self.to_string())
    }
}

/// Written as hexadecimal digits: none of them could end the literal that it stands in.
impl fmt::Display for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl Answer {
    /// The row that brought the nonce, if all statements were carried out.
    pub(super) fn whole(self) -> Result<PgRow, sqlx::Error> {
        match self {
            Self {
                error: Some(error), ..
            } => Err(error),
            Self {
                proof: Some(proof), ..
            } => Ok(proof),
            Self { proof: None, .. } => Err(late()),
        }
    }
}

/// The error when the answer is not the one to this exchange: nothing is known, and the connection
/// is of no use.
pub(super) fn late() -> sqlx::Error {
    sqlx::Error::Protocol(
        "the connection answers an earlier statement: the handler has left an answer unread, as the \
         driver does after a `COPY` that fails"
            .into(),
    )
}

/// Sends statements, of which one selects the nonce, and reads the answer to its end.
///
/// # Cancel safety
/// Dropped, the statements may be carried out, and part of their answer may be unread. The
/// connection must be closed.
pub(super) async fn send_and_read(
    connection: &mut PgConnection,
    statements: String,
    nonce: Nonce,
) -> Answer {
    let mut answers = sqlx::raw_sql(AssertSqlSafe(statements)).fetch_many(connection);
    let mut answer = Answer {
        proof: None,
        done: 0,
        error: None,
    };
    loop {
        match answers.try_next().await {
            Ok(Some(Either::Right(row))) if nonce.is_in(&row) => answer.proof = Some(row),
            // A statement's end. That of the one with the nonce is counted: its row comes before
            // its end.
            Ok(Some(Either::Left(_))) if answer.proof.is_some() => answer.done += 1,
            Ok(Some(_)) => {}
            Ok(None) => return answer,
            // The server skips the rest of the text after an error, so no more comes.
            Err(error) => {
                answer.error = Some(error);
                return answer;
            }
        }
    }
}
