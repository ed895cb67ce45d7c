//! What records have in common that start one after the other.

use bytes::Bytes;
use idem_core::Key;

/// A lane of a partition.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Lane {
    /// Of all its records.
    Partition,
    /// Of those with this record key.
    RecordKey(Bytes),
    /// Of those that the handler orders by this.
    OrderedBy(Key),
}
