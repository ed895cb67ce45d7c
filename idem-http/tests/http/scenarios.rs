//! The scenarios that idempot.dev has for the draft of `Idempotency-Key`, in our words; and where this layer differs.

use std::time::Duration;

use idem_core::MemoryStore;
use idem_http::IdempotencyLayer;

use crate::{
    client::{Answer, Request, post},
    service::Service,
};

const KEY: &str = "abc123456789012345678";
const OTHER_KEY: &str = "key2-12345678901234567";
const ORDER: &str = r#"{"foo":"bar"}"#;
const OTHER_ORDER: &str = r#"{"baz":"qux"}"#;

/// What comes back for the last request: a response of the handler's own, the first one's again, or a problem.
#[derive(Debug, Clone, Copy)]
enum Told {
    Response,
    Replay,
    Problem(u16, &'static str),
}

use Told::{Problem, Replay, Response};

fn order(key: &str) -> Request {
    post(ORDER).key(key)
}

fn told(answer: &Answer, told: Told, what: &str) {
    match told {
        Response => assert_eq!(
            (answer.status, answer.is_replayed()),
            (201, false),
            "{what}"
        ),
        Replay => assert_eq!((answer.status, answer.is_replayed()), (201, true), "{what}"),
        Problem(status, kind) => {
            answer.assert_problem(status, kind);
        }
    }
}

async fn service() -> Service {
    let layer = IdempotencyLayer::new(MemoryStore::new()).unscoped();
    Service::start(layer.wait(Duration::from_millis(50))).await
}

#[tokio::test]
async fn the_scenarios_of_idempot_dev() {
    let too_long = "k".repeat(256);
    let uuid = "8e03978e-40d5-43e8-bc93-6894a57f9324";
    let commas = "key,with,commas,longer-than-twenty-chars";
    let (missing, invalid) = (Problem(400, "key-missing"), Problem(400, "key-invalid"));
    let reused = Problem(422, "key-reused");
    let first = || vec![order(KEY)];
    // What was sent before, the request, what it is told, and how many orders there are in the end.
    let scenarios = [
        ("no key", vec![], post(ORDER), missing, 0),
        ("an empty key", vec![], order(""), invalid, 0),
        (
            "a key of 256 characters",
            vec![],
            order(&too_long),
            invalid,
            0,
        ),
        ("a key with commas", vec![], order(commas), invalid, 0),
        ("a key that can be used", vec![], order(uuid), Response, 1),
        ("the first with its key", vec![], order(KEY), Response, 1),
        ("a copy", first(), order(KEY), Replay, 1),
        ("the third copy", vec![order(KEY); 3], order(KEY), Replay, 1),
        (
            "another order under the key",
            first(),
            post(OTHER_ORDER).key(KEY),
            reused,
            1,
        ),
        ("no body", vec![], post("").key(KEY), Response, 1),
        ("PATCH", vec![], order(KEY).method("PATCH"), Response, 1),
        (
            "a copy of PATCH",
            vec![order(KEY).method("PATCH")],
            order(KEY).method("PATCH"),
            Replay,
            1,
        ),
        ("GET passes", first(), order(KEY).method("GET"), Response, 2),
        ("PUT passes", first(), order(KEY).method("PUT"), Response, 2),
        (
            "DELETE passes",
            first(),
            order(KEY).method("DELETE"),
            Response,
            2,
        ),
        // Here we differ: who orders the same twice, under two keys, means it. There it is answered with 409.
        (
            "the same order under another key",
            first(),
            order(OTHER_KEY),
            Response,
            2,
        ),
    ];
    for (what, before, request, expected, orders) in scenarios {
        let service = service().await;
        for request in before {
            service.send(request).await;
        }
        told(&service.send(request).await, expected, what);
        assert_eq!(service.effects.count(), orders, "{what}");
    }
}

#[tokio::test]
async fn while_the_first_is_under_way_a_copy_is_told_so() {
    let service = service().await;
    let waits = post(r#"{"behave":"wait"}"#).key(KEY);
    let first = service.spawn(waits.clone());
    service.effects.begun().await;
    let copy = service.send(waits).await;
    told(&copy, Problem(409, "in-progress"), "a copy at once");
    service.effects.open();
    told(&first.await.unwrap(), Response, "the first");
    assert_eq!(service.effects.count(), 1);
}
