//! Dead letters that are looked at, chosen, sent again or dropped.

use std::sync::{Arc, Mutex};

use idem_amqp::{
    MemoryStore,
    dead_letters::{DeadLetter, LetterError, LetterOutcome, ReplayError, Replayer, Selection},
    executor::ExecutionKind as Kind,
};
use idem_tests::{
    bed::{Bed, dead, persistent},
    journal::Journal,
    running::assert_balance,
    script::Script,
};

use crate::replays::{bury, replayer, tally, until_dead};

/// Some letters are chosen.
///
/// - does: sends these again, returns the others as they were
/// - atomic: once each
/// - leased: once each
#[tokio::test]
async fn only_the_chosen_letters_are_replayed_and_the_others_stay_as_they_are() {
    let bed = Bed::new().await;
    let store = MemoryStore::new();
    bury(&bed, &store, &["a", "b", "c", "d"]).await;
    let replayer = replayer(&bed);
    let all = replayer.look(&Selection::all()).await.unwrap();
    let chosen = Selection::all()
        .key("orders.charge:b")
        .key("orders.charge:d");
    let dry = replayer.look(&chosen.clone().limit(1)).await.unwrap();
    assert_eq!(keys(&dry), ["orders.charge:b"]);
    until_dead(&bed, 4).await;

    let script = Script::succeeding();
    let worker = bed.charging(store, &script);
    assert_eq!(
        tally(replayer.replay(&chosen).await.unwrap()),
        [4, 2, 0, 0, 2]
    );
    worker.ended(Kind::Executed, 2).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 2)]);
    script.assert_effects(["b", "d"]);
    until_dead(&bed, 2).await;
    let mut left = replayer.look(&Selection::all()).await.unwrap();
    left.sort_by_key(|letter| letter.key().map(str::to_owned));
    assert_eq!(keys(&left), ["orders.charge:a", "orders.charge:c"]);
    for letter in &left {
        let before = all.iter().find(|before| before.key() == letter.key());
        assert_eq!(everything(letter), everything(before.unwrap()));
    }
    assert_eq!(
        tally(replayer.discard(&Selection::all()).await.unwrap()),
        [2, 0, 2, 0, 0]
    );
    bed.assert_nothing_stuck().await;
}

fn keys(letters: &[DeadLetter]) -> Vec<&str> {
    letters.iter().filter_map(DeadLetter::key).collect()
}

/// What a letter says and holds, but for how often it was returned.
fn everything(letter: &DeadLetter) -> (Vec<(String, String)>, Vec<u8>) {
    let headers = letter.header_names().into_iter();
    let headers = headers.filter(|name| name.starts_with("idem-"));
    let headers = headers.map(|name| (name.to_owned(), letter.header(name).unwrap().into_owned()));
    (headers.collect(), letter.body().to_vec())
}

/// Some letters are to go for good.
///
/// - does: drops only these
/// - atomic: not run
/// - leased: not run
#[tokio::test]
async fn discarded_letters_are_gone_for_good() {
    let bed = Bed::new().await;
    bury(&bed, &MemoryStore::new(), &["a", "b"]).await;
    let fates = Journal::<String>::default();
    let told = fates.clone();
    let replayer = replayer(&bed).on_letter(move |dealt| {
        let key = dealt.letter.key().unwrap_or_default();
        told.write(format!("{key} {:?}", dealt.outcome));
    });
    let chosen = Selection::all().key("orders.charge:a");
    assert_eq!(
        tally(replayer.discard(&chosen).await.unwrap()),
        [2, 0, 1, 0, 1]
    );
    assert_eq!(fates.entries(), ["orders.charge:a Discarded"]);
    until_dead(&bed, 1).await;
    assert_eq!(
        bed.dead_letter().await.header("idem-key").unwrap(),
        "orders.charge:b"
    );
    bed.assert_nothing_stuck().await;
}

/// The queue that the letter came from is gone, or not known.
///
/// - does: leaves it where it is, and says so
/// - atomic: kept as dead letter
/// - leased: kept as dead letter
#[tokio::test]
async fn a_letter_whose_queue_is_gone_stays_where_it_is() {
    let bed = Bed::new().await;
    let store = MemoryStore::new();
    bury(&bed, &store, &["a"]).await;
    bed.delete(bed.name()).await;
    bed.send(&dead(bed.name()), b"put there by hand", persistent())
        .await;
    let failures = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&failures);
    let replayer = replayer(&bed).on_letter(move |dealt| {
        if let LetterOutcome::Failed(error) = dealt.outcome {
            told.lock().unwrap().push(error.clone());
        }
    });
    let outcome = replayer.replay(&Selection::all()).await.unwrap();
    assert_eq!(tally(outcome), [2, 0, 0, 2, 0]);
    let queue = bed.name().to_owned();
    let expected = [
        LetterError::OriginGone { queue },
        LetterError::OriginUnknown,
    ];
    assert_eq!(*failures.lock().unwrap(), expected);

    bed.declare(&bed.queue()).await;
    let script = Script::succeeding();
    let worker = bed.charging(store, &script);
    let outcome = replayer.replay(&Selection::all()).await.unwrap();
    assert_eq!(tally(outcome), [2, 1, 0, 1, 0]);
    worker.ended(Kind::Executed, 1).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 1)]);
    assert_eq!(bed.dead_letter().await.body, b"put there by hand");
    bed.assert_nothing_stuck().await;
}

/// There is no such dead-letter queue, or no broker.
///
/// - does: returns an error that says so
#[tokio::test]
async fn a_dead_letter_queue_that_is_missing_is_a_clear_error() {
    let bed = Bed::bare().await;
    let error = replayer(&bed).look(&Selection::all()).await.unwrap_err();
    assert!(matches!(error, ReplayError::Queue { .. }), "{error:?}");
    assert_eq!(
        error.to_string(),
        format!(
            "the dead-letter queue `{}` cannot be read",
            dead(bed.name())
        )
    );
    let error = Replayer::new("amqp://me:secret@127.0.0.1:1/%2f", "q.dead").unwrap();
    let error = error.look(&Selection::all()).await.unwrap_err();
    assert!(matches!(error, ReplayError::Broker(_)), "{error:?}");
    assert!(!format!("{error:?}").contains("secret"), "{error:?}");
}
