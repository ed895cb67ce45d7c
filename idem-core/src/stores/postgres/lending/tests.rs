use std::{pin::pin, time::Duration};

use futures_util::poll;
use xtask::services::postgres;

use super::*;
use crate::stores::postgres::{group::Steps, location, settings};

fn one_connection(name: &str) -> Lending {
    let server = postgres::shared().unwrap();
    let url = format!("{}?application_name={name}", server.url());
    let address = Address {
        options: location::parse(&url).unwrap(),
        response_timeout: Duration::from_secs(10),
    };
    Lending::new(
        address,
        1,
        settings::begin(None, false, Sessions::Own),
        Sessions::Own,
    )
}

async fn ask(transaction: &mut PgTransaction<'static>, question: &'static str) -> String {
    let asked = sqlx::query_scalar(question).fetch_one(&mut **transaction);
    asked.await.unwrap()
}

fn lent_and_idle(lending: &Lending) -> (usize, usize) {
    let desk = lending.desk();
    (desk.lent, desk.idle.len())
}

/// Ends a transaction as an atomic handler's is ended, and hands its connection on.
async fn end(turn: Turn, mut transaction: PgTransaction<'static>) {
    let chained = turn.chained().expect("somebody waits");
    let text = AssertSqlSafe(format!("COMMIT AND CHAIN{chained}"));
    sqlx::raw_sql(text)
        .execute(&mut *transaction)
        .await
        .unwrap();
    turn.hand_on(transaction);
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
    let lending = one_connection("idem_handed_on");
    let mut turn = lending.turn().await;
    assert_eq!(turn.chained(), None);
    let mut transaction = turn.begin().await.unwrap();
    let first = ask(&mut transaction, "SELECT pg_backend_pid()::text").await;
    let mut next = pin!(lending.turn());
    assert!(poll!(next.as_mut()).is_pending());
    end(turn, transaction).await;

    let mut turn = next.await;
    assert!(turn.begun.is_some());
    let mut transaction = turn.begin().await.unwrap();
    let second = ask(&mut transaction, "SELECT pg_backend_pid()::text").await;
    assert_eq!(first, second);
    let setting = ask(
        &mut transaction,
        "SELECT current_setting('idem.transaction')",
    );
    assert_eq!(setting.await, "open");
    assert!(
        !turn.slot.clean.load(Ordering::Acquire),
        "nobody has vouched for it yet"
    );
}

/// A turn with a transaction that has begun already.
async fn handed_on(lending: &Lending) -> Turn {
    let mut turn = lending.turn().await;
    let transaction = turn.begin().await.unwrap();
    let mut next = pin!(lending.turn());
    assert!(poll!(next.as_mut()).is_pending());
    end(turn, transaction).await;
    next.await
}

#[tokio::test]
async fn a_turn_dropped_outside_of_a_runtime_leaves_its_connection_to_others() {
    let lending = one_connection("idem_outside");
    let turn = handed_on(&lending).await;
    // The driver panics there.
    let dropped = std::thread::spawn(move || drop(turn)).join();
    assert!(dropped.is_err());
    assert_eq!(lent_and_idle(&lending), (0, 1));
}

#[tokio::test]
async fn what_was_handed_on_and_has_died_is_begun_anew() {
    let lending = one_connection("idem_died");
    let mut turn = handed_on(&lending).await;
    let server = postgres::shared().unwrap();
    let end = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
               WHERE application_name = 'idem_died'";
    server.query("idem", end).unwrap();
    let mut transaction = turn.begin_group(&Steps::new().begin).await.unwrap();
    let level = "SELECT current_setting('idem.transaction')";
    assert_eq!(ask(&mut transaction, level).await, "open");
}

#[tokio::test]
async fn a_group_begins_on_what_was_handed_on() {
    let lending = one_connection("idem_group_begins");
    let mut turn = handed_on(&lending).await;
    let steps = Steps::new();
    let mut transaction = turn.begin_group(&steps.begin).await.unwrap();
    let undo = AssertSqlSafe(steps.undo.fill(&[]));
    sqlx::raw_sql(undo)
        .execute(&mut *transaction)
        .await
        .unwrap();
}

