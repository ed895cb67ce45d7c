//! Scopes, by which the keys of handlers are told apart.

use idem_amqp::{MemoryStore, Worker, WorkerError, prelude::*};
use idem_tests::script::Order;

/// Handlers of one name, in two modules of one package.
mod cards {
    use super::*;

    #[idempotent(key = "id")]
    pub(super) async fn handle(order: Order) -> Result<(), Failed> {
        drop(order.id);
        Ok(())
    }
}

mod mails {
    use super::*;

    #[idempotent(key = "id")]
    pub(super) async fn handle(order: Order) -> Result<(), Failed> {
        drop(order.id);
        Ok(())
    }
}

/// What one of them had done would be a duplicate to the other.
#[test]
fn two_handlers_of_one_name_are_refused_until_one_has_a_scope_of_its_own() {
    let worker = Worker::builder(MemoryStore::new());
    let worker = worker.consume::<cards::handle>("cards");
    let built = worker
        .consume::<mails::handle>("mails")
        .build("amqp://localhost");
    let error = built.expect_err("it is refused");
    let WorkerError::ScopeTwice { scope, one, other } = &error else {
        panic!("{error}");
    };
    assert_eq!(scope, "idem-tests.handle");
    assert!(one.ends_with("cards::handle"), "{one}");
    assert!(other.ends_with("mails::handle"), "{other}");
    assert!(error.to_string().contains("scope = "), "{error}");
}
