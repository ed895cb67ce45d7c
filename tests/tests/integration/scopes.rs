//! Scopes, by which the keys of handlers are told apart.

use idem_amqp::{
    BuildError, MemoryStore, Queue, Worker, executor::ExecutionKind as Kind, prelude::*,
};
use idem_other_service as other_service;
use idem_tests::{
    bed::{Bed, QUICK},
    cell::Cell,
    leased_on_each_store,
    running::assert_balance,
    script::Order,
};
use lapin::BasicProperties;

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

/// The same with a scope, which makes it another handler.
mod letters {
    use super::*;

    #[idempotent(key = "id", scope = "letters.handle")]
    pub(super) async fn handle(order: Order) -> Result<(), Failed> {
        drop(order.id);
        Ok(())
    }
}

/// Two handlers of one worker have one scope.
///
/// - does: does not start, and names both: to each handler, what the other has done would be a duplicate
#[test]
fn two_handlers_of_one_name_are_refused_until_one_has_a_scope_of_its_own() {
    let cards = || Worker::builder(MemoryStore::new()).consume::<cards::handle>("cards");
    let built = cards().consume::<mails::handle>("mails");
    let error = built.build("amqp://localhost").expect_err("it is refused");
    let BuildError::ScopeTwice { scope, one, other } = &error else {
        panic!("{error}");
    };
    assert_eq!(scope, "idem-tests.handle");
    assert!(one.ends_with("cards::handle"), "{one}");
    assert!(other.ends_with("mails::handle"), "{other}");
    assert!(error.to_string().contains("scope = "), "{error}");

    let built = cards().consume::<letters::handle>("letters");
    drop(built.build("amqp://localhost").unwrap());
}

/// Handlers of one name, without a scope, in two packages that share a store.
///
/// - does: begins their keys with the packages' names: they are two units of work
/// - atomic: once each
/// - leased: once each
/// - settled by: `duplicates::many_copies_in_any_order_are_executed_once_each`
///
/// Two services whose handlers have one name and no scope, on one store: the same order comes to both.
async fn handlers_of_one_name_in_two_packages_have_keys_of_their_own<C: Cell>() {
    let (bed, cell) = (Bed::bare().await, C::open().await);
    let other = bed.another("other");
    let worker = Worker::builder(cell.store());
    let here = bed.start(worker.consume::<cards::handle>(bed.queue()));
    let worker = Worker::builder(cell.store());
    let there = Queue::quorum(&other).policy(QUICK);
    let there = bed.start(worker.consume::<other_service::handle>(there));
    bed.until_consumed(bed.name(), 1).await;
    bed.until_consumed(&other, 1).await;
    let body = serde_json::to_vec(&Order::new("a")).unwrap();
    for queue in [bed.name(), &other] {
        bed.send(queue, &body, BasicProperties::default()).await;
    }

    for worker in [here, there] {
        worker.ended(Kind::Executed, 1).await;
        assert_balance(&worker.stop().await, [(Kind::Executed, 1)]);
    }
    bed.assert_nothing_stuck().await;
}

leased_on_each_store! {
    handlers_of_one_name_in_two_packages_have_keys_of_their_own,
}
