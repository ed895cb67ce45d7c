use std::{
    env,
    process::{Command, Stdio},
};

use idem_servers::{Postgres, Redis, RedisCluster, Server, postgres, redis};

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
    let in_folders = |other: &mut Command| {
        other
            .env(postgres::FOLDER_VARIABLE, postgres.folder())
            .env(redis::FOLDER_VARIABLE, redis.folder());
    };
    let at_urls = |other: &mut Command| {
        other
            .env("POSTGRES_URL", postgres.url())
            .env("REDIS_URL", redis.url());
    };
    let named: [&dyn Fn(&mut Command); 2] = [&in_folders, &at_urls];
    for name_them in named {
        let name = "shared::servers_of_another_process_are_shared_by_their_variables";
        let mut other = Command::new(env::current_exe().expect("this test"));
        other
            .args(["--exact", name])
            .env_remove(postgres::FOLDER_VARIABLE)
            .env_remove(redis::FOLDER_VARIABLE)
            .env(redis::CLUSTER_FOLDERS_VARIABLE, cluster.folders())
            .env(
                EXPECTED_VARIABLE,
                [postgres.url(), redis.url(), cluster.url()].join(" "),
            )
            .stdout(Stdio::inherit());
        name_them(&mut other);
        assert!(other.status().expect("this test runs itself").success());
    }
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
