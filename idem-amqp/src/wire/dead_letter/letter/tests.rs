//! What a dead letter tells, and what is sent again.

use lapin::{
    BasicProperties,
    types::{AMQPValue, FieldArray, FieldTable},
};

use super::*;

fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(value.into())
}

fn table(entries: Vec<(&str, AMQPValue)>) -> FieldTable {
    let mut table = FieldTable::default();
    for (name, value) in entries {
        table.insert(name.into(), value);
    }
    table
}

fn letter(headers: Vec<(&str, AMQPValue)>) -> DeadLetter {
    of(BasicProperties::default().with_headers(table(headers)))
}

fn of(properties: BasicProperties) -> DeadLetter {
    let delivery = Delivery::new(Origin {
        unreadable: None,
        comes_back_to: None,
        partition: None,
        queue: "orders.dead".into(),
        exchange: "".into(),
        routing_key: "orders.dead".into(),
        redelivered: false,
        properties,
    });
    DeadLetter::new(delivery, b"{}".to_vec(), &["archive".into()])
}

/// What the broker writes when a message died in this queue.
fn death(queue: &str) -> (&'static str, AMQPValue) {
    let death = table(vec![
        ("queue", text(queue)),
        ("reason", text("delivery_limit")),
        ("exchange", text("shop")),
        (
            "routing-keys",
            AMQPValue::FieldArray(FieldArray::from(vec![text("order.placed")])),
        ),
        ("count", AMQPValue::LongLongInt(1)),
        ("time", AMQPValue::Timestamp(90)),
    ]);
    let deaths = FieldArray::from(vec![AMQPValue::FieldTable(death)]);
    ("x-death", AMQPValue::FieldArray(deaths))
}

fn ours() -> Vec<(&'static str, AMQPValue)> {
    vec![
        (REASON, text("rejected")),
        (ERROR, text("no such customer")),
        (ATTEMPT, AMQPValue::LongUInt(3)),
        (KEY, text("charge:a")),
        (QUEUE, text("orders")),
        (EXCHANGE, text("events")),
        (ROUTING_KEY, text("placed")),
        (FIRST_FAILURE, AMQPValue::Timestamp(50)),
        (LAST_FAILURE, AMQPValue::Timestamp(60)),
    ]
}

/// Reason, error, attempt, key, queue, exchange, routing key, first and last failure.
fn told(letter: &DeadLetter) -> String {
    let seconds = |time: Option<SystemTime>| {
        time.map(|time| time.duration_since(UNIX_EPOCH).unwrap().as_secs())
    };
    format!(
        "{} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
        letter.reason(),
        letter.error(),
        letter.attempt(),
        letter.key(),
        letter.queue(),
        letter.exchange(),
        letter.routing_key(),
        seconds(letter.first_failure()),
        seconds(letter.last_failure()),
    )
}

const OURS: &str = r#"rejected Some("no such customer") Some(3) Some("charge:a") Some("orders") Some("events") Some("placed") Some(50) Some(60)"#;
const THE_BROKERS: &str = r#"broker-delivery-limit None None None Some("orders") Some("shop") Some("order.placed") Some(90) Some(90)"#;

#[test]
fn a_letter_of_ours_tells_what_its_headers_say() {
    assert_eq!(told(&letter(ours())), OURS);
}

#[test]
fn a_letter_of_the_brokers_tells_what_its_deaths_say() {
    assert_eq!(told(&letter(vec![death("orders")])), THE_BROKERS);
}

#[test]
fn a_letter_that_says_nothing_tells_nothing() {
    let expected = "unknown None None None None None None None None";
    assert_eq!(told(&letter(vec![])), expected);
}

#[test]
fn a_letter_of_ours_that_was_moved_on_from_its_dead_letter_queue_is_still_ours() {
    let mut headers = ours();
    headers.push(death("orders.dead"));
    let moved = told(&letter(headers));
    assert_eq!(moved, OURS.replace("Some(60)", "Some(90)"));
}

/// By this name a worker knows it, and nobody else publishes there.
#[test]
fn a_letter_of_ours_that_was_moved_on_from_a_queue_that_is_told_is_still_ours() {
    let mut headers = ours();
    headers.push(death("archive"));
    let moved = told(&letter(headers));
    assert_eq!(moved, OURS.replace("Some(60)", "Some(90)"));
}

/// The queue that it goes back to is that of all partitions.
#[test]
fn a_letter_is_sent_again_as_one_of_its_partition_also_if_the_broker_dead_lettered_it() {
    let partition = (PARTITION, text("orders-1"));
    let by_idem = [ours(), vec![partition.clone()]].concat();
    let by_the_broker = vec![(QUEUE, text("orders")), partition.clone(), death("orders")];
    let forged = vec![(QUEUE, text("payments")), partition, death("orders")];
    for (headers, expected) in [
        (by_idem, Some("orders-1")),
        (by_the_broker, Some("orders-1")),
        (forged, None),
    ] {
        let again = of(letter(headers).again("orders").into_properties());
        assert_eq!(again.header(PARTITION).as_deref(), expected);
    }
}

