use std::{collections::BTreeSet, num::NonZeroUsize};

use futures_util::future::join_all;
use idem_servers::redis::RedisCluster;

use super::*;
use crate::store::sequence::scene::with_an_exception;

const KEYS: u32 = 60;

/// The orders whose records this node has.
fn orders_on(node: &Node) -> BTreeSet<u32> {
    let records = node.ask(["KEYS", "idem:{orders:*}"]).unwrap();
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
            node.ask(["SCRIPT", "FLUSH"]).unwrap();
        }
        complete(&store, &lease).await;
    }
}

/// What the documentation gives a user in a cluster beside what every user needs.
fn rules_of_the_page() -> String {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let mut lines = page.lines().map(str::trim);
    let rules = lines.find(|line| line.starts_with("+cluster|slots "));
    rules.expect("the page names them").to_owned()
}

/// A slot on its way from its node to another one.
struct MovingSlot<'a> {
    slot: String,
    from: &'a Redis,
    to: &'a Redis,
}

impl<'a> MovingSlot<'a> {
    /// The slot of this name, which nothing has yet.
    fn begin(cluster: &'a RedisCluster, name: &str) -> Self {
        let [first, ..] = cluster.nodes() else {
            panic!("there are three")
        };
        let slot = first.ask(["CLUSTER", "KEYSLOT", name]).unwrap();
        let slot = slot.trim().to_owned();
        let serves = |node: &&Redis| node.ask(["GET", name]).is_ok();
        let (from, to): (Vec<_>, Vec<_>) = cluster.nodes().iter().partition(serves);
        let (from, to) = (from[0], to[0]);
        let begins = |node: &Redis, how, other| {
            let begins = ["CLUSTER", "SETSLOT", &slot, how, &node_id(other)];
            node.ask(begins).unwrap();
        };
        begins(to, "IMPORTING", from);
        begins(from, "MIGRATING", to);
        Self { slot, from, to }
    }

    fn end(&self) {
        for node in [self.to, self.from] {
            let ends = ["CLUSTER", "SETSLOT", &self.slot, "NODE", &node_id(self.to)];
            node.ask(ends).unwrap();
        }
    }
}

fn node_id(node: &Redis) -> String {
    node.ask(["CLUSTER", "MYID"]).unwrap().trim().to_owned()
}

/// What a user was refused.
fn refused_commands(node: &Redis) -> BTreeSet<String> {
    let log = node.ask(["ACL", "LOG"]).unwrap();
    let lines: Vec<_> = log.lines().collect();
    let objects = lines.windows(2).filter(|pair| pair[0] == "object");
    objects.map(|pair| pair[1].to_owned()).collect()
}

#[tokio::test]
async fn a_user_with_only_what_is_needed_can_work_also_while_a_slot_moves() {
    let rules = user_of_the_page(&rules_of_the_page());
    let cluster = RedisCluster::start_with(&[("user", &*rules)]).unwrap();
    let url = cluster.url().replace("//", "//worker:hush@");
    let store = RedisStore::connect(&url).await.unwrap();
    for id in 0..KEYS {
        complete(&store, &acquire(&store, id).await).await;
    }
    with_an_exception(&store).await;
    let moving = MovingSlot::begin(&cluster, &record(&store, KEYS));
    complete(&store, &acquire(&store, KEYS).await).await;
    moving.end();
    assert!(is_completed(&store, KEYS).await);
    // The settings of the server are not known without them.
    let settings = BTreeSet::from(["info", "config|get", "cluster|info"].map(str::to_owned));
    for node in cluster.nodes() {
        let refused = refused_commands(node);
        let needed: Vec<_> = refused.difference(&settings).collect();
        assert!(needed.is_empty(), "{needed:?}");
    }
}

/// Each node has its own users, and keeps its own keys.
#[tokio::test]
async fn a_user_whom_any_node_of_the_cluster_lets_run_less_is_refused() {
    let rules = user_of_the_page(&rules_of_the_page());
    let cluster = RedisCluster::start_with(&[("user", &*rules)]).unwrap();
    let url = cluster.url().replace("//", "//worker:hush@");
    for node in cluster.nodes() {
        let rule = |rule| node.ask(["ACL", "SETUSER", "worker", rule]).unwrap();
        rule("-sadd");
        let said = in_full(&RedisStore::connect(&url).await.unwrap_err());
        let address = format!("127.0.0.1:{}", node.port());
        let expected = format!("redis at {address} does not let this user run `SADD`");
        assert!(said.contains(&expected), "{said}");
        rule("+sadd");
    }
    RedisStore::connect(&url).await.unwrap();
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
