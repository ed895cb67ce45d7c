#![deny(warnings)]

use idem_core::{Failed, Refused, Request, handler::Handler, idempotent};
use serde::{Deserialize, Serialize};

mod contract {
    use super::{Deserialize, Request, Serialize};

    #[derive(Serialize, Deserialize)]
    pub struct CreateLease {
        pub name: String,
    }

    #[derive(Serialize, Deserialize)]
    pub struct Lease {
        pub id: u64,
    }

    #[derive(Serialize, Deserialize)]
    pub enum LeaseError {
        Taken,
    }

    impl Request for CreateLease {
        type Reply = Lease;
        type Error = LeaseError;
    }
}

use contract::{CreateLease, Lease, LeaseError};

#[idempotent(key = "name", max_outcome = 1024)]
async fn create(request: CreateLease) -> Result<Lease, Refused<LeaseError>> {
    if request.name.is_empty() {
        return Err(Refused::with(LeaseError::Taken));
    }
    Ok(Lease { id: request.name.parse()? })
}

type Answer = Result<Lease, Refused<LeaseError>>;

fn first_form(output: &[u8]) -> Result<Lease, serde_json::Error> {
    Ok(Lease { id: serde_json::from_slice(output)? })
}

#[idempotent(key = "name", scope = "leases.aliased", outdated = first_form)]
async fn aliased(request: CreateLease) -> Answer {
    drop(request.name);
    Ok(Lease { id: 1 })
}

#[derive(Serialize)]
struct WriteOnly;

#[derive(Deserialize)]
struct Order {
    order_id: String,
}

// Nothing is asked of the handler of another message.
#[idempotent(key = "order_id")]
async fn charge(order: Order) -> Result<WriteOnly, Failed> {
    drop(order.order_id);
    Ok(WriteOnly)
}

fn consume<H: Handler<()>>() {}

fn main() {
    consume::<create>();
    consume::<aliased>();
    consume::<charge>();
}
