//! `SCAN`, one server of a cluster after the other. While slots move from one server to another, names in them may be
//! missed.

use redis::{RedisResult, cmd, from_redis_value};

use super::RedisStore;

/// How many names a server looks at in a step, where all are wanted.
const COUNT: u32 = 1000;

/// One step on one server.
pub(super) struct Step<'a> {
    pub(super) address: &'a str,
    /// Where the server is in its names; it begins and ends with 0.
    pub(super) cursor: u64,
    pub(super) pattern: &'a [u8],
    /// How many names it looks at.
    pub(super) count: u32,
}

/// The cursor of the next step, and the names that were found. A server may tell of a name twice.
pub(super) async fn step(store: &RedisStore, step: &Step<'_>) -> RedisResult<(u64, Vec<Vec<u8>>)> {
    let mut scan = cmd("SCAN");
    scan.arg(step.cursor)
        .arg("MATCH")
        .arg(step.pattern)
        .arg("COUNT")
        .arg(step.count);
    from_redis_value(store.server.ask_at(step.address, &scan).await?).map_err(Into::into)
}

/// All names like this, of all servers.
pub(super) async fn all(store: &RedisStore, pattern: &[u8]) -> RedisResult<Vec<Vec<u8>>> {
    let mut all = Vec::new();
    for address in addresses(store).await? {
        let mut cursor = 0;
        loop {
            let next = Step {
                address: &address,
                cursor,
                pattern,
                count: COUNT,
            };
            let (next, names) = step(store, &next).await?;
            all.extend(names);
            if next == 0 {
                break;
            }
            cursor = next;
        }
    }
    Ok(all)
}

/// The servers that have records, in the order in which they are read.
pub(super) async fn addresses(store: &RedisStore) -> RedisResult<Vec<String>> {
    let answers = store.server.ask_each(cmd("PING")).await?;
    let mut addresses: Vec<_> = answers.into_iter().map(|(address, _)| address).collect();
    addresses.sort_unstable();
    Ok(addresses)
}

/// All names that begin so, as `SCAN` takes them.
pub(super) fn beginning_with(head: &[u8]) -> Vec<u8> {
    let mut pattern = Vec::with_capacity(head.len() + 8);
    for byte in head {
        if b"*?[]\\^-".contains(byte) {
            pattern.push(b'\\');
        }
        pattern.push(*byte);
    }
    pattern.push(b'*');
    pattern
}
