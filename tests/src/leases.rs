//! A contract of requests and replies, as a client and a worker would share it.

use idem_amqp::Request;
use serde::{Deserialize, Serialize};

/// Asks for the lease of a thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateLease {
    /// The thing's name.
    pub name: String,
}

/// The lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The thing's name.
    pub name: String,
    /// The lease's number.
    pub number: u64,
}

/// Why there is no lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum LeaseError {
    /// Somebody else has it.
    Taken {
        /// Who.
        by: String,
    },
}

impl Request for CreateLease {
    type Reply = Lease;
    type Error = LeaseError;
}

impl CreateLease {
    /// Asks for the lease of this thing.
    pub fn of(name: &str) -> Self {
        Self { name: name.into() }
    }
}
