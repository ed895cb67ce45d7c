use std::{pin::pin, time::Duration};

use futures_util::poll;
use idem_servers::postgres;

use super::*;
use crate::stores::postgres::{group::Steps, location, settings};

fn one_connection(name: &str) -> TransactionPool {
    let server = postgres::shared().unwrap();
    let url = format!("{}?application_name={name}", server.url());
    let address = Address {
        options: location::parse(&url).unwrap(),
        response_timeout: Duration::from_secs(10),
    };
    TransactionPool::new(
        address,
        1,
        settings::begin(None, false, ServerProcess::Own),
        ServerProcess::Own,
    )
}

async fn ask(transaction: &mut PgTransaction<'static>, question: &'static str) -> String {
    let asked = sqlx::query_scalar(question).fetch_one(&mut **transaction);
    asked.await.unwrap()
}

fn checked_out_and_idle(pool: &TransactionPool) -> (usize, usize) {
    let state = pool.state();
    (state.checked_out, state.idle.len())
}

/// Ends a transaction as an atomic handler's is ended, and hands its connection on.
async fn end(checked_out: CheckedOut, mut transaction: PgTransaction<'static>) {
    let next_begin = checked_out.next_begin().expect("somebody waits");
    let text = AssertSqlSafe(format!("COMMIT AND CHAIN{next_begin}"));
    sqlx::raw_sql(text)
        .execute(&mut *transaction)
        .await
        .unwrap();
    checked_out.hand_on(transaction);
}

