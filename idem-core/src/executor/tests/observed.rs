//! A policy that observes: everything runs, and what would have been suppressed is known.

use super::*;
use crate::{
    executor::ExecutionKind as Kind,
    handler::{Context, DecodeError, Enforcement, Leased, Operation, Rejection},
    message::{Envelope, Fingerprint, KeyError},
};

fn observing() -> Policy {
    let policy = Policy::builder().enforcement(Enforcement::Observe);
    policy.build().unwrap()
}

async fn observe(executor: &Executor<Faulty>) -> Execution<bool, Failed> {
    observe_under(executor, &observing()).await
}

/// Runs a handler that returns whether its attempt was protected.
async fn observe_under(executor: &Executor<Faulty>, policy: &Policy) -> Execution<bool, Failed> {
    let work = async |attempt: Attempt| Ok(attempt.is_protected());
    executor.execute(key(), policy, work).await
}

/// What it would have been, if it ran to its end.
#[track_caller]
fn would_have_been(ended: &Execution<bool, Failed>) -> Option<Kind> {
    let Execution::Observed {
        output,
        would_have_been,
        ..
    } = ended
    else {
        panic!("{ended:?}");
    };
    let unclaimed = matches!(
        would_have_been,
        Some(Kind::Duplicate | Kind::Conflict | Kind::KeyReused | Kind::StoreUnavailable)
    );
    assert_eq!(*output, !unclaimed, "protected by a claim: {ended:?}");
    *would_have_been
}

#[tokio::test(start_paused = true)]
async fn a_copy_runs_and_is_known_for_one() {
    let (executor, _) = executor();
    assert_eq!(would_have_been(&observe(&executor).await), None);
    let copy = observe(&executor).await;
    assert_eq!(would_have_been(&copy), Some(Kind::Duplicate));
    assert_eq!(copy.kind(), Kind::Observed);
}

#[tokio::test(start_paused = true)]
async fn what_was_observed_is_a_duplicate_once_its_policy_is_enforced() {
    let (executor, _) = executor();
    observe(&executor).await;
    let enforced = run(&executor).await;
    assert_ended(&enforced, "duplicate");
}

#[tokio::test(start_paused = true)]
async fn a_copy_of_what_is_under_way_runs_beside_it() {
    let (executor, _) = executor();
    let policy = observing();
    let slow = async |_: Attempt| {
        sleep(LEASE * 3).await;
        Ok::<_, Failed>(())
    };
    let (first, ()) = tokio::join!(executor.execute(key(), &policy, slow), async {
        sleep(LEASE * 2).await;
        let started = tokio::time::Instant::now();
        let copy = observe(&executor).await;
        assert_eq!(would_have_been(&copy), Some(Kind::Conflict));
        assert!(started.elapsed().is_zero());
    });
    let alone = matches!(
        first,
        Execution::Observed {
            would_have_been: None,
            ..
        }
    );
    assert!(alone, "its heart has kept the lease: {first:?}");
}

#[tokio::test(start_paused = true)]
async fn another_content_under_the_same_key_runs() {
    let (executor, _) = executor();
    let policy = observing();
    for (content, expected) in [("1", None), ("2", Some(Kind::KeyReused))] {
        let request = ClaimRequest::new(key(), &policy);
        let request = request.fingerprint(Fingerprint::of(content.as_bytes()));
        let work = async |attempt: Attempt| Ok(attempt.is_protected());
        let ended = executor.execute_request(&request, &policy, work).await;
        assert_eq!(would_have_been(&ended), expected);
    }
}

fn holding(content: &str) -> ClaimRequest {
    let request = ClaimRequest::new(key(), &observing());
    request.fingerprint(Fingerprint::of(content.as_bytes()))
}

/// Runs for so long.
async fn runs_for(
    executor: &Executor<Faulty>,
    request: &ClaimRequest,
    time: Duration,
) -> Execution<bool, Failed> {
    let work = async |attempt: Attempt| {
        sleep(time).await;
        Ok(attempt.is_protected())
    };
    executor.execute_request(request, &observing(), work).await
}

/// In this process it is known what the other one works on; of another process, when that has ended.
#[tokio::test(start_paused = true)]
async fn another_content_is_known_for_one_while_the_first_is_under_way() {
    let short = LEASE / 4;
    for (is_here, time, found) in [
        (true, short, Kind::KeyReused),
        (false, short, Kind::Conflict),
        (false, LEASE * 2, Kind::KeyReused),
    ] {
        let (executor, store) = executor();
        let elsewhere = Executor::new(store);
        let copy_at = if is_here { &executor } else { &elsewhere };
        let (first, other, copy) = (holding("1"), holding("2"), holding("1"));
        let (_, (other, copy)) = tokio::join!(runs_for(&executor, &first, LEASE), async {
            sleep(LEASE / 2).await;
            tokio::join!(
                runs_for(copy_at, &other, time),
                runs_for(copy_at, &copy, time),
            )
        });
        assert_eq!(would_have_been(&other), Some(found), "{time:?}");
        assert_eq!(would_have_been(&copy), Some(Kind::Conflict), "{time:?}");
    }
}

