//! What every step of a batch needs: the statements and the clock.

use std::sync::Arc;

use super::statements::Statements;
use crate::stores::postgres::{clock::Clock, sql::Sql};

/// The statements that a batch of claims is made of, and the clock by which it decides.
pub(super) struct Tools {
    pub(super) statements: Arc<Statements>,
    pub(super) sql: Arc<Sql>,
    pub(super) clock: Clock,
}