/// What the server says of the connections of this name, until it is this.
async fn is_at_last(name: &str, state: &str) {
    let server = postgres::shared().unwrap();
    let query = format!(
        "SELECT string_agg(state, ',') FROM pg_stat_activity WHERE application_name = '{name}'"
    );
    for _ in 0..1000 {
        if server.query("idem", &query).unwrap().trim() == state {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("no connection is {state}");
}

#[tokio::test]
async fn whoever_waits_gets_the_connection_with_a_transaction_that_has_begun() {
    let pool = one_connection("idem_handed_on");
    let mut checked_out = pool.check_out().await;
    assert_eq!(checked_out.next_begin(), None);
    let mut transaction = checked_out.begin().await.unwrap();
    let first = ask(&mut transaction, "SELECT pg_backend_pid()::text").await;
    let mut next = pin!(pool.check_out());
    assert!(poll!(next.as_mut()).is_pending());
    end(checked_out, transaction).await;

    let mut checked_out = next.await;
    assert!(checked_out.begun.is_some());
    let mut transaction = checked_out.begin().await.unwrap();
    let second = ask(&mut transaction, "SELECT pg_backend_pid()::text").await;
    assert_eq!(first, second);
    let setting = ask(
        &mut transaction,
        "SELECT current_setting('idem.transaction')",
    );
    assert_eq!(setting.await, "open");
    assert!(
        !checked_out.slot.clean.load(Ordering::Acquire),
        "nobody has vouched for it yet"
    );
}

/// A `checked_out` with a transaction that has begun already.
async fn handed_on(pool: &TransactionPool) -> CheckedOut {
    let mut checked_out = pool.check_out().await;
    let transaction = checked_out.begin().await.unwrap();
    let mut next = pin!(pool.check_out());
    assert!(poll!(next.as_mut()).is_pending());
    end(checked_out, transaction).await;
    next.await
}

#[tokio::test]
async fn a_connection_dropped_outside_of_a_runtime_is_left_to_others() {
    let pool = one_connection("idem_outside");
    let checked_out = handed_on(&pool).await;
    // The driver panics there.
    let dropped = std::thread::spawn(move || drop(checked_out)).join();
    assert!(dropped.is_err());
    assert_eq!(checked_out_and_idle(&pool), (0, 1));
}

#[tokio::test]
async fn what_was_handed_on_and_has_died_is_begun_anew() {
    let pool = one_connection("idem_died");
    let mut checked_out = handed_on(&pool).await;
    let server = postgres::shared().unwrap();
    let end = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
               WHERE application_name = 'idem_died'";
    server.query("idem", end).unwrap();
    let mut transaction = checked_out.begin_group(&Steps::new().begin).await.unwrap();
    let level = "SELECT current_setting('idem.transaction')";
    assert_eq!(ask(&mut transaction, level).await, "open");
}

#[tokio::test]
async fn a_group_begins_on_what_was_handed_on() {
    let pool = one_connection("idem_group_begins");
    let mut checked_out = handed_on(&pool).await;
    let steps = Steps::new();
    let mut transaction = checked_out.begin_group(&steps.begin).await.unwrap();
    let undo = AssertSqlSafe(steps.undo.fill(&[]));
    sqlx::raw_sql(undo)
        .execute(&mut *transaction)
        .await
        .unwrap();
}

#[tokio::test]
async fn what_was_handed_on_can_be_begun_with_more() {
    let pool = one_connection("idem_with_more");
    let mut checked_out = handed_on(&pool).await;
    let mut transaction = checked_out
        .begin_waiting(Duration::from_secs(7))
        .await
        .unwrap();
    let both = "SELECT current_setting('idem.transaction') || current_setting('lock_timeout')";
    assert_eq!(ask(&mut transaction, both).await, "open7s");
}

#[tokio::test]
async fn no_transaction_stays_open_for_those_who_have_gone() {
    for has_been_called in [false, true] {
        let name = format!("idem_gone_{has_been_called}");
        let pool = one_connection(&name);
        let mut checked_out = pool.check_out().await;
        let transaction = checked_out.begin().await.unwrap();
        let mut gone = Box::pin(pool.check_out());
        assert!(poll!(gone.as_mut()).is_pending());
        if has_been_called {
            end(checked_out, transaction).await;
            drop(gone);
        } else {
            drop(gone);
            checked_out.hand_on(transaction);
        }
        is_at_last(&name, "idle").await;
        assert_eq!(checked_out_and_idle(&pool), (0, 1));
        let _again = pool.check_out().await.begin().await.unwrap();
    }
}

#[tokio::test]
async fn connections_come_in_the_order_in_which_they_were_waited_for() {
    let pool = one_connection("idem_order");
    let checked_out = pool.check_out().await;
    let [mut gone, mut second, mut third] = [(); 3].map(|()| Box::pin(pool.check_out()));
    for waiting in [&mut gone, &mut second, &mut third] {
        assert!(poll!(waiting.as_mut()).is_pending());
    }
    drop((gone, checked_out));
    assert!(poll!(third.as_mut()).is_pending());
    drop(second.await);
    drop(third.await);
    assert_eq!(checked_out_and_idle(&pool), (0, 1));
}

/// The server counts what was written when no transaction is open, and the pool sees to the lifetime.
#[tokio::test]
async fn a_connection_comes_back_to_its_pool_before_long() {
    let pool = one_connection("idem_comes_back");
    let mut checked_out = pool.check_out().await;
    let mut next = pin!(pool.check_out());
    assert!(poll!(next.as_mut()).is_pending());
    assert!(checked_out.next_begin().is_some());
    checked_out.since = Instant::now() - HANDED_ON;
    assert_eq!(checked_out.next_begin(), None);
}

/// A pool whose one connection was used, is clean, and is past its lifetime: the driver opens another one for whoever
/// is next.
async fn one_past_its_lifetime() -> TransactionPool {
    let pool = one_connection("idem");
    let short_lived = Slot::lasting(&pool.address, Duration::ZERO, ServerProcess::Own);
    pool.state().idle.push(short_lived);

    let mut checked_out = pool.check_out().await;
    let transaction = checked_out.begin().await.unwrap();
    checked_out.mark_clean();
    drop((transaction, checked_out));
    pool
}

/// The driver closes a connection past its lifetime without asking whether it is clean.
#[tokio::test]
async fn a_new_connection_is_not_clean_because_the_last_one_was() {
    let pool = one_past_its_lifetime().await;
    let mut checked_out = pool.check_out().await;
    let _transaction = checked_out.begin().await.unwrap();
    assert!(!checked_out.slot.clean.load(Ordering::Acquire));
}

/// Nobody knows what has begun on it.
#[tokio::test]
async fn a_new_connection_whose_begin_was_dropped_is_not_clean_because_the_last_one_was() {
    let pool = one_past_its_lifetime().await;
    let mut checked_out = pool.check_out().await;
    let begun = tokio::time::timeout(Duration::from_micros(1), checked_out.begin()).await;
    assert!(begun.is_err(), "no connection is there so soon");
    assert!(!checked_out.slot.clean.load(Ordering::Acquire));
}

#[tokio::test]
async fn a_connection_that_is_not_to_be_had_is_reported_with_the_cause() {
    let server = postgres::shared().unwrap();
    let role = "idem_pool_nobody";
    let create = format!("CREATE ROLE {role} LOGIN CONNECTION LIMIT 0");
    server.query("idem", &create).unwrap();
    let url = server.url().replacen("idem@", &format!("{role}@"), 1);
    let address = Address {
        options: location::parse(&url).unwrap(),
        response_timeout: Duration::from_millis(500),
    };
    let pool = TransactionPool::new(
        address,
        1,
        settings::begin(None, false, ServerProcess::Own),
        ServerProcess::Own,
    );
    let Err(fault) = pool.check_out().await.begin().await else {
        panic!("the role may not connect")
    };
    assert!(
        fault.to_string().contains("too many connections"),
        "{fault}"
    );
}
