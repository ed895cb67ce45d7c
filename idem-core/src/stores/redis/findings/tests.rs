use std::num::NonZeroUsize;

use idem_servers::{Redis, redis::RedisCluster};

use crate::{
    store::{Finding, Severity},
    stores::RedisStore,
};

/// A server on which nothing is ever lost, so that each test changes one thing.
const SOUND: [(&str, &str); 2] = [("appendonly", "yes"), ("appendfsync", "always")];

async fn findings(settings: &[(&str, &str)]) -> Vec<Finding> {
    let settings = [&SOUND, settings].concat();
    let server = Redis::start_with(&settings).unwrap();
    of(&server.url()).await
}

async fn of(url: &str) -> Vec<Finding> {
    let store = RedisStore::connect(url).await.unwrap();
    store.findings().await.unwrap()
}

#[track_caller]
fn only(findings: &[Finding], severity: Severity, says: &str) {
    let [finding] = findings else {
        panic!("{findings:#?}")
    };
    assert!(finding.text.contains(says), "{finding}");
    assert_eq!(finding.severity, severity, "{finding}");
}

#[tokio::test]
async fn a_server_that_loses_nothing_has_no_findings() {
    assert_eq!(findings(&[]).await, []);
    let bounded = [("maxmemory", "100mb"), ("maxmemory-policy", "noeviction")];
    assert_eq!(findings(&bounded).await, []);
}

#[tokio::test]
async fn eviction_is_found() {
    let settings = [("maxmemory", "100mb"), ("maxmemory-policy", "volatile-lru")];
    let found = findings(&settings).await;
    only(
        &found,
        Severity::Warning,
        "`maxmemory-policy` is `volatile-lru`",
    );
    let unbounded = [("maxmemory-policy", "allkeys-lru")];
    assert_eq!(findings(&unbounded).await, []);
}

#[tokio::test]
async fn persistence_that_loses_something_is_found() {
    let none = findings(&[("appendonly", "no"), ("save", "")]).await;
    only(&none, Severity::Warning, "redis saves nothing to disk");
    let snapshots = findings(&[("appendonly", "no"), ("save", "3600 1")]).await;
    only(&snapshots, Severity::Warning, "only saves snapshots");
    let seconds = findings(&[("appendfsync", "everysec")]).await;
    only(&seconds, Severity::Note, "`appendfsync` is `everysec`");
    let never = findings(&[("appendfsync", "no")]).await;
    only(&never, Severity::Warning, "`appendfsync` is `no`");
}

#[tokio::test]
async fn settings_that_are_kept_secret_are_named() {
    let managed = ("user", "guest on >hush ~* +@all -config");
    for (appendonly, severity, says) in [
        ("yes", Severity::Note, "ask who runs it for `appendfsync`"),
        (
            "no",
            Severity::Warning,
            "ask who runs it for `appendonly yes`",
        ),
    ] {
        let server = Redis::start_with(&[("appendonly", appendonly), managed]).unwrap();
        let url = server.url().replace("//", "//guest:hush@");
        only(&of(&url).await, severity, says);
    }
}

#[tokio::test]
async fn replication_is_found_on_both_sides() {
    let primary = Redis::start_with(&SOUND).unwrap();
    let following = format!("127.0.0.1 {}", primary.port());
    let settings = [&SOUND[..], &[("replicaof", following.as_str())]].concat();
    let replica = Redis::start_with(&settings).unwrap();
    primary.ask(["WAIT", "1", "60000"]).unwrap();
    let one = NonZeroUsize::MIN;
    let waiting = |replicas| {
        let store = RedisStore::builder(&primary.url());
        store.min_replicas(replicas, std::time::Duration::from_secs(1))
    };
    let found = of(&primary.url()).await;
    only(
        &found,
        Severity::Warning,
        "`min_replicas(1, …)` and set `min-replicas-to-write 1`",
    );
    primary
        .ask(["CONFIG", "SET", "min-replicas-to-write", "1"])
        .unwrap();
    let found = of(&primary.url()).await;
    only(&found, Severity::Warning, "; call `min_replicas(1, …)`");
    let store = waiting(one).build().await.unwrap();
    assert_eq!(store.findings().await.unwrap(), []);
    let store = waiting(one.saturating_add(1)).build().await.unwrap();
    let found = store.findings().await.unwrap();
    only(
        &found,
        Severity::Error,
        "waits for 2 replicas, and 1 are connected",
    );
    only(
        &of(&replica.url()).await,
        Severity::Error,
        "this redis is a replica",
    );
}

#[tokio::test]
async fn a_cluster_is_found_behind_a_url_of_one_server() {
    let cluster = RedisCluster::start_with(&SOUND).unwrap();
    assert_eq!(of(&cluster.url()).await, []);
    let [first, ..] = cluster.nodes() else {
        panic!("there are three")
    };
    only(
        &of(&first.url()).await,
        Severity::Error,
        "connect with `redis+cluster://`",
    );
}

#[tokio::test]
async fn slots_that_no_node_serves_are_found() {
    let partial = [&SOUND[..], &[("cluster-require-full-coverage", "no")]].concat();
    let cluster = RedisCluster::start_with(&partial).unwrap();
    for node in cluster.nodes() {
        node.ask(["CLUSTER", "DELSLOTS", "0", "1"]).ok();
    }
    let found = of(&cluster.url()).await;
    only(&found, Severity::Error, "2 of the cluster's 16384 slots");
}

#[test]
fn a_server_of_another_age_is_found() {
    let of_version = |version: &str| {
        let info = [("redis_version".to_owned(), version.to_owned())].into();
        let facts = super::Facts {
            info,
            settings: None,
        };
        super::too_old(&[facts]).is_some()
    };
    for old in ["2.8.24", "5.0.14", "6.0.16", "6.1.240"] {
        assert!(of_version(old), "{old}");
    }
    for fine in ["6.2.0", "7.0.15", "8.2.1", "255.255.255", "unstable"] {
        assert!(!of_version(fine), "{fine}");
    }
}
