//! What the tests of several stores do alike, on any store. Each store has its tests under names of their own.

use std::time::Duration;

use crate::{
    handler::{IntoOutgoing, OutboxError, Outcome, OutgoingContent, Policy},
    message::{Key, KeyPart, SessionKey, SessionPlace},
    store::{
        Claim, ClaimRequest, Finding, Lease, OpenSession, Opened, OutOfPlace, Purge, Release,
        SessionStore, Store, StoreError, Touched, Write,
        operator::{Intervened, Intervention, Listing, OperatorStore},
        sequence::scene::{asks, with_an_exception},
    },
};

pub(super) const MINUTE: Duration = Duration::from_mins(1);

/// Of an order.
pub(super) fn request(id: impl KeyPart) -> ClaimRequest {
    let policy = Policy::builder().lease(MINUTE).retention(10 * MINUTE);
    let policy = policy.build().unwrap();
    ClaimRequest::new(Key::new("orders", id).unwrap(), &policy)
}

pub(super) async fn acquire(store: &impl Store, id: impl KeyPart) -> Lease {
    acquire_as(store, &request(id)).await
}

pub(super) async fn acquire_as(store: &impl Store, request: &ClaimRequest) -> Lease {
    match store.claim(request).await.unwrap() {
        Claim::Acquired(lease) => lease,
        other => panic!("{other:?}"),
    }
}

pub(super) async fn complete(store: &impl Store, lease: &Lease) {
    let outcome = Outcome::new("done");
    let written = store.complete(lease, &outcome, 10 * MINUTE).await;
    assert_eq!(written.unwrap(), Write::Applied);
}

/// A message of the outbox with this text.
pub(super) struct Told<T>(pub(super) T);

impl<T: Into<Vec<u8>>> IntoOutgoing for Told<T> {
    fn into_outgoing(self, message_id: String) -> Result<OutgoingContent, OutboxError> {
        Ok(OutgoingContent {
            message_id,
            target: "shipping".into(),
            head: Vec::new(),
            body: self.0.into(),
        })
    }
}

pub(super) async fn is_completed(store: &impl Store, id: impl KeyPart) -> bool {
    let claim = store.claim(&request(id)).await.unwrap();
    matches!(claim, Claim::Completed { .. })
}

/// They come together, so they are of one batch.
pub(super) async fn writes_of_one_lease_are_carried_out_in_order(store: &impl Store) {
    let lease = acquire(store, "a").await;
    let outcome = Outcome::new("done");
    let release = Release::failed("too late");
    let (extended, completed, again, released) = tokio::join!(
        store.extend(&lease, MINUTE),
        store.complete(&lease, &outcome, MINUTE),
        store.complete(&lease, &outcome, MINUTE),
        store.release(&lease, &release),
    );
    let answers = [extended, completed, again, released].map(Result::unwrap);
    let applied = Write::Applied;
    assert_eq!(answers, [applied, applied, applied, Write::Fenced]);
}

/// Of three claims in one batch, the record of the second cannot be read.
pub(super) fn only_the_second_is_corrupt(answers: &[Result<Claim, StoreError>]) {
    assert!(matches!(answers[0], Ok(Claim::Acquired(_))));
    let Err(StoreError::Corrupt { key, source }) = &answers[1] else {
        panic!("{:?}", answers[1])
    };
    assert_eq!(
        (&**key, &*source.to_string()),
        ("orders:bad", "`mended` is no state")
    );
    assert!(matches!(answers[2], Ok(Claim::Acquired(_))));
}

/// Nothing is told of twice, wherever a page ends.
pub(super) async fn keys_are_listed_once_and_in_their_order(store: &impl OperatorStore) {
    for id in ["d", "b", "e", "a", "c"] {
        acquire(store, id).await;
    }
    for limit in 1..=6 {
        let mut listing = Listing::all().limit(limit);
        let mut listed = Vec::new();
        // One page more than there are keys: a listing that does not end is wrong.
        for _ in 0..6 {
            let page = store.list(&listing).await.unwrap();
            listed.extend(page.records.iter().map(|record| record.key.to_string()));
            let Some(next) = page.next else { break };
            listing = listing.after(next);
        }
        let expected = ["orders:a", "orders:b", "orders:c", "orders:d", "orders:e"];
        assert_eq!(listed, expected, "in pages of {limit}");
    }
}

