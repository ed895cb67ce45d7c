//! Answers that the driver has left unread: what comes back next is not the answer to what was sent.

use super::*;

/// The driver does not read to the end of this one's answer, so each later one comes one exchange late.
async fn fail_to_copy(connection: &mut PgConnection) {
    let copied = connection
        .copy_out_raw("COPY no_such_table TO STDOUT")
        .await;
    assert!(copied.is_err(), "the server refuses it");
}

/// As a handler does it that is right: what fails is undone.
async fn fail_to_copy_in_a_savepoint(connection: &mut PgConnection) {
    execute(connection, "SAVEPOINT copying").await.unwrap();
    fail_to_copy(connection).await;
    execute(connection, "ROLLBACK TO SAVEPOINT copying")
        .await
        .unwrap();
}

/// A child without a parent: a deferred constraint, so the commit is refused.
const ORPHAN: &str = "INSERT INTO children VALUES ('nobody', 'orphan')";

/// A commit that is not carried out is not believed, whatever comes back, and leaves nothing.
async fn commits_nothing(shop: &Shop, open: OpenTransaction, lease: &Lease) {
    let commit = shop.commit(open, lease).await;
    assert!(!matches!(commit, Ok(Finished::Committed)), "{commit:?}");
    shop.nothing_is_locked().await;
    assert_eq!(shop.charges().await, 0);
    assert!(!shop.is_completed("o-1").await);
}

/// The number of charges that a handler's own transaction shows it.
async fn seen(open: &mut OpenTransaction) -> Option<i64> {
    let count = "SELECT count(*) FROM charges";
    sqlx::query_scalar(count)
        .fetch_optional(lend(open))
        .await
        .unwrap()
}

#[tokio::test]
async fn a_commit_is_not_believed_if_its_answer_is_that_to_an_earlier_statement() {
    let shop = Shop::open().await;
    let (lease, mut open) = shop.begin("o-1").await;
    charge(lend(&mut open)).await;
    fail_to_copy(lend(&mut open)).await;
    commits_nothing(&shop, open, &lease).await;
}

/// However many statements' answers come before the commit's, and whatever they look like.
#[tokio::test]
async fn a_commit_is_not_believed_by_the_number_of_its_answers() {
    let shop = Shop::open().await;
    let (lease, mut open) = shop.begin("o-1").await;
    fail_to_copy_in_a_savepoint(lend(&mut open)).await;
    execute(lend(&mut open), ORPHAN).await.unwrap();
    let many = vec!["SELECT 1"; 40].join(";");
    execute(lend(&mut open), many).await.unwrap();
    commits_nothing(&shop, open, &lease).await;
}

#[tokio::test]
async fn a_deferred_constraint_that_fails_is_told_also_behind_an_answer_that_was_left_unread() {
    let shop = Shop::open().await;
    let (lease, mut open) = shop.begin("o-1").await;
    fail_to_copy_in_a_savepoint(lend(&mut open)).await;
    execute(lend(&mut open), ORPHAN).await.unwrap();
    commits_nothing(&shop, open, &lease).await;
}

/// A commit that nobody has seen answered is asked for by its content.
#[tokio::test]
async fn a_commit_behind_an_answer_that_was_left_unread_is_found_by_whoever_asks() {
    let shop = Shop::open().await;
    let (lease, mut open) = shop.begin("o-1").await;
    fail_to_copy_in_a_savepoint(lend(&mut open)).await;
    let charge = "INSERT INTO charges VALUES ('o-1')";
    execute(lend(&mut open), charge).await.unwrap();
    let commit = shop.commit(open, &lease).await;
    assert_matches!(commit, Err(StoreError::Unavailable(_)));
    shop.nothing_is_locked().await;
    assert!(shop.is_completed("o-1").await);
    assert_eq!(shop.charges().await, 1);
}

#[tokio::test]
async fn a_commit_is_not_believed_behind_a_copy_whose_end_was_cancelled() {
    let shop = Shop::open().await;
    let (lease, mut open) = shop.begin("o-1").await;
    cancel_the_end_of_a_copy(lend(&mut open)).await;
    assert!(is_answered_late(lend(&mut open)).await);
    execute(lend(&mut open), ORPHAN).await.unwrap();
    commits_nothing(&shop, open, &lease).await;
}

