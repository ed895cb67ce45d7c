//! What the user of a store may not do.

use idem_amqp::RedisStore;
use idem_servers::Redis;
use idem_tests::servers::off_thread;

/// The user of Redis may not run a command that the store needs.
///
/// - does: does not open, and names the command
#[tokio::test]
async fn a_redis_whose_user_lacks_a_command_is_not_opened_and_the_command_is_named() {
    let rules = [("user", "shop on >hush ~idem:* +@all -sadd -wait")];
    let server = off_thread(move || Redis::start_with(&rules)).await;
    let url = server.url().replace("//", "//shop:hush@");
    let error = RedisStore::connect(&url)
        .await
        .expect_err("it does not open");
    let said = format!("{error:?}");
    assert!(said.contains("does not let this user run `SADD`"), "{said}");
    assert!(said.contains("ACL SETUSER USER +sadd ~idem:*"), "{said}");

    let allowed = ["ACL", "SETUSER", "shop", "+sadd"];
    let left = off_thread(move || {
        let left = server.ask(["DBSIZE"])?;
        server.ask(allowed).map(|_| (left, server))
    });
    let (left, _server) = left.await;
    assert_eq!(left.trim(), "0", "it has written something");
    RedisStore::connect(&url)
        .await
        .expect("it lacks nothing more");
}
