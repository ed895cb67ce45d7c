//! A message, and its copies.

use super::*;
use crate::store::{Claim, ClaimRequest, Store as _};

#[tokio::test]
async fn what_succeeds_leaves_its_row_and_no_record() {
    let till = Till::open().await;
    till.pays("o-1").await;
    assert_eq!(till.count("payments").await, 1);
    assert_eq!(till.count("idem_records").await, 0);
}

#[tokio::test]
async fn a_thousand_messages_leave_no_record() {
    let till = Till::open().await;
    for number in 0..1000 {
        till.pays(&format!("o-{number}")).await;
    }
    assert_eq!(till.count("payments").await, 1000);
    assert_eq!(till.count("idem_records").await, 0);
    assert_eq!(till.count("idem_records_open").await, 0);
}

#[tokio::test]
async fn a_copy_that_comes_later_is_a_duplicate_and_does_nothing() {
    let till = Till::open().await;
    till.pays("o-1").await;
    for _ in 0..3 {
        let execution = till.handle::<Pay, _>("o-1", &pay()).await;
        is_duplicate(&execution);
        let Execution::Duplicate { outcome, .. } = execution else {
            unreachable!()
        };
        assert_eq!(outcome.as_bytes(), b"");
    }
    assert_eq!(till.count("payments").await, 1);
    assert_eq!(till.count("notes").await, 1);
    assert_eq!(till.count("idem_records").await, 0);
}

#[tokio::test]
async fn a_copy_of_what_another_worker_attempts_does_not_wake_itself() {
    let till = Till::open().await;
    let mut again = message::<Pay>("o-1").redelivered(true);
    let elsewhere = ClaimRequest::new(again.key().clone(), &policy());
    let claim = till.executor.store().claim(&elsewhere).await.unwrap();
    assert!(matches!(claim, Claim::Acquired(_)), "{claim:?}");
    let ended = till.handle_again(&mut again, &pay()).await;
    assert!(matches!(ended, Execution::Conflict { .. }), "{ended:?}");
    let woken = tokio::time::timeout(SECOND / 10, again.holder_ended()).await;
    assert!(woken.is_err(), "nobody has ended here");
}

/// Pays when it is told to, and then says that it has.
fn pay_slowly(go_on: &Arc<tokio::sync::Notify>, then: Result<u32, &'static str>) -> Act<Failed> {
    let go_on = Arc::clone(go_on);
    act(move |db, message, _| {
        let go_on = Arc::clone(&go_on);
        Box::pin(async move {
            insert(db, &message[0]).await?;
            go_on.notified().await;
            then.map_err(Failed::retry)
        })
    })
}

/// What becomes of a copy at another process that waits for the first at the index.
async fn copy_at_another_worker(then: Result<u32, &'static str>) -> (Till, Execution<u32, Failed>) {
    let till = Till::open().await;
    let other = till.another().await;
    let go_on = Arc::default();
    let slow = pay_slowly(&go_on, then);
    let copy = async {
        // The row is there, and its transaction is open.
        till.until_locked().await;
        other.handle::<Pay, _>("o-1", &pay()).await
    };
    let release = async {
        till.somebody_waits().await;
        go_on.notify_one();
    };
    let (first, copy, ()) = tokio::join!(till.handle::<Pay, _>("o-1", &slow), copy, release);
    match then {
        Ok(_) => assert_eq!(executed(first), 1),
        Err(_) => assert_eq!(failed(&first).0, 1),
    }
    (till, copy)
}