/// They are kept for 90 days.
pub(super) async fn what_operators_changed_long_ago_is_purged<S: OperatorStore + Purge>(
    store: &S,
    advance: impl Fn(Duration),
) {
    let key = acquire(store, "a").await.key;
    let day = Duration::from_hours(24);
    let complete =
        |seen| Intervention::complete(key.clone(), seen, "ops", Outcome::default(), 365 * day);
    let seen = store.look(&key).await.unwrap().map(|it| it.record.seen());
    let applied = store.intervene(&complete(seen)).await.unwrap();
    assert_eq!(applied, Intervened::Applied);
    advance(89 * day);
    let seen = store.look(&key).await.unwrap().map(|it| it.record.seen());
    let forget = Intervention::forget(key.clone(), seen, "ops");
    assert_eq!(store.intervene(&forget).await.unwrap(), Intervened::Applied);
    assert_eq!(store.purge(10).await.unwrap(), 0);
    assert_eq!(store.audit(&key).await.unwrap().len(), 2);
    advance(day);
    assert_eq!(store.purge(10).await.unwrap(), 0, "they are no records");
    let left = store.audit(&key).await.unwrap();
    assert_eq!(left.len(), 1, "{left:?}");
}

pub(super) async fn it_is_told_if_nobody_purges<S: Store + Purge>(
    store: &S,
    advance: impl Fn(Duration),
    findings: impl AsyncFn() -> Result<Vec<Finding>, StoreError>,
) {
    let codes = async || {
        let findings = findings().await.unwrap();
        findings.iter().map(|it| it.code).collect::<Vec<_>>()
    };
    complete(store, &acquire(store, "done").await).await;
    let _held = acquire(store, "held").await;
    assert_eq!(codes().await, [""; 0]);
    // What is to be removed is not so for long.
    advance(Duration::from_hours(23));
    assert_eq!(codes().await, [""; 0]);
    advance(Duration::from_hours(2));
    assert_eq!(codes().await, ["unpurged"]);
    let findings = findings().await.unwrap();
    assert!(
        findings[0].text.contains("ended 24 hours ago"),
        "{}",
        findings[0].text
    );
    assert_eq!(store.purge(10).await.unwrap(), 2);
    assert_eq!(codes().await, [""; 0]);
}

/// Opens a session of a client.
pub(super) async fn open(store: &impl SessionStore, client: &str) -> SessionKey {
    let opening = OpenSession::new(Key::new("leases", client).unwrap());
    assert_eq!(store.open(&opening).await.unwrap(), Opened::New);
    opening.session
}

/// Asks for this number of a session.
pub(super) fn asks_in(session: &SessionKey, number: u64, awaited: u64) -> ClaimRequest {
    let place = SessionPlace::new(session.clone(), number, awaited);
    ClaimRequest::in_session(place, &Policy::DEFAULT)
}

/// `later` is another process, whose clock is ahead and which closes the session: as if the clock had stepped back
/// then.
pub(super) async fn a_closed_session_stays_closed<S: SessionStore>(store: &S, later: &S) {
    let session = open(store, "c-1").await;
    let lease = acquire_as(store, &asks_in(&session, 0, 0)).await;
    complete(store, &lease).await;
    later.close(&session).await.unwrap();
    for number in [0, 1, 99] {
        let claim = store.claim(&asks_in(&session, number, number)).await;
        let expired = Claim::OutOfPlace(OutOfPlace::SessionExpired);
        assert_eq!(claim.unwrap(), expired, "{number}");
    }
    assert_eq!(store.touch(&session).await.unwrap(), Touched::Expired);
}

/// `later` is another process, whose clock is ahead: it removes the exception and is gone before it removes the
/// sequence.
pub(super) async fn what_was_given_up_is_not_done_after_a_purge_ahead_of_its_time<
    S: Store + Purge,
>(
    store: &S,
    later: &S,
) {
    with_an_exception(store).await;
    while store.claim(&asks(1)).await.unwrap() == Claim::OutOfPlace(OutOfPlace::Late) {
        assert_eq!(later.purge(1).await.unwrap(), 1);
    }
    let attempt = store.claim(&asks(1)).await.unwrap();
    assert!(!matches!(attempt, Claim::Completed { .. }), "{attempt:?}");
}

/// What makes a completed record unreadable.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(super) const SPOILT: [&str; 4] = [
    "state = 'elsewhere'",
    "outcome = NULL",
    "owner = substr(owner, 1, 3)",
    "attempts = -1",
];

/// Number 5 has a record that cannot be read: its own claim says so, and that of no other.
pub(super) async fn the_mark_waits_for_number_5(store: &impl Store) {
    let ahead = store.claim(&asks(20)).await.unwrap();
    let waits = OutOfPlace::Ahead { mark: 5, window: 8 };
    assert_eq!(ahead, Claim::OutOfPlace(waits));
    let broken = store.claim(&asks(5)).await;
    assert_matches!(broken, Err(StoreError::Corrupt { .. }));
}

/// Whoever prints a chain of causes, as anyhow does, reads each of them once.
pub(super) fn each_cause_is_told_once(error: &dyn std::error::Error) {
    let causes = std::iter::successors(Some(error), |&cause| cause.source());
    let told: Vec<_> = causes.map(ToString::to_string).collect();
    for (above, cause) in told.iter().zip(&told[1..]) {
        assert!(!above.contains(cause.as_str()), "{told:#?}");
    }
}
