use idem_core::{
    Envelope, Failed, Key,
    handler::{Context, DecodeError, Handler, Leased, Rejection},
    message::KeyError,
};
use lapin::types::ShortString;
use serde_json::{Value, json};

use super::*;
use crate::wire::{delivery::Origin, republish::Republished};

fn request(reply_to: &str) -> Delivery {
    Delivery::new(Origin {
        unreadable: None,
        comes_back_to: None,
        partition: None,
        queue: "orders".into(),
        exchange: ShortString::default(),
        routing_key: "orders".into(),
        redelivered: false,
        properties: BasicProperties::default()
            .with_reply_to(reply_to.into())
            .with_correlation_id("c-1".into())
            .with_message_id("m-1".into()),
    })
}

fn sent(reply: &Reply, to: &str) -> (bool, BasicProperties) {
    let publication = reply.publication(to, &request(to));
    (publication.is_mandatory(), publication.into_properties())
}

#[test]
fn a_request_is_one_only_if_its_reply_goes_elsewhere() {
    assert_eq!(request("replies").reply_to(), Some("replies"));
    assert_eq!(request("").reply_to(), None);
    assert_eq!(request("orders").reply_to(), None);
    // An AMQP 1.0 publisher's, which no broker has put an address in.
    assert_eq!(request("amq.rabbitmq.reply-to").reply_to(), None);
}

#[test]
fn a_reply_is_its_own_message_that_answers_this_request() {
    let (mandatory, properties) = sent(&Reply::new(&Outcome::new("7")), "replies");
    assert!(mandatory);
    assert_eq!(*properties.delivery_mode(), Some(PERSISTENT));
    let correlation = properties.correlation_id().as_ref().unwrap();
    assert_eq!(correlation.as_str(), "c-1");
    assert_ne!(properties.message_id().as_ref().unwrap().as_str(), "m-1");
    assert!(properties.reply_to().is_none());
}

#[test]
fn a_reply_to_a_channel_is_transient_and_its_return_not_asked_for() {
    let reply = Reply::new(&Outcome::new("7"));
    let (mandatory, properties) = sent(&reply, "amq.rabbitmq.reply-to.g1h2.abc==");
    assert!(!mandatory);
    assert_eq!(*properties.delivery_mode(), Some(TRANSIENT));
}

#[test]
fn only_a_refusal_says_that_it_is_one() {
    let headers = |reply: &Reply| sent(reply, "replies").1.headers().clone().unwrap();
    let output = headers(&Reply::new(&Outcome::new("7")));
    assert!(!output.contains_key(REFUSAL));
    let refusal = Refusal::new("taken", "somebody has it");
    let refused = headers(&Reply::rejection(&refusal));
    let code = AMQPValue::LongString("taken".into());
    assert_eq!(refused.inner().get(REFUSAL), Some(&code));
}

#[test]
fn a_rejection_says_why_and_another_refusal_is_none() {
    let refusal = Refusal::rejected("no such customer");
    let error = Some("no such customer");
    assert_eq!(Reply::rejection(&refusal).unheard(), error);
    assert_eq!(Reply::refusal(&refusal).unheard(), None);
}

/// Its output used to be a number, and is an object now.
struct Changed;

impl Operation for Changed {
    type Message = ();
    type Output = Value;
    type Error = Failed;
    type Mode = Leased;
    const SCOPE: &'static str = "changed";

    fn decode(_: &Envelope) -> Result<(), DecodeError> {
        Ok(())
    }

    fn key((): &(), _: &Envelope) -> Result<Key, KeyError> {
        Key::new("changed", "a")
    }

    fn recall(output: &[u8]) -> Result<std::borrow::Cow<'_, [u8]>, Refusal> {
        match output {
            b"7" => Ok(b"{\"amount\":7}".into()),
            b"8" => panic!("8 was never thought of"),
            _ => Err(Refusal::new(Refusal::OUTCOME_OUTDATED, "older than that")),
        }
    }
}

impl Handler<()> for Changed {
    fn call<'a>(
        (): (),
        _: &'a Context<'a, ()>,
        (): (),
    ) -> Result<impl Future<Output = Result<Value, Failed>> + Send + 'a, Rejection> {
        Ok(async { Ok(json!({"amount": 7})) })
    }
}

#[test]
fn what_an_older_version_remembered_is_read_by_todays() {
    let recalled = |output: &'static str| Reply::recalled::<Changed>(&Outcome::new(output));
    let reply = recalled("7");
    assert_eq!(
        (reply.body.as_slice(), reply.replayed),
        (&b"{\"amount\":7}"[..], true)
    );
    for output in ["8", "9"] {
        let reply = recalled(output);
        assert_eq!(
            reply.refusal.as_deref(),
            Some("outcome-outdated"),
            "{output}"
        );
        assert!(reply.replayed);
    }
}

#[test]
fn what_was_sent_is_counted_by_what_it_was() {
    let counters = ReplyCounters::default();
    let output = Reply::new(&Outcome::new("7"));
    let refused = Reply::refusal(&Refusal::rejected("no"));
    let recalled = Reply::recalled::<Changed>(&Outcome::new("7"));
    for reply in [&output, &refused, &recalled] {
        counters.count(reply, ReplyOutcome::Sent);
    }
    counters.count(&refused, ReplyOutcome::RequesterGone);
    counters.count(&output, ReplyOutcome::Lost);
    counters.count(&output, ReplyOutcome::Disallowed);
    let replies = counters.replies();
    assert_eq!(
        replies.to_string(),
        "replies=3 replayed=1 refused=1 gone=1 lost=1 disallowed=1"
    );
}

/// To publish it would close the channel, again and again.
#[test]
fn a_direct_reply_of_nobody_is_not_asked_for_when_a_message_is_published_again() {
    let again = |reply_to| {
        let again = Republished::of(&request(reply_to)).publication("", "orders.dead", b"");
        again.into_properties().reply_to().is_some()
    };
    assert!(again("replies"));
    assert!(!again("amq.rabbitmq.reply-to"));
}
