//! Requests of one session that really come at the same time, on a thread each.

use futures_util::{FutureExt as _, future::BoxFuture};
use idem_core::store::{Claim, Lease, OpenSession, OutOfPlace, SessionStore, Store, Touched};

use super::{Client, LIFE, Rule, SessionHarness, claimant::Claimant, race::race};

const CONTENDERS: usize = 12;
const ROUNDS: usize = 10;

/// One works, all others are held off.
pub async fn of_many_that_race_for_a_number_one_acquires_it<H: SessionHarness>(harness: &H) {
    for _ in 0..ROUNDS {
        let client = Client::new(harness, Rule::Placed).await;
        let contenders = (0..CONTENDERS).map(|_| client.asks(0, 0));
        let said = race(claims(contenders)).await;
        let held = said
            .iter()
            .filter(|claim| matches!(claim, Claim::Held { .. }));
        let (held, acquired) = (held.count(), leases(&said).len());
        client.scene.holds(
            (acquired, held) == (1, CONTENDERS - 1),
            &format!("{acquired} acquired, {held} were held off: {said:?}"),
        );
    }
}

/// One owner asks many times at once, as after lost answers: one lease, one attempt.
pub async fn an_owner_that_races_with_itself_gets_one_lease<H: SessionHarness>(harness: &H) {
    for _ in 0..ROUNDS {
        let client = Client::new(harness, Rule::Placed).await;
        let owner = client.asks(0, 0).request.owner;
        let repeats = (0..CONTENDERS).map(|_| client.asks(1, 1).owner(owner));
        let said = race(claims(repeats)).await;
        let leases = leases(&said);
        client.scene.holds(
            leases.len() == CONTENDERS && leases.iter().all(|lease| *lease == leases[0]),
            &format!("all were the owner's claims: {said:?}"),
        );
        client
            .scene
            .holds(leases[0].attempt == 1, "it is one attempt");
    }
}

/// Many numbers, each with a mark of its own: the greatest stays, and no move is lost.
pub async fn marks_that_race_leave_the_greatest<H: SessionHarness>(harness: &H) {
    const LAST: u64 = CONTENDERS as u64 - 1;
    for _ in 0..ROUNDS {
        let client = Client::new(harness, Rule::Mark).await;
        let contenders = (0..=LAST).map(|number| client.asks(number, number));
        for claim in race(claims(contenders)).await {
            let fine = matches!(
                claim,
                Claim::Acquired(_) | Claim::OutOfPlace(OutOfPlace::Stale)
            );
            client.scene.holds(fine, &format!("{claim:?} is neither"));
        }
        let answer = client.claim(LAST - 1, 0).await;
        answer.is_stale("the greatest mark stays");
        let answer = client.claim(LAST, 0).await;
        answer.is_held("its own claim cannot have been stale");
    }
}

/// The client closes while its requests still arrive: each came before or after.
pub async fn a_session_that_is_closed_in_a_race_has_ended<H: SessionHarness>(harness: &H) {
    for round in 0..ROUNDS {
        let client = Client::new(harness, Rule::SessionEnds).await;
        let contenders = (0..5).map(|number| client.asks(number, 0));
        let mut all: Vec<_> = claims(contenders)
            .into_iter()
            .map(|claim| claim.map(Some).boxed())
            .collect();
        let (store, session) = (client.scene.store(), client.session.clone());
        let close = async move {
            Rule::SessionEnds.answer(store.close(&session).await);
            None
        };
        // In another place each time: whoever comes last to the start goes first, while the others still wake up.
        all.insert(round % (all.len() + 1), close.boxed());
        let said: Vec<_> = race(all).await.into_iter().flatten().collect();
        for lease in leases(&said) {
            let written = client.scene.holder_of(lease).complete("done").await;
            written.is_applied("it came before the end");
        }
        for number in 0..5 {
            let answer = client.claim(number, 0).await;
            answer.is_expired("the session was closed");
        }
        client.touches(Touched::Expired, "it was closed").await;
    }
}

