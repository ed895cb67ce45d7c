//! Isolation levels, whoever sets them.

use super::*;

const LEVELS: [&str; 3] = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];

/// Sets the level, and takes the snapshot.
async fn look(open: &mut OpenTransaction, level: &str) {
    let set = format!("SET TRANSACTION ISOLATION LEVEL {level}");
    execute(lend(open), set).await.unwrap();
    execute(lend(open), "SELECT count(*) FROM charges")
        .await
        .unwrap();
}

#[tokio::test]
async fn a_handler_longer_than_its_lease_commits_at_every_level() {
    for level in LEVELS {
        let shop = Shop::open().await;
        let (lease, mut open) = shop.begin("o-1").await;
        look(&mut open, level).await;
        for _ in 0..5 {
            shop.store.advance(MINUTE / 2);
            let extended = TransactionalStore::<Lent>::extend_open(&shop.store, &lease, MINUTE);
            assert_eq!(extended.await.unwrap(), Write::Applied, "{level}");
            let claim = shop.store.claim(&request("o-1")).await.unwrap();
            assert!(matches!(claim, Claim::Held { .. }), "{level}: {claim:?}");
        }
        charge(lend(&mut open)).await;
        shop.commits(open, &lease).await;
        assert!(shop.is_completed("o-1").await);
    }
}

#[tokio::test]
async fn a_lease_that_was_taken_over_or_ended_is_not_extended() {
    let shop = Shop::open().await;
    let (lease, _open) = shop.begin("o-1").await;
    shop.store.advance(MINUTE);
    let (successors, successor) = shop.begin("o-1").await;
    let extend = |lease: Lease| {
        let store = shop.store.clone();
        async move {
            TransactionalStore::<Lent>::extend_open(&store, &lease, MINUTE)
                .await
                .unwrap()
        }
    };
    assert_eq!(extend(successors.clone()).await, Write::Applied);
    assert_eq!(extend(lease).await, Write::Fenced);
    shop.commits(successor, &successors).await;
    assert_eq!(extend(successors).await, Write::Fenced);
}

#[tokio::test]
async fn a_zombie_commits_nothing_at_every_level() {
    for level in LEVELS {
        let shop = Shop::open().await;
        let (lease, mut zombie) = shop.begin("o-1").await;
        look(&mut zombie, level).await;
        charge(lend(&mut zombie)).await;
        shop.store.advance(MINUTE);
        let (successors, mut successor) = shop.begin("o-1").await;
        charge(lend(&mut successor)).await;
        shop.commits(successor, &successors).await;
        let commit = shop.commit(zombie, &lease).await;
        assert!(
            matches!(commit, Ok(Finished::Fenced | Finished::Refused { .. })),
            "{level}: {commit:?}"
        );
        assert_eq!(shop.charges().await, 1, "{level}");
        let released = shop.store.release(&lease, &Release::failed("late")).await;
        assert_eq!(released.unwrap(), Write::Fenced, "{level}");
    }
}

/// Each sees that nothing is charged, and charges: one of them has to be told.
#[tokio::test]
async fn transactions_that_cannot_be_in_any_order_are_refused_in_words_that_help() {
    let shop = Shop::open().await;
    let (one, mut first) = shop.begin("o-1").await;
    let (other, mut second) = shop.begin("o-2").await;
    for open in [&mut first, &mut second] {
        look(open, "SERIALIZABLE").await;
        charge(lend(open)).await;
    }
    shop.commits(first, &one).await;
    let error = refusal(shop.commit(second, &other).await);
    assert!(error.contains("may succeed next time"), "{error}");
    assert_eq!(shop.charges().await, 1);
    let released = shop.store.release(&other, &Release::failed("no")).await;
    assert_eq!(released.unwrap(), Write::Applied);
}

/// The store's own statements are no reason for one transaction to be in another's way, though they
/// are serializable, too: it is the server's default.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn serializable_transactions_of_different_keys_do_not_fail_each_other() {
    let server = postgres::shared().expect("PostgreSQL can be started");
    let url = server.create_database(&unique()).unwrap();
    let (_, name) = url.rsplit_once('/').unwrap();
    let set = "SET default_transaction_isolation = serializable";
    let set = format!("ALTER DATABASE {name} {set}");
    server.query("idem", &set).unwrap();
    let shop = Arc::new(Shop::at(&url, |builder| builder).await);
    let handlers = (0..200).map(|id| {
        let shop = Arc::clone(&shop);
        tokio::spawn(async move {
            let (lease, mut open) = shop.begin(&id.to_string()).await;
            charge(lend(&mut open)).await;
            shop.commit(open, &lease).await.unwrap()
        })
    });
    let mut refused = Vec::new();
    for handler in futures_util::future::join_all(handlers).await {
        match handler.unwrap() {
            Finished::Committed => {}
            other => refused.push(other),
        }
    }
    assert_eq!(refused, []);
}
