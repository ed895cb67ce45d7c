//! Sessions that are not there: of every store, also of one that knows of none.

use super::{
    Harness, Rule, Scene,
    scene::{key, unique},
};
use crate::{
    message::{SessionKey, SessionPlace},
    store::{Claim, Store},
};

/// Whether the store keeps sessions or not: without its session, a session's request does not run.
pub async fn a_sessions_request_never_runs_without_its_session<H: Harness>(harness: &H) {
    let scene = Scene::new(harness, Rule::SessionEnds);
    let session = SessionKey::from(key(&unique()));
    let place = SessionPlace::new(session, 0, 0);
    let mut claimant = scene.claimant_of(place.key());
    claimant.request.session = Some(place);
    let answer = claimant.store.claim(&claimant.request).await;
    scene.holds(
        matches!(answer, Err(_) | Ok(Claim::SessionExpired)),
        &format!("nobody has opened the session, the store answered {answer:?}"),
    );
}
