//! The mark of a stream, moved in the transaction of its handler.

use super::{
    lost::{linked, terminate},
    proxy::Weather,
    *,
};
use crate::{
    message::Key,
    store::{MarkMove, Open, StreamClaim, StreamLease, StreamStore as _},
    stores::Migrate,
};

fn stream() -> Key {
    Key::new("ledger", "postings").unwrap()
}

impl Shop {
    async fn reads(&self) -> StreamLease {
        let stream = stream();
        let claim = self.store.claim_stream(&stream, Owner::new(), MINUTE);
        match claim.await.unwrap() {
            StreamClaim::Acquired { lease, .. } => lease,
            held @ StreamClaim::Held { .. } => panic!("{held:?}"),
        }
    }

    /// A transaction in which an order is charged.
    async fn charges_in(&self, opening: Open<'_>) -> OpenTransaction {
        let mut open = TransactionalStore::<Lent>::open(&self.store, opening)
            .await
            .unwrap();
        charge(lend(&mut open)).await;
        open
    }

    async fn finish(
        &self,
        open: OpenTransaction,
        finish: Finish<'_>,
    ) -> Result<Finished, StoreError> {
        TransactionalStore::<Lent>::finish(&self.store, open, finish).await
    }

    /// Charges, and moves the mark from 0 to 1.
    async fn moves(&self, lease: &StreamLease) -> Result<Finished, StoreError> {
        let open = self.charges_in(Open::Batch).await;
        self.finish(open, first(lease)).await
    }

    async fn mark(&self) -> Option<u64> {
        let seen = self.store.look_at_stream(&stream()).await.unwrap();
        seen.and_then(|it| it.mark)
    }

    async fn has_moved(&self, charges: i64, mark: Option<u64>) {
        assert_eq!((self.charges().await, self.mark().await), (charges, mark));
    }
}

/// Moves the mark over the first message.
fn first(lease: &StreamLease) -> Finish<'_> {
    Finish::MoveMark {
        mark: MarkMove::new(lease, 0, 1),
        outgoing: &[],
    }
}

fn words(refused: &Result<Finished, StoreError>) -> String {
    match refused {
        Err(StoreError::Refused(source)) => source.to_string(),
        other => panic!("{other:?}"),
    }
}

const WITHOUT: &str = "DROP FUNCTION idem_records_move_mark";

#[tokio::test]
async fn a_handler_that_ends_the_transaction_by_itself_moves_no_mark() {
    for own_end in ["COMMIT", "ROLLBACK", "ROLLBACK; BEGIN", "COMMIT; BEGIN"] {
        let shop = Shop::with(|builder| builder.connections(1)).await;
        let lease = shop.reads().await;
        let mut open = shop.charges_in(Open::Batch).await;
        execute(lend(&mut open), own_end).await.unwrap();
        let error = refusal(shop.finish(open, first(&lease)).await);
        assert!(error.contains("by itself"), "{own_end}: {error}");
        // Also with a completion, which is refused with it.
        let (of_key, mut open) = shop.begin("o-1").await;
        execute(lend(&mut open), own_end).await.unwrap();
        let outcome = Outcome::default();
        let mark = Some(MarkMove::new(&lease, 0, 1));
        let done = Completion::new(&of_key, &outcome, MINUTE).moving(mark);
        let error = refusal(shop.finish(open, Finish::Complete(done)).await);
        assert!(error.contains("by itself"), "{own_end}: {error}");
        assert_eq!(shop.mark().await, None, "{own_end}");
        assert!(!shop.is_completed("o-1").await);
        shop.nothing_is_locked().await;
        assert_eq!(shop.moves(&lease).await.unwrap(), Finished::Committed);
    }
}

/// Who moves no mark can do without it, and need not have the right to create it.
#[tokio::test]
async fn tables_without_the_function_that_moves_marks_move_none_and_say_why() {
    let shop = Shop::open().await;
    execute(&mut shop.bystander().await, WITHOUT).await.unwrap();
    let builder = PostgresStore::builder(&shop.url).schema(&shop.schema);
    let store = builder.migrate(Migrate::Never).build().await.unwrap();
    let shop = Shop { store, ..shop };
    let (lease, open) = shop.begin("o-1").await;
    shop.commits(open, &lease).await;

    let reader = shop.reads().await;
    let said = words(&shop.moves(&reader).await);
    assert!(
        said.ends_with("let their owner run `idem migrate`"),
        "{said}"
    );
    let (lease, mut open) = shop.begin("o-2").await;
    charge(lend(&mut open)).await;
    let outcome = Outcome::default();
    let mark = Some(MarkMove::new(&reader, 0, 1));
    let done = Completion::new(&lease, &outcome, MINUTE).moving(mark);
    let said = words(&shop.finish(open, Finish::Complete(done)).await);
    assert!(
        said.ends_with("let their owner run `idem migrate`"),
        "{said}"
    );
    shop.nothing_is_locked().await;
    shop.has_moved(0, None).await;
    assert!(!shop.is_completed("o-2").await);

    // The next one that may create it does, while this one is at work.
    let builder = PostgresStore::builder(&shop.url).schema(&shop.schema);
    drop(builder.build().await.unwrap());
    assert_eq!(shop.moves(&reader).await.unwrap(), Finished::Committed);
    shop.has_moved(1, Some(1)).await;
}

