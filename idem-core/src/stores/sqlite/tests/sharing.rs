use futures_util::future::join_all;

use super::*;
use crate::store::Purge;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stores_that_start_on_a_new_file_at_once_all_open_it() {
    let file = File::new();
    let starts = (0..8).map(|_| tokio::spawn(SqliteStore::connect(file.path())));
    let stores: Vec<SqliteStore> = join_all(starts)
        .await
        .into_iter()
        .map(|start| start.unwrap().unwrap())
        .collect();
    let claims = join_all(stores.iter().map(|store| async {
        let claim = store.claim(&request("a")).await.unwrap();
        matches!(claim, Claim::Acquired(_))
    }));
    let winners = claims.await.into_iter().filter(|won| *won).count();
    assert_eq!(winners, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_key_has_one_winner_over_several_stores_on_one_file() {
    let file = File::new();
    let stores = [file.store().await, file.store().await, file.store().await];
    let workers = stores.into_iter().map(|store| {
        tokio::spawn(async move {
            join_all((0..100_u32).map(|id| {
                let store = store.clone();
                async move {
                    match store.claim(&request(id)).await.unwrap() {
                        Claim::Acquired(lease) => {
                            complete(&store, &lease).await;
                            1
                        }
                        Claim::Held { .. } | Claim::Completed { .. } => 0,
                        other => panic!("{other:?}"),
                    }
                }
            }))
            .await
            .into_iter()
            .sum::<u32>()
        })
    });
    let won: u32 = join_all(workers)
        .await
        .into_iter()
        .map(|worker| worker.unwrap())
        .sum();
    assert_eq!(won, 100);
}

/// The clock of the process that has worked and purged is ahead of the next one's.
#[tokio::test]
async fn tokens_grow_over_a_purge_though_the_clock_steps_back() {
    let file = File::new();
    let (store, later) = (file.store().await, file.store().await);
    later.advance(60 * MINUTE);
    let purged = acquire(&later, "a").await;
    complete(&later, &purged).await;
    later.advance(10 * MINUTE);
    assert_eq!(later.purge(1).await.unwrap(), 1);
    let anew = acquire(&store, "a").await;
    assert_eq!(anew.attempt, 1);
    assert!(anew.token > purged.token, "{anew:?}, {purged:?}");
    // Another process finds the same version, and the same floor.
    let next = acquire(&file.store().await, "b").await;
    assert!(next.token > purged.token, "{next:?}, {purged:?}");
}

#[tokio::test]
async fn what_one_store_completes_another_knows() {
    let file = File::new();
    let (one, other) = (file.store().await, file.store().await);
    let lease = acquire(&one, "a").await;
    assert_matches!(other.claim(&request("a")).await, Ok(Claim::Held { .. }));
    complete(&other, &lease).await;
    assert!(is_completed(&one, "a").await);
}
