//! Sequences that are not there: of every store, also of one that knows of none.

use super::{
    Harness, Rule, Scene,
    scene::{key, unique},
};
use crate::{
    message::{SequenceKey, SequencePlace},
    store::{Claim, Store},
};

/// Whether the store keeps sequences or not: it says so, and a number that no sequence has does not
/// run.
pub async fn a_numbered_message_never_runs_without_its_sequence<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::InSequence);
    let sequence = SequenceKey::from(key(&unique()));
    let place = SequencePlace::new(sequence, SequencePlace::MAX_NUMBER + 1);
    let mut claimant = scene.claimant_of(place.key());
    claimant.request.sequence = Some(place);
    let answer = claimant.store.claim(&claimant.request).await;
    let fine = match &answer {
        Err(_) => !claimant.store.keeps_sequences(),
        Ok(Claim::Ahead { .. }) => claimant.store.keeps_sequences(),
        Ok(_) => false,
    };
    scene.holds(
        fine,
        &format!("no sequence has such a number, the store answered {answer:?}"),
    );
}
