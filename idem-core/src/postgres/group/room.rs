//! What a group's members find and leave: an open transaction, with a savepoint for each of them.

use sqlx::{Connection as _, Row as _, postgres::PgRow};

use super::{
    ending::{self, Lost},
    seat::Member,
    statement::{self, Steps},
};
use crate::postgres::{
    atomic::{self, Connection, OpenTransaction},
    exchange::{Nonce, carry_out},
    fault::Fault,
    session::Address,
    template::Template,
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
        let kept = self.step(step);
        let proof = address.within_patience(kept).await?;
        let number = is_first.then(|| proof.try_get("number"));
        Ok(number.transpose()?)
    }

    /// Undoes what the last one has written. What the driver has prepared goes, too: it may be what
    /// the handler failed of.
    pub(super) async fn undo(&mut self, steps: &Steps, address: &Address) -> Result<(), Lost> {
        let undone = async {
            self.step(&steps.undo).await?;
            self.open.connection().clear_cached_statements().await
        };
        let undone = address.within_patience(undone).await;
        undone.map_err(ending::of)
    }

    /// What it answers is the answer to this step, and not to a statement of the last member's.
    async fn step(&mut self, template: &Template) -> Result<PgRow, sqlx::Error> {
        let nonce = Nonce::new();
        let statements = statement::step(template, nonce);
        carry_out(self.open.connection(), statements, nonce)
            .await
            .whole()
    }

    /// Ends the transaction with a commit.
    pub(super) async fn commit(
        &mut self,
        address: &Address,
        statements: String,
        nonce: Nonce,
    ) -> Result<Connection, Fault> {
        let committed = async {
            let connection = self.open.connection();
            let (committed, connection) = atomic::commit(connection, statements, nonce).await;
            committed.map(|()| connection)
        };
        address.within_patience(committed).await
    }
}