#[test]
fn a_message_that_died_elsewhere_than_its_headers_say_is_the_brokers() {
    for queue in ["payments", "orders.dead", "orders.dead.dead", ""] {
        let mut headers = ours();
        headers.retain(|(name, _)| *name != QUEUE);
        headers.extend([(QUEUE, text(queue)), death("orders")]);
        let letter = letter(headers);
        assert_eq!(told(&letter), THE_BROKERS, "{queue}");
        for again in [letter.again("orders"), letter.copy()] {
            assert_eq!(told(&of(again.into_properties())), THE_BROKERS, "{queue}");
        }
    }
}

/// Also when it went on from there: into the dead-letter queue of the queue that it names, say.
#[test]
fn a_message_that_died_elsewhere_before_is_the_brokers() {
    let deaths = ["orders.dead", "idem.retry.5s", "payments"].map(|queue| {
        let (_, death) = death(queue);
        death.as_array().unwrap().as_slice()[0].clone()
    });
    let mut headers = ours();
    let deaths = FieldArray::from(deaths.to_vec());
    headers.push(("x-death", AMQPValue::FieldArray(deaths)));
    let letter = letter(headers);
    assert_eq!(letter.reason(), "broker-delivery-limit");
    assert_eq!((letter.queue(), letter.key()), (None, None));
}

#[test]
fn a_letter_that_was_sent_again_and_that_the_broker_then_dead_lettered_says_so() {
    let mut headers = ours();
    headers.push(death("orders"));
    let letter = letter(headers);
    assert_eq!(letter.reason(), "broker-delivery-limit");
    assert_eq!(letter.error(), Some("no such customer"));
}

#[test]
fn what_is_sent_again_tells_the_same_without_the_brokers_headers() {
    for (headers, expected) in [(ours(), OURS), (vec![death("orders")], THE_BROKERS)] {
        let again = of(letter(headers).again("orders").into_properties());
        assert_eq!(told(&again), expected);
        assert_eq!(again.header("x-death"), None);
    }
}

#[test]
fn a_copy_of_a_letter_that_says_nothing_does_not_make_an_origin_up() {
    let copy = of(letter(vec![]).copy().into_properties());
    assert_eq!((copy.queue(), copy.reason()), (None, "unknown"));
}

#[test]
fn a_copy_tells_the_same_as_the_letter_in_whose_place_it_is() {
    let mut stranded = ours();
    stranded.retain(|(name, _)| *name != REASON);
    stranded.push(death("idem.retry.5s"));
    for headers in [ours(), vec![death("orders")], stranded] {
        let letter = letter(headers);
        let copy = of(letter.copy().into_properties());
        assert_eq!(told(&copy), told(&letter));
        // Also the second one.
        let copy = of(copy.copy().into_properties());
        assert_eq!(told(&copy), told(&letter));
        let (original, copy) = [&letter, &copy]
            .map(|it| of(it.again("orders").into_properties()))
            .into();
        assert_eq!(told(&copy), told(&original));
        assert_eq!(copy.header(UNROUTED), None);
    }
}

#[test]
fn a_name_that_no_queue_can_have_is_no_origin() {
    for name in [String::new(), "q".repeat(256)] {
        assert_eq!(letter(vec![(QUEUE, text(&name))]).queue(), None);
    }
    let long = text(&"x".repeat(300));
    letter(vec![(QUEUE, text("orders")), (EXCHANGE, long)]).again("orders");
}

#[test]
fn a_body_is_not_shown() {
    assert!(!format!("{:?}", letter(ours())).contains("{}"));
}

#[test]
fn a_publishers_word_for_the_origin_does_not_count_beside_the_brokers() {
    let forged = letter(vec![(QUEUE, text("victim")), death("orders")]);
    assert_eq!(forged.queue(), Some("orders"));
}

#[test]
fn a_letter_that_died_in_the_queue_that_it_is_in_has_no_origin() {
    assert_eq!(letter(vec![death("orders.dead")]).queue(), None);
}

#[test]
fn a_retry_whose_queue_was_gone_goes_on_as_no_replay() {
    let stranded = letter(vec![(QUEUE, text("orders")), death("idem.retry.5s")]);
    assert_eq!(stranded.queue(), Some("orders"));
    let again = of(stranded.again("orders").into_properties());
    assert_eq!(again.header(REASON), None);
    let copy = of(stranded.copy().into_properties());
    let again = of(copy.again("orders").into_properties());
    assert_eq!(again.header(REASON), None);
}

#[test]
fn a_publishers_word_for_a_way_on_the_ladder_does_not_count_beside_the_brokers() {
    let own = vec![(UNROUTED, text("broker-expired")), (QUEUE, text("victim"))];
    let forged = letter([own, vec![death("orders")]].concat());
    assert_eq!(forged.queue(), Some("orders"));
}
