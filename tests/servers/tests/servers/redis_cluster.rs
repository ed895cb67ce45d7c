use idem_servers::{RedisCluster, Server, redis};

use crate::{eventually, traces::assert_that_nothing_is_left_of};

/// One of each node: their slots are 866, 7,365 and 12,182.
const KEYS: [&str; 3] = ["hello", "c", "foo"];

#[test]
fn every_key_has_a_node_and_the_cluster_is_sound_again_after_one_was_killed() {
    let cluster =
        RedisCluster::start_with(&[("appendonly", "yes"), ("cluster-node-timeout", "1000")])
            .expect("a cluster");
    for (key, node) in KEYS.iter().zip(cluster.nodes()) {
        node.ask(["SET", key, "kept"])
            .expect("it serves the key's slot");
    }
    let [_, _, last] = cluster.nodes() else {
        panic!("{} nodes", cluster.nodes().len());
    };
    assert!(last.ask(["GET", KEYS[0]]).is_err(), "that key has moved");

    last.kill().expect("it dies");
    eventually("the others notice", || !cluster.is_sound());
    last.restart().expect("it comes back");
    cluster.wait_until_sound().expect("they take it back");
    assert_eq!(last.ask(["GET", KEYS[2]]).expect("its key"), "kept\n");
}

#[test]
fn the_url_names_all_nodes_and_nothing_is_left_of_any() {
    let cluster = RedisCluster::start().expect("a cluster");
    let addresses: Vec<_> = cluster
        .nodes()
        .iter()
        .map(|node| format!("127.0.0.1:{}", node.port()))
        .collect();
    let url = format!("redis+cluster://{}", addresses.join(","));
    assert_eq!(cluster.url(), url);
    let folders: Vec<_> = cluster
        .nodes()
        .iter()
        .map(|node| node.folder().to_owned())
        .collect();

    cluster.nodes()[1].freeze().expect("it freezes");
    drop(cluster);
    for folder in folders {
        assert_that_nothing_is_left_of(&folder);
    }
}

#[test]
fn the_shared_cluster_stays_the_same() {
    let url = redis::shared_cluster().expect("a cluster").url();
    assert_eq!(redis::shared_cluster().expect("the same").url(), url);
}
