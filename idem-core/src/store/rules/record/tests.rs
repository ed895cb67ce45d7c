use super::*;
use crate::{
    handler::Policy,
    message::Key,
    store::{
        Claim, ClaimRequest, Write,
        operator::{Action, Intervened, Intervention, Seen},
    },
};

/// A moment well after the epoch, in microseconds.
const NOW: i64 = 1_000_000_000;
const SECOND: i64 = 1_000_000;
const LEASE: Duration = Duration::from_secs(30);
const RETENTION: Duration = Duration::from_mins(10);

/// Owners and contents of the tables, by a letter.
fn owner(letter: u8) -> Owner {
    Owner::from_bytes([letter; 16])
}

fn content(letter: u8) -> Option<Fingerprint> {
    (letter != b'-').then(|| Fingerprint::from_bytes([letter; 16]))
}

fn request(owner_letter: u8, content_letter: u8) -> ClaimRequest {
    let policy = Policy::builder()
        .lease(LEASE)
        .retention(RETENTION)
        .build()
        .unwrap();
    ClaimRequest::new(Key::new("orders", "o-1").unwrap(), &policy)
        .owner(owner(owner_letter))
        .fingerprint(content(content_letter))
}

fn replay(owner_letter: u8, content_letter: u8) -> ClaimRequest {
    request(owner_letter, content_letter).replay(true)
}

/// One that takes no lease over.
fn not_over(owner_letter: u8) -> ClaimRequest {
    let mut request = request(owner_letter, b'x');
    request.takes_over = false;
    request
}

/// A record last written by owner `a` for content `x` a second ago.
fn record(state: State) -> Record {
    Record {
        token: 7,
        attempts: 2,
        in_doubt: false,
        owner: owner(b'a'),
        fingerprint: content(b'x'),
        retention: micros(RETENTION),
        forget_at: NOW - SECOND + micros(RETENTION),
        created_at: Some(NOW - 3 * SECOND),
        written_at: NOW - SECOND,
        state,
    }
}

fn in_progress(lease_ends: i64) -> Record {
    record(State::InProgress { lease_ends })
}

fn completed() -> Record {
    record(State::Completed {
        outcome: Outcome::new("done"),
    })
}

fn failed(reason: Reason) -> Record {
    record(State::Failed {
        reason,
        error: None,
        not_before: None,
    })
}

/// Failed, with a retry due at this time.
fn waiting(not_before: i64) -> Record {
    record(State::Failed {
        reason: Reason::Failed,
        error: None,
        not_before: Some(not_before),
    })
}

fn doubtful(record: Record) -> Record {
    Record {
        in_doubt: true,
        ..record
    }
}

/// The answer in short: `new` and `same` are the token, then attempt and doubt.
fn answer(record: Option<&Record>, request: &ClaimRequest) -> String {
    let step = claim(record, request, NOW, 0);
    let acquired = matches!(step.answer, Claim::Acquired(_));
    assert_eq!(acquired, step.write.is_some(), "only Acquired writes");
    match step.answer {
        Claim::Acquired(lease) => {
            let token = if lease.token.get() == 7 {
                "same"
            } else {
                "new"
            };
            let doubt = if lease.in_doubt { " in doubt" } else { "" };
            format!("{token} {}{doubt}", lease.attempt)
        }
        Claim::Held { remaining } => format!("held {}s", remaining.as_secs()),
        Claim::Completed { remaining, .. } => format!("completed {}s", remaining.as_secs()),
        Claim::KeyReused => "reused".into(),
        Claim::Quarantined => "quarantined".into(),
        other => panic!("a record alone says nothing of sessions, but {other:?}"),
    }
}

