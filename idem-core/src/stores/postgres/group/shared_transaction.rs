//! The open transaction of a group, with a savepoint for each member.
//!
//! `GroupRunner` has it between two members. What must stay true: each step is vouched for by the
//! nonce that it carried, so that no answer to a member's own statement is taken for it.

use sqlx::Connection as _;

use super::{
    lost::{self, Lost},
    slot::GroupMember,
    statement::{self, Steps},
};
use crate::stores::postgres::{
    atomic::{self, Connection, PooledTransaction},
    exchange::{Nonce, send_and_read},
    fault::Fault,
    link::Address,
    template::Template,
};

pub(super) struct SharedTransaction {
    pub(super) open: PooledTransaction,
    pub(super) last: Last,
}

/// What the last one who had the slot has left.
pub(super) enum Last {
    Nothing,
    Success(GroupMember),
    Failure,
}

impl Last {
    pub(super) fn into_success(self) -> Option<GroupMember> {
        match self {
            Self::Success(member) => Some(member),
            Self::Nothing | Self::Failure => None,
        }
    }

    pub(super) fn success(&self) -> Option<&GroupMember> {
        match self {
            Self::Success(member) => Some(member),
            Self::Nothing | Self::Failure => None,
        }
    }
}

impl SharedTransaction {
    /// Nobody has been there.
    pub(super) fn new(open: PooledTransaction) -> Self {
        let last = Last::Nothing;
        Self { open, last }
    }

    /// Keeps what the last one has written, with what sets the mark, if anything does.
    pub(super) async fn keep(
        &mut self,
        steps: &Steps,
        address: &Address,
        mark: &str,
    ) -> Result<(), Fault> {
        let kept = self.step(&steps.next, mark);
        address.within_timeout(kept).await
    }

    /// Undoes what the last one has written. What the driver has prepared goes, too: it may be what
    /// the handler failed of.
    pub(super) async fn undo(&mut self, steps: &Steps, address: &Address) -> Result<(), Lost> {
        let undone = async {
            self.step(&steps.undo, "").await?;
            self.open.connection().clear_cached_statements().await
        };
        let undone = address.within_timeout(undone).await;
        undone.map_err(lost::of)
    }

    /// What it answers is the answer to this step, and not to a statement of the last member's.
    async fn step(&mut self, template: &Template, mark: &str) -> Result<(), sqlx::Error> {
        let nonce = Nonce::new();
        let statements = statement::step(template, nonce, mark);
        let answer = send_and_read(self.open.connection(), statements, nonce).await;
        answer.whole().map(drop)
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
        address.within_timeout(committed).await
    }
}
