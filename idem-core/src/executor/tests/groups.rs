//! Messages whose group came to nothing, and that wait for a transaction of their own.

use super::{
    busy::{Blank, Busy},
    *,
};
use crate::{
    Context, DecodeError, Envelope, GroupStore, Grouped, KeyError, MemoryStore, Operation, Outcome,
    Rejection,
};

/// Remembers which attempt it was, and counts its runs.
struct Charge;

impl Operation for Charge {
    type Message = u32;
    type Output = u32;
    type Error = Failed;
    type Mode = Grouped<Blank, 8>;
    const SCOPE: &'static str = "orders";

    fn decode(envelope: &Envelope) -> Result<u32, DecodeError> {
        envelope.json()
    }

    fn key(_: &u32, _: &Envelope) -> Result<Key, KeyError> {
        Ok(key())
    }
}

impl Handler<AtomicU32> for Charge {
    fn call<'a>(
        _: u32,
        context: &'a Context<'a, AtomicU32>,
        _: &'a mut Blank,
    ) -> Result<impl Future<Output = Result<u32, Failed>> + Send + 'a, Rejection> {
        Ok(async move {
            context.state.fetch_add(1, SeqCst);
            Ok(context.attempt.number())
        })
    }
}

/// Handles a message that has company, on a store whose transactions are waited for as long; says
/// how often its handler ran, too.
async fn handle(
    store: &MemoryStore,
    wait: Duration,
    elsewhere: impl Future,
) -> (Execution<u32, Failed>, u32) {
    handle_on(Busy::new(store, wait), elsewhere).await
}

async fn handle_on(
    store: impl GroupStore<Blank>,
    elsewhere: impl Future,
) -> (Execution<u32, Failed>, u32) {
    let executor = Executor::new(store);
    let (_company, _) = executor.company.enter(Charge::SCOPE);
    let mut message = Prepared::<Charge>::new(Envelope::new("7"), &Policy::DEFAULT).unwrap();
    let runs = AtomicU32::default();
    let handled = executor.handle(&mut message, &runs);
    let (execution, _) = tokio::join!(handled, elsewhere);
    (execution, runs.load(SeqCst))
}

async fn claim(store: &MemoryStore) -> Claim {
    let request = ClaimRequest::new(key(), &Policy::DEFAULT);
    store.claim(&request).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_message_that_waits_for_a_transaction_of_its_own_keeps_its_lease() {
    let store = MemoryStore::new();
    let copy = async {
        sleep(LEASE * 5 / 2).await;
        let answer = claim(&store).await;
        assert!(matches!(answer, Claim::Held { .. }), "{answer:?}");
    };
    let (ended, runs) = handle(&store, LEASE * 3, copy).await;
    assert!(
        matches!(
            ended,
            Execution::Executed {
                output: 1,
                attempt: 1,
                ..
            }
        ),
        "{ended:?}"
    );
    assert_eq!(runs, 2, "in the group, and by itself");
}

#[tokio::test(start_paused = true)]
async fn a_message_whose_key_was_completed_by_hand_meanwhile_is_a_duplicate() {
    use crate::operator::{Intervened, Intervention, OperatorStore as _};

    let store = MemoryStore::new();
    let by_hand = async {
        sleep(LEASE).await;
        let shown = store.show(&key()).await.unwrap();
        let seen = shown.record.map(|record| record.seen());
        let outcome = Outcome::new("7");
        let complete = Intervention::complete(key(), seen, "maria@ops-1", outcome, LEASE * 100);
        let intervened = store.intervene(&complete).await.unwrap();
        assert_eq!(intervened, Intervened::Applied);
    };
    let (ended, runs) = handle(&store, LEASE * 3, by_hand).await;
    assert!(matches!(ended, Execution::Duplicate { .. }), "{ended:?}");
    assert_eq!(runs, 1, "in the group");
}

/// Where a test lets calls fail, each message meets its faults alone.
#[cfg(feature = "testing")]
#[tokio::test(start_paused = true)]
async fn on_a_store_whose_link_fails_a_message_with_company_is_run_by_itself() {
    use crate::testing::{Call, FaultyStore};

    let faulty = FaultyStore::new(Busy::new(&MemoryStore::new(), Duration::ZERO));
    faulty.lose_next_answer(Call::Complete);
    let (ended, runs) = handle_on(faulty, async {}).await;
    assert!(
        matches!(ended, Execution::Executed { output: 1, .. }),
        "{ended:?}"
    );
    assert_eq!(runs, 1, "in no group");
}
