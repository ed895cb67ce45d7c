use std::time::Duration;

use idem_amqp::{Client, PostgresStore, client::{Again, CallError}, prelude::*, session::{FileSessionStorage, Session, SessionError, Sessions, Unanswered}, sqlx::{PgConnection, self}};

use super::Error;
use contract::{CreateLease, Lease, LeaseError};

mod contract {
    use idem_core::Request;
    use serde::{Deserialize, Serialize};

    #[derive(Serialize, Deserialize)]
    pub struct CreateLease { pub name: String }

    #[derive(Serialize, Deserialize)]
    pub struct Lease { pub id: u64 }

    #[derive(Debug, Serialize, Deserialize)]
    pub enum LeaseError { Taken { by: String } }

    impl Request for CreateLease {
        type Reply = Lease;
        type Error = LeaseError;
    }
}

async fn call() -> Result<(), Error> {
    let leases = Client::connect("amqp://127.0.0.1:5672/%2f", "leases").await?;
    match leases.call(&CreateLease { name: "printer".into() }).await {
        Ok(lease) => println!("lease {} (replayed: {})", lease.reply.id, lease.replayed),
        Err(CallError::Refused(LeaseError::Taken { by })) => println!("{by} has it"),
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

async fn in_a_session(leases: Client) -> Result<(), Error> {
    let session = leases.session().open().await?;
    let lease = session.call(&CreateLease { name: "printer".into() }).await?;
    session.close().await?;
    drop(lease);
    Ok(())
}

async fn again(session: Session, request: CreateLease) -> Result<(), Error> {
    match session.call(&request).await {
        Err(CallError::Unknown { again: Again::Number(number), .. }) => {
            // Later, as often as it takes:
            let lease = session.resume::<CreateLease>(&number).await?;
            println!("lease {}", lease.reply.id);
        }
        answered => drop(answered?),
    }
    Ok(())
}

fn report(_: Vec<Unanswered>) {}

async fn after_a_restart(leases: Client) -> Result<(), Error> {
    let storage = FileSessionStorage::open("leases.session").await?;
    let session = match leases.session().resume_from(storage.clone()).await {
        Err(SessionError::Expired { unanswered, .. }) => {
            report(unanswered);     // handled or not: nobody can tell any more
            leases.session().keep_in(storage).open().await?
        }
        session => session?,
    };
    for request in session.unanswered() {
        let lease = session.resume::<CreateLease>(&request.number).await?;
        println!("lease {}", lease.reply.id);
    }
    Ok(())
}

async fn holder(_: &mut PgConnection, _: &str) -> Result<Option<String>, sqlx::Error> { Ok(None) }

async fn insert(_: &mut PgConnection, _: &str) -> Result<Lease, sqlx::Error> { Ok(Lease { id: 1 }) }

// The scope is durable: it stands in every key.
#[idempotent(key = message_id(), scope = "leases.create")]
async fn create_lease(
    request: CreateLease,
    db: &mut PgConnection,
) -> Result<Lease, Refused<LeaseError>> {
    if let Some(by) = holder(db, &request.name).await? {
        return Err(Refused::with(LeaseError::Taken { by }));
    }
    Ok(insert(db, &request.name).await?)
}

async fn serve(store: PostgresStore, amqp_url: &str) -> Result<(), Error> {
    Worker::builder(store)
        .consume_in_sessions::<create_lease>("leases", Sessions::default().window(5).life(Duration::from_mins(5)))
        .run_until(amqp_url, shutdown_signal())
        .await?;
    Ok(())
}

fn where_replies_may_go() {
    // idem's clients, and direct replies:
    let quotes = Queue::quorum("orders.quote").reply_to_prefixes(["amq.gen-", "amq.rabbitmq.reply-to."]);
    // No requests at all:
    let charges = Queue::quorum("orders.charge").no_replies();
    drop((quotes, charges));
}
