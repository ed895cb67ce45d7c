//! `assert_idempotent`: every situation, each from fresh state, compared with one delivery.

use std::fmt::Debug;

use idem_core::executor::ExecutionKind;

use super::{
    CrashPoint, Rehearsal,
    catalogue::{ALWAYS, OF_CLIENTS, Situation},
    report::{Finding, Reference, report},
};

/// How many waits of a handler are crashed at.
const MOST_WAITS: u32 = 64;

/// Asserts that a message has the effects of one delivery, whatever it meets: delivered again, delivered to two workers
/// at once, a crash at each [`CrashPoint`] (inside the handler at each of its first 64 waits), the completion's answer
/// lost. Behind a layer for HTTP also: another request under the same key, a claim that is lost on its way there or
/// back, a completion that does not arrive, and a client that goes away at each wait of the handler. Each is tried from
/// fresh state, by its own run, and seen through until the message is done with.
///
/// `observe` reads from a run what is to be the same: `async |run| run.state().charges()`. What differs between
/// two undisturbed runs (times, random ids) has no place in it.
///
/// A policy that quarantines what is in doubt leaves some crashes to a person: there an effect must not be
/// doubled, and may be missing.
///
/// ```test_harness
/// # use idem_core::{Failed, Key, State, idempotent};
/// # use idem_testing::{Message, Setup, assert_idempotent};
/// # #[derive(Clone, Default)] struct Bank(std::sync::Arc<std::sync::Mutex<std::collections::BTreeSet<String>>>);
/// # #[idempotent(key = message_id(), scope = "bank.pay")]
/// # async fn pay(_: serde_json::Value, key: Key, State(bank): State<Bank>) -> Result<(), Failed> {
/// #     bank.0.lock().unwrap().insert(key.to_string());
/// #     Ok(())
/// # }
/// #[tokio::test(start_paused = true)]
/// async fn a_payment_is_made_once() {
///     let harness = Setup::new(Bank::default).handler::<pay>();
///     let payment = Message::json("1250 cents").id("m-1");
///     assert_idempotent(&harness, &payment, async |run| run.state().0.lock().unwrap().clone()).await;
/// }
/// ```
///
/// # Panics
/// With a text that says at which point the effect was doubled, missing or another one. Also if the handler
/// does not execute the message, or `observe` sees nothing of it, or differs by itself: then nothing would be
/// asserted.
pub async fn assert_idempotent<R, T>(
    harness: &R,
    message: &R::Message,
    observe: impl AsyncFn(&R) -> T,
) where
    R: Rehearsal,
    T: PartialEq + Debug,
{
    let reference = Box::pin(refer(harness, message, &observe)).await;
    let (mut findings, mut tried) = (Vec::new(), 0);
    for situations in rounds::<R>() {
        for situation in situations {
            // Boxed: what opens a database is a large future.
            let run = Box::pin(harness.fresh()).await;
            let Some(ending) = Box::pin(situation.play(&run, message)).await else {
                break;
            };
            tried += 1;
            let found = Box::pin(observe(&run)).await;
            if let Some(difference) = reference.compare(&found, &ending) {
                findings.push(Finding {
                    situation,
                    difference,
                    found,
                    ending,
                });
            }
        }
    }
    let name = harness.name_of(message);
    assert!(
        findings.is_empty(),
        "{}",
        report(&name, &reference, &findings, tried, R::HAS_CLIENT)
    );
}

/// What is tried, in rounds: the first situation to which it does not come ends its round.
fn rounds<R: Rehearsal>() -> Vec<Vec<Situation>> {
    let waits = 1..=MOST_WAITS;
    let crashes = waits
        .clone()
        .map(|wait| Situation::Crash(CrashPoint::InHandler(wait)));
    let mut rounds = vec![ALWAYS.into_iter().chain(crashes).collect()];
    if R::HAS_CLIENT {
        rounds.push(OF_CLIENTS.into());
        rounds.push(waits.map(Situation::ClientGone).collect());
    }
    rounds
}

/// What one delivery does; panics if that says nothing.
async fn refer<R, T>(
    harness: &R,
    message: &R::Message,
    observe: &impl AsyncFn(&R) -> T,
) -> Reference<T>
where
    R: Rehearsal,
    T: PartialEq + Debug,
{
    let scope = harness.name_of(message);
    // Boxed, each of them: what opens a database, or delivers, is a large future.
    let run = Box::pin(harness.fresh()).await;
    let none = Box::pin(observe(&run)).await;
    let ending = Box::pin(run.ending(message)).await;
    assert!(
        ending.kind == ExecutionKind::Executed,
        "`{scope}` does not execute the message even if nothing disturbs it: it ended as {ending}"
    );
    let once = Box::pin(observe(&run)).await;
    assert!(
        none != once,
        "`observe` does not see what `{scope}` does: before and after it, it is {once:?}"
    );
    let other = Box::pin(harness.fresh()).await;
    Box::pin(other.ending(message)).await;
    let again = Box::pin(observe(&other)).await;
    assert!(
        once == again,
        "`observe` differs between two undisturbed runs of `{scope}`: leave out what is never the same, or let \
         the state be made anew for each run\n  one run: {once:?}\n  another: {again:?}"
    );
    let forgetful = Box::pin(run.forgetful()).await;
    Box::pin(forgetful.ending(message)).await;
    let twice = Box::pin(observe(&run)).await;
    Reference { none, once, twice }
}
