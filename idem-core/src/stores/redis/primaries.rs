//! The primaries of a cluster, and for each a key that it keeps: so each can be asked something about keys.
//!
//! `permissions` asks each of them, because each has its own users. What must stay true: a key's slot is the one that
//! the servers compute.

use std::collections::{BTreeMap, BTreeSet};

use redis::{RedisResult, Value, cmd, from_redis_value};

use super::{naming::Naming, server::Server};

/// The number of slots of every cluster.
const SLOTS: u16 = 16384;

/// How many keys are tried to find one of each primary. A primary with few slots needs many.
const TRIES: u32 = 100_000;

/// A server that takes writes, and what the names of a key begin with that it keeps.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Primary {
    /// Its address, in a cluster.
    pub(super) address: Option<String>,
    pub(super) beside: Vec<u8>,
}

impl Primary {
    /// All of them. `what` is what the key is for.
    pub(super) async fn all(server: &Server, naming: &Naming, what: &str) -> Vec<Self> {
        let slots = match server {
            Server::One(_) => None,
            Server::Cluster(_) => server.ask(cmd("CLUSTER").arg("SLOTS")).await.ok(),
        };
        let owners = slots.and_then(|slots| owners(slots).ok());
        owners.map_or_else(
            // The one server, or whichever keeps this key.
            || {
                vec![Self {
                    address: None,
                    beside: naming.beside(what),
                }]
            },
            |owners| with_keys(&owners, naming, what),
        )
    }
}

/// Slots from this one to that one, and the address of their primary.
type Owner = (u16, u16, String);

/// What `CLUSTER SLOTS` says of primaries. What follows the first node of a range are its replicas.
fn owners(slots: Value) -> RedisResult<Vec<Owner>> {
    let ranges: Vec<Vec<Value>> = from_redis_value(slots)?;
    let mut owners = Vec::with_capacity(ranges.len());
    for range in ranges {
        let mut parts = range.into_iter();
        if let (Some(first), Some(last), Some(Value::Array(node))) =
            (parts.next(), parts.next(), parts.next())
            && let [host, port, ..] = &node[..]
        {
            let (host, port): (String, u16) = (
                from_redis_value(host.clone())?,
                from_redis_value(port.clone())?,
            );
            let (first, last) = (from_redis_value(first)?, from_redis_value(last)?);
            owners.push((first, last, format!("{host}:{port}")));
        }
    }
    Ok(owners)
}

/// Each primary once, with a key of its own.
fn with_keys(owners: &[Owner], naming: &Naming, what: &str) -> Vec<Primary> {
    let mut found = BTreeMap::new();
    let all: BTreeSet<_> = owners.iter().map(|(.., address)| address).collect();
    for number in 0..TRIES {
        if found.len() == all.len() {
            break;
        }
        let key = format!("{what}-{number}");
        let slot = slot(key.as_bytes());
        let owner = owners
            .iter()
            .find(|(first, last, _)| (*first..=*last).contains(&slot));
        if let Some((.., address)) = owner {
            found.entry(address).or_insert_with(|| naming.beside(&key));
        }
    }
    let primaries = found.into_iter().map(|(address, beside)| Primary {
        address: Some(address.clone()),
        beside,
    });
    primaries.collect()
}

/// The slot of a name whose part in braces is this: its CRC16, as XMODEM computes it.
fn slot(braced: &[u8]) -> u16 {
    let crc = braced.iter().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ u16::from(*byte) << 8, |crc, _| {
            let doubled = crc << 1;
            if crc & 0x8000 == 0 {
                doubled
            } else {
                doubled ^ 0x1021
            }
        })
    });
    crc % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_the_one_that_the_specification_of_the_cluster_computes() {
        assert_eq!(slot(b"123456789"), 0x31C3);
        assert_eq!(slot(b"foo"), 12182);
        assert_eq!(slot(b""), 0);
    }

    fn owner(first: u16, last: u16, port: u16) -> Owner {
        (first, last, format!("10.0.0.1:{port}"))
    }

    #[test]
    fn each_primary_has_a_key_in_one_of_its_slots_also_one_with_few() {
        let owners = [owner(0, 9, 1), owner(10, 8000, 2), owner(8001, 16_383, 1)];
        let naming = Naming::new("idem").unwrap();
        let primaries = with_keys(&owners, &naming, "permissions");
        let addresses: Vec<_> = primaries.iter().map(|it| it.address.as_deref()).collect();
        assert_eq!(addresses, [Some("10.0.0.1:1"), Some("10.0.0.1:2")]);
        for primary in &primaries {
            let beside = String::from_utf8(primary.beside.clone()).unwrap();
            let key = beside
                .strip_prefix("idem:{")
                .and_then(|it| it.strip_suffix("}~"));
            let slot = slot(key.unwrap().as_bytes());
            let owner = owners.iter().find(|it| (it.0..=it.1).contains(&slot));
            assert_eq!(primary.address.as_ref(), owner.map(|it| &it.2));
        }
        let narrow = [
            owner(0, 8001, 1),
            owner(8002, 8002, 3),
            owner(8003, 16_383, 1),
        ];
        assert_eq!(with_keys(&narrow, &naming, "permissions").len(), 2);
    }

    #[test]
    fn of_each_range_the_first_node_is_the_primary() {
        let text = |text: &str| Value::BulkString(text.into());
        let node =
            |host: &str, port| Value::Array(vec![text(host), Value::Int(port), text("an id")]);
        let range = Value::Array(vec![
            Value::Int(0),
            Value::Int(5460),
            node("10.0.0.1", 7000),
            node("10.0.0.2", 7000),
        ]);
        let told = owners(Value::Array(vec![range])).unwrap();
        assert_eq!(told, [(0, 5460, "10.0.0.1:7000".to_owned())]);
    }
}