#[test]
fn every_record_answers_a_claim_as_the_contract_says() {
    let live = in_progress(NOW + 9 * SECOND);
    let expired = in_progress(NOW);
    let early = waiting(NOW + 9 * SECOND);
    let unmarked = Record {
        fingerprint: None,
        ..failed(Reason::Failed)
    };
    let table = [
        (None, request(b'b', b'x'), "new 1"),
        (None, replay(b'b', b'x'), "new 1"),
        (Some(completed()), request(b'b', b'x'), "completed 599s"),
        (Some(completed()), request(b'a', b'x'), "completed 599s"),
        (Some(completed()), replay(b'b', b'x'), "completed 599s"),
        (Some(completed()), request(b'b', b'-'), "completed 599s"),
        (Some(completed()), request(b'b', b'y'), "reused"),
        (Some(live.clone()), request(b'b', b'x'), "held 9s"),
        (Some(live.clone()), request(b'b', b'y'), "held 9s"),
        (Some(live.clone()), replay(b'b', b'x'), "held 9s"),
        (Some(live), request(b'a', b'x'), "same 2"),
        (Some(expired.clone()), request(b'a', b'x'), "same 2"),
        (
            Some(doubtful(expired.clone())),
            request(b'a', b'x'),
            "same 2 in doubt",
        ),
        (Some(expired.clone()), request(b'b', b'x'), "new 3 in doubt"),
        (Some(expired.clone()), request(b'b', b'y'), "new 3 in doubt"),
        (Some(expired.clone()), not_over(b'a'), "same 2"),
        (Some(expired.clone()), not_over(b'b'), "held 0s"),
        (None, not_over(b'b'), "new 1"),
        (Some(failed(Reason::Failed)), not_over(b'a'), "held 0s"),
        (Some(failed(Reason::Failed)), not_over(b'b'), "new 3"),
        (Some(expired), replay(b'b', b'x'), "new 1 in doubt"),
        (Some(failed(Reason::Failed)), request(b'a', b'x'), "held 0s"),
        (Some(failed(Reason::Failed)), request(b'b', b'x'), "new 3"),
        (Some(failed(Reason::Failed)), request(b'b', b'-'), "new 3"),
        (Some(failed(Reason::Failed)), request(b'b', b'y'), "reused"),
        (Some(failed(Reason::Failed)), replay(b'b', b'x'), "new 1"),
        (Some(failed(Reason::Failed)), replay(b'b', b'y'), "reused"),
        (Some(unmarked), request(b'b', b'y'), "new 3"),
        (Some(early.clone()), request(b'b', b'x'), "held 9s"),
        (Some(early.clone()), request(b'b', b'-'), "held 9s"),
        (Some(early.clone()), request(b'b', b'y'), "reused"),
        (Some(early.clone()), request(b'a', b'x'), "held 0s"),
        (Some(early.clone()), replay(b'b', b'x'), "new 1"),
        (Some(early), replay(b'b', b'y'), "reused"),
        (Some(waiting(NOW)), request(b'b', b'x'), "new 3"),
        (
            Some(doubtful(failed(Reason::Abandoned))),
            request(b'b', b'x'),
            "new 3 in doubt",
        ),
        (
            Some(doubtful(failed(Reason::Abandoned))),
            replay(b'b', b'x'),
            "new 1 in doubt",
        ),
        (
            Some(failed(Reason::Quarantined)),
            request(b'a', b'x'),
            "held 0s",
        ),
        (
            Some(failed(Reason::Quarantined)),
            request(b'b', b'x'),
            "quarantined",
        ),
        (
            Some(failed(Reason::Quarantined)),
            request(b'b', b'y'),
            "quarantined",
        ),
        (
            Some(doubtful(failed(Reason::Quarantined))),
            replay(b'b', b'y'),
            "new 1",
        ),
    ];
    for (i, (record, request, expected)) in table.iter().enumerate() {
        assert_eq!(answer(record.as_ref(), request), *expected, "row {i}");
    }
}

#[test]
fn a_forgotten_record_counts_as_absent_but_for_its_token() {
    let forget = |record| Record {
        token: 2 * NOW,
        forget_at: NOW,
        ..record
    };
    for old in [completed(), failed(Reason::Quarantined), in_progress(NOW)] {
        let step = claim(Some(&forget(old)), &request(b'a', b'y'), NOW, 0);
        let Claim::Acquired(lease) = step.answer else {
            panic!("{:?}", step.answer)
        };
        assert_eq!((lease.attempt, lease.in_doubt), (1, false));
        assert_eq!(lease.token.get(), 2 * NOW + 1);
        assert_eq!(step.write.unwrap().fingerprint, content(b'y'));
    }
}

#[test]
fn a_token_exceeds_the_last_one_the_purged_ones_and_the_time() {
    let token = |record: Option<&Record>, floor| {
        claim(record, &request(b'b', b'x'), NOW, floor)
            .write
            .unwrap()
            .token
    };
    let old = |token| Record {
        token,
        ..failed(Reason::Failed)
    };
    assert_eq!(token(None, 0), NOW);
    assert_eq!(token(None, NOW), NOW + 1);
    assert_eq!(token(Some(&old(NOW + 5)), NOW), NOW + 6);
    assert_eq!(token(Some(&old(5)), NOW + 8), NOW + 9);
}

#[test]
fn claiming_again_never_shortens_the_lease() {
    let long = NOW + 100 * SECOND;
    let step = claim(Some(&in_progress(long)), &request(b'a', b'x'), NOW, 0);
    let record = step.write.unwrap();
    assert_eq!(record.state, State::InProgress { lease_ends: long });
    assert_eq!(record.forget_at, long + micros(RETENTION));
}

