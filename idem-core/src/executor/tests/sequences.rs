//! Numbered messages: at their place, and never without the store.

use super::*;
use crate::{
    handler::{
        Context, DecodeError, Invalid, Leased, Operation, Rejection, SequenceOptions, StoreOutage,
        operation::sequence::{number, numbered, numbered_key},
    },
    message::{Envelope, KeyError},
};

/// Its body is the number that the device gave it; it rejects number 3. Number 40 is not valid.
struct Read;

impl Operation for Read {
    type Message = u64;
    type Output = u64;
    type Error = Failed;
    type Mode = Leased;
    const SCOPE: &'static str = "readings";
    const SEQUENCE: Option<SequenceOptions<Self>> = Some(
        SequenceOptions::new(|number, _| {
            numbered(Key::builder("readings").part("device", "d-7"), Ok(*number))
        })
        .in_envelope(|envelope| {
            let number = number("x-number", &envelope.header("x-number"));
            numbered(Key::builder("readings").part("device", "d-7"), number)
        })
        .window(10),
    );

    fn decode(envelope: &Envelope) -> Result<u64, DecodeError> {
        envelope.json()
    }

    fn validate(number: &u64) -> Result<(), Invalid> {
        match number {
            40 => Err(Invalid::new("the sensor was being replaced")),
            _ => Ok(()),
        }
    }

    fn key(number: &u64, envelope: &Envelope) -> Result<Key, KeyError> {
        numbered_key::<Self>(number, envelope)
    }
}

impl Handler<()> for Read {
    fn call<'a>(
        number: u64,
        _: &'a Context<'a, ()>,
        (): (),
    ) -> Result<impl Future<Output = Result<u64, Failed>> + Send + 'a, Rejection> {
        Ok(async move {
            match number {
                3 => Err(Failed::rejected("no such sensor")),
                number => Ok(number),
            }
        })
    }
}

fn prepared(number: u64, policy: &Policy) -> Prepared<Read> {
    let prepared = Prepared::new(Envelope::new(number.to_string()), policy);
    prepared.expect("the body is a number")
}

async fn read(executor: &Executor<Faulty>, number: u64) -> Execution<u64, Failed> {
    let mut message = prepared(number, &Policy::DEFAULT);
    executor.handle(&mut message, &()).await
}

