//! Connections that end, at every stage of a transaction.

use super::{
    proxy::{Proxy, Weather},
    *,
};

/// A shop whose store is reached by a proxy, with one connection for handlers.
pub(super) async fn linked() -> (Shop, Proxy) {
    let server = postgres::shared().expect("PostgreSQL can be started");
    let proxy = Proxy::to(server.port()).await;
    let url = server.url().replace(
        &format!(":{}/", server.port()),
        &format!(":{}/", proxy.port),
    );
    let shop = Shop::at(&url, |builder| {
        let patience = Duration::from_secs(3);
        builder.connections(1).response_timeout(patience)
    });
    (shop.await, proxy)
}

pub(super) async fn terminate(shop: &Shop, pid: i32) {
    let ended: bool = sqlx::query_scalar("SELECT pg_terminate_backend($1, 10000)")
        .bind(pid)
        .fetch_one(&mut shop.bystander().await)
        .await
        .unwrap();
    assert!(ended);
}

/// What the executor does after an unknown commit, when it was not carried out.
async fn is_still_its_owners(shop: &Shop, request: &ClaimRequest, lease: &Lease) {
    let again = shop.store.claim(request).await.unwrap();
    assert_eq!(again, Claim::Acquired(lease.clone()));
    let released = shop.store.release(lease, &Release::failed("lost")).await;
    assert_eq!(released.unwrap(), Write::Applied);
    assert_eq!(shop.charges().await, 0);
}

#[tokio::test]
async fn a_connection_that_ends_during_the_handler_commits_nothing() {
    let shop = Shop::with(|builder| builder.connections(1)).await;
    let request = request("o-1");
    let (lease, mut open) = shop.begin_request(&request).await;
    charge(lend(&mut open)).await;
    let serving = pid(lend(&mut open)).await;
    terminate(&shop, serving).await;
    let failed = execute(lend(&mut open), "INSERT INTO charges VALUES ('more')").await;
    assert!(failed.is_err());
    let unknown = shop.commit(open, &lease).await;
    assert!(unknown.is_err(), "{unknown:?}");
    is_still_its_owners(&shop, &request, &lease).await;
    let (lease, mut open) = shop.begin("o-1").await;
    charge(lend(&mut open)).await;
    shop.commits(open, &lease).await;
}

#[tokio::test]
async fn a_connection_that_ends_before_the_commit_commits_nothing() {
    let shop = Shop::with(|builder| builder.connections(1)).await;
    let request = request("o-1");
    let (lease, mut open) = shop.begin_request(&request).await;
    charge(lend(&mut open)).await;
    let serving = pid(lend(&mut open)).await;
    terminate(&shop, serving).await;
    let unknown = shop.commit(open, &lease).await;
    assert!(unknown.is_err(), "{unknown:?}");
    is_still_its_owners(&shop, &request, &lease).await;
}

#[tokio::test]
async fn a_failed_handler_whose_connection_has_ended_is_released_all_the_same() {
    let shop = Shop::with(|builder| builder.connections(1)).await;
    let (lease, mut open) = shop.begin("o-1").await;
    charge(lend(&mut open)).await;
    let serving = pid(lend(&mut open)).await;
    terminate(&shop, serving).await;
    shop.rolls_back(open, &lease).await;
    let (lease, _) = shop.begin("o-1").await;
    assert_eq!(lease.attempt, 2);
}

#[tokio::test]
async fn a_connection_that_died_while_it_was_idle_is_replaced() {
    let shop = Shop::with(|builder| builder.connections(1)).await;
    let (lease, mut open) = shop.begin("o-1").await;
    let serving = pid(lend(&mut open)).await;
    shop.commits(open, &lease).await;
    terminate(&shop, serving).await;
    let (lease, mut open) = shop.begin("o-2").await;
    charge(lend(&mut open)).await;
    shop.commits(open, &lease).await;
}

#[tokio::test]
async fn a_commit_that_did_not_arrive_leaves_the_key_to_its_owner() {
    let (shop, proxy) = linked().await;
    let request = request("o-1");
    let (lease, mut open) = shop.begin_request(&request).await;
    charge(lend(&mut open)).await;
    proxy.set(Weather::Cut);
    let unknown = shop.commit(open, &lease).await;
    assert!(unknown.is_err(), "{unknown:?}");
    proxy.set(Weather::Fine);
    is_still_its_owners(&shop, &request, &lease).await;
}

#[tokio::test]
async fn a_commit_whose_answer_was_lost_is_told_by_asking_again() {
    let (shop, proxy) = linked().await;
    let request = request("o-1");
    let (lease, mut open) = shop.begin_request(&request).await;
    charge(lend(&mut open)).await;
    proxy.set(Weather::AnswersLost);
    let (unknown, ()) = tokio::join!(shop.commit(open, &lease), proxy.answer_lost());
    assert!(unknown.is_err(), "{unknown:?}");
    proxy.set(Weather::Fine);
    let again = shop.store.claim(&request).await.unwrap();
    assert!(matches!(again, Claim::Completed { .. }), "{again:?}");
    let outcome = Outcome::new("done");
    let mine = shop.store.complete(&lease, &outcome, MINUTE).await;
    assert_eq!(mine.unwrap(), Write::Applied);
    assert_eq!(shop.charges().await, 1);
}

#[tokio::test]
async fn a_commit_on_a_silent_link_is_unknown_and_its_connection_is_given_up() {
    let (shop, proxy) = linked().await;
    let request = request("o-1");
    let (lease, mut open) = shop.begin_request(&request).await;
    charge(lend(&mut open)).await;
    let silent = pid(lend(&mut open)).await;
    proxy.set(Weather::Frozen);
    let unknown = shop.commit(open, &lease).await;
    assert!(unknown.is_err(), "{unknown:?}");
    proxy.set(Weather::Fine);
    is_still_its_owners(&shop, &request, &lease).await;
    // As the server's keepalives do.
    terminate(&shop, silent).await;
    let (lease, mut open) = shop.begin("o-1").await;
    assert_ne!(silent, pid(lend(&mut open)).await);
    charge(lend(&mut open)).await;
    shop.commits(open, &lease).await;
}

#[tokio::test]
async fn a_key_whose_transaction_could_not_begin_is_had_back_by_its_owner() {
    let (shop, proxy) = linked().await;
    let request = request("o-1");
    proxy.set(Weather::Cut);
    let unknown = begin(&shop.store, &request).await;
    assert!(unknown.is_err(), "{unknown:?}");
    proxy.set(Weather::Fine);
    let (lease, mut open) = shop.begin_request(&request).await;
    assert_eq!(lease.attempt, 1);
    charge(lend(&mut open)).await;
    shop.commits(open, &lease).await;
}

/// At whatever statement.
#[tokio::test]
async fn a_store_whose_link_falls_silent_while_it_is_opened_is_not_waited_for() {
    let server = postgres::shared().expect("PostgreSQL can be started");
    let schema = unique();
    for after in (0..40).map(Duration::from_millis) {
        let proxy = Proxy::to(server.port()).await;
        let url = server.url().replace(
            &format!(":{}/", server.port()),
            &format!(":{}/", proxy.port),
        );
        let store = PostgresStore::builder(&url).schema(&schema);
        let opened = store.response_timeout(Duration::from_millis(200)).build();
        let silence = async {
            tokio::time::sleep(after).await;
            proxy.set(Weather::Frozen);
        };
        let both = async { tokio::join!(opened, silence).0 };
        let opened = tokio::time::timeout(Duration::from_secs(20), both).await;
        // Opened before, or refused.
        let _ = opened.expect("it does not wait for ever");
    }
}
