//! Many dead letters at once, and what happens meanwhile.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{StreamExt as _, stream};
use idem_amqp::{
    MemoryStore, Publication, Publisher,
    dead_letters::{ReplayError, Replayer, Selection},
    executor::ExecutionKind as Kind,
};
use idem_tests::{
    bed::{Bed, dead},
    journal::{Journal, LIMIT, eventually},
    proxy::Proxy,
    running::assert_balance,
    script::{Order, Script},
};

use crate::{
    dead_letters::rejecting,
    replays::{bury, replayer, tally, until_dead},
};

/// Replayed letters die again meanwhile.
///
/// - does: leaves them for the next time: no loop
/// - atomic: ends
/// - leased: ends
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn letters_that_die_again_while_others_are_replayed_are_replayed_once() {
    let bed = Bed::new().await;
    let store = MemoryStore::new();
    let ids: Vec<_> = (0..300).map(|number| format!("o-{number}")).collect();
    let ids: Vec<_> = ids.iter().map(String::as_str).collect();
    bury(&bed, &store, &ids).await;
    let script = rejecting();
    let worker = bed.charging(store, &script);
    let (settled, dealt) = (worker.settled.clone(), Journal::default());
    let deadline = Instant::now() + LIMIT;
    let slow = replayer(&bed).on_letter(move |_| {
        dealt.write(());
        // The last letter has been sent again: others are dead once more before it goes on.
        let last = dealt.entries().len() == 300;
        while last && settled.entries().len() < 100 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let replayed = slow.replay(&Selection::all()).await.unwrap();
    assert_eq!(tally(replayed), [300, 300, 0, 0, 0]);
    worker.ended(Kind::Rejected, 300).await;
    assert_balance(&worker.stop().await, [(Kind::Rejected, 300)]);
    until_dead(&bed, 300).await;
    replayer(&bed).discard(&Selection::all()).await.unwrap();
    bed.assert_nothing_stuck().await;
}

/// The link is lost during a replay.
///
/// - does: says how far it came; a second replay sends the rest, and perhaps a few twice
/// - atomic: once each
/// - leased: once each
#[tokio::test]
async fn a_replay_that_loses_its_link_loses_no_letter_and_can_be_made_again() {
    let bed = Bed::new().await;
    let store = MemoryStore::new();
    let ids: Vec<_> = (0..600).map(|number| format!("o-{number}")).collect();
    let ids: Vec<_> = ids.iter().map(String::as_str).collect();
    bury(&bed, &store, &ids).await;
    let script = Script::succeeding();
    let worker = bed.charging(store, &script);
    let proxy = Arc::new(Proxy::open(bed.broker().port()).await);
    let link = Arc::clone(&proxy);
    let dealt = Journal::default();
    let so_far = dealt.clone();
    let cut_off = Replayer::new(bed.url_by(proxy.port(), ""), dead(bed.name())).unwrap();
    let cut_off = cut_off.on_letter(move |_| {
        so_far.write(());
        if so_far.entries().len() == 300 {
            link.cut();
        }
    });
    let error = cut_off.replay(&Selection::all()).await.unwrap_err();
    let ReplayError::Interrupted { done, .. } = error else {
        panic!("{error:?}")
    };
    assert_eq!(done.replayed, dealt.entries().len() as u64);
    // The broker has them back once it has noticed.
    let left = 600 - u32::try_from(done.replayed).unwrap();
    eventually("what it held is back", async || {
        match bed.waiting(&dead(bed.name())).await {
            Some((waiting, _)) if waiting >= left => Ok(()),
            seen => Err(seen),
        }
    })
    .await;

    replayer(&bed).replay(&Selection::all()).await.unwrap();
    worker.ended(Kind::Executed, 600).await;
    script.assert_effects(&ids);
    // The letters that were in both queues.
    bed.until_settled().await;
    let balance = worker.stop().await;
    assert_eq!(balance.of(Kind::Executed), 600);
    assert_eq!(balance.deliveries(), 600 + balance.of(Kind::Duplicate));
    bed.assert_nothing_stuck().await;
}

/// A look at the letters is given up in the middle.
///
/// - does: returns the letters
/// - atomic: kept as dead letters
/// - leased: kept as dead letters
#[tokio::test]
async fn a_look_that_is_dropped_returns_the_letters() {
    let bed = Bed::new().await;
    let ids: Vec<_> = (0..600).map(|number| format!("o-{number}")).collect();
    let ids: Vec<_> = ids.iter().map(String::as_str).collect();
    bury(&bed, &MemoryStore::new(), &ids).await;
    let seen = Journal::default();
    let so_far = seen.clone();
    let all = Selection::all().matching(move |_| {
        so_far.write(());
        true
    });
    let replayer = replayer(&bed);
    let looking = tokio::spawn(async move { replayer.look(&all).await });
    seen.count("the first letters are looked at", 1).await;
    looking.abort();
    assert!(looking.await.is_err(), "it was dropped too late");
    until_dead(&bed, 600).await;
}

/// A letter as a worker would have left it.
fn rejected(bed: &Bed, number: usize) -> Publication {
    let order = Order::new(&format!("o-{number}"));
    let mut letter = Publication::json(&dead(bed.name()), &order);
    let key = format!("orders.charge:o-{number}");
    for (name, value) in [
        ("idem-reason", "rejected"),
        ("idem-key", &key),
        ("idem-queue", bed.name()),
    ] {
        letter = letter.header(name, value);
    }
    letter
}

/// Ten of ten thousand letters are chosen.
///
/// - does: reads all, holding 250 in memory at once
/// - atomic: once each
/// - leased: once each
#[tokio::test]
async fn ten_of_ten_thousand_letters_are_found_and_replayed() {
    const LETTERS: usize = 10_000;
    let bed = Bed::new().await;
    let publisher = Publisher::connect(bed.url()).await.unwrap();
    stream::iter(0..LETTERS)
        .map(async |number| publisher.publish(&rejected(&bed, number)).await)
        .buffer_unordered(512)
        .for_each(async |confirm| confirm.unwrap())
        .await;
    let ids: Vec<_> = (1..=10)
        .map(|tenth| format!("o-{}", tenth * LETTERS / 10 - 1))
        .collect();
    let chosen = ids.iter().fold(Selection::all(), |chosen, id| {
        chosen.key(format!("orders.charge:{id}"))
    });
    let script = Script::succeeding();
    let worker = bed.charging(MemoryStore::new(), &script);
    let began = Instant::now();
    let replayed = replayer(&bed).replay(&chosen).await.unwrap();
    let took = began.elapsed();
    eprintln!("10 of {LETTERS} letters were replayed in {took:?}");
    assert_eq!(tally(replayed), [10_000, 10, 0, 0, 9_990]);
    assert!(took < Duration::from_secs(30), "{took:?}");
    worker.ended(Kind::Executed, 10).await;
    assert_balance(&worker.stop().await, [(Kind::Executed, 10)]);
    script.assert_effects(&ids);
    until_dead(&bed, 9_990).await;
    let discarded = replayer(&bed).discard(&Selection::all()).await.unwrap();
    assert_eq!(tally(discarded), [9_990, 0, 9_990, 0, 0]);
    bed.assert_nothing_stuck().await;
}
