use std::{
    env,
    process::{Command, Stdio},
};

use xtask::services::{Postgres, Redis, RedisCluster, Server, postgres, redis};

const EXPECTED_VARIABLE: &str = "IDEM_TEST_EXPECTED_URLS";

#[test]
fn servers_of_another_process_are_shared_by_their_variables() {
    if let Ok(expected) = env::var(EXPECTED_VARIABLE) {
        assert_eq!(urls_of_the_shared(), expected);
        return;
    }
    let postgres = Postgres::start().expect("a server");
    let redis = Redis::start().expect("a server");
    let cluster = RedisCluster::start().expect("a cluster");
    let name = "shared::servers_of_another_process_are_shared_by_their_variables";
    let other = Command::new(env::current_exe().expect("this test"))
        .args(["--exact", name])
        .env(postgres::FOLDER_VARIABLE, postgres.folder())
        .env(redis::FOLDER_VARIABLE, redis.folder())
        .env(redis::CLUSTER_FOLDERS_VARIABLE, cluster.folders())
        .env(
            EXPECTED_VARIABLE,
            [postgres.url(), redis.url(), cluster.url()].join(" "),
        )
        .stdout(Stdio::inherit())
        .status()
        .expect("this test runs itself");
    assert!(other.success());
    assert!(postgres.is_ready() && redis.is_ready() && cluster.is_sound());
}

fn urls_of_the_shared() -> String {
    [
        postgres::shared().expect("given").url(),
        redis::shared().expect("given").url(),
        redis::shared_cluster().expect("given").url(),
    ]
    .join(" ")
}
