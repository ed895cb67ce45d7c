//! What clients of sessions ask beside their requests, on a queue of its own.

use std::time::Duration;

use idem_amqp::{
    MemoryStore, Queue, RunError,
    error::TopologyProblem,
    session::Sessions,
    worker::{Health, Incident},
};
use idem_tests::{
    interfered::{Call, Fate, Interfered},
    journal::eventually,
    requester::Requester,
    script::Script,
    session::{Session, ask_control, control, control_properties, id},
};
use lapin::types::FieldTable;
use serde_json::json;

use crate::{
    prefetch::declare,
    replies::order,
    sessions::{bed, building, counts, serving},
};

/// A client asks again for a session, or a copy of its opening comes late.
///
/// - does: opens another session; nothing is ever handled in one that nobody uses, and it ends by itself
///
/// A copy of an opening may come when the session that it asked for has ended and been forgotten.
#[tokio::test]
async fn each_opening_opens_a_session_of_its_own_also_a_copy_of_an_earlier_one() {
    let bed = bed().await;
    let requester = Requester::on(&bed).await;
    let script = Script::succeeding();
    let worker = serving(&bed, MemoryStore::new(), &script, Sessions::default()).await;
    let (message_id, nothing) = (id(), json!({}));
    let open = || ask_control(&requester, bed.name(), "idem.open", &message_id, &nothing);
    let (first, copy) = (open().await.json(), open().await.json());
    assert_ne!(first["session"], copy["session"]);
    let balance = worker.stop().await;
    assert_eq!(balance.sessions(), counts(|counts| counts.opened = 2));
    bed.assert_nothing_stuck().await;
}

/// Shares the promise of `sessions::a_request_of_an_unknown_session_is_refused_and_does_not_run`.
#[tokio::test]
async fn a_closed_session_takes_no_more_requests() {
    let bed = bed().await;
    let requester = Requester::on(&bed).await;
    let script = Script::succeeding();
    let worker = serving(&bed, MemoryStore::new(), &script, Sessions::default()).await;
    let session = Session::open(&requester, bed.name()).await;
    session.ask(0, 0, &order("a")).await;
    assert_eq!(session.heartbeat().await.json(), json!({}));
    // Closed again, as a client does whose first answer was late: counted once.
    for _ in 0..2 {
        let closed = session.close().await;
        assert_eq!((closed.json(), closed.refusal()), (json!({}), None));
    }
    let expired = Some("session-expired".to_owned());
    assert_eq!(session.heartbeat().await.refusal(), expired);
    assert_eq!(session.ask(0, 0, &order("a")).await.refusal(), expired);
    script.assert_effects(["a"]);
    let balance = worker.stop().await;
    let expected = counts(|counts| {
        (counts.opened, counts.closed) = (1, 1);
        (counts.heartbeats, counts.expired) = (1, 1);
    });
    assert_eq!(balance.sessions(), expected);
    bed.assert_nothing_stuck().await;
}

/// A client asks for a key to be reserved.
///
/// - does: reserves one
#[tokio::test]
async fn a_client_has_keys_reserved() {
    let bed = bed().await;
    let requester = Requester::on(&bed).await;
    let script = Script::succeeding();
    let worker = serving(&bed, MemoryStore::new(), &script, Sessions::default()).await;
    let mut keys = Vec::new();
    for _ in 0..2 {
        let reply = ask_control(&requester, bed.name(), "idem.reserve", "", &json!({})).await;
        keys.push(reply.json()["key"].as_str().unwrap().to_owned());
    }
    assert!(keys.iter().all(|key| key.len() == 36), "{keys:?}");
    assert_ne!(keys[0], keys[1]);
    let balance = worker.stop().await;
    assert_eq!(balance.sessions(), counts(|counts| counts.reserved = 2));
    bed.assert_nothing_stuck().await;
}

/// A message in the queue of registrations is no registration.
///
/// - does: refuses it if it can, counts it, and removes it
#[tokio::test]
async fn what_is_no_registration_is_refused_and_gone() {
    let bed = bed().await;
    let requester = Requester::on(&bed).await;
    let script = Script::succeeding();
    let worker = serving(&bed, MemoryStore::new(), &script, Sessions::default()).await;
    let wrong = [("", id()), ("idem.heartbeat", id())];
    for (kind, id) in &wrong {
        let reply = ask_control(&requester, bed.name(), kind, id, &json!({})).await;
        assert_eq!(reply.refusal().as_deref(), Some("undecodable"), "{kind}");
    }
    // By a sender that waits for no answer: nothing is opened, and nothing is done again and again.
    for kind in ["idem.open", "idem.hello"] {
        let properties = control_properties(kind, &id());
        bed.send(&control(bed.name()), b"{}", properties).await;
    }
    bed.until_settled().await;
    let balance = worker.stop().await;
    let expected = counts(|counts| (counts.undecodable, counts.undelivered) = (3, 2));
    assert_eq!(balance.sessions(), expected);
    assert_eq!(balance.deliveries(), 0, "it is no message for the handler");
    bed.assert_nothing_stuck().await;
}

