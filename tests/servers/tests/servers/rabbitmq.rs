use std::{env, fs, net::TcpStream, thread};

use idem_servers::{
    QueueState, RabbitMq, Server,
    rabbitmq::{self, VERSION_VARIABLE},
};

use crate::{
    eventually,
    traces::{
        assert_that_nothing_is_left_of, assert_that_nothing_outlives_its_killed_owner, processes_of,
    },
};

fn declare_queue(rabbit: &RabbitMq, name: &str) {
    let definitions = rabbit.folder().join("definitions.json");
    let queue = format!(
        r#"{{"queues":[{{"name":"{name}","vhost":"/","durable":true,"auto_delete":false,"arguments":{{}}}}]}}"#
    );
    fs::write(&definitions, queue).expect("the folder is ours");
    let definitions = definitions.display().to_string();
    rabbit
        .rabbitmqctl(["import_definitions", &definitions])
        .expect("the queue is declared");
}

fn queues_of(rabbit: &RabbitMq) -> Vec<(String, u64, u64, u64)> {
    let queues = rabbit.list_queues("/").expect("an answer");
    let counts = |q: QueueState| (q.name, q.ready, q.unacked, q.consumers);
    queues.into_iter().map(counts).collect()
}

#[test]
fn a_broker_is_of_the_version_asked_for_and_knows_it() {
    let rabbit = rabbitmq::shared().expect("a broker");
    let said = rabbit
        .rabbitmqctl(["eval", "io:format(rabbit_misc:version())."])
        .expect("an answer");
    let version = rabbit.version().to_string();
    assert!(said.starts_with(&format!("{version}.")), "{said}");
    if let Ok(asked_for) = env::var(VERSION_VARIABLE) {
        assert_eq!(version, asked_for);
    }
}

#[test]
fn a_killed_broker_comes_back_on_the_same_port_with_its_data() {
    let rabbit = RabbitMq::start().expect("a broker");
    let url = rabbit.add_vhost("kept").expect("a vhost");
    declare_queue(&rabbit, "orders");
    let orders = [("orders".to_owned(), 0, 0, 0)];
    assert_eq!(queues_of(&rabbit), orders);
    let named = |names: &[&str]| {
        let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
        let queues = rabbit.queues_named("/", &names).expect("an answer");
        queues
            .into_iter()
            .map(|queue| queue.name)
            .collect::<Vec<_>>()
    };
    assert_eq!(named(&["orders", "nobody's"]), ["orders"]);
    assert!(named(&["nobody's"]).is_empty());

    // What was declared a moment before a crash may be forgotten; not what a clean restart wrote.
    rabbit.restart().expect("it restarts cleanly");
    assert_eq!(queues_of(&rabbit), orders);

    rabbit.kill().expect("it dies");
    assert!(!rabbit.is_ready());
    assert!(TcpStream::connect(("127.0.0.1", rabbit.port())).is_err());
    assert!(rabbit.rabbitmqctl(["list_vhosts"]).is_err());

    rabbit.restart().expect("it comes back");
    assert_eq!(rabbit.vhost_url("kept"), url);
    let vhosts = rabbit.rabbitmqctl(["list_vhosts"]).expect("an answer");
    assert!(vhosts.lines().any(|vhost| vhost == "kept"), "{vhosts}");
    assert_eq!(queues_of(&rabbit), orders);
    rabbit.close_all_connections().expect("there are none");

    rabbit.stop().expect("it stops");
    assert!(!rabbit.is_ready());
    let folder = rabbit.folder().to_owned();
    drop(rabbit);
    assert_that_nothing_is_left_of(&folder);
}

#[test]
fn a_frozen_broker_is_silent_until_it_is_thawed() {
    let rabbit = RabbitMq::start().expect("a broker");
    rabbit.freeze().expect("it freezes");
    assert!(
        TcpStream::connect(("127.0.0.1", rabbit.port())).is_ok(),
        "the port stays open"
    );
    assert!(!rabbit.is_ready());
    rabbit.thaw().expect("it thaws");
    eventually("it answers again", || rabbit.is_ready());

    rabbit.freeze().expect("it freezes");
    let folder = rabbit.folder().to_owned();
    drop(rabbit);
    assert_that_nothing_is_left_of(&folder);
}

#[test]
fn two_brokers_live_side_by_side_and_leave_nothing_behind() {
    let [one, other] = [0, 1]
        .map(|_| thread::spawn(RabbitMq::start))
        .map(|start| start.join().expect("no panic").expect("a broker"));
    assert_ne!(one.amqp_url(), other.amqp_url());
    one.add_vhost("only-here").expect("a vhost");
    assert!(
        !other
            .rabbitmqctl(["list_vhosts"])
            .expect("an answer")
            .contains("only-here")
    );

    let folder = one.folder().to_owned();
    assert!(
        processes_of(&folder)
            .iter()
            .any(|command| command.contains("epmd"))
    );
    drop(one);
    assert_that_nothing_is_left_of(&folder);
    assert!(other.is_ready());
}

#[test]
fn a_broker_does_not_outlive_its_killed_owner() {
    assert_that_nothing_outlives_its_killed_owner(
        "rabbitmq::a_broker_does_not_outlive_its_killed_owner",
        || RabbitMq::start().expect("a broker"),
    );
}
