//! Stores that can tell by a constraint of the handler's own table what was handled.

use std::error::Error;

use super::{Lease, StoreError, TransactionalStore};
use crate::handler::RecordedRow;

/// A store in whose database a unique constraint of the handler's own table can record what was
/// handled: its errors name the constraint that was violated.
///
/// It opens [`Open::Recorded`](super::Open::Recorded), and ends such a transaction by
/// [`Finish::Record`](super::Finish::Record).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot tell by a constraint what was handled, as `recorded_by` asks for",
    label = "this store's database does not name the constraint that was violated",
    note = "`recorded_by` needs `PostgresStore` or `SqliteStore`",
    note = "without `recorded_by`, the handler runs on any store that can lend a `&mut {Tx}`"
)]
pub trait RecordedByStore<Tx>: TransactionalStore<Tx> {
    /// Looks whether the constraint can record what was handled, by a key of so many parts.
    ///
    /// # Errors
    /// If it cannot, or the store cannot tell.
    fn check(
        &self,
        constraint: &'static str,
        columns: usize,
    ) -> impl Future<Output = Result<(), RecordedByError>> + Send;

    /// Whether this error, or what caused it, is the violation of exactly this constraint.
    fn violates(&self, error: &(dyn Error + 'static), entity: &RecordedRow) -> bool;

    /// Whether the entity is there, committed. If so, and there is a lease, its record is removed.
    ///
    /// # Errors
    /// If the store cannot tell.
    fn is_recorded(
        &self,
        entity: &RecordedRow,
        lease: Option<&Lease>,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send;
}

/// Why a constraint cannot record what was handled.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum RecordedByError {
    /// It is not there, or not of the kind.
    #[error("`{constraint}` cannot record what was handled: {reason}")]
    Unfit {
        /// The constraint's name.
        constraint: String,
        /// Why, and what to do.
        reason: String,
    },
    /// The store could not be asked.
    #[error("the store could not be asked about `{constraint}`")]
    Store {
        /// The constraint's name.
        constraint: String,
        /// What the store said.
        #[source]
        source: StoreError,
    },
}

crate::debug_as_chain!(RecordedByError);
