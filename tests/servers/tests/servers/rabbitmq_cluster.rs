use idem_servers::{RabbitMqCluster, Server};

use crate::{eventually, traces::assert_that_nothing_is_left_of};

const QUEUE: &str = "orders";

/// A quorum queue, with a replica on each node.
fn declare_queue(cluster: &RabbitMqCluster) {
    let first = &cluster.nodes()[0];
    let definitions = first.folder().join("definitions.json");
    let queue = format!(
        r#"{{"queues":[{{"name":"{QUEUE}","vhost":"/","durable":true,"auto_delete":false,
        "arguments":{{"x-queue-type":"quorum"}}}}]}}"#
    );
    std::fs::write(&definitions, queue).expect("the folder is ours");
    first
        .rabbitmqctl(["import_definitions", &definitions.display().to_string()])
        .expect("the queue is declared");
}

fn leader(cluster: &RabbitMqCluster) -> Option<usize> {
    let leader = cluster.leader_of(QUEUE).expect("a node that answers")?;
    let mut nodes = cluster.nodes().iter();
    nodes.position(|node| node.node() == leader.node())
}

#[test]
fn another_node_leads_the_queue_of_a_killed_one_which_comes_back_as_a_follower() {
    let cluster = RabbitMqCluster::start().expect("a cluster");
    assert_eq!(leader(&cluster), None, "there is no queue yet");
    declare_queue(&cluster);
    let killed = leader(&cluster).expect("a leader");

    cluster.nodes()[killed].kill().expect("it dies");
    eventually("another node leads", || {
        leader(&cluster).is_some_and(|leader| leader != killed)
    });
    assert!(!cluster.is_sound());

    cluster.nodes()[killed].restart().expect("it comes back");
    cluster.wait_until_sound().expect("they take it back");
    assert_ne!(leader(&cluster).expect("a leader"), killed);
}

#[test]
fn a_frozen_node_is_missed_and_joins_again_when_it_is_thawed() {
    let cluster = RabbitMqCluster::start().expect("a cluster");
    declare_queue(&cluster);
    let frozen = leader(&cluster).expect("a leader");

    cluster.nodes()[frozen].freeze().expect("it freezes");
    eventually("another node leads", || {
        leader(&cluster).is_some_and(|leader| leader != frozen)
    });
    cluster.nodes()[frozen].thaw().expect("it thaws");
    cluster.wait_until_sound().expect("they take it back");
}

#[test]
fn every_node_has_its_url_and_nothing_is_left_of_any() {
    let cluster = RabbitMqCluster::start().expect("a cluster");
    let [first, second, third] = cluster.nodes() else {
        panic!("{} nodes", cluster.nodes().len());
    };
    let urls = [first, second, third].map(|node| node.amqp_url());
    assert_eq!(cluster.amqp_urls(), urls);
    assert!(urls[0] != urls[1] && urls[1] != urls[2] && urls[0] != urls[2]);
    second.add_vhost("everywhere").expect("a vhost");
    let vhosts = third.rabbitmqctl(["list_vhosts"]).expect("an answer");
    assert!(vhosts.contains("everywhere"), "{vhosts}");
    let folders = [first, second, third].map(|node| node.folder().to_owned());

    third.freeze().expect("it freezes");
    drop(cluster);
    for folder in folders {
        assert_that_nothing_is_left_of(&folder);
    }
}
