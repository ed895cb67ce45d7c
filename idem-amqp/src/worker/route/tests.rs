//! Which messages a route takes.

use lapin::{
    BasicProperties,
    types::{AMQPValue, FieldTable},
};

use super::*;
use crate::{
    telemetry::ROUTES,
    wire::{delivery::Origin, ladder::RETURN},
};

#[test]
fn a_pattern_takes_the_keys_that_a_topic_exchange_would_take() {
    for (pattern, takes, leaves) in [
        (
            "order",
            &["order"][..],
            &["", "orders", "order.a", "Order"][..],
        ),
        (
            "order.*",
            &["order.a", "order."],
            &["order", "order.a.b", "x.a"],
        ),
        ("*", &["order"], &["", "order.a"]),
        ("*.*", &["a.b", ".", "a."], &["a", "a.b.c", ""]),
        ("*.paid", &["order.paid", ".paid"], &["paid", "a.b.paid"]),
        ("#", &["", "order", "a.b.c", ".."], &[]),
        (
            "order.#",
            &["order", "order.a", "order.a.b"],
            &["", "a.order"],
        ),
        (
            "#.paid",
            &["paid", "a.paid", "a.b.paid", "paid.paid"],
            &["", "paid.a"],
        ),
        (
            "a.#.d",
            &["a.d", "a.b.d", "a.b.c.d", "a.d.d"],
            &["a", "a.d.e", "d"],
        ),
        (
            "#.b.#",
            &["b", "a.b", "b.c", "a.b.c", "b.b"],
            &["", "a", "a.c"],
        ),
        ("#.*.#", &["a", "a.b"], &[""]),
        (
            "#.a.*.#.b",
            &["a.x.b", "c.a.x.y.b", "a.a.x.b"],
            &["a.b", "a.x.c"],
        ),
        ("order.*x", &["order.*x"], &["order.ax"]),
    ] {
        let matched = |key: &&str| is_matched(&words(pattern), &words(key));
        let left: Vec<_> = takes.iter().filter(|key| !matched(key)).collect();
        assert!(left.is_empty(), "{pattern} does not take {left:?}");
        let taken: Vec<_> = leaves.iter().filter(|key| matched(key)).collect();
        assert!(taken.is_empty(), "{pattern} takes {taken:?}");
    }
}

#[test]
fn no_pattern_takes_long() {
    let pattern = "#.a.".repeat(60) + "b";
    let key = "a.".repeat(127) + "c";
    assert!(!is_matched(&words(&pattern), &words(&key)));
}

fn route(by: By, takes: &str) -> Route {
    Route::new(by, takes.into(), 0, &Arc::new(Meters::of("orders", ROUTES)))
}

fn delivery(exchange: &str, routing_key: &str, properties: BasicProperties) -> Delivery {
    Delivery::new(Origin {
        unreadable: None,
        comes_back_to: None,
        partition: None,
        queue: "orders".into(),
        exchange: exchange.into(),
        routing_key: routing_key.into(),
        redelivered: false,
        properties,
    })
}

fn headed<const N: usize>(headers: [(&str, AMQPValue); N]) -> BasicProperties {
    let mut table = FieldTable::default();
    for (name, value) in headers {
        table.insert(name.into(), value);
    }
    BasicProperties::default().with_headers(table)
}

#[test]
fn a_type_or_a_header_is_compared_as_text() {
    let by_type = route(By::Type, "order.paid");
    let typed = |kind: &str| BasicProperties::default().with_type(kind.into());
    for (properties, expected) in [
        (typed("order.paid"), true),
        (typed("order.*"), false),
        (typed("order"), false),
        (typed(""), false),
        (BasicProperties::default(), false),
        (
            headed([("type", AMQPValue::LongString("order.paid".into()))]),
            false,
        ),
    ] {
        let delivery = delivery("", "order.paid", properties);
        assert_eq!(by_type.takes(&delivery), expected, "{delivery:?}");
    }
    let by_header = route(By::Header("event".into()), "1");
    for (value, expected) in [
        (AMQPValue::LongString("1".into()), true),
        (AMQPValue::LongInt(1), true),
        (AMQPValue::LongString("2".into()), false),
        (AMQPValue::LongString(vec![0xff].into()), false),
        (AMQPValue::Double(1.0), false),
        (AMQPValue::Void, false),
    ] {
        let delivery = delivery("", "1", headed([("event", value)]));
        assert_eq!(by_header.takes(&delivery), expected, "{delivery:?}");
    }
}

#[test]
fn a_message_that_comes_again_has_the_routing_key_that_it_was_published_with() {
    let by_key = route(By::RoutingKey, "order.*");
    let text = |text: &str| AMQPValue::LongString(text.into());
    let told = || headed([("idem-routing-key", text("order.paid"))]);
    assert!(by_key.takes(&delivery(RETURN, "orders", told())));
    let replay = headed([
        ("idem-routing-key", text("order.paid")),
        ("idem-queue", text("orders")),
        ("idem-reason", text("no-route")),
    ]);
    assert!(by_key.takes(&delivery("", "orders", replay)));
    // Its publisher wrote it.
    assert!(!by_key.takes(&delivery("shop", "stock.low", told())));
}
