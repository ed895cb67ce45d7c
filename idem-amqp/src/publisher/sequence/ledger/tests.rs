//! Which number a message gets, keeps, and gives up.

use super::*;

fn message(body: &str) -> Publication {
    Publication::bytes("readings", body)
}

/// What a call that publishes this attends to.
fn enter(ledger: &mut Ledger, publication: &Publication) -> Open {
    match ledger.enter(publication) {
        Entered::Publish(open) => open,
        other => panic!("{other:?}"),
    }
}

fn confirm(ledger: &mut Ledger, open: &Open, by: Caller) {
    ledger.confirm(open, by);
    ledger.leave(open.number);
}

#[test]
fn numbers_follow_one_another_from_zero() {
    let mut ledger = Ledger::default();
    for number in 0..3 {
        let open = enter(&mut ledger, &message("same"));
        assert_eq!(open.number, number);
    }
    assert_eq!(ledger.unconfirmed(), 3);
}

#[test]
fn a_message_left_behind_goes_before_the_next_one() {
    let mut ledger = Ledger::default();
    let (lost, next) = (message("lost"), message("next"));
    let open = enter(&mut ledger, &lost);
    ledger.leave(open.number);
    let first = enter(&mut ledger, &next);
    assert!(first.number == 0 && first.publication.is_same(&lost));
    confirm(&mut ledger, &first, Caller::Another);
    assert_eq!(enter(&mut ledger, &next).number, 1);
}

#[test]
fn a_message_published_again_has_the_number_it_had() {
    let mut ledger = Ledger::default();
    let lost = message("lost");
    let open = enter(&mut ledger, &lost);
    ledger.leave(open.number);
    let again = enter(&mut ledger, &lost);
    assert_eq!(again.number, 0);
    confirm(&mut ledger, &again, Caller::Own);
    assert_eq!(ledger.unconfirmed(), 0);
    let anew = enter(&mut ledger, &lost);
    assert_eq!(anew.number, 1, "what is confirmed is done with");
}

#[test]
fn what_another_call_saw_through_is_confirmed_for_its_own_once() {
    let mut ledger = Ledger::default();
    let lost = message("lost");
    let open = enter(&mut ledger, &lost);
    ledger.leave(open.number);
    let open = enter(&mut ledger, &message("next"));
    confirm(&mut ledger, &open, Caller::Another);
    assert!(matches!(ledger.enter(&lost), Entered::Confirmed));
    assert_eq!(enter(&mut ledger, &lost).number, 1);
}

#[test]
fn another_message_of_the_same_id_and_body_is_not_what_was_seen_through() {
    let lost = message("lost").message_id("one");
    let other = lost.clone().header("tenant", "b");
    let nameless = |name| message("lost").message_id("").header("tenant", name);
    for (lost, other) in [(lost, other), (nameless("a"), nameless("a"))] {
        let mut ledger = Ledger::default();
        let open = enter(&mut ledger, &lost);
        ledger.leave(open.number);
        let open = enter(&mut ledger, &other);
        assert_eq!(open.number, 0);
        confirm(&mut ledger, &open, Caller::Another);
        assert_eq!(enter(&mut ledger, &other).number, 1);
    }
}

#[test]
fn what_both_saw_through_is_not_taken_for_the_next_message_like_it() {
    let mut ledger = Ledger::default();
    let lost = message("lost");
    let open = enter(&mut ledger, &lost);
    ledger.leave(open.number);
    let other = ledger.left_behind().unwrap();
    let own = enter(&mut ledger, &lost);
    assert_eq!(own.number, other.number);
    confirm(&mut ledger, &other, Caller::Another);
    confirm(&mut ledger, &own, Caller::Own);
    assert_eq!(enter(&mut ledger, &lost).number, 1);
}

#[test]
fn the_same_id_with_another_body_is_another_message() {
    let mut ledger = Ledger::default();
    let [one, other] = ["one", "other"].map(|body| message(body).message_id("outbox-1"));
    let open = enter(&mut ledger, &one);
    ledger.leave(open.number);
    let open = enter(&mut ledger, &other);
    confirm(&mut ledger, &open, Caller::Another);
    assert_eq!(enter(&mut ledger, &other).number, 1);
}

#[test]
fn a_message_without_an_id_is_like_no_other() {
    let mut ledger = Ledger::default();
    let nameless = message("x").message_id("");
    let numbers = [(); 2].map(|()| enter(&mut ledger, &nameless).number);
    assert_eq!(numbers, [0, 1]);
}

