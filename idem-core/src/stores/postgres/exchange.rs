//! Statements that go out as one text, and the proof that what comes back is their answer.
//!
//! The driver reads one exchange's answer up to the server's word that it is ready for the next. Where it has left
//! such a word unread (after a `COPY` that failed, or whose end was cancelled), each further answer comes one exchange
//! late, and looks like any other. So nothing is believed that does not bring back the exchange's own nonce. Once that
//! has come back, the rest of the answer is this exchange's, too, and nothing is left unread behind it.

use std::fmt;

use futures_util::TryStreamExt as _;
use sqlx::{AssertSqlSafe, Either, PgConnection, Row as _, postgres::PgRow};

use crate::random;

/// Goes out with one exchange, in a column of this name, and never with another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Nonce(u128);

/// What came back of an exchange.
#[derive(Debug)]
pub(super) struct Answer {
    /// The row that brought the nonce.
    pub(super) proof: Option<PgRow>,
    /// How many statements are known to be carried out, from the one with the nonce on.
    pub(super) done: usize,
    /// Without one, all statements are, if there is a proof.
    pub(super) error: Option<sqlx::Error>,
}

impl Nonce {
    pub(super) fn new() -> Self {
        Self(u128::from_be_bytes(random::bytes()))
    }

    fn is_in(self, row: &PgRow) -> bool {
        let told = row.try_get::<&str, _>("nonce");
        told.is_ok_and(|told| told == self.to_string())
    }
}

impl fmt::Display for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl Answer {
    /// The row that brought the nonce, if all was carried out.
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

/// What an answer means that is not the one to this exchange: nothing is known.
pub(super) fn late() -> sqlx::Error {
    sqlx::Error::Protocol(
        "the connection answers an earlier statement: the handler has left an answer unread, as the \
         driver does after a `COPY` that fails"
            .into(),
    )
}

/// Sends statements, of which one selects the nonce, and reads the answer to its end.
pub(super) async fn carry_out(
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
            Ok(Some(Either::Left(_))) if answer.proof.is_some() => answer.done += 1,
            Ok(Some(_)) => {}
            Ok(None) => return answer,
            Err(error) => {
                answer.error = Some(error);
                return answer;
            }
        }
    }
}
