//! Services that are wired up wrongly are told where.

use axum::{Router, extract::Request as Incoming, middleware, middleware::Next, routing::post};
use idem_http::IdempotencyLayer;
use idem_testing::http::{Setup, assert_idempotent};

use super::*;

async fn note(State(journal): State<Journal>, Json(order): Json<Order>) -> StatusCode {
    journal.write(order.id);
    StatusCode::CREATED
}

/// The layer is for the routes that are there when it is laid: there are none yet.
#[tokio::test(start_paused = true)]
async fn a_route_that_was_added_behind_its_layer_is_found_out() {
    let harness = Setup::new(Journal::default).service(|store, journal: &Journal| {
        let once = IdempotencyLayer::new(store).unscoped();
        let router = Router::new().layer(once).route("/charges", post(note));
        router.with_state(journal.clone())
    });
    let order = order("k-1", "o-17");
    let panic = panic_of(assert_idempotent(&harness, &order, async |run| {
        run.state().read()
    }))
    .await;
    for part in [
        "delivered again: the effect is doubled",
        "delivered to two workers at once: the effect is doubled",
        "A copy has run: the layer is not round this route",
    ] {
        assert!(panic.contains(part), "{panic}");
    }
}

/// What is outside of the layer runs for copies, too.
#[tokio::test(start_paused = true)]
async fn an_effect_outside_of_the_layer_is_found_out() {
    let harness = Setup::new(Journal::default).service(|store, journal: &Journal| {
        let counted = journal.clone();
        let count = middleware::from_fn(move |request: Incoming, next: Next| {
            counted.write("a request");
            next.run(request)
        });
        let once = IdempotencyLayer::new(store).unscoped();
        let charges = Router::new().route("/charges", post(async || StatusCode::CREATED));
        charges.layer(once).layer(count)
    });
    let order = order("k-1", "o-17");
    let panic = panic_of(assert_idempotent(&harness, &order, async |run| {
        run.state().read()
    }))
    .await;
    assert!(
        panic.contains("delivered again: the effect is doubled"),
        "{panic}"
    );
}

/// An answer from outside of the layer is not the one that was remembered.
#[tokio::test(start_paused = true)]
async fn a_copy_that_is_answered_otherwise_than_the_first_is_found_out() {
    let harness = Setup::new(Journal::default).service(|store, journal: &Journal| {
        let requests = Arc::new(Mutex::new(0));
        let number = middleware::map_response(move |mut response: axum::response::Response| {
            let requests = Arc::clone(&requests);
            async move {
                let mut requests = requests.lock().unwrap();
                *requests += 1;
                response
                    .headers_mut()
                    .insert("x-number", (*requests).into());
                response
            }
        });
        let once = IdempotencyLayer::new(store).unscoped();
        let charges = Router::new().route("/charges", post(note)).layer(once);
        charges.layer(number).with_state(journal.clone())
    });
    let order = order("k-1", "o-17");
    let panic = panic_of(assert_idempotent(&harness, &order, async |run| {
        run.state().read()
    }))
    .await;
    let told = "delivered again: the effect is right, but the message is not taken for done";
    assert!(panic.contains(told), "{panic}");
    assert!(
        panic.contains("it was answered with 201 Created"),
        "{panic}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_service_that_asks_for_ever_to_come_again_is_told() {
    let harness = Setup::new(|| ()).service(|store, ()| {
        let once = IdempotencyLayer::new(store).unscoped();
        let failing = post(async || StatusCode::SERVICE_UNAVAILABLE);
        Router::new().route("/charges", failing).layer(once)
    });
    let panic = panic_of(async { harness.send_until_done(&order("k-1", "o-17")).await }).await;
    assert!(panic.starts_with("after 1000 tries"), "{panic}");
}