/// A completion on its way when the mark passes its number counts, before or after.
pub async fn a_completion_that_races_with_the_mark_counts<H: SessionHarness>(harness: &H) {
    for _ in 0..ROUNDS {
        let client = Client::new(harness, Rule::Answers).await;
        let mut all: Vec<BoxFuture<'static, bool>> = Vec::new();
        for number in 0..4 {
            let holder = client.acquires(number, 0).await;
            all.push(async move { holder.complete("done").await.was_applied() }.boxed());
        }
        let moves = client.asks(4, 4);
        all.push(async move { leases(&[moves.claim_plainly().await]).len() == 1 }.boxed());
        let said = race(all).await;
        client.scene.holds(
            said.iter().all(|fine| *fine),
            &format!("four completions, and a claim that moves the mark: {said:?}"),
        );
        for number in 0..4 {
            let answer = client.claim(number, 0).await;
            answer.is_stale("the mark has passed it");
        }
    }
}

/// A session that nobody heard of for long is removed while its requests arrive at last.
pub async fn claims_that_race_with_the_removal_never_run<H: SessionHarness>(harness: &H) {
    for _ in 0..ROUNDS {
        let client = Client::new(harness, Rule::NeverAgain).await;
        client.works(0, 0).await;
        client.scene.advance(2 * LIFE).await;
        let contenders = (0..5).map(|number| client.asks(number, 0));
        let mut all: Vec<_> = claims(contenders)
            .into_iter()
            .map(|claim| claim.map(Some).boxed())
            .collect();
        for _ in 0..3 {
            let store = client.scene.store();
            all.push(
                async move {
                    Rule::Expiry.answer(store.expire(100).await);
                    None
                }
                .boxed(),
            );
        }
        for claim in race(all).await.into_iter().flatten() {
            client.scene.holds(
                claim == Claim::OutOfPlace(OutOfPlace::SessionExpired),
                &format!("the session ended a life ago, the store answered {claim:?}"),
            );
        }
    }
}

/// Removing what has ended takes no sign of life away from what lives.
pub async fn touches_that_race_with_the_removal_keep_a_session<H: SessionHarness>(harness: &H) {
    let client = Client::new(harness, Rule::SignOfLife).await;
    client.works(0, 0).await;
    for _ in 0..ROUNDS {
        client.scene.advance(LIFE * 3 / 4).await;
        let mut all: Vec<BoxFuture<'static, bool>> = Vec::new();
        for _ in 0..4 {
            let (store, session) = (client.scene.store(), client.session.clone());
            all.push(
                async move {
                    Rule::SignOfLife.answer(store.touch(&session).await) == Touched::Living
                }
                .boxed(),
            );
            let store = client.scene.store();
            all.push(async move { Rule::Expiry.answer(store.expire(9).await) < 9 }.boxed());
        }
        let said = race(all).await;
        client.scene.holds(
            said.iter().all(|fine| *fine),
            "every touch came in time, and there is nothing to remove",
        );
    }
    client.hears(0, 0, "the session lives").await;
}

/// The opening was sent several times: one of them began the session.
pub async fn openings_that_race_open_one_session<H: SessionHarness>(harness: &H) {
    for _ in 0..ROUNDS {
        let client = Client::unknown(harness, Rule::OpenedOnce);
        let openings = (0..CONTENDERS).map(|_| {
            let (store, opening): (_, OpenSession) = (client.scene.store(), client.opening());
            async move { Rule::OpenedOnce.answer(store.open(&opening).await) }.boxed()
        });
        let said = race(openings.collect()).await;
        let new = said
            .iter()
            .filter(|it| **it == idem_core::store::Opened::New)
            .count();
        client
            .scene
            .holds(new == 1, &format!("{new} have begun it"));
        client.works(0, 0).await;
    }
}

fn claims<S: Store>(
    claimants: impl IntoIterator<Item = Claimant<S>>,
) -> Vec<BoxFuture<'static, Claim>> {
    let claimants = claimants.into_iter();
    claimants.map(|one| one.claim_plainly().boxed()).collect()
}

fn leases(said: &[Claim]) -> Vec<Lease> {
    let leases = said.iter().filter_map(|claim| match claim {
        Claim::Acquired(lease) => Some(lease.clone()),
        _ => None,
    });
    leases.collect()
}
