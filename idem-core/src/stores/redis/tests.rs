use std::error::Error;

use idem_servers::{Redis, redis::Node};

use super::*;
use crate::{
    handler::Policy,
    store::Owner,
    stores::tests::{self as alike, MINUTE, acquire, acquire_as, complete, is_completed, request},
};

mod batching;
mod cluster;
mod connecting;
mod connections;
mod known;
mod limits;
mod operator;
mod records;
mod replication;
mod restarts;
mod sentinel;
mod sequences;
mod sessions;
mod streams;

/// A server that all tests share, and a prefix that no other test has.
async fn store() -> (RedisStore, &'static Node) {
    let server = idem_servers::redis::shared().unwrap();
    let unique = u128::from_be_bytes(*Owner::new().as_bytes());
    let store = RedisStore::builder(&server.url()).prefix(format!("{unique:x}"));
    (store.build().await.unwrap(), server)
}

/// A store on a server of the test's own that does not wait long for answers.
async fn impatient(server: &Redis) -> RedisStore {
    let timeout = Duration::from_secs(2);
    let store = RedisStore::builder(&server.url())
        .connect_timeout(timeout)
        .response_timeout(timeout);
    store.build().await.unwrap()
}

/// What the store's record of an order is called.
fn record(store: &RedisStore, id: impl crate::message::KeyPart) -> String {
    let name = store.calls.naming.record(&request(id).key);
    String::from_utf8(name).unwrap()
}

/// Redis counts in milliseconds. A value must stay until its time is over, and may stay for a millisecond more. `until`
/// is that time in microseconds of a store whose clock is so far ahead, as an expression of the value.
fn is_kept_until(server: &Node, name: &str, until: &str, ahead: Duration) {
    let ahead = ahead.as_micros();
    let script = format!(
        "local value = redis.call('GET', KEYS[1])
         local removed_at = redis.call('PEXPIRETIME', KEYS[1]) * 1000 + {ahead}
         return string.format('%.0f', removed_at - ({until}))"
    );
    let late = server.ask(["EVAL", &script, "1", name]).unwrap();
    let late: i64 = late.trim().parse().unwrap();
    assert!((1..=1000).contains(&late), "{name}: {late} microseconds");
}

/// Puts what is no record where these are: another type, a text, and one that is as long as a record.
fn spoil(server: &Node, names: [&str; 3]) {
    server.ask(["HSET", names[0], "theirs", "1"]).unwrap();
    server.ask(["SET", names[1], "theirs"]).unwrap();
    server.ask(["SET", names[2], &"!".repeat(60)]).unwrap();
}

fn are_spoilt(server: &Node, names: [&str; 3]) {
    assert_eq!(
        server.ask(["HGET", names[0], "theirs"]).unwrap().trim(),
        "1"
    );
    for (name, text) in [(names[1], "theirs"), (names[2], &"!".repeat(60))] {
        assert_eq!(server.ask(["GET", name]).unwrap().trim(), text);
        assert_eq!(server.ask(["PTTL", name]).unwrap().trim(), "-1");
    }
}

/// When a record is forgotten.
const FORGET_AT: &str = "struct.unpack('>d', value, 16)";

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/stores/redis.md");

/// The user that the documentation tells to make, with these further rules.
fn user_of_the_page(further: &str) -> String {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let mut lines = page.lines().map(str::trim);
    let rules = lines.find_map(|line| line.strip_prefix("ACL SETUSER worker on >… "));
    let rules = rules.expect("the page gives a user its commands");
    format!("worker on >hush {rules} {further}")
}

/// An error with all its sources, as a log shows it.
fn in_full(error: &(dyn Error + 'static)) -> String {
    std::iter::successors(Some(error), |&error| error.source())
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}

/// What is said about a store that is unavailable.
fn unavailable<T: fmt::Debug>(answer: Result<T, StoreError>) -> String {
    match answer {
        Err(StoreError::Unavailable(source)) => in_full(&*source),
        other => panic!("{other:?}"),
    }
}

/// What is said by a store that is there and refuses.
fn refused<T: fmt::Debug>(answer: Result<T, StoreError>) -> String {
    match answer {
        Err(StoreError::Refused(source)) => in_full(&*source),
        other => panic!("{other:?}"),
    }
}

/// What is wrong with a record.
fn corrupt<T: fmt::Debug>(answer: Result<T, StoreError>) -> String {
    match answer {
        Err(StoreError::Corrupt { source, .. }) => {
            let said = in_full(&*source);
            // A reader knows no lines of scripts.
            let is_ours = said.contains("that this program knows");
            assert!(!is_ours || !said.contains("user_script"), "{said}");
            said
        }
        other => panic!("{other:?}"),
    }
}

/// How often the server has run a command.
fn calls_of(command: &str, server: &Redis) -> u32 {
    let stats = server.ask(["INFO", "commandstats"]).unwrap();
    let mark = format!("cmdstat_{command}:calls=");
    let (_, rest) = stats.split_once(&mark).expect("it was run");
    let (number, _) = rest.split_once(',').expect("there is more to tell");
    number.parse().unwrap()
}
