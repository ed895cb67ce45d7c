//! What a group's members find and leave: an open transaction, with a savepoint for each of them.

use sqlx::{Connection as _, Row as _};

use super::{
    ending::{self, Lost},
    seat::Member,
    statement::Steps,
};
use crate::postgres::{
    atomic::{self, Connection, OpenTransaction},
    fault::Fault,
    session::Address,
};

pub(super) struct Room {
    pub(super) open: OpenTransaction,
    pub(super) last: Last,
}

/// What the last one who had the seat has left.
pub(super) enum Last {
    Nothing,
    Success(Member),
    Failure,
}

impl Last {
    pub(super) fn into_success(self) -> Option<Member> {
        match self {
            Self::Success(member) => Some(member),
            Self::Nothing | Self::Failure => None,
        }
    }

    pub(super) fn success(&self) -> Option<&Member> {
        match self {
            Self::Success(member) => Some(member),
            Self::Nothing | Self::Failure => None,
        }
    }
}

impl Room {
    /// Nobody has been there.
    pub(super) fn new(open: OpenTransaction) -> Self {
        let last = Last::Nothing;
        Self { open, last }
    }

    /// Keeps what the last one has written. After the first one, the server tells the transaction's
    /// number.
    pub(super) async fn keep(
        &mut self,
        steps: &Steps,
        address: &Address,
        is_first: bool,
    ) -> Result<Option<String>, Fault> {
        let step = if is_first { &steps.second } else { &steps.next };
        let text = step.clone();
        let kept = sqlx::raw_sql(text).fetch_all(self.open.connection());
        let rows = address.within_patience(kept).await?;
        let number = rows.first().map(|row| row.try_get(0)).transpose()?;
        Ok(number)
    }

    /// Undoes what the last one has written. What the driver has prepared goes, too: it may be what
    /// the handler failed of.
    pub(super) async fn undo(&mut self, steps: &Steps, address: &Address) -> Result<(), Lost> {
        let undo = steps.undo.clone();
        let connection = self.open.connection();
        let undone = async {
            sqlx::raw_sql(undo).execute(&mut *connection).await?;
            connection.clear_cached_statements().await
        };
        let undone = address.within_patience(undone).await;
        undone.map_err(ending::of)
    }

    /// Ends the transaction with a commit.
    pub(super) async fn commit(
        &mut self,
        address: &Address,
        statements: String,
    ) -> Result<Connection, Fault> {
        let committed = async {
            let (committed, connection) = atomic::commit(self.open.connection(), statements).await;
            committed.map(|()| connection)
        };
        address.within_patience(committed).await
    }
}
