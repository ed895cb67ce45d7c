//! Connections that end.

use super::*;
use crate::stores::postgres::atomic::tests::proxy::{Proxy, Weather};

async fn linked() -> (Till, Arc<Proxy>) {
    let server = postgres::shared().unwrap();
    let proxy = Proxy::to(server.port()).await;
    let url = server.url().replace(
        &format!(":{}/", server.port()),
        &format!(":{}/", proxy.port),
    );
    let till = Till::at(&url, TABLES, |it| {
        it.connections(1).response_timeout(3 * SECOND)
    });
    (till.await, Arc::new(proxy))
}

/// Pays, and then the weather changes.
fn pay_in(proxy: &Arc<Proxy>, weather: Weather) -> Act<Failed> {
    let proxy = Arc::clone(proxy);
    act(move |db, message, attempt| {
        let proxy = Arc::clone(&proxy);
        Box::pin(async move {
            insert(db, &message[0]).await?;
            proxy.set(weather);
            Ok(attempt.number())
        })
    })
}

#[tokio::test]
async fn a_commit_that_did_not_arrive_is_no_attempt() {
    let (till, proxy) = linked().await;
    let mut held = message::<Pay>("o-1");
    let execution = till
        .handle_again(&mut held, &pay_in(&proxy, Weather::Cut))
        .await;
    assert_matches!(execution, Execution::StoreUnavailable { .. });
    proxy.set(Weather::Fine);
    assert_eq!(executed(till.handle_again(&mut held, &pay()).await), 1);
    assert_eq!(till.count("payments").await, 1);
    assert_eq!(till.count("idem_records").await, 0);
}

#[tokio::test]
async fn a_commit_whose_answer_was_lost_is_not_done_again() {
    let (till, proxy) = linked().await;
    let mut held = message::<Pay>("o-1");
    let act = pay_in(&proxy, Weather::AnswersLost);
    let lost = async {
        proxy.answer_lost().await;
        proxy.set(Weather::Fine);
    };
    let (execution, ()) = tokio::join!(till.handle_again(&mut held, &act), lost);
    match execution {
        Execution::Duplicate { .. } => {}
        // The look-up was cut off as well.
        Execution::StoreUnavailable { .. } => {
            is_duplicate(&till.handle_again(&mut held, &pay()).await);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(till.count("payments").await, 1);
    assert_eq!(till.count("notes").await, 0);
    assert_eq!(till.count("idem_records").await, 0);
}

#[tokio::test]
async fn a_connection_that_ends_during_the_handler_is_no_attempt() {
    let till = Till::open().await;
    let killed = act(|db, message: Message, attempt| {
        Box::pin(async move {
            insert(db, &message[0]).await?;
            run(db, "SELECT pg_terminate_backend(pg_backend_pid())").await?;
            Ok(attempt.number())
        })
    });
    let execution = till.handle::<Pay, _>("o-1", &killed).await;
    assert_matches!(execution, Execution::StoreUnavailable { .. });
    assert_eq!(till.count("idem_records").await, 0);
    till.pays("o-1").await;
}

#[tokio::test]
async fn a_store_that_is_away_is_told_of_and_nothing_runs() {
    let (till, proxy) = linked().await;
    till.pays("o-0").await;
    proxy.set(Weather::Cut);
    let panics = act(|_, _, _| Box::pin(async { panic!("it ran") }));
    let execution = till.handle::<Pay, _>("o-1", &panics).await;
    assert_matches!(execution, Execution::StoreUnavailable { .. });
}