#[test]
fn a_takeover_keeps_the_content_if_the_request_has_none() {
    let take = |letter| {
        claim(Some(&in_progress(NOW)), &request(b'b', letter), NOW, 0)
            .write
            .unwrap()
            .fingerprint
    };
    assert_eq!(take(b'-'), content(b'x'));
    assert_eq!(take(b'y'), content(b'y'));
}

#[test]
fn a_write_needs_the_current_token_and_a_key_in_progress() {
    let expired = in_progress(NOW - SECOND);
    let table = [
        (None, 7, Write::Fenced),
        (Some(expired.clone()), 7, Write::Applied),
        (Some(expired.clone()), 6, Write::Fenced),
        (Some(expired), 8, Write::Fenced),
        (Some(failed(Reason::Failed)), 6, Write::Fenced),
        (Some(completed()), 6, Write::Fenced),
    ];
    for (record, token, expected) in &table {
        let record = record.as_ref();
        assert_eq!(extend(record, *token, LEASE, NOW).answer, *expected);
        let outcome = Outcome::new("done");
        let done = complete(record, *token, &outcome, RETENTION, NOW);
        assert_eq!(done.answer, *expected);
        let released = release(record, *token, &Release::failed("no"), NOW);
        assert_eq!(released.answer, *expected);
    }
    for ended in [completed(), failed(Reason::Failed)] {
        assert_eq!(extend(Some(&ended), 7, LEASE, NOW), stay(Write::Fenced));
    }
}

#[test]
fn repeating_the_write_that_ended_a_lease_is_applied_and_changes_nothing() {
    let reasons = [
        Release::failed("no"),
        Release::Abandoned,
        Release::gave_up("no"),
        Release::Quarantined,
    ];
    for first in &reasons {
        let ended = release(Some(&in_progress(NOW)), 7, first, NOW).write;
        for second in &reasons {
            let expected = if first == second {
                Write::Applied
            } else {
                Write::Fenced
            };
            let again = release(ended.as_ref(), 7, second, NOW);
            assert_eq!(again, stay(expected), "{first:?}, then {second:?}");
        }
        let late = complete(ended.as_ref(), 7, &Outcome::default(), RETENTION, NOW);
        assert_eq!(late, stay(Write::Fenced));
    }
    let other = Outcome::new("other");
    let again = complete(Some(&completed()), 7, &other, RETENTION, NOW);
    assert_eq!(again, stay(Write::Applied));
    let late = release(Some(&completed()), 7, &Release::Abandoned, NOW);
    assert_eq!(late, stay(Write::Fenced));
}

#[test]
fn each_reason_of_a_release_leaves_its_own_record() {
    let fresh = || Record {
        attempts: 1,
        ..in_progress(NOW)
    };
    let again = || in_progress(NOW);
    let failed = Release::failed("no");
    let gave_up = Release::gave_up("no");
    // Attempts, in doubt, fingerprint kept, error.
    let table = [
        (fresh(), &failed, (1, false, true, Some("no"))),
        (doubtful(again()), &failed, (2, false, true, Some("no"))),
        (fresh(), &Release::Abandoned, (0, false, false, None)),
        (again(), &Release::Abandoned, (1, false, true, None)),
        (
            doubtful(again()),
            &Release::Abandoned,
            (1, true, false, None),
        ),
        (doubtful(again()), &gave_up, (0, false, false, Some("no"))),
        (
            doubtful(again()),
            &Release::Quarantined,
            (2, true, true, None),
        ),
    ];
    for (old, reason, (attempts, in_doubt, kept, error)) in table {
        let new = release(Some(&old), 7, reason, NOW).write.unwrap();
        let state = State::Failed {
            reason: reason.into(),
            error: error.map(Into::into),
            not_before: None,
        };
        assert_eq!(new.state, state);
        assert_eq!(
            (new.attempts, new.in_doubt),
            (attempts, in_doubt),
            "{reason:?}"
        );
        assert_eq!(new.fingerprint.is_some(), kept, "{reason:?}");
        assert_eq!(new.forget_at, NOW + micros(RETENTION));
        assert_eq!((new.token, new.owner), (7, owner(b'a')));
    }
}

#[test]
fn a_failure_is_remembered_for_the_retention_once_its_retry_is_due() {
    let fail = |delay| {
        let failed = Release::retry_after(delay, "no");
        release(Some(&in_progress(NOW)), 7, &failed, NOW)
            .write
            .unwrap()
    };
    let due = |delay| Some(after(NOW, delay));
    let table = [
        (Duration::ZERO, None, RETENTION),
        (RETENTION / 2, due(RETENTION / 2), RETENTION + RETENTION / 2),
        (2 * RETENTION, due(2 * RETENTION), 3 * RETENTION),
        (Duration::MAX, Some(i64::MAX), Duration::MAX),
    ];
    for (delay, expected, remembered) in table {
        let new = fail(delay);
        assert!(
            matches!(new.state, State::Failed { not_before, .. } if not_before == expected),
            "{new:?}"
        );
        assert_eq!(new.forget_at, after(NOW, remembered));
        assert_eq!(new.retention, micros(RETENTION));
    }
}