async fn read_all(executor: &Executor<Faulty>, numbers: impl IntoIterator<Item = u64>) {
    for number in numbers {
        let ended = read(executor, number).await;
        assert_ended(&ended, "executed");
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_is_claimed_at_its_place() {
    let message = prepared(17, &Policy::DEFAULT);
    assert_eq!(message.key().as_str(), "readings:d-7~17");
    let place = message.place_in_sequence().expect("it is numbered");
    assert_eq!((place.number, place.window), (17, 10));
}

#[tokio::test(start_paused = true)]
async fn numbers_run_in_any_order_inside_the_window_and_not_beyond_it() {
    let (executor, _) = executor();
    read_all(&executor, [0, 9, 5]).await;
    let ended = read(&executor, 11).await;
    let Execution::Ahead { mark, window } = ended else {
        panic!("{ended:?}");
    };
    assert_eq!((mark, window), (1, 10));
    assert_eq!((ended.attempt(), ended.kind().label()), (None, "ahead"));
    read_all(&executor, [1, 2, 4]).await;
    let ended = read(&executor, 11).await;
    assert_ended(&ended, "executed");
}

#[tokio::test(start_paused = true)]
async fn a_copy_of_what_the_mark_has_passed_is_a_duplicate() {
    let (executor, _) = executor();
    read_all(&executor, 0..3).await;
    let _ = read(&executor, 3).await;
    read_all(&executor, 4..30).await;
    let ended = read(&executor, 1).await;
    assert_ended(&ended, "duplicate");
}

#[tokio::test(start_paused = true)]
async fn what_was_given_up_stops_nothing_is_late_and_runs_again_for_a_person() {
    let (executor, _) = executor();
    read_all(&executor, 0..3).await;
    let ended = read(&executor, 3).await;
    assert_ended(&ended, "rejected");
    read_all(&executor, 4..30).await;
    let ended = read(&executor, 3).await;
    assert_ended(&ended, "late");
    let mut replay = prepared(3, &Policy::DEFAULT).replay(true);
    let ended = executor.handle(&mut replay, &()).await;
    assert_ended(&ended, "rejected 1");
}

#[tokio::test(start_paused = true)]
async fn a_numbered_message_never_runs_without_the_store_whatever_the_policy() {
    let (executor, store) = executor();
    store.go_away();
    let policy = Policy::builder().store_outage(StoreOutage::FailOpen);
    let mut message = prepared(0, &policy.build().unwrap());
    let ended = executor.handle(&mut message, &()).await;
    assert_ended(&ended, "store-unavailable");
    store.heal();
    let ended = executor.handle(&mut message, &()).await;
    assert_ended(&ended, "executed");
}

#[tokio::test(start_paused = true)]
async fn a_completion_whose_answer_is_lost_is_done_though_the_mark_passes_it_meanwhile() {
    let (executor, store) = executor();
    store.script(Call::Complete, [Fault::AnswerLost]);
    let (first, ()) = tokio::join!(read(&executor, 0), read_all(&executor, [1, 2, 4, 5, 6]));
    let done = matches!(
        first,
        Execution::Executed { .. } | Execution::LeaseLost { .. }
    );
    assert!(done, "{first:?}");
    let again = read(&executor, 0).await;
    assert_ended(&again, "duplicate");
}

/// A body that nobody can read, under a number.
fn garbled(number: &str) -> Result<Prepared<Read>, Execution<u64, Failed>> {
    let envelope = Envelope::builder("?").header("x-number", number).build();
    Prepared::new(envelope, &Policy::DEFAULT)
}

fn withdrawn(number: u64) -> Prepared<Read> {
    let envelope = Envelope::builder("").header("x-number", number.to_string());
    let message = Prepared::withdrawn(envelope.build(), &Policy::DEFAULT);
    message.expect("its envelope tells its place")
}

#[tokio::test(start_paused = true)]
async fn a_body_that_cannot_be_decoded_gives_its_number_up() {
    let (executor, _) = executor();
    read_all(&executor, 0..3).await;
    let mut message = garbled("3").expect("its envelope tells its place");
    let ended = executor.handle(&mut message, &()).await;
    assert_ended(&ended, "undecodable");
    read_all(&executor, 4..30).await;
    let mut mended = prepared(3, &Policy::DEFAULT).replay(true);
    let ended = executor.handle(&mut mended, &()).await;
    assert_ended(&ended, "rejected 1");
}

#[tokio::test(start_paused = true)]
async fn a_number_that_is_not_valid_is_given_up() {
    let (executor, store) = executor();
    read_all(&executor, 0..3).await;
    let _ = read(&executor, 3).await;
    read_all(&executor, 4..40).await;
    let mut message = prepared(40, &Policy::DEFAULT);
    store.go_away();
    for (healed, expected) in [(false, "store-unavailable"), (true, "invalid")] {
        if healed {
            store.heal();
        }
        let ended = executor.handle(&mut message, &()).await;
        assert_eq!(ended.kind().label(), expected);
    }
    read_all(&executor, 41..60).await;
}

#[tokio::test(start_paused = true)]
async fn a_body_that_cannot_be_decoded_is_no_gap_nor_a_duplicate_whatever_became_of_its_number() {
    let (executor, _) = executor();
    read_all(&executor, [0]).await;
    for (number, expected) in [("0", "undecodable"), ("10", "undecodable"), ("11", "ahead")] {
        let mut message = garbled(number).expect("its envelope tells its place");
        let ended = executor.handle(&mut message, &()).await;
        assert_eq!(ended.kind().label(), expected, "{number}");
    }
    let ended = garbled("none").expect_err("it has no number");
    assert_ended(&ended, "undecodable");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_cannot_be_decoded_waits_for_a_store_that_is_away() {
    let (executor, store) = executor();
    store.go_away();
    let mut message = garbled("0").expect("its envelope tells its place");
    let ended = executor.handle(&mut message, &()).await;
    assert_ended(&ended, "store-unavailable");
    store.heal();
    let ended = executor.handle(&mut message, &()).await;
    assert_ended(&ended, "undecodable");
}

#[tokio::test(start_paused = true)]
async fn a_number_that_is_withdrawn_is_passed_and_what_was_done_under_it_stays_done() {
    let (executor, _) = executor();
    read_all(&executor, 0..3).await;
    for (number, expected) in [(2, "duplicate"), (4, "rejected"), (4, "rejected")] {
        let ended = executor.handle(&mut withdrawn(number), &()).await;
        assert_eq!(ended.kind().label(), expected, "{number}");
    }
    let _ = read(&executor, 3).await;
    read_all(&executor, 5..30).await;
    let ended = read(&executor, 4).await;
    assert_ended(&ended, "late");
    let ended = executor.handle(&mut withdrawn(4), &()).await;
    assert_eq!(
        (ended.kind().label(), ended.error().as_deref()),
        ("rejected", Some("its publisher has withdrawn it"))
    );
}