#[test]
fn no_number_is_given_too_far_above_the_lowest_that_is_not_confirmed() {
    let mut ledger = Ledger::default();
    ledger.room(2);
    let first = enter(&mut ledger, &message("a"));
    let second = enter(&mut ledger, &message("b"));
    confirm(&mut ledger, &second, Caller::Own);
    assert!(matches!(ledger.enter(&message("c")), Entered::Full));
    confirm(&mut ledger, &first, Caller::Own);
    assert_eq!(enter(&mut ledger, &message("c")).number, 2);
}

#[test]
fn all_messages_go_to_one_queue_or_one_exchange() {
    let mut ledger = Ledger::default();
    ledger.bound_for(&message("a")).unwrap();
    ledger.bound_for(&message("b")).unwrap();
    let elsewhere = Publication::bytes("others", "c");
    assert_eq!(
        ledger.bound_for(&elsewhere).unwrap_err().to_string(),
        "the messages numbered before go to the queue `readings`, this one to the queue `others`: \
         make a numbered publisher for each with `Publisher::sequence`"
    );

    let mut ledger = Ledger::default();
    let by = |key| message("a").exchange("readings", key);
    ledger.bound_for(&by("one")).unwrap();
    ledger.bound_for(&by("other")).unwrap();
    assert!(ledger.bound_for(&message("a")).is_err());
}

/// As after an outage that was longer than their patience: each sees another one's message through.
#[test]
fn all_callers_of_a_full_book_may_come_back_for_messages_that_others_saw_through() {
    let mut ledger = Ledger::default();
    ledger.room(1000);
    let messages: Vec<_> = (0..1000)
        .map(|number| message(&number.to_string()))
        .collect();
    let opens: Vec<_> = (messages.iter())
        .map(|message| enter(&mut ledger, message))
        .collect();
    for open in opens {
        ledger.leave(open.number);
    }
    while let Some(open) = ledger.left_behind() {
        confirm(&mut ledger, &open, Caller::Another);
    }
    for message in &messages {
        assert!(matches!(ledger.enter(message), Entered::Confirmed));
    }
}

#[test]
fn a_number_is_withdrawn_when_no_call_sees_to_it_and_its_message_gets_another() {
    let mut ledger = Ledger::default();
    let stuck = message("stuck");
    let open = enter(&mut ledger, &stuck);
    assert!(matches!(ledger.withdraw(0), Withdrawing::Busy));
    ledger.leave(open.number);
    let Withdrawing::Publish(given_up) = ledger.withdraw(0) else {
        panic!("nobody sees to it");
    };
    assert!(given_up.withdrawn && given_up.publication.is_same(&stuck));
    assert_eq!(enter(&mut ledger, &stuck).number, 1);

    // Its call went away: the next one sends the number, without the message.
    ledger.leave(0);
    let left_behind = enter(&mut ledger, &message("next"));
    assert!(left_behind.withdrawn && left_behind.number == 0);
    confirm(&mut ledger, &left_behind, Caller::Another);

    // Its own comes back for the message, once.
    let Withdrawing::Done(taken) = ledger.withdraw(0) else {
        panic!("another call gave it up");
    };
    assert!(taken.publication.is_same(&stuck));
    assert!(matches!(ledger.withdraw(0), Withdrawing::Unknown));
    assert_eq!(ledger.unconfirmed(), 1);
}

#[test]
fn while_a_call_waits_to_withdraw_a_number_no_other_begins_to_publish_it() {
    let mut ledger = Ledger::default();
    let stuck = message("stuck");
    let open = enter(&mut ledger, &stuck);
    assert!(!ledger.want(1), "no message has that number");
    assert!(ledger.want(0));
    assert!(matches!(ledger.withdraw(0), Withdrawing::Busy));
    ledger.leave(open.number);
    assert!(matches!(ledger.enter(&stuck), Entered::Full));
    assert_eq!(enter(&mut ledger, &message("next")).number, 1);
    assert!(matches!(ledger.withdraw(0), Withdrawing::Publish(_)));

    let mut ledger = Ledger::default();
    let open = enter(&mut ledger, &stuck);
    ledger.leave(open.number);
    ledger.want(0);
    ledger.want_no_longer(0);
    assert_eq!(enter(&mut ledger, &message("next")).number, 0);
}

#[test]
fn whether_a_message_may_have_arrived_is_told_when_it_is_withdrawn() {
    for (answered, it_may) in [(true, false), (false, true)] {
        let mut ledger = Ledger::default();
        let open = enter(&mut ledger, &message("stuck"));
        assert!(!ledger.set_may_have_arrived(0, true));
        if answered {
            ledger.set_may_have_arrived(0, false);
        }
        ledger.leave(open.number);
        let Withdrawing::Publish(given_up) = ledger.withdraw(0) else {
            panic!("nobody sees to it");
        };
        ledger.set_may_have_arrived(0, true);
        assert_eq!(given_up.taken().may_have_arrived, it_may);
    }
}
