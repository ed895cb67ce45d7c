//! Messages of one sequence that really come at the same time, on a thread each.

use std::collections::BTreeSet;

use futures_util::{FutureExt as _, future::BoxFuture};
use idem_core::store::{Claim, Lease, OutOfPlace, Store};

use super::{
    Producer, Rule, SequenceHarness, claimant::Claimant, holder::Holder, producer::FAR, race::race,
};

const CONTENDERS: usize = 12;
pub(super) const ROUNDS: usize = 10;

/// The first message of a sequence, many times at once: one works, all others are held off.
pub async fn of_copies_that_race_to_begin_a_sequence_one_is_acquired<H: SequenceHarness>(
    harness: &H,
) {
    for _ in 0..ROUNDS {
        let producer = Producer::new(harness, Rule::InSequence);
        let said = race(claims((0..CONTENDERS).map(|_| producer.asks(0)))).await;
        let held = said
            .iter()
            .filter(|claim| matches!(claim, Claim::Held { .. }));
        let (held, acquired) = (held.count(), leases(&said).len());
        producer.scene.holds(
            (acquired, held) == (1, CONTENDERS - 1),
            &format!("{acquired} acquired, {held} were held off: {said:?}"),
        );
    }
}

/// One owner asks many times at once, as after lost answers: one lease, one attempt.
pub async fn an_owner_that_races_with_itself_gets_one_lease<H: SequenceHarness>(harness: &H) {
    for _ in 0..ROUNDS {
        let producer = Producer::new(harness, Rule::InSequence);
        let owner = producer.asks(0).request.owner;
        let repeats = (0..CONTENDERS).map(|_| producer.asks(1).owner(owner));
        let said = race(claims(repeats)).await;
        let leases = leases(&said);
        producer.scene.holds(
            leases.len() == CONTENDERS && leases.iter().all(|lease| *lease == leases[0]),
            &format!("all were the owner's claims: {said:?}"),
        );
    }
}

/// The first messages of a sequence in any order, each twice: each number runs once, and none is late.
pub async fn numbers_that_race_to_begin_a_sequence_all_run_once<H: SequenceHarness>(harness: &H) {
    for _ in 0..ROUNDS {
        let producer = Producer::new(harness, Rule::Begins);
        let numbers = (0..8).chain(0..8).map(|number| producer.asks(number));
        let said = race(claims(numbers)).await;
        let leases = leases(&said);
        let keys: BTreeSet<_> = leases.iter().map(|it| &it.key).collect();
        producer.scene.holds(
            (leases.len(), keys.len()) == (8, 8),
            &format!("eight numbers, each of them twice: {said:?}"),
        );
        for lease in leases {
            let written = producer.scene.holder_of(lease).complete("done").await;
            written.is_applied("it is the holder");
        }
        producer.mark_is(8, "all are done").await;
    }
}

/// Completions on their way while others move the mark: each counts, and none is run again.
pub async fn completions_that_race_with_the_mark_count<H: SequenceHarness>(harness: &H) {
    for _ in 0..ROUNDS {
        let producer = Producer::new(harness, Rule::MarkMoves);
        let mut all: Vec<BoxFuture<'static, bool>> = Vec::new();
        for number in 0..6 {
            let holder: Holder<H::Store> = producer.acquires(number).await;
            all.push(async move { holder.complete("done").await.was_applied() }.boxed());
        }
        for _ in 0..3 {
            let moves = producer.asks(FAR);
            let ahead = async move { moves.claim_plainly().await };
            all.push(
                ahead
                    .map(|it| matches!(it, Claim::OutOfPlace(OutOfPlace::Ahead { .. })))
                    .boxed(),
            );
        }
        let said = race(all).await;
        producer.scene.holds(
            said.iter().all(|fine| *fine),
            &format!("six completions, and claims that move the mark: {said:?}"),
        );
        producer.mark_is(6, "all are done").await;
        producer.are_done(0..6, "it was passed").await;
    }
}

/// Copies of what is done come while the mark passes it: none runs.
pub async fn copies_that_race_with_the_mark_never_run<H: SequenceHarness>(harness: &H) {
    for _ in 0..ROUNDS {
        let producer = Producer::new(harness, Rule::Done);
        producer.works_on(0..4).await;
        let copies = (0..4).chain(0..4).map(|number| producer.asks(number));
        let moves = (0..3).map(|_| producer.asks(FAR));
        for claim in race(claims(copies.chain(moves))).await {
            producer.scene.holds(
                matches!(
                    claim,
                    Claim::Completed { .. } | Claim::OutOfPlace(OutOfPlace::Ahead { .. })
                ),
                &format!("all are done, the store answered {claim:?}"),
            );
        }
        producer.mark_is(4, "all are done").await;
    }
}

/// All of them, ready to run.
pub(super) fn claims<S: Store>(
    claimants: impl IntoIterator<Item = Claimant<S>>,
) -> Vec<BoxFuture<'static, Claim>> {
    let claimants = claimants.into_iter();
    claimants.map(|one| one.claim_plainly().boxed()).collect()
}

/// Those that were acquired.
pub(super) fn leases(said: &[Claim]) -> Vec<Lease> {
    let leases = said.iter().filter_map(|claim| match claim {
        Claim::Acquired(lease) => Some(lease.clone()),
        _ => None,
    });
    leases.collect()
}
