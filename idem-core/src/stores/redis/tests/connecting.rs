use std::{num::NonZeroUsize, time::Instant};

use super::*;
use crate::store::{OpenSession, SessionStore as _, sequence::scene::with_an_exception};

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
        .ask(["CONFIG", "SET", "requirepass", "hush"])
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
    let said = refused(&url).await;
    assert!(said.contains("does not let this user run `EVAL`"), "{said}");
}

#[tokio::test]
async fn a_user_who_lacks_commands_or_keys_is_told_which_before_the_first_message() {
    let cases = [
        (
            "~* +@all -sadd -setrange",
            "`SETRANGE`, `SADD`",
            "+setrange +sadd",
        ),
        ("~* +@all -get", "`GET`", "+get"),
        ("~* +@all -set", "`SET`", "+set"),
        ("~* +@all -getrange", "`GETRANGE`", "+getrange"),
        ("~* +@all -time", "`TIME`", "+time"),
        ("~* +@all -del", "`DEL`", "+del"),
        ("~* +@all -pexpireat", "`PEXPIREAT`", "+pexpireat"),
        ("~* +@all -scard", "`SCARD`", "+scard"),
        ("~* +@all -sismember", "`SISMEMBER`", "+sismember"),
        ("~other:* +@all", "`GET`", "~shop:*"),
    ];
    for (rules, named, needed) in cases {
        let server = Redis::start_with(&[("user", &*format!("weak on >hush {rules}"))]).unwrap();
        let url = server.url().replace("//", "//weak:hush@");
        let store = RedisStore::builder(&url).prefix("shop").build().await;
        let said = in_full(&store.unwrap_err());
        assert!(
            said.contains("does not let this user run"),
            "{rules}: {said}"
        );
        assert!(
            said.contains(named) && said.contains(needed),
            "{rules}: {said}"
        );
        assert_eq!(server.ask(["DBSIZE"]).unwrap().trim(), "0", "{rules}");
    }
}

#[tokio::test]
async fn a_user_who_may_not_wait_for_replicas_is_told_so_where_they_are_waited_for() {
    let server = Redis::start_with(&[("user", "weak on >hush ~* +@all -wait")]).unwrap();
    let url = server.url().replace("//", "//weak:hush@");
    RedisStore::connect(&url).await.unwrap();
    let store = RedisStore::builder(&url).min_replicas(NonZeroUsize::MIN, MINUTE);
    let said = in_full(&store.build().await.unwrap_err());
    assert!(
        said.contains("does not let this user run `WAIT`") && said.contains("+wait"),
        "{said}"
    );
}

#[tokio::test]
async fn a_user_with_only_what_is_needed_can_work() {
    let rules = user_of_the_page("");
    let server = Redis::start_with(&[("user", &*rules)]).unwrap();
    let url = server.url().replace("//", "//worker:hush@");
    let store = RedisStore::connect(&url).await.unwrap();
    let lease = acquire(&store, 1).await;
    complete(&store, &lease).await;
    with_an_exception(&store).await;
    let opening = OpenSession::new(Key::new("leases", "s-1").unwrap());
    store.open(&opening).await.unwrap();
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
        .ask(["CONFIG", "SET", "requirepass", "hush"])
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
        server.ask(rights).unwrap();
    };
    user("old");
    let address = format!("127.0.0.1:{}", server.port());
    let url = format!("redis://shop:old@{address}/?protocol=resp3");
    let store = RedisStore::connect(&url).await.unwrap();
    user("new");
    server.ask(["CLIENT", "KILL", "USER", "shop"]).unwrap();
    super::refused(store.claim(&request(1)).await);
    user("old");
    acquire(&store, 1).await;
}

#[tokio::test]
async fn a_store_connects_with_what_the_client_knows_of_a_server() {
    use redis::IntoConnectionInfo as _;

    let server = idem_servers::redis::shared().unwrap();
    let info = server.url().into_connection_info().unwrap();
    let unique = u128::from_be_bytes(*Owner::new().as_bytes());
    let store = RedisStore::builder_with(info).prefix(format!("{unique:x}"));
    let store = store.build().await.unwrap();
    acquire(&store, "a").await;
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_once() {
    let error = RedisStore::connect("redis://127.0.0.1:1")
        .await
        .unwrap_err();
    crate::stores::tests::each_cause_is_told_once(&error);
    assert!(in_full(&error).contains("refused"), "{error:?}");
}
