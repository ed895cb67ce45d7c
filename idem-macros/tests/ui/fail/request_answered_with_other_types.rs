use idem_core::{Failed, Refused, Request, idempotent};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct CreateLease {
    name: String,
}

#[derive(Serialize, Deserialize)]
struct Lease {
    id: u64,
}

#[derive(Serialize, Deserialize)]
enum LeaseError {
    Taken,
}

impl Request for CreateLease {
    type Reply = Lease;
    type Error = LeaseError;
}

#[idempotent(key = "name")]
async fn another_error(request: CreateLease) -> Result<Lease, Failed> {
    drop(request.name);
    Err(Failed::rejected("taken"))
}

#[idempotent(key = "name")]
async fn another_reply(request: CreateLease) -> Result<u64, Refused<LeaseError>> {
    drop(request.name);
    Err(Refused::with(LeaseError::Taken))
}

type Answer = Result<Lease, Refused<String>>;

#[idempotent(key = "name")]
async fn another_refusal(request: CreateLease) -> Answer {
    drop(request.name);
    Err(Refused::rejected("taken"))
}

fn main() {}