/// Sent and not waited for: the driver forgets that an answer comes.
async fn cancel_the_end_of_a_copy(connection: &mut PgConnection) {
    // On a busy machine the answer may be there at once: then none is left unread.
    loop {
        let copy = connection.copy_in_raw("COPY charges FROM STDIN").await;
        let mut copy = copy.unwrap();
        copy.send(&b"o-1\n"[..]).await.unwrap();
        if futures_util::poll!(Box::pin(copy.finish()).as_mut()).is_pending() {
            return;
        }
    }
}

/// Whether the driver takes the answer to an earlier statement for the one to the next.
async fn is_answered_late(connection: &mut PgConnection) -> bool {
    let own = sqlx::raw_sql("SELECT 1").fetch_optional(connection).await;
    !matches!(own, Ok(Some(_)))
}

/// The driver tells the server that the copy has failed, together with the next statement, and reads one answer of two.
#[tokio::test]
async fn a_commit_is_not_believed_behind_a_copy_that_was_dropped() {
    let shop = Shop::open().await;
    let (lease, mut open) = shop.begin("o-1").await;
    charge(lend(&mut open)).await;
    drop_a_copy_in_a_savepoint(lend(&mut open)).await;
    assert!(is_answered_late(lend(&mut open)).await);
    execute(lend(&mut open), ORPHAN).await.unwrap();
    commits_nothing(&shop, open, &lease).await;
}

#[tokio::test]
async fn a_connection_on_which_a_copy_was_dropped_is_not_lent_again() {
    let shop = Shop::with(|builder| builder.connections(1)).await;
    let (lease, mut open) = shop.begin("o-1").await;
    drop_a_copy_in_a_savepoint(lend(&mut open)).await;
    shop.rolls_back(open, &lease).await;
    let (lease, mut open) = shop.begin("o-2").await;
    assert_eq!(seen(&mut open).await, Some(0));
    shop.commits(open, &lease).await;
}

async fn drop_a_copy_in_a_savepoint(connection: &mut PgConnection) {
    execute(connection, "SAVEPOINT copying").await.unwrap();
    let copy = connection.copy_in_raw("COPY charges FROM STDIN").await;
    let mut copy = copy.unwrap();
    copy.send(&b"dropped\n"[..]).await.unwrap();
    drop(copy);
    let undone = execute(connection, "ROLLBACK TO SAVEPOINT copying").await;
    assert!(undone.is_err(), "it gets the copy's answer");
}

#[tokio::test]
async fn whoever_waits_for_a_connection_does_not_get_one_that_answers_late() {
    let shop = Shop::with(|builder| builder.connections(1)).await;
    let (lease, mut open) = shop.begin("o-1").await;
    let mut next = Box::pin(shop.begin("o-2"));
    assert!(futures_util::poll!(next.as_mut()).is_pending());
    fail_to_copy_in_a_savepoint(lend(&mut open)).await;
    let _ = shop.commit(open, &lease).await;
    let (lease, mut open) = next.await;
    assert_eq!(seen(&mut open).await, Some(0));
    charge(lend(&mut open)).await;
    assert_eq!(seen(&mut open).await, Some(1));
    shop.commits(open, &lease).await;
}

#[tokio::test]
async fn a_connection_that_answers_late_is_not_lent_again_when_its_handler_has_failed() {
    let shop = Shop::with(|builder| builder.connections(1)).await;
    let (lease, mut open) = shop.begin("o-1").await;
    fail_to_copy(lend(&mut open)).await;
    shop.rolls_back(open, &lease).await;
    let (lease, mut open) = shop.begin("o-2").await;
    assert_eq!(seen(&mut open).await, Some(0));
    shop.commits(open, &lease).await;
}

#[tokio::test]
async fn a_session_that_answers_late_is_alive() {
    let shop = Shop::open().await;
    let (_, mut open) = shop.begin("o-1").await;
    for _ in 0..3 {
        fail_to_copy(lend(&mut open)).await;
    }
    let alive = TransactionalStore::<Lent>::is_alive(&shop.store, &mut open);
    assert!(alive.await, "the handler has failed, and not its session");
}

#[tokio::test]
async fn a_session_that_answered_late_and_has_ended_is_not_alive() {
    let shop = Shop::open().await;
    let (_, mut open) = shop.begin("o-1").await;
    let pid = pid(lend(&mut open)).await;
    for _ in 0..3 {
        fail_to_copy(lend(&mut open)).await;
    }
    let end = format!("SELECT pg_terminate_backend({pid}, 10000)");
    execute(&mut shop.bystander().await, end).await.unwrap();
    let alive = TransactionalStore::<Lent>::is_alive(&shop.store, &mut open);
    assert!(!alive.await);
}
