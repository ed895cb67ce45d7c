//! What a store says it keeps: every store is held to it, whichever further lists it is run on.

use idem_core::{
    message::{Position, PositionKind, SequenceKey, SequencePlace, SessionKey, SessionPlace},
    store::{Claim, OutOfPlace, Store},
};

use super::{
    Harness, Rule, Scene,
    scene::{key, unique},
};

/// The executor asks a store about sessions if it says that it keeps them. Then it knows which ones there are.
pub async fn a_store_that_keeps_sessions_runs_nothing_of_an_unknown_one<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::SessionEnds);
    if !scene.store().keeps(PositionKind::Session) {
        return;
    }
    let place = SessionPlace::new(SessionKey::from(key(&unique())), 0, 0);
    let mut claimant = scene.claimant_of(place.key());
    claimant.request.position = Position::Session(place);
    let answer = claimant.store.claim(&claimant.request).await;
    scene.holds(
        matches!(answer, Ok(Claim::OutOfPlace(OutOfPlace::SessionExpired))),
        &format!(
            "it says that it keeps sessions, and nobody has opened this one: the store answered {answer:?}"
        ),
    );
}

/// So it is with sequences. Then it knows that none has such a number.
pub async fn a_store_that_keeps_sequences_runs_nothing_beyond_the_greatest_number<H: Harness>(
    harness: &H,
) {
    let scene = Scene::new(harness, Rule::InSequence);
    if !scene.store().keeps(PositionKind::Sequence) {
        return;
    }
    let sequence = SequenceKey::from(key(&unique()));
    let place = SequencePlace::new(sequence, SequencePlace::MAX_NUMBER + 1);
    let mut claimant = scene.claimant_of(place.key());
    claimant.request.position = Position::Sequence(place);
    let answer = claimant.store.claim(&claimant.request).await;
    scene.holds(
        matches!(answer, Ok(Claim::OutOfPlace(OutOfPlace::Ahead { .. }))),
        &format!(
            "it says that it keeps sequences, and none has such a number: the store answered {answer:?}"
        ),
    );
}