/// It is the attempt that has failed, and not the store.
#[tokio::test]
async fn a_function_of_the_handlers_that_is_missing_is_another_matter() {
    let shop = Shop::open().await;
    let trigger = "CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql
            AS 'BEGIN PERFORM note(); RETURN NULL; END';
        CREATE CONSTRAINT TRIGGER noted AFTER INSERT ON charges DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION noted()";
    execute(&mut shop.bystander().await, trigger).await.unwrap();
    let lease = shop.reads().await;
    let error = refusal(shop.moves(&lease).await);
    assert!(error.contains("note()"), "{error}");
    shop.has_moved(0, None).await;
}

#[tokio::test]
async fn a_mark_in_a_group_is_refused() {
    let shop = Shop::open().await;
    let lease = shop.reads().await;
    let group = Open::Group {
        handler: "charge",
        size: 2,
    };
    let claim = shop.store.claim(&request("o-1")).await.unwrap();
    let Claim::Acquired(of_key) = claim else {
        panic!("{claim:?}")
    };
    let outcome = Outcome::default();
    let mark = MarkMove::new(&lease, 0, 1);
    let done = Completion::new(&of_key, &outcome, MINUTE).moving(Some(mark));
    for finish in [first(&lease), Finish::Complete(done)] {
        let open = shop.charges_in(group).await;
        let said = words(&shop.finish(open, finish).await);
        assert!(said.contains("a mark"), "{said}");
        shop.nothing_is_locked().await;
        shop.has_moved(0, None).await;
    }
    assert!(!shop.is_completed("o-1").await);
}

#[tokio::test]
async fn a_constraint_that_fails_at_the_commit_moves_no_mark() {
    let shop = Shop::open().await;
    let lease = shop.reads().await;
    let mut open = shop.charges_in(Open::Batch).await;
    let broken = "INSERT INTO children VALUES ('nobody')";
    execute(lend(&mut open), broken).await.unwrap();
    let error = refusal(shop.finish(open, first(&lease)).await);
    assert!(error.contains("children_parent_fkey"), "{error}");
    shop.has_moved(0, None).await;
}

#[tokio::test]
async fn a_connection_that_ends_before_the_commit_moves_no_mark() {
    let shop = Shop::with(|builder| builder.connections(1)).await;
    let lease = shop.reads().await;
    let mut open = shop.charges_in(Open::Batch).await;
    let serving = pid(lend(&mut open)).await;
    terminate(&shop, serving).await;
    let unknown = shop.finish(open, first(&lease)).await;
    assert_matches!(unknown, Err(StoreError::Unavailable(_)));
    shop.has_moved(0, None).await;
    assert_eq!(shop.moves(&lease).await.unwrap(), Finished::Committed);
    shop.has_moved(1, Some(1)).await;
}

/// Whoever tries once more is fenced by the mark itself, and so finds out.
#[tokio::test]
async fn a_commit_whose_answer_was_lost_is_not_done_again() {
    let (shop, proxy) = linked().await;
    let lease = shop.reads().await;
    let open = shop.charges_in(Open::Batch).await;
    proxy.set(Weather::AnswersLost);
    let (unknown, ()) = tokio::join!(shop.finish(open, first(&lease)), proxy.answer_lost());
    assert_matches!(unknown, Err(StoreError::Unavailable(_)));
    proxy.set(Weather::Fine);
    assert_eq!(shop.moves(&lease).await.unwrap(), Finished::Fenced);
    shop.has_moved(1, Some(1)).await;
}

/// A snapshot does not see the heartbeat, so the server refuses the commit; at READ COMMITTED it is seen.
#[tokio::test]
async fn a_heartbeat_of_the_stream_is_in_the_way_of_a_snapshot_alone() {
    for (level, commits) in [
        ("READ COMMITTED", true),
        ("REPEATABLE READ", false),
        ("SERIALIZABLE", false),
    ] {
        let shop = Shop::open().await;
        let lease = shop.reads().await;
        let mut open = TransactionalStore::<Lent>::open(&shop.store, Open::Batch)
            .await
            .unwrap();
        let set = format!("SET TRANSACTION ISOLATION LEVEL {level}");
        execute(lend(&mut open), set).await.unwrap();
        charge(lend(&mut open)).await;
        let extended = shop.store.extend_stream(&lease, None, MINUTE).await;
        assert_eq!(extended.unwrap(), Write::Applied);
        let finished = shop.finish(open, first(&lease)).await;
        if commits {
            assert_eq!(finished.unwrap(), Finished::Committed);
        } else {
            let error = refusal(finished);
            assert!(error.contains("next time"), "{level}: {error}");
            assert_eq!(shop.moves(&lease).await.unwrap(), Finished::Committed);
        }
        shop.has_moved(1, Some(1)).await;
    }
}

/// The row of the stream is not locked before the last statement.
#[tokio::test]
async fn a_handler_does_not_keep_the_heartbeat_waiting() {
    let shop = Shop::open().await;
    let lease = shop.reads().await;
    let open = shop.charges_in(Open::Batch).await;
    let extended = shop.store.extend_stream(&lease, Some(0), MINUTE).await;
    assert_eq!(extended.unwrap(), Write::Applied);
    let finished = shop.finish(open, first(&lease)).await;
    assert_eq!(finished.unwrap(), Finished::Committed);
    shop.has_moved(1, Some(1)).await;
}
