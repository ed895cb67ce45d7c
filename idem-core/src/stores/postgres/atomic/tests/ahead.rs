//! Claims that are made before there is a connection for their handlers.

use futures_util::{FutureExt as _, future::join_all};

use super::*;

async fn claim_ahead<'a>(shop: &'a Shop, id: &str) -> Begun<Opening<'a, OpenTransaction>> {
    let claimed = TransactionalStore::<Lent>::claim_ahead(&shop.store, &request(id)).await;
    claimed.unwrap()
}

async fn acquired<'a>(shop: &'a Shop, id: &str) -> (Lease, Opening<'a, OpenTransaction>) {
    match claim_ahead(shop, id).await {
        Begun::Acquired(lease, opening) => (lease, opening),
        Begun::Not(answer) => panic!("{answer:?}"),
    }
}

fn is_busy(shop: &Shop) -> bool {
    TransactionalStore::<Lent>::is_busy(&shop.store)
}

#[tokio::test]
async fn a_store_is_busy_while_all_connections_are_lent() {
    let shop = Shop::with(|builder| builder.connections(1)).await;
    assert!(!is_busy(&shop));
    let (lease, open) = shop.begin("o-1").await;
    assert!(is_busy(&shop));
    shop.commits(open, &lease).await;
    assert!(!is_busy(&shop));
}

#[tokio::test]
async fn a_claim_made_ahead_has_its_transaction_when_a_connection_is_free() {
    let shop = Shop::with(|builder| builder.connections(1)).await;
    let (first, open) = shop.begin("o-1").await;
    let (second, mut opening) = acquired(&shop, "o-2").await;
    assert!(futures_util::poll!(&mut opening).is_pending());
    let held = shop.store.claim(&request("o-2")).await;
    assert!(matches!(held, Ok(Claim::Held { .. })), "{held:?}");
    shop.commits(open, &first).await;

    let mut open = opening.await.unwrap();
    charge(lend(&mut open)).await;
    shop.commits(open, &second).await;
    assert!(shop.is_completed("o-2").await);
    assert_eq!(shop.charges().await, 1);
}

#[tokio::test]
async fn a_duplicate_is_told_so_without_a_connection() {
    let shop = Shop::with(|builder| builder.connections(1)).await;
    let (lease, open) = shop.begin("o-1").await;
    shop.commits(open, &lease).await;
    let (_, _busy) = shop.begin("o-2").await;
    let told = claim_ahead(&shop, "o-1").await;
    assert!(matches!(told, Begun::Not(Claim::Completed { .. })));
}

/// What is claimed cannot be run by another worker, and waits for a lease if this one dies.
#[tokio::test]
async fn three_times_as_many_as_there_are_connections_claim_ahead_and_no_more() {
    let shop = Shop::with(|builder| builder.connections(1)).await;
    let (_, _busy) = shop.begin("o").await;
    let ahead = join_all(["a", "b", "c"].map(|id| acquired(&shop, id))).await;
    let mut fourth = Box::pin(claim_ahead(&shop, "d"));
    assert!(futures_util::poll!(fourth.as_mut()).is_pending());
    let claim = shop.store.claim(&request("d")).await;
    assert!(matches!(claim, Ok(Claim::Acquired(_))), "{claim:?}");
    // Who gives up his claim makes room, too.
    drop(ahead);
    assert!(matches!(fourth.await, Begun::Not(Claim::Held { .. })));
}

#[tokio::test]
async fn claims_made_ahead_share_a_statement() {
    let shop = Shop::with(|builder| builder.connections(4)).await;
    let busy = join_all(["1", "2", "3", "4"].map(|id| shop.begin(id))).await;
    let ids: Vec<_> = (0..12).map(|id| format!("ahead {id}")).collect();
    let ahead = join_all(ids.iter().map(|id| acquired(&shop, id))).await;
    let statements = "SELECT count(DISTINCT xmin::text) FROM idem_records WHERE key LIKE '%ahead%'";
    let statements = statements.replace("idem_records", &format!("{}.idem_records", shop.schema));
    let statements: i64 = sqlx::query_scalar(sqlx::AssertSqlSafe(statements))
        .fetch_one(&mut shop.bystander().await)
        .await
        .unwrap();
    assert!(statements <= 2, "{statements}");
    drop((busy, ahead));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_given_up_nobody_waits_for_ever() {
    let shop = Arc::new(Shop::with(|builder| builder.connections(2)).await);
    let handlers = (0..120_u64).map(|id| {
        let shop = Arc::clone(&shop);
        tokio::spawn(async move {
            let (lease, opening) = acquired(&shop, &id.to_string()).await;
            match id % 3 {
                0 => drop(opening),
                1 => drop(opening.now_or_never()),
                _ => shop.commits(opening.await.unwrap(), &lease).await,
            }
        })
    });
    let ended = join_all(handlers);
    let ended = tokio::time::timeout(MINUTE, ended).await.unwrap();
    for handler in ended {
        handler.unwrap();
    }
}
