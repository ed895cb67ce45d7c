//! Numbered messages that wait at the same time share a transaction.

use futures_util::future::join_all;
use tokio::task::yield_now;

use super::*;
use crate::{message::Position, store::OutOfPlace};

async fn complete_all(store: &PostgresStore, leases: &[Lease]) {
    join_all(leases.iter().map(|lease| complete(store, lease))).await;
}

/// How many transactions have written the records that there are.
async fn transactions(database: &Database) -> i64 {
    database
        .number("SELECT count(DISTINCT xmin::text) FROM idem_records")
        .await
}

/// Counts from now on how often a sequence is written.
async fn count_saves(database: &Database) {
    database
        .run(
            "CREATE SEQUENCE saves;
             CREATE FUNCTION save() RETURNS trigger LANGUAGE plpgsql
             AS $$ BEGIN PERFORM nextval('saves'); RETURN NEW; END $$;
             CREATE TRIGGER save BEFORE UPDATE ON idem_records_sequences
             FOR EACH ROW EXECUTE FUNCTION save()",
        )
        .await;
}

async fn saves(database: &Database) -> i64 {
    database.number("SELECT last_value FROM saves").await
}

#[tokio::test]
async fn claims_of_one_sequence_that_wait_share_a_transaction() {
    let database = Database::new();
    let store = database.store().await;
    let leases = acquired(claims(&store, (0..200).map(|number| message("d", number))).await);
    assert_eq!(leases.len(), 200);
    let shared = transactions(&database).await;
    assert!((1..=5).contains(&shared), "{shared} transactions");
}

#[tokio::test]
async fn claims_of_many_sequences_that_wait_share_transactions() {
    let database = Database::new();
    let store = database.store().await;
    for number in 0..2 {
        let requests = (0..200).map(|of| message(&format!("d-{of}"), number));
        acquired(claims(&store, requests).await);
    }
    let shared = transactions(&database).await;
    assert!((2..=40).contains(&shared), "{shared} transactions");
}

#[tokio::test]
async fn claims_that_wait_for_one_that_is_stuck_share_a_look() {
    let database = Database::new();
    let store = database.store().await;
    let stuck = acquired(claims(&store, [message("d", 0)]).await);
    complete_all(
        &store,
        &acquired(claims(&store, (1..600).map(|it| message("d", it))).await),
    )
    .await;
    count_saves(&database).await;
    let above = acquired(claims(&store, (600..800).map(|it| message("d", it))).await);
    let looks = saves(&database).await;
    assert!((1..=5).contains(&looks), "{looks} looks");
    complete_all(&store, &stuck).await;
    complete_all(&store, &above).await;
    acquired(claims(&store, [message("d", 800)]).await);
    let mark = database
        .number("SELECT mark FROM idem_records_sequences")
        .await;
    assert_eq!(mark, 800);
}

/// What has to be begun anew or looked at takes statements of its own for each sequence.
#[tokio::test]
async fn claims_of_many_sequences_that_have_expired_are_all_answered() {
    let database = Database::new();
    let store = database.store().await;
    let all = |number| {
        (0..150).map(move |of| ClaimRequest {
            retention: 10 * MINUTE,
            ..message(&format!("d-{of}"), number)
        })
    };
    complete_all(&store, &acquired(claims(&store, all(0)).await)).await;
    store.advance(2 * MINUTE);
    complete_all(&store, &acquired(claims(&store, all(1)).await)).await;
    let moved = "SELECT count(*) FROM idem_records_sequences WHERE mark = 1";
    assert_eq!(database.number(moved).await, 150);
    store.advance(20 * MINUTE);
    acquired(claims(&store, all(2)).await);
    let anew = "SELECT count(*) FROM idem_records_sequences WHERE mark = 2 AND joined = 2";
    assert_eq!(database.number(anew).await, 150);
}

#[tokio::test]
async fn copies_in_one_batch_go_to_one() {
    let database = Database::new();
    let store = database.store().await;
    let answers = claims(&store, (0..50).map(|_| message("d", 3))).await;
    let acquired = answers
        .iter()
        .filter(|it| matches!(it, Ok(Claim::Acquired(_))));
    let held = answers.iter().filter(|it| is_held(it));
    assert_eq!((acquired.count(), held.count()), (1, 49));
}

#[tokio::test]
async fn a_claim_that_is_repeated_in_one_batch_gets_one_lease() {
    let database = Database::new();
    let store = database.store().await;
    let request = message("d", 3);
    let leases = acquired(claims(&store, (0..5).map(|_| request.clone())).await);
    assert!(leases.iter().all(|lease| *lease == leases[0]), "{leases:?}");
}

