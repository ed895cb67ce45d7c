//! The program measures every store, in miniature.

use std::process::{Command, Output};

use bench_driver::stores::Measurement;
use idem_servers::{Redis, RedisCluster, postgres};

const SPEED: &str = "speed --callers 1,16 --rounds 1 --round-ms 20 --duplicates 10";

fn run(arguments: &str, place: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bench-stores"))
        .args(arguments.split(' '))
        .args(place)
        .output()
        .expect("it starts")
}

fn measured(arguments: &str, place: &[&str]) -> Vec<Measurement> {
    let output = run(arguments, place);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    let lines = String::from_utf8_lossy(&output.stdout);
    let read = |line| serde_json::from_str(line).expect("a measurement");
    lines.lines().map(read).collect()
}

/// Two numbers of callers, both sides.
fn assert_speed_is_measured(place: &[&str]) {
    let measurements = measured(SPEED, place);
    assert_eq!(measurements.len(), 4, "{measurements:?}");
    for measurement in measurements {
        let Measurement::Speed { pace, .. } = measurement else {
            panic!("{measurement:?} is no speed");
        };
        assert!(pace.operations > 0, "{pace:?}");
    }
}

#[test]
fn memory_and_sqlite_need_no_server() {
    for store in ["memory", "sqlite"] {
        assert_speed_is_measured(&["--store", store]);
        let sizes = measured("size --keys 500", &["--store", store]);
        assert_eq!(sizes.len(), 1, "{sizes:?}");
    }
}

#[test]
fn postgres_is_measured_in_a_new_database() {
    let server = postgres::shared().expect("it can be installed");
    let speed = server.create_database("bench_speed").expect("it is new");
    assert_speed_is_measured(&["--store", "postgres", "--url", &speed]);
    let crowd = server.create_database("bench_crowd").expect("it is new");
    let claims = measured("crowd --few 10 --many 1000 --rounds 1", &["--url", &crowd]);
    let is_claims = |one: &&Measurement| matches!(one, Measurement::Crowd { .. });
    assert_eq!(claims.iter().filter(is_claims).count(), 8, "{claims:?}");
}

#[test]
fn redis_and_its_cluster_are_measured_while_they_are_empty() {
    let redis = Redis::start().expect("it can be installed");
    assert_speed_is_measured(&["--store", "redis", "--url", &redis.url()]);
    let cluster = RedisCluster::start().expect("it can be installed");
    assert_speed_is_measured(&["--store", "redis-cluster", "--url", &cluster.url()]);
}

#[test]
fn keys_that_nobody_completed_here_are_noticed() {
    let redis = Redis::start().expect("it can be installed");
    redis.ask(["SET", "somebody's", "1"]).expect("it is up");
    let output = run(SPEED, &["--store", "redis", "--url", &redis.url()]);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(complaint.contains("are there"), "{complaint}");
}
