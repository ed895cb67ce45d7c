use std::{collections::BTreeSet, num::NonZeroUsize};

use futures_util::future::join_all;
use xtask::services::redis::RedisCluster;

use super::*;

const KEYS: u32 = 60;

/// The orders whose records this node has.
fn orders_on(node: &Node) -> BTreeSet<u32> {
    let records = node.cli(["KEYS", "idem:{orders:*}"]).unwrap();
    let order = |name: &str| {
        let (_, id) = name.rsplit_once(':')?;
        id.trim_end_matches('}').parse().ok()
    };
    records.lines().filter_map(order).collect()
}

async fn store_on(cluster: &RedisCluster) -> RedisStore {
    let timeout = Duration::from_secs(1);
    let store = RedisStore::builder(&cluster.url())
        .connect_timeout(timeout)
        .response_timeout(timeout);
    store.build().await.unwrap()
}

#[tokio::test]
async fn keys_are_spread_over_the_nodes() {
    let cluster = RedisCluster::start().unwrap();
    let store = store_on(&cluster).await;
    for id in 0..KEYS {
        acquire(&store, id).await;
    }
    let spread: Vec<_> = cluster.nodes().iter().map(|node| orders_on(node)).collect();
    assert!(spread.iter().all(|orders| !orders.is_empty()), "{spread:?}");
    let total: usize = spread.iter().map(BTreeSet::len).sum();
    assert_eq!(total, KEYS as usize);
}

#[tokio::test]
async fn a_node_that_is_down_takes_only_its_own_keys_with_it() {
    let partial = [("cluster-require-full-coverage", "no")];
    let cluster = RedisCluster::start_with(&partial).unwrap();
    let store = store_on(&cluster).await;
    let requests: Vec<_> = (0..KEYS).map(request).collect();
    for request in &requests {
        acquire_as(&store, request).await;
    }
    let [gone, ..] = cluster.nodes() else {
        panic!("there are three")
    };
    let lost = orders_on(gone);
    gone.kill().unwrap();
    let answers = join_all(requests.iter().map(|request| store.claim(request))).await;
    for (id, answer) in (0..KEYS).zip(answers) {
        if lost.contains(&id) {
            unavailable(answer);
        } else {
            assert!(matches!(answer, Ok(Claim::Acquired(_))), "{id}: {answer:?}");
        }
    }
    gone.restart().unwrap();
    cluster.wait_until_sound().unwrap();
    for request in &requests {
        acquire_as(&store, request).await;
    }
}

#[tokio::test]
async fn a_store_starts_while_a_node_is_down() {
    let partial = [("cluster-require-full-coverage", "no")];
    let cluster = RedisCluster::start_with(&partial).unwrap();
    let [_, _, gone] = cluster.nodes() else {
        panic!("there are three")
    };
    gone.kill().unwrap();
    let store = store_on(&cluster).await;
    let answers = join_all(
        (0..KEYS)
            .map(|id| async move { request(id) })
            .map(|asking| {
                let store = &store;
                async move { store.claim(&asking.await).await.is_ok() }
            }),
    );
    assert!(answers.await.contains(&true));
}

#[tokio::test]
async fn a_cluster_that_was_restarted_is_found_again() {
    let cluster = RedisCluster::start().unwrap();
    let store = store_on(&cluster).await;
    acquire(&store, 1).await;
    for node in cluster.nodes() {
        node.kill().unwrap();
    }
    unavailable(store.claim(&request(1)).await);
    for node in cluster.nodes() {
        node.restart().unwrap();
    }
    cluster.wait_until_sound().unwrap();
    acquire(&store, 2).await;
}

#[tokio::test]
async fn scripts_that_one_node_has_dropped_are_sent_again() {
    let cluster = RedisCluster::start().unwrap();
    let store = store_on(&cluster).await;
    for id in 0..10 {
        let lease = acquire(&store, id).await;
        for node in cluster.nodes() {
            node.cli(["SCRIPT", "FLUSH"]).unwrap();
        }
        complete(&store, &lease).await;
    }
}

#[tokio::test]
async fn waiting_for_replicas_is_refused_for_a_cluster() {
    let nodes = ["redis://127.0.0.1:1"];
    let one = NonZeroUsize::MIN;
    let store = RedisStore::cluster(nodes).min_replicas(one, MINUTE).build();
    let said = in_full(&store.await.unwrap_err());
    assert!(
        said.contains("`min_replicas` does not work in a cluster"),
        "{said}"
    );
}