/// A client that registers, or gives a sign of life, is gone.
///
/// - does: does what is asked, counts what could not be answered
#[tokio::test]
async fn a_client_that_is_gone_is_told_nothing_and_counted() {
    let bed = bed().await;
    let (requester, gone) = (Requester::on(&bed).await, Requester::on(&bed).await);
    let script = Script::succeeding();
    let worker = serving(&bed, MemoryStore::new(), &script, Sessions::default()).await;
    let session = Session::open(&requester, bed.name()).await;
    let reply_to = gone.reply_to().to_owned();
    gone.leave().await;
    let properties = control_properties("idem.close", "").with_reply_to(reply_to.into());
    let body = json!({ "session": session.id }).to_string();
    bed.send(&control(bed.name()), body.as_bytes(), properties)
        .await;
    bed.until_settled().await;
    let expired = Some("session-expired".to_owned());
    assert_eq!(session.heartbeat().await.refusal(), expired);
    let balance = worker.stop().await;
    assert_eq!(
        (balance.sessions().closed, balance.sessions().undelivered),
        (1, 1)
    );
    bed.assert_nothing_stuck().await;
}

/// Sessions have ended.
///
/// - does: removes them from the store, with their answers, while a worker runs
#[tokio::test]
async fn a_worker_that_serves_sessions_removes_those_that_have_ended() {
    let bed = bed().await;
    let script = Script::succeeding();
    let store = Interfered::new(MemoryStore::new(), |_, _| Fate::Pass);
    let limits = Sessions::default().expire_every(Duration::from_secs(1));
    let worker = serving(&bed, store.clone(), &script, limits).await;
    eventually("sessions are removed", async || {
        match store.count(Call::Expire) {
            0 => Err("not yet"),
            _ => Ok(()),
        }
    })
    .await;
    worker.stop().await;
    bed.assert_nothing_stuck().await;
}

/// The queue of registrations is deleted.
///
/// - does: declares it again; health shows it
#[tokio::test]
async fn a_queue_of_registrations_that_is_deleted_is_a_problem_until_it_is_declared_again() {
    let bed = bed().await;
    let requester = Requester::on(&bed).await;
    let script = Script::succeeding();
    let worker = serving(&bed, MemoryStore::new(), &script, Sessions::default()).await;
    worker.until("it is ready", Health::is_ready).await;
    let queues = worker.health().queues();
    assert!(queues.iter().any(|(name, _)| *name == control(bed.name())));
    bed.delete(&control(bed.name())).await;
    let cancelled = |health: &Health| {
        let incidents = health.incidents();
        incidents.of(Incident::ConsumerCancelled) + incidents.of(Incident::ChannelClosed) > 0
    };
    worker.until("it has noticed", cancelled).await;
    worker.until("it is ready again", Health::is_ready).await;
    let session = Session::open(&requester, bed.name()).await;
    assert_eq!(session.ask(0, 0, &order("a")).await.refusal(), None);
    worker.stop().await;
    bed.assert_nothing_stuck().await;
}

/// The queue of registrations is deleted, and declared again at once by somebody else.
///
/// - does: renews its channel when nothing has come for a while, and opens sessions again
///
/// RabbitMQ 3.10 says nothing to the consumer of a quorum queue that is gone for a moment.
#[tokio::test]
async fn a_queue_of_registrations_that_is_deleted_and_declared_again_at_once_is_consumed_again() {
    let bed = bed().await;
    let control = control(bed.name());
    declare(&bed, &control).await;
    let requester = Requester::on(&bed).await;
    let script = Script::succeeding();
    let (store, limits) = (MemoryStore::new(), Sessions::default());
    let worker = building(store, &script, limits, Queue::existing(bed.name()));
    let worker = bed.start(worker.renew_idle_after(Duration::from_millis(500)));
    bed.until_consumed(&control, 1).await;
    Session::open(&requester, bed.name()).await;

    bed.delete(&control).await;
    declare(&bed, &control).await;
    let session = Session::open(&requester, bed.name()).await;
    assert_eq!(session.ask(0, 0, &order("a")).await.refusal(), None);
    let balance = worker.stop().await;
    assert_eq!(balance.sessions(), counts(|counts| counts.opened = 2));
    script.assert_effects(["a"]);
    bed.assert_nothing_stuck().await;
}

/// An existing queue has no queue of registrations.
///
/// - does: ends the worker with a clear error
/// - atomic: no effect
/// - leased: no effect
#[tokio::test]
async fn an_existing_queue_without_a_queue_of_registrations_ends_the_worker_with_a_clear_error() {
    let bed = bed().await;
    let script = Script::succeeding();
    let existing = || Queue::existing(bed.name());
    let limits = Sessions::default();
    let worker = building(MemoryStore::new(), &script, limits, existing());
    let RunError::Topology(error) = bed.start(worker).failed().await else {
        panic!("it is about a queue")
    };
    assert_eq!(error.name(), control(bed.name()));
    assert_eq!(error.problem(), &TopologyProblem::Missing);

    let none = FieldTable::default();
    bed.declare_foreign(&control(bed.name()), none).await;
    let worker = building(MemoryStore::new(), &script, limits, existing());
    let worker = bed.start(worker);
    let requester = Requester::on(&bed).await;
    let session = Session::open(&requester, bed.name()).await;
    assert_eq!(session.ask(0, 0, &order("a")).await.refusal(), None);
    worker.stop().await;
    bed.assert_nothing_stuck().await;
}
