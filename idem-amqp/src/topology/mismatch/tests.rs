//! What people and programs are told about the broker's refusals.

use super::*;

const REFUSES: &str = "PRECONDITION_FAILED - inequivalent arg ";

fn said(step: Step<'_>, queue: &Queue, code: u16, text: &str) -> String {
    refused(step, queue, code, text).to_string()
}

fn declaring(queue: &Queue, name: &str, rest: &str) -> String {
    let (argument, values) = rest.split_once(' ').unwrap();
    let text = format!("{REFUSES}'{argument}' for queue '{name}' in vhost '/': {values}");
    said(Step::Queue(name), queue, PRECONDITION_FAILED, &text)
}

#[test]
fn a_queue_of_another_type_is_to_be_chosen_as_it_is() {
    let quorum = Queue::quorum("orders");
    assert_eq!(
        declaring(
            &quorum,
            "orders",
            "x-queue-type received 'quorum' but current is 'classic'"
        ),
        "the queue `orders` cannot be used: its `x-queue-type` is `classic`, and idem declares \
         `quorum`; consume it as it is with `Queue::existing`, or, if idem has declared it, declare \
         it with `Queue::classic`"
    );
    let unset = "x-queue-type received the value 'quorum' of type 'longstr' but current is none";
    assert!(declaring(&quorum, "orders", unset).contains("; consume it as it is with"));
    let classic = Queue::classic(quorum.name());
    assert_eq!(
        declaring(
            &classic,
            "orders",
            "x-queue-type received 'classic' but current is 'quorum'"
        ),
        "the queue `orders` cannot be used: its `x-queue-type` is `quorum`, and idem declares \
         `classic`; declare it with `Queue::quorum`, or consume it as it is with `Queue::existing`"
    );
}

#[test]
fn another_argument_is_named_with_both_values() {
    let queue = Queue::quorum("orders");
    assert_eq!(
        declaring(
            &queue,
            "orders",
            "x-delivery-limit received '1000' but current is '5'"
        ),
        "the queue `orders` cannot be used: its `x-delivery-limit` is `5`, and idem declares \
         `1000`; consume it as it is with `Queue::existing`, or delete it when it is empty, to \
         have it declared anew, unless another version of the program declares it so"
    );
    let dead = "x-delivery-limit received '1000000000' but current is '5'";
    assert!(declaring(&queue, "orders.dead", dead).contains("`.dead_letters(…)`"));
    let rung = "x-message-ttl received '5000' but current is '4000'";
    assert!(declaring(&queue, "idem.retry.5s", rung).contains("all workers of a vhost share it"));
}

#[test]
fn a_missing_queue_is_to_be_declared_first() {
    let queue = Queue::existing("orders").dead_letters("morgue");
    let find = |name: &str| {
        let text = format!("NOT_FOUND - no queue '{name}' in vhost '/'");
        said(Step::Queue(name), &queue, NOT_FOUND, &text)
    };
    assert_eq!(
        find("orders"),
        "the queue `orders` cannot be used: it does not exist; declare it first, or let the worker \
         do so with `Queue::quorum`"
    );
    assert_eq!(
        find("morgue"),
        "the queue `morgue` cannot be used: it does not exist; declare it first, or name another \
         one with `.dead_letters(…)` or `.dead_letter_exchange(…)`"
    );
}

#[test]
fn a_missing_permission_is_named_with_the_command_that_grants_it() {
    let queue = Queue::existing("orders");
    let text =
        "ACCESS_REFUSED - read access to queue 'orders' in vhost 'eu' refused for user 'shop'";
    assert_eq!(
        said(Step::Consume("orders"), &queue, ACCESS_REFUSED, text),
        "the queue `orders` cannot be used: the user `shop` lacks the read permission on it; grant \
         what this queue needs, beside what else the user needs: rabbitmqctl set_permissions -p \
         'eu' 'shop' '^$' '^amq\\.default$' '^(orders|orders\\.dead)$'"
    );
}

#[test]
fn a_permission_that_the_broker_does_not_name_is_concluded_where_that_is_certain() {
    let queue = Queue::quorum("q");
    let table = [
        (Step::Consume("q"), "queue 'q'", Some(Permission::Read)),
        (Step::Bind("q"), "queue 'q'", Some(Permission::Write)),
        (
            Step::Bind("q"),
            "exchange 'idem.return'",
            Some(Permission::Read),
        ),
        (
            Step::Queue("q"),
            "exchange 'amq.default'",
            Some(Permission::Write),
        ),
        (Step::Queue("q"), "queue 'q'", None),
        (
            Step::Exchange("idem.return"),
            "exchange 'idem.return'",
            None,
        ),
        (
            Step::Exchange("idem.return"),
            "exchange 'idem.unrouted'",
            Some(Permission::Write),
        ),
    ];
    for (step, object, expected) in table {
        let text = format!("ACCESS_REFUSED - access to {object} in vhost '/' refused for user 'u'");
        let Problem::Forbidden { permission, .. } =
            refused(step, &queue, ACCESS_REFUSED, &text).problem
        else {
            panic!("{text} is not understood")
        };
        assert_eq!(permission, expected, "{step:?} {object}");
    }
}

#[test]
fn an_unknown_text_is_passed_on_as_it_is() {
    let queue = Queue::quorum("orders");
    let refusal = refused(
        Step::Queue("orders"),
        &queue,
        PRECONDITION_FAILED,
        "no idea",
    );
    assert_eq!(refusal, passed_on(Step::Queue("orders"), true));
    assert_eq!(
        refusal.to_string(),
        "the queue `orders` cannot be used: see the broker's answer"
    );
}

#[test]
fn only_what_waiting_does_not_cure_is_lasting() {
    let queue = Queue::quorum("orders");
    let table = [
        (ACCESS_REFUSED, "no idea", true),
        (PRECONDITION_FAILED, "no idea", true),
        (
            NOT_FOUND,
            "NOT_FOUND - no queue 'orders' in vhost '/'",
            true,
        ),
        (
            NOT_FOUND,
            "NOT_FOUND - home node 'a@b' of durable queue 'orders' in vhost '/' is down",
            false,
        ),
        (
            405,
            "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue",
            false,
        ),
        (541, "INTERNAL_ERROR", false),
    ];
    for (code, text, lasting) in table {
        let refusal = refused(Step::Queue("orders"), &queue, code, text);
        assert_eq!(refusal.lasting, lasting, "{code} {text}");
    }
}
