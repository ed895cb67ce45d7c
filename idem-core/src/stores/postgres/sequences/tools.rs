//! What every step of a batch needs: the statements and the clock.

use std::sync::Arc;

use super::statements::Statements;
use crate::stores::{postgres::sql::Sql, server_clock::Clock};

/// What one task's batches are made with. Each task has its own; what is in it is shared.
pub(super) struct Tools {
    /// About sequences.
    pub(super) statements: Arc<Statements>,
    /// About records: the ordinary claim is among them.
    pub(super) sql: Arc<Sql>,
    /// What tests have added to the server's clock.
    pub(super) clock: Clock,
}
