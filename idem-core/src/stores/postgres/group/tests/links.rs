//! Connections that end while they are shared.

use super::*;
use crate::stores::postgres::atomic::tests::proxy::{Proxy, Weather};

/// `b` does this when it has charged, once.
fn b_once<A>(once: A) -> Act
where
    A: for<'a> Fn(&'a mut PgConnection) -> BoxFuture<'a, ()> + Send + Sync + 'static,
{
    let (first, once) = (Once::new(), Arc::new(once));
    charge_and(move |db, order| {
        let (now, once) = (order == "b" && first.is_now(), Arc::clone(&once));
        Box::pin(async move {
            if now {
                once(db).await;
            }
            Ok(())
        })
    })
}

async fn terminate(url: &str, db: &mut PgConnection) {
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()")
        .fetch_one(db)
        .await
        .unwrap();
    let mut bystander = PgConnection::connect(url).await.unwrap();
    let ended: bool = sqlx::query_scalar("SELECT pg_terminate_backend($1, 10000)")
        .bind(pid)
        .fetch_one(&mut bystander)
        .await
        .unwrap();
    assert!(ended);
}

#[tokio::test]
async fn a_connection_that_ends_in_a_members_hands_is_nobodys_attempt() {
    for orders in [&["b", "a", "c"][..], &["a", "b", "c"], &["a", "c", "b"]] {
        let shop = Shop::open().await;
        let url = shop.url.clone();
        let charging = b_once(move |db| {
            let url = url.clone();
            Box::pin(async move { terminate(&url, db).await })
        });
        let all = shop.handle_together(orders, &charging).await;
        let unknown = |ended: &Ended| matches!(ended, Execution::StoreUnavailable { .. });
        for (order, ended) in orders.iter().zip(&all) {
            // If it was the last one, the commit was under way.
            assert!(executed(ended) || unknown(ended), "{orders:?}: {ended:?}");
            if unknown(ended) {
                let again = shop.handle(order, &charging).await;
                assert!(matches!(again, Execution::Conflict { .. }), "{again:?}");
            }
        }
        shop.store.advance(MINUTE);
        for order in orders {
            shop.handle(order, &charging).await;
        }
        assert_eq!(shop.charges().await, ["a", "b", "c"], "{orders:?}");
    }
}

/// A shop whose store is reached by a proxy.
async fn linked() -> (Shop, Arc<Proxy>) {
    let server = postgres::shared().expect("PostgreSQL can be started");
    let proxy = Proxy::to(server.port()).await;
    let url = server.url().replace(
        &format!(":{}/", server.port()),
        &format!(":{}/", proxy.port),
    );
    let shop = Shop::at(&url, |builder| {
        builder.groups(1).response_timeout(Duration::from_secs(3))
    });
    (shop.await, Arc::new(proxy))
}

fn b_turns(proxy: &Arc<Proxy>, weather: Weather) -> Act {
    let proxy = Arc::clone(proxy);
    b_once(move |_| {
        proxy.set(weather);
        Box::pin(async {})
    })
}

#[tokio::test]
async fn a_commit_whose_answer_was_lost_is_proved_by_each_member() {
    let (shop, proxy) = linked().await;
    let act = b_turns(&proxy, Weather::AnswersLost);
    let lost = async {
        proxy.answer_lost().await;
        proxy.set(Weather::Fine);
    };
    let (all, ()) = tokio::join!(shop.handle_together(&["a", "b"], &act), lost);
    all_executed(&all);
    assert_eq!(shop.charges().await, ["a", "b"]);
    assert_eq!(shop.transactions().await, 1);
}

#[tokio::test]
async fn a_commit_that_did_not_arrive_is_nobodys_attempt() {
    let (shop, proxy) = linked().await;
    let act = b_turns(&proxy, Weather::Cut);
    let fine = async {
        proxy.request_cut().await;
        proxy.set(Weather::Fine);
    };
    let (all, ()) = tokio::join!(shop.handle_together(&["a", "b"], &act), fine);
    // The server knows that nothing is committed of those before: they run by themselves at once.
    let [a, b] = &all[..] else { panic!("{all:?}") };
    assert!(executed(a), "{a:?}");
    assert!(matches!(b, Execution::StoreUnavailable { .. }), "{b:?}");
    assert_eq!(shop.charges().await, ["a"]);
    shop.store.advance(MINUTE);
    let again = shop.handle("b", &act).await;
    assert!(matches!(again, Execution::Executed { .. }), "{again:?}");
    assert_eq!(shop.charges().await, ["a", "b"]);
}