impl Till {
    /// Waits until somebody has written to the payments and not committed.
    async fn until_locked(&self) {
        let mut bystander = self.bystander().await;
        let held = "SELECT count(*) > 0 FROM pg_locks
                    WHERE relation = 'payments'::regclass AND mode = 'RowExclusiveLock'";
        while !sqlx::query_scalar::<_, bool>(held)
            .fetch_one(&mut bystander)
            .await
            .unwrap()
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test]
async fn a_copy_at_another_worker_waits_and_is_a_duplicate() {
    let (till, copy) = Box::pin(copy_at_another_worker(Ok(1))).await;
    is_duplicate(&copy);
    assert_eq!(till.count("payments").await, 1);
    assert_eq!(till.count("notes").await, 0);
    assert_eq!(till.count("idem_records").await, 0);
}

#[tokio::test]
async fn a_copy_that_has_waited_for_a_failed_run_does_the_work() {
    let (till, copy) = Box::pin(copy_at_another_worker(Err("no"))).await;
    assert_eq!(executed(copy), 1);
    assert_eq!(till.count("payments").await, 1);
    assert_eq!(till.count("notes").await, 1);
}

#[tokio::test]
async fn a_copy_in_the_same_process_is_told_that_somebody_is_at_it() {
    let till = Till::open().await;
    let go_on = Arc::default();
    let slow = pay_slowly(&go_on, Ok(1));
    let copy = async {
        till.until_locked().await;
        let execution = till.handle::<Pay, _>("o-1", &pay()).await;
        go_on.notify_one();
        execution
    };
    let (first, copy) = tokio::join!(till.handle::<Pay, _>("o-1", &slow), copy);
    assert_eq!(executed(first), 1);
    assert!(matches!(copy, Execution::Conflict { .. }), "{copy:?}");
    is_duplicate(&till.handle::<Pay, _>("o-1", &pay()).await);
}

/// The wait is bounded by the lease: then it is a failed attempt, and another one finds out.
#[tokio::test]
async fn a_copy_does_not_wait_for_longer_than_the_lease() {
    let till = Till::open().await;
    let mut holder = till.bystander().await;
    run(&mut holder, "BEGIN; INSERT INTO payments VALUES ('o-1')")
        .await
        .unwrap();
    let short = policy().to_builder().lease(SECOND / 5).build().unwrap();
    let mut copy = Prepared::<Pay>::new(Envelope::new("o-1"), &short).unwrap();
    let (attempt, error) = failed(&till.handle_again(&mut copy, &pay()).await);
    assert_eq!(attempt, 1);
    assert!(error.contains("lock timeout"), "{error}");
    run(&mut holder, "COMMIT").await.unwrap();

    till.store().advance(SECOND);
    copy.renew_owner();
    is_duplicate(&till.handle_again(&mut copy, &pay()).await);
    assert_eq!(till.count("idem_records").await, 0);
}

#[tokio::test]
async fn a_server_that_waits_for_less_is_obeyed() {
    let till = Till::open().await;
    let (_, schema) = till.url.rsplit_once('=').unwrap();
    let role = format!("impatient_{schema}");
    till.run(&format!(
        "CREATE ROLE {role} LOGIN SUPERUSER; ALTER ROLE {role} SET lock_timeout = '200ms'"
    ))
    .await;
    let impatient = till.url.replacen("//idem@", &format!("//{role}@"), 1);
    assert_ne!(impatient, till.url);
    let store = PostgresStore::builder(&impatient)
        .schema(schema)
        .build()
        .await
        .unwrap();
    let executor = Executor::new(store);
    let mut holder = till.bystander().await;
    run(&mut holder, "BEGIN; INSERT INTO payments VALUES ('o-1')")
        .await
        .unwrap();
    let (_, error) = failed(&executor.handle(&mut message::<Pay>("o-1"), &pay()).await);
    assert!(error.contains("lock timeout"), "{error}");
}

#[tokio::test]
async fn two_hundred_copies_at_four_workers_do_the_work_once() {
    let till = Till::open().await;
    let mut workers = Vec::new();
    for _ in 0..4 {
        workers.push(till.another().await);
    }
    let copies = (0..200).map(|number| {
        let worker = &workers[number % 4];
        async move {
            let (order, act) = (format!("o-{}", number % 20), pay());
            let mut copy = message::<Pay>(&order);
            loop {
                match worker.handle_again(&mut copy, &act).await {
                    Execution::Conflict { .. } => tokio::task::yield_now().await,
                    ended => break ended,
                }
            }
        }
    });
    let ended = futures_util::future::join_all(copies).await;
    let executed = ended
        .iter()
        .filter(|it| matches!(it, Execution::Executed { .. }))
        .count();
    let again = ended
        .iter()
        .filter(|it| matches!(it, Execution::Duplicate { .. }))
        .count();
    assert_eq!((executed, again), (20, 180), "{ended:?}");
    assert_eq!(till.count("payments").await, 20);
    assert_eq!(till.count("notes").await, 20);
    assert_eq!(till.count("idem_records").await, 0);
}

/// Whoever looks for the row must not be in the way of rows beside it.
#[tokio::test]
async fn serializable_handlers_of_different_keys_do_not_fail_each_other() {
    let till = Till::open().await;
    let handlers = (0..100).map(|number| {
        let till = &till;
        async move {
            let act = act(|db, message: Message, attempt| {
                Box::pin(async move {
                    run(db, "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE").await?;
                    insert(db, &message[0]).await?;
                    Ok(attempt.number())
                })
            });
            till.handle::<Pay, _>(&format!("o-{number:03}"), &act).await
        }
    });
    for execution in futures_util::future::join_all(handlers).await {
        assert_eq!(executed(execution), 1);
    }
}