#[test]
fn a_failure_repeated_with_another_delay_changes_nothing() {
    let later = Release::retry_after(Duration::from_hours(1), "later");
    let again = release(Some(&waiting(NOW + SECOND)), 7, &later, NOW);
    assert_eq!(again, stay(Write::Applied));
}

#[test]
fn completion_keeps_the_content_and_takes_its_own_retention() {
    let day = Duration::from_hours(24);
    let old = in_progress(NOW);
    let new = complete(Some(&old), 7, &Outcome::new("x"), day, NOW)
        .write
        .unwrap();
    assert_eq!(new.fingerprint, content(b'x'));
    assert_eq!(
        (new.retention, new.forget_at),
        (micros(day), NOW + micros(day))
    );
}

#[test]
fn durations_beyond_the_calendar_do_not_overflow() {
    let mut endless = request(b'b', b'x');
    endless.lease = Duration::MAX;
    endless.retention = Duration::MAX;
    let record = claim(None, &endless, NOW, 0).write.unwrap();
    assert_eq!(record.forget_at, i64::MAX);
    assert!(answer(Some(&record), &request(b'c', b'x')).starts_with("held"));
}

fn intervention(action: Action, seen: Option<Seen>) -> Intervention {
    let key = Key::new("orders", "o-1").unwrap();
    match action {
        Action::Release => Intervention::release(key, seen, "operator@ops-1"),
        Action::Forget => Intervention::forget(key, seen, "operator@ops-1"),
        Action::Complete => Intervention::complete(
            key,
            seen,
            "operator@ops-1",
            Outcome::new("by hand"),
            RETENTION,
        ),
    }
}

/// The record after an intervention, in short: state, attempts, `!` if in doubt, error.
fn ruling(record: Option<&Record>, action: Action) -> String {
    let intervention = intervention(action, record.map(Record::seen));
    let new = match intervene(record, &intervention, NOW, 0) {
        Ruling::Refused(answer) => return format!("{answer:?}"),
        Ruling::Removed => return "removed".into(),
        Ruling::Written(new) => new,
    };
    assert!(record.is_none_or(|old| new.token > old.token), "{new:?}");
    assert_eq!(new.forget_at, NOW + micros(RETENTION));
    let doubt = if new.in_doubt { "!" } else { "" };
    match new.state {
        State::InProgress { .. } => "in progress".into(),
        State::Completed { outcome } => {
            assert_eq!(outcome, Outcome::new("by hand"));
            format!("completed {}{doubt}", new.attempts)
        }
        State::Failed {
            reason,
            error,
            not_before,
        } => {
            assert_eq!((reason, not_before), (Reason::Failed, None));
            let error = error.unwrap_or_default();
            format!("failed {}{doubt} {error}", new.attempts)
        }
    }
}

#[test]
fn what_an_operator_does_depends_on_the_state() {
    let quarantined = doubtful(failed(Reason::Quarantined));
    let delayed = doubtful(waiting(NOW + SECOND));
    let table = [
        (None, "Unfit", "Unfit", "completed 0"),
        (
            Some(in_progress(NOW + SECOND)),
            "failed 2! released by operator@ops-1",
            "removed",
            "completed 2",
        ),
        (Some(delayed), "failed 2! ", "removed", "completed 2!"),
        (Some(quarantined), "failed 2 ", "removed", "completed 2!"),
        (Some(completed()), "Unfit", "removed", "Unfit"),
    ];
    for (record, released, forgotten, done) in &table {
        let ruling = |action| ruling(record.as_ref(), action);
        assert_eq!(ruling(Action::Release), *released, "{record:?}");
        assert_eq!(ruling(Action::Forget), *forgotten, "{record:?}");
        assert_eq!(ruling(Action::Complete), *done, "{record:?}");
    }
}

#[test]
fn an_operator_changes_only_what_was_seen() {
    let old = in_progress(NOW);
    let later = Record {
        token: 8,
        ..old.clone()
    };
    for seen in [None, Some(later.seen()), Some(completed().seen())] {
        let release = intervention(Action::Release, seen);
        let refused = Ruling::Refused(Intervened::Changed);
        assert_eq!(intervene(Some(&old), &release, NOW, 0), refused);
    }
}
