use std::net::TcpStream;

use idem_servers::{Redis, Server, redis};

use crate::{
    eventually,
    traces::{assert_that_nothing_is_left_of, assert_that_nothing_outlives_its_killed_owner},
};

fn get(redis: &Redis, key: &str) -> String {
    redis
        .ask(["GET", key])
        .expect("an answer")
        .trim()
        .to_owned()
}

#[test]
fn a_killed_redis_comes_back_with_what_its_append_only_file_has() {
    let settings = [("appendonly", "yes"), ("appendfsync", "always")];
    let redis = Redis::start_with(&settings).expect("a server");
    redis.ask(["SET", "key", "kept"]).expect("an answer");
    redis.kill().expect("it dies");
    assert!(!redis.is_ready());
    assert!(TcpStream::connect(("127.0.0.1", redis.port())).is_err());
    assert!(redis.ask(["PING"]).is_err());

    redis.restart().expect("it comes back");
    assert_eq!(get(&redis, "key"), "kept");
    assert!(redis.ask(["NO-SUCH-COMMAND"]).is_err());
}

#[test]
fn a_redis_without_an_append_only_file_comes_back_empty() {
    let redis = Redis::start().expect("a server");
    redis.ask(["SET", "key", "lost"]).expect("an answer");
    redis.restart().expect("it restarts cleanly");
    assert_eq!(get(&redis, "key"), "");
}

#[test]
fn a_frozen_redis_is_silent_until_it_is_thawed() {
    let redis = Redis::start().expect("a server");
    redis.freeze().expect("it freezes");
    assert!(
        TcpStream::connect(("127.0.0.1", redis.port())).is_ok(),
        "the port stays open"
    );
    assert!(!redis.is_ready());
    redis.thaw().expect("it thaws");
    eventually("it answers again", || redis.is_ready());

    redis.freeze().expect("it freezes");
    let folder = redis.folder().to_owned();
    drop(redis);
    assert_that_nothing_is_left_of(&folder);
}

#[test]
fn a_replica_follows_the_server_that_its_settings_name() {
    let master = Redis::start().expect("a server");
    let address = format!("127.0.0.1 {}", master.port());
    let replica = Redis::start_with(&[("replicaof", &address)]).expect("a server");
    eventually("it is a replica", || {
        let role = replica.ask(["ROLE"]).expect("an answer");
        role.lines().any(|line| line == "connected")
    });
    master.ask(["SET", "key", "copied"]).expect("an answer");
    eventually("it is copied", || get(&replica, "key") == "copied");
}

#[test]
fn a_wrong_setting_is_quoted() {
    let refused = Redis::start_with(&[("no-such-setting", "1")]).expect_err("no such setting");
    assert!(refused.to_string().contains("no-such-setting"), "{refused}");
}

#[test]
fn the_shared_redis_stays_the_same() {
    let url = redis::shared().expect("a server").url();
    assert_eq!(redis::shared().expect("the same").url(), url);
}

#[test]
fn a_redis_does_not_outlive_its_killed_owner() {
    assert_that_nothing_outlives_its_killed_owner(
        "redis::a_redis_does_not_outlive_its_killed_owner",
        || Redis::start().expect("a server"),
    );
}
