//! What the lease server and its clients agree on: nothing but types, with serde and `idem-core`.

use idem_core::Request;
use serde::{Deserialize, Serialize};

/// Asks for a lease on a name. Asking twice is an error, unless it is the same request.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CreateLease {
    /// What is to be leased: a printer, say.
    pub name: String,
    /// Who is to have it.
    pub holder: String,
}

/// The lease, as it was granted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// Counts the leases.
    pub id: i64,
}

/// Why there is no lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum LeaseError {
    /// Somebody has one on that name.
    Taken {
        /// Who it is.
        by: String,
    },
}

impl Request for CreateLease {
    type Reply = Lease;
    type Error = LeaseError;
}
