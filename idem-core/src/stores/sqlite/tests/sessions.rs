use super::*;
use crate::{
    message::{SessionKey, SessionPlace},
    store::{OpenSession, Opened, OutOfPlace, SessionStore, Touched},
};

fn asks(session: &SessionKey, number: u64, awaited: u64) -> ClaimRequest {
    let place = SessionPlace::new(session.clone(), number, awaited);
    ClaimRequest::in_session(place, &Policy::DEFAULT)
}

/// Another process on the file closes it, and its clock is ahead of this one's.
#[tokio::test]
async fn a_closed_session_stays_closed_when_the_clock_steps_back() {
    let file = File::new();
    let (store, later) = (file.store().await, file.store().await);
    later.advance(MINUTE);
    let opening = OpenSession::new(Key::new("leases", "c-1").unwrap());
    assert_eq!(store.open(&opening).await.unwrap(), Opened::New);
    let session = opening.session;
    let Claim::Acquired(lease) = store.claim(&asks(&session, 0, 0)).await.unwrap() else {
        panic!("nobody has the number")
    };
    complete(&store, &lease).await;
    later.close(&session).await.unwrap();
    for number in [0, 1, 99] {
        let claim = store.claim(&asks(&session, number, number)).await.unwrap();
        assert_eq!(
            claim,
            Claim::OutOfPlace(OutOfPlace::SessionExpired),
            "{number}"
        );
    }
    assert_eq!(store.touch(&session).await.unwrap(), Touched::Expired);
}