/// The copy waits before the one that would move the mark past its number.
#[tokio::test]
async fn no_look_removes_an_answer_that_a_copy_in_the_batch_asks_for() {
    let database = Database::new();
    let store = database.store().await;
    let first = acquired(claims(&store, (0..500).map(|it| message("d", it))).await);
    complete_all(&store, &first).await;
    let requests = [0, 250, 499, 500].map(|number| message("d", number));
    let answers = claims(&store, requests).await;
    for copy in &answers[..3] {
        let Ok(Claim::Completed { outcome, .. }) = copy else {
            panic!("{copy:?}")
        };
        assert_eq!(*outcome, Outcome::new("done"));
    }
    assert!(matches!(answers[3], Ok(Claim::Acquired(_))), "{answers:?}");
    let mark = database
        .number("SELECT mark FROM idem_records_sequences")
        .await;
    assert_eq!(mark, 500);
}

/// One batch has the mark pass what copies behind in the same batch ask for.
#[tokio::test]
async fn copies_behind_a_look_know_what_it_has_passed() {
    let database = Database::new();
    let store = database.store().await;
    let leases = acquired(claims(&store, (0..500).map(|it| message("d", it))).await);
    let gave_up = Release::gave_up("no");
    let written = store.release(&leases[7], &gave_up).await.unwrap();
    assert_eq!(written, Write::Applied);
    complete_all(&store, &[&leases[..7], &leases[8..]].concat()).await;
    let replay = ClaimRequest {
        replay: true,
        ..message("d", 7)
    };
    let requests = [message("d", 500), message("d", 6), message("d", 7), replay];
    let answers = claims(&store, requests).await;
    assert!(matches!(answers[0], Ok(Claim::Acquired(_))), "{answers:?}");
    assert!(
        matches!(answers[1], Ok(Claim::Completed { .. })),
        "{answers:?}"
    );
    assert!(
        matches!(answers[2], Ok(Claim::OutOfPlace(OutOfPlace::Late))),
        "{answers:?}"
    );
    assert!(matches!(answers[3], Ok(Claim::Acquired(_))), "{answers:?}");
}

/// It has no record that says so, and the exception is not written yet.
#[tokio::test]
async fn what_a_look_skips_is_not_done_for_a_claim_behind_it() {
    let database = Database::new();
    let store = database.store().await;
    works(&store, 0).await;
    let mut ahead = asks(20);
    let place = ahead.position.sequence().unwrap().clone();
    ahead.position = Position::Sequence(place.skip_after(MINUTE));
    for _ in 0..4 {
        let answer = store.claim(&ahead).await.unwrap();
        assert_eq!(
            answer,
            Claim::OutOfPlace(OutOfPlace::Ahead { mark: 1, window: 8 })
        );
        store.advance(MINUTE / 3);
    }
    let answers = claims(&store, [ahead, asks(1)]).await;
    assert!(
        matches!(
            answers[0],
            Ok(Claim::OutOfPlace(OutOfPlace::Ahead { mark: 9, .. }))
        ),
        "{answers:?}"
    );
    assert!(
        matches!(answers[1], Ok(Claim::OutOfPlace(OutOfPlace::Late))),
        "{answers:?}"
    );
}

/// Two processes, copies of each message, and a narrow window: so batches begin, look, pass and wait
/// for each other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_comes_together_each_number_runs_once() {
    let database = Database::new();
    let stores = [database.store().await, database.store().await];
    let mut dice = fastrand::Rng::with_seed(7);
    let mut arrivals: Vec<(String, u64, PostgresStore)> = Vec::new();
    for of in 0..5 {
        for number in 0..60_u64 {
            for store in [&stores[0], &stores[1], &stores[dice.usize(..2)]] {
                arrivals.push((format!("d-{of}"), number, store.clone()));
            }
        }
    }
    // Nearly in their order, as from a broker.
    arrivals.sort_by_cached_key(|(_, number, _)| number * 3 + dice.u64(..30));
    let work = arrivals.into_iter().map(|(of, number, store)| {
        tokio::spawn(async move { (of.clone(), number, handle(&store, &of, number).await) })
    });
    let mut ran: Vec<_> = join_all(work)
        .await
        .into_iter()
        .map(Result::unwrap)
        .filter_map(|(of, number, ran)| ran.then_some((of, number)))
        .collect();
    ran.sort_unstable();
    let once: Vec<_> = (0..5)
        .flat_map(|of| (0..60).map(move |number| (format!("d-{of}"), number)))
        .collect();
    assert_eq!(ran, once);
}

/// Whether it ran here.
async fn handle(store: &PostgresStore, of: &str, number: u64) -> bool {
    let place = SequencePlace::new(Key::new("readings", of).unwrap(), number).window(8);
    loop {
        let request = ClaimRequest::in_sequence(place.clone(), &Policy::DEFAULT);
        match store.claim(&request).await.unwrap() {
            Claim::Acquired(lease) => {
                yield_now().await;
                complete(store, &lease).await;
                return true;
            }
            Claim::Completed { .. } => return false,
            Claim::Held { .. } | Claim::OutOfPlace(OutOfPlace::Ahead { .. }) => yield_now().await,
            other => panic!("{other:?}"),
        }
    }
}
