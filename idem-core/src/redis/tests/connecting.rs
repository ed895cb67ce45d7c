use std::time::Instant;

use super::*;

async fn refused(url: &str) -> String {
    let store = RedisStore::builder(url).connect_timeout(Duration::from_millis(500));
    in_full(&store.build().await.unwrap_err())
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named_at_once() {
    let server = Redis::start().unwrap();
    let url = server.url();
    server.kill().unwrap();
    let started = Instant::now();
    let said = refused(&url.replace("//", "//user:hush@")).await;
    let address = format!("redis at 127.0.0.1:{}", server.port());
    assert!(
        said.contains(&address) && said.contains("refused"),
        "{said}"
    );
    assert!(!said.contains("hush"), "{said}");
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_given_up() {
    let server = Redis::start().unwrap();
    server.freeze().unwrap();
    let said = refused(&server.url()).await;
    assert!(said.contains("timed out"), "{said}");
}

#[tokio::test]
async fn a_wrong_password_and_none_are_told_apart_and_not_repeated() {
    let server = Redis::start().unwrap();
    server
        .cli(["CONFIG", "SET", "requirepass", "hush"])
        .unwrap();
    let said = refused(&server.url().replace("//", "//:guess@")).await;
    assert!(said.contains("Password authentication failed"), "{said}");
    assert!(!said.contains("guess"), "{said}");
    let said = refused(&server.url()).await;
    assert!(said.contains("asks for a password"), "{said}");
    let right = server.url().replace("//", "//:hush@");
    acquire(&RedisStore::connect(&right).await.unwrap(), 1).await;
}

#[tokio::test]
async fn a_user_who_may_not_run_scripts_is_told_what_is_needed() {
    let server = Redis::start_with(&[("user", "weak on >hush ~* +@all -@scripting")]).unwrap();
    let url = server.url().replace("//", "//weak:hush@");
    let store = RedisStore::connect(&url).await.unwrap();
    let said = super::refused(store.claim(&request(1)).await);
    assert!(said.contains("does not let this user run `EVAL`"), "{said}");
}

#[tokio::test]
async fn a_user_with_only_what_is_needed_can_work() {
    let rules = "lean on >hush ~lean:* +evalsha +eval +time +get +set";
    let server = Redis::start_with(&[("user", rules)]).unwrap();
    let url = server.url().replace("//", "//lean:hush@");
    let store = RedisStore::builder(&url).prefix("lean").build().await;
    let store = store.unwrap();
    let lease = acquire(&store, 1).await;
    complete(&store, &lease).await;
    let said = unavailable(store.findings().await);
    assert!(said.contains("'info'"), "{said}");
}

#[tokio::test]
async fn a_prefix_that_means_something_to_patterns_is_refused() {
    let (_, server) = store().await;
    let store = RedisStore::builder(&server.url()).prefix("a*").build();
    let error = store.await.unwrap_err();
    assert!(
        matches!(error, ConnectError::InvalidPrefix { .. }),
        "{error}"
    );
}

#[tokio::test]
async fn neither_store_nor_builder_shows_a_password() {
    let url = "redis://user:hush@127.0.0.1/";
    let builder = RedisStore::builder(url);
    assert!(!format!("{builder:?}").contains("hush"));
    let server = Redis::start().unwrap();
    server
        .cli(["CONFIG", "SET", "requirepass", "hush"])
        .unwrap();
    let store = RedisStore::connect(&server.url().replace("//", "//:hush@")).await;
    assert!(!format!("{:?}", store.unwrap()).contains("hush"));
}

#[tokio::test]
async fn a_reason_not_to_connect_is_no_reason_for_ever() {
    let server = Redis::start().unwrap();
    let user = |password: &str| {
        let password = format!(">{password}");
        let rights = [
            "ACL",
            "SETUSER",
            "shop",
            "on",
            "resetpass",
            &password,
            "~*",
            "+@all",
        ];
        server.cli(rights).unwrap();
    };
    user("old");
    let address = format!("127.0.0.1:{}", server.port());
    let url = format!("redis://shop:old@{address}/?protocol=resp3");
    let store = RedisStore::connect(&url).await.unwrap();
    user("new");
    server.cli(["CLIENT", "KILL", "USER", "shop"]).unwrap();
    super::refused(store.claim(&request(1)).await);
    user("old");
    acquire(&store, 1).await;
}