/// The first one fails, so nobody has the key when the other one has run. It is not kept for that.
#[tokio::test(start_paused = true)]
async fn a_look_at_what_became_of_the_first_keeps_no_key_and_counts_no_attempt() {
    let (executor, _) = executor();
    let failing = async |_: Attempt| {
        sleep(LEASE / 2).await;
        Err::<bool, _>(Failed::retry("no paper"))
    };
    let ([first, next], policy) = ([(); 2].map(|()| holding("1")), observing());
    let (_, other) = tokio::join!(executor.execute_request(&first, &policy, failing), async {
        sleep(LEASE / 4).await;
        runs_for(&executor, &holding("1"), LEASE).await
    });
    assert_eq!(would_have_been(&other), Some(Kind::Conflict));
    sleep(LEASE).await;
    let second = async |attempt: Attempt| {
        assert_eq!(attempt.number(), 2);
        Ok::<_, Failed>(attempt.is_protected())
    };
    let ended = executor.execute_request(&next, &policy, second).await;
    assert_eq!(would_have_been(&ended), None);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_or_silent_keeps_nothing_waiting_for_long() {
    for fault in [Fault::Unreached, Fault::Silent] {
        let (executor, store) = executor();
        store.always(Call::Claim, fault);
        let started = tokio::time::Instant::now();
        let ended = observe(&executor).await;
        assert_eq!(would_have_been(&ended), Some(Kind::StoreUnavailable));
        assert!(started.elapsed() <= Duration::from_secs(1), "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_record_stops_nothing() {
    let (executor, store) = executor();
    store.always(Call::Claim, Fault::Corrupt);
    let work = async |_: Attempt| Ok::<_, Failed>(());
    let ended = executor.execute(key(), &observing(), work).await;
    let Execution::Observed {
        would_have_been, ..
    } = ended
    else {
        panic!("{ended:?}");
    };
    assert_eq!(would_have_been, Some(Kind::RecordCorrupt));
}

#[tokio::test(start_paused = true)]
async fn a_completion_that_the_store_does_not_take_is_repeated_in_the_background() {
    for fault in [Fault::Unreached, Fault::AnswerLost] {
        let (executor, store) = executor();
        store.always(Call::Complete, fault);
        let started = tokio::time::Instant::now();
        assert_eq!(would_have_been(&observe(&executor).await), None);
        assert!(started.elapsed() <= Duration::from_secs(1), "{fault:?}");
        store.heal();
        executor.in_flight.watch(&key()).ended().await;
        let copy = observe(&executor).await;
        assert_eq!(would_have_been(&copy), Some(Kind::Duplicate), "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_does_not_drop_the_handler() {
    let (executor, store) = executor();
    store.always(Call::Extend, Fault::Fenced);
    store.always(Call::Complete, Fault::Fenced);
    let slow = async |attempt: Attempt| {
        sleep(LEASE * 2).await;
        Ok::<_, Failed>(attempt.is_protected())
    };
    let ended = executor.execute(key(), &observing(), slow).await;
    assert_eq!(would_have_been(&ended), Some(Kind::LeaseLost));
}

#[tokio::test(start_paused = true)]
async fn what_is_in_doubt_runs_and_is_not_quarantined() {
    let (executor, store) = executor();
    let quarantine = observing().to_builder().in_doubt(InDoubt::Quarantine);
    let policy = quarantine.build().unwrap();
    let vanished = store.claim(&ClaimRequest::new(key(), &policy)).await;
    assert!(matches!(vanished, Ok(Claim::Acquired(_))));
    sleep(LEASE).await;
    let ended = observe_under(&executor, &policy).await;
    assert_eq!(would_have_been(&ended), Some(Kind::InDoubt));
    let copy = observe_under(&executor, &policy).await;
    assert_eq!(would_have_been(&copy), Some(Kind::Duplicate));
}

#[tokio::test(start_paused = true)]
async fn a_failed_attempt_is_counted_and_its_key_released() {
    let (executor, _) = executor();
    let policy = observing().to_builder().max_attempts(2).build().unwrap();
    wait_for_retry(&fail(&executor, &policy).await).await;
    let last = fail(&executor, &policy).await;
    assert_ended(&last, "exhausted 2");
}

#[tokio::test(start_paused = true)]
async fn a_release_that_the_store_does_not_take_delays_no_retry() {
    let (executor, store) = executor();
    store.always(Call::Release, Fault::Silent);
    let started = tokio::time::Instant::now();
    let failed = fail(&executor, &observing()).await;
    assert_ended(&failed, "failed");
    assert!(started.elapsed() <= Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_a_failure_with_and_without_a_claim() {
    let (executor, store) = executor();
    let work = async |_: Attempt| -> Result<(), Failed> { panic!("no ink") };
    let claimed = executor.execute(key(), &observing(), work).await;
    assert_ended(&claimed, "failed");
    store.go_away();
    let unclaimed = executor.execute(key(), &observing(), work).await;
    assert_ended(&unclaimed, "failed");
}

#[tokio::test(start_paused = true)]
async fn a_closed_executor_starts_nothing_even_without_its_store() {
    let (executor, store) = executor();
    executor.close();
    assert_ended(&observe(&executor).await, "abandoned");
    let claim = store.elsewhere();
    let claim = claim.claim(&ClaimRequest::new(key(), &observing())).await;
    assert!(matches!(claim, Ok(Claim::Acquired(lease)) if lease.attempt == 1));
    store.go_away();
    assert_ended(&observe(&executor).await, "abandoned");
}

/// Its body is the order's number. 0 has no key; 13 fails, and 14 is rejected.
struct Ship;

impl Operation for Ship {
    type Message = u32;
    type Output = String;
    type Error = Failed;
    type Mode = Leased;
    const SCOPE: &'static str = "orders.ship";
    const POLICY: Policy = Policy::builder()
        .enforcement(Enforcement::Observe)
        .max_attempts(3)
        .build_const();

    fn decode(envelope: &Envelope) -> Result<u32, DecodeError> {
        envelope.json()
    }

    fn key(message: &u32, _: &Envelope) -> Result<Key, KeyError> {
        match message {
            0 => Err(KeyError::custom("order 0 is no order")),
            number => Key::new(Self::SCOPE, *number),
        }
    }
}

impl Handler<()> for Ship {
    fn call<'a>(
        message: u32,
        context: &'a Context<'a, ()>,
        (): (),
    ) -> Result<impl Future<Output = Result<String, Failed>> + Send + 'a, Rejection> {
        let key = context.key.to_string();
        Ok(async move {
            match message {
                13 => Err(Failed::retry("no ink")),
                14 => Err(Failed::rejected("no such port")),
                _ => Ok(key),
            }
        })
    }
}

fn ship(body: &'static str) -> Prepared<Ship> {
    let Ok(message) = Prepared::new(Envelope::new(body), &Ship::POLICY) else {
        panic!("it is a number");
    };
    message
}

#[tokio::test(start_paused = true)]
async fn a_message_without_a_key_runs_under_one_that_no_other_has() {
    let (executor, store) = executor();
    let mut keys = Vec::new();
    for _ in 0..2 {
        let mut message = ship("0");
        let ended = executor.handle(&mut message, &()).await;
        assert_eq!(message.would_have_been(), Some(Kind::Keyless));
        let Execution::Observed { output, .. } = ended else {
            panic!("{ended:?}");
        };
        assert_eq!(output, message.key().as_str());
        keys.push(output);
    }
    assert_ne!(keys[0], keys[1]);
    assert_eq!(store.count(Call::Claim), 0);
}

#[tokio::test(start_paused = true)]
async fn a_rejection_is_told_to_whoever_waits_for_it_and_made_anew_for_a_copy() {
    let (executor, _) = executor();
    for expected in [None, Some(Kind::Duplicate)] {
        let request = Envelope::builder("14").expects_reply(true).build();
        let Ok(mut message) = Prepared::<Ship>::new(request, &Ship::POLICY) else {
            panic!("it is a number");
        };
        let ended = executor.handle(&mut message, &()).await;
        assert_eq!(ended.kind(), Kind::Refused, "{ended:?}");
        assert_eq!(message.would_have_been(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn attempts_without_a_claim_are_counted_as_the_transport_tells() {
    let (executor, store) = executor();
    store.go_away();
    for (earlier, kind) in [(0, Kind::Failed), (1, Kind::Failed), (2, Kind::Exhausted)] {
        let mut message = ship("13").attempted_before(earlier);
        let ended = executor.handle(&mut message, &()).await;
        assert_eq!(ended.kind(), kind, "{ended:?}");
        assert_eq!(ended.attempt(), Some(earlier + 1));
        assert_eq!(message.would_have_been(), Some(Kind::StoreUnavailable));
    }
}

#[tokio::test(start_paused = true)]
async fn attempts_of_one_delivery_without_a_claim_are_counted_here() {
    let (executor, store) = executor();
    store.go_away();
    let mut message = ship("13").attempted_before(1);
    for (attempt, kind) in [(2, Kind::Failed), (3, Kind::Exhausted)] {
        let ended = executor.handle(&mut message, &()).await;
        assert_eq!((ended.kind(), ended.attempt()), (kind, Some(attempt)));
    }
}