#[tokio::test]
async fn what_was_handed_on_can_be_begun_with_more() {
    let lending = one_connection("idem_with_more");
    let mut turn = handed_on(&lending).await;
    let mut transaction = turn.begin_waiting(Duration::from_secs(7)).await.unwrap();
    let both = "SELECT current_setting('idem.transaction') || current_setting('lock_timeout')";
    assert_eq!(ask(&mut transaction, both).await, "open7s");
}

#[tokio::test]
async fn no_transaction_stays_open_for_those_who_have_gone() {
    for has_been_called in [false, true] {
        let name = format!("idem_gone_{has_been_called}");
        let lending = one_connection(&name);
        let mut turn = lending.turn().await;
        let transaction = turn.begin().await.unwrap();
        let mut gone = Box::pin(lending.turn());
        assert!(poll!(gone.as_mut()).is_pending());
        if has_been_called {
            end(turn, transaction).await;
            drop(gone);
        } else {
            drop(gone);
            turn.hand_on(transaction);
        }
        is_at_last(&name, "idle").await;
        assert_eq!(lent_and_idle(&lending), (0, 1));
        let _again = lending.turn().await.begin().await.unwrap();
    }
}

#[tokio::test]
async fn turns_come_in_the_order_in_which_they_were_waited_for() {
    let lending = one_connection("idem_order");
    let turn = lending.turn().await;
    let [mut gone, mut second, mut third] = [(); 3].map(|()| Box::pin(lending.turn()));
    for waiting in [&mut gone, &mut second, &mut third] {
        assert!(poll!(waiting.as_mut()).is_pending());
    }
    drop((gone, turn));
    assert!(poll!(third.as_mut()).is_pending());
    drop(second.await);
    drop(third.await);
    assert_eq!(lent_and_idle(&lending), (0, 1));
}

/// The server counts what was written when no transaction is open, and the pool sees to the lifetime.
#[tokio::test]
async fn a_connection_comes_back_to_its_pool_before_long() {
    let lending = one_connection("idem_comes_back");
    let mut turn = lending.turn().await;
    let mut next = pin!(lending.turn());
    assert!(poll!(next.as_mut()).is_pending());
    assert!(turn.chained().is_some());
    turn.since = Instant::now() - HANDED_ON;
    assert_eq!(turn.chained(), None);
}

/// The driver closes a connection past its lifetime without asking whether it is clean.
#[tokio::test]
async fn a_new_connection_is_not_clean_because_the_last_one_was() {
    let lending = one_connection("idem");
    let short_lived = Slot::lasting(&lending.address, Duration::ZERO, Sessions::Own);
    lending.desk().idle.push(short_lived);

    let mut turn = lending.turn().await;
    let transaction = turn.begin().await.unwrap();
    turn.is_clean();
    drop((transaction, turn));

    let mut turn = lending.turn().await;
    let _transaction = turn.begin().await.unwrap();
    assert!(!turn.slot.clean.load(Ordering::Acquire));
}

#[tokio::test]
async fn a_connection_that_is_not_to_be_had_is_reported_with_the_cause() {
    let server = postgres::shared().unwrap();
    let role = "idem_lending_nobody";
    let create = format!("CREATE ROLE {role} LOGIN CONNECTION LIMIT 0");
    server.query("idem", &create).unwrap();
    let url = server.url().replacen("idem@", &format!("{role}@"), 1);
    let address = Address {
        options: location::parse(&url).unwrap(),
        response_timeout: Duration::from_millis(500),
    };
    let lending = Lending::new(
        address,
        1,
        settings::begin(None, false, Sessions::Own),
        Sessions::Own,
    );
    let Err(fault) = lending.turn().await.begin().await else {
        panic!("the role may not connect")
    };
    assert!(
        fault.to_string().contains("too many connections"),
        "{fault}"
    );
}
