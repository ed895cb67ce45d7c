//! Requests of atomic handlers, on whichever store the module is part of: what was written is rolled
//! back, what was said is remembered.

use super::*;
use crate::{
    executor::{Execution, Executor, Prepared},
    handler::{
        Answer, Atomic, Context, DecodeError, Handler, Operation, Policy, Refusal, Refused,
        Rejection,
    },
    message::{Envelope, Key, KeyError},
};

#[derive(Debug, Clone, Copy)]
enum Act {
    Return,
    ReturnTooMuch,
    Refuse,
}

/// Writes a charge first, whatever it says then.
struct Lend;

impl Operation for Lend {
    type Message = String;
    type Output = String;
    type Error = Refused<String>;
    type Mode = Atomic<Lent>;
    const SCOPE: &'static str = "orders";

    fn decode(envelope: &Envelope) -> Result<String, DecodeError> {
        envelope.json()
    }

    fn key(id: &String, _: &Envelope) -> Result<Key, KeyError> {
        Ok(request(id.as_str()).key)
    }
}

impl Handler<Act> for Lend {
    fn call<'a>(
        id: String,
        context: &'a Context<'a, Act>,
        db: &'a mut Lent,
    ) -> Result<impl Future<Output = Result<String, Refused<String>>> + Send + 'a, Rejection> {
        let act = *context.state;
        Ok(async move {
            let charge = sqlx::query("INSERT INTO charges (id) VALUES ($1)");
            charge.bind(&id).execute(db).await?;
            match act {
                Act::Return => Ok(id),
                Act::ReturnTooMuch => Ok("x".repeat(Policy::DEFAULT.max_outcome())),
                Act::Refuse => Err(Refused::with("taken".to_owned())),
            }
        })
    }
}

type Ended = Execution<String, Refused<String>>;

async fn handle(shop: &Shop, envelope: Envelope, act: Act) -> Ended {
    let mut message = Prepared::<Lend>::new(envelope, &Policy::DEFAULT).unwrap();
    let executor = Executor::new(shop.store.clone());
    executor.handle(&mut message, &act).await
}

async fn ask(shop: &Shop, act: Act) -> Ended {
    let envelope = Envelope::builder("\"o-1\"").expects_reply(true);
    handle(shop, envelope.build(), act).await
}

async fn tell(shop: &Shop, act: Act) -> Ended {
    handle(shop, Envelope::new("\"o-1\""), act).await
}

/// Nothing was done, and copies are told so without running.
async fn is_refused(shop: &Shop, ended: Ended) -> Refusal {
    let Execution::Refused {
        refusal,
        attempt: 1,
    } = ended
    else {
        panic!("{:?}", ended.kind());
    };
    let Execution::Duplicate { outcome, .. } = ask(shop, Act::Return).await else {
        panic!("a duplicate");
    };
    assert_eq!(outcome.answer(), Answer::Rejected(refusal.clone()));
    let copy = tell(shop, Act::Return).await;
    assert_matches!(copy, Execution::Rejected { attempt: 0, .. });
    assert_eq!(shop.charges().await, 0);
    refusal
}

#[tokio::test]
async fn a_refused_request_leaves_no_writes_and_is_remembered() {
    let shop = Shop::open().await;
    let refusal = is_refused(&shop, ask(&shop, Act::Refuse).await).await;
    assert_eq!(refusal.error(), Some(&"taken".into()));
}

#[tokio::test]
async fn an_output_that_is_too_large_leaves_no_writes_and_is_refused_for_good() {
    let shop = Shop::open().await;
    let refusal = is_refused(&shop, ask(&shop, Act::ReturnTooMuch).await).await;
    assert_eq!(refusal.code(), "outcome-too-large");
}

#[tokio::test]
async fn a_refused_message_leaves_no_writes_and_may_be_sent_again() {
    let shop = Shop::open().await;
    let ended = tell(&shop, Act::Refuse).await;
    assert_matches!(ended, Execution::Rejected { attempt: 1, .. });
    assert_eq!(shop.charges().await, 0);
    let again = ask(&shop, Act::Return).await;
    assert_matches!(again, Execution::Executed { attempt: 1, .. });
    assert_eq!(shop.charges().await, 1);
}

/// The refusal is two steps: the first alone does nothing.
#[tokio::test]
async fn a_crash_between_the_rollback_and_the_memory_leaves_nothing_done() {
    let shop = Shop::open().await;
    let (_, mut open) = shop.begin("o-1").await;
    charge(lend(&mut open)).await;
    let ended = TransactionalStore::<Lent>::finish(&shop.store, open, Finish::RollBack).await;
    assert_eq!(ended.unwrap(), Finished::RolledBack);
    assert_eq!(shop.charges().await, 0);
    let held = ask(&shop, Act::Return).await;
    assert!(matches!(held, Execution::Conflict { .. }), "{held:?}");
    shop.store.advance(MINUTE);
    let again = ask(&shop, Act::Return).await;
    assert_matches!(again, Execution::Executed { attempt: 2, .. });
    assert_eq!(shop.charges().await, 1);
}
