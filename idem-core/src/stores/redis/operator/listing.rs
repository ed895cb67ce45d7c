//! One page of a listing: a step of `SCAN` on one server, and the records that it has found.

use futures_util::future::join_all;
use redis::{RedisResult, Value, cmd, from_redis_value};

use super::record;
use crate::{
    message::Key,
    store::{
        StoreError,
        operator::{Cursor, Listing, Page},
    },
    stores::redis::{
        RedisStore, fault,
        scan::{self, Step},
    },
};

/// Where a listing is: a server, and its own cursor. One server alone has no address.
struct Place {
    address: String,
    cursor: u64,
}

pub(super) async fn page(store: &RedisStore, listing: &Listing) -> Result<Page, StoreError> {
    let page = match &listing.after {
        Some(cursor) => {
            let place = Place::read(cursor).ok_or_else(|| {
                StoreError::Refused("the listing goes on at a place of another store".into())
            })?;
            read(store, listing, place).await
        }
        None => match scan::addresses(store).await {
            Ok(addresses) => {
                let address = addresses.into_iter().next().unwrap_or_default();
                read(store, listing, Place { address, cursor: 0 }).await
            }
            Err(error) => Err(error),
        },
    };
    page.map_err(|error| StoreError::Unavailable(fault::explained(error)))
}

async fn read(store: &RedisStore, listing: &Listing, place: Place) -> RedisResult<Page> {
    let naming = &store.calls.naming;
    let step = Step {
        address: &place.address,
        cursor: place.cursor,
        pattern: &scan::beginning_with(&naming.head(&listing.prefix)),
        count: listing.limit.max(1),
    };
    let (cursor, names) = scan::step(store, &step).await?;
    let now = time(store, &place.address).await?;
    let records = names.iter().filter_map(|name| {
        let name = std::str::from_utf8(name).ok()?;
        Some((name, naming.key_of(name)?))
    });
    let records = join_all(records.map(async |(name, key)| {
        let mut get = cmd("GET");
        get.arg(name);
        (name, key, store.server.ask(&get).await)
    }));
    let (mut found, mut unreadable) = (Vec::new(), Vec::new());
    for (name, key, answer) in records.await {
        match (key.parse::<Key>(), answer) {
            // It was forgotten meanwhile.
            (_, Ok(Value::Nil)) => {}
            (Ok(key), Ok(Value::BulkString(stored))) => match record::read(key, &stored, now) {
                Some((record, _)) => found.extend(Some(record).filter(|it| listing.picks(it))),
                None => unreadable.push(name.to_owned()),
            },
            (_, Err(error)) if !fault::is_of_record(&error) => return Err(error),
            _ => unreadable.push(name.to_owned()),
        }
    }
    let next = match cursor {
        0 => next_server(store, &place.address).await?,
        cursor => Some(Place { cursor, ..place }),
    };
    Ok(Page::new(
        found,
        unreadable,
        next.map(|place| place.write()),
    ))
}

async fn next_server(store: &RedisStore, address: &str) -> RedisResult<Option<Place>> {
    let addresses = scan::addresses(store).await?;
    let next = addresses.into_iter().find(|next| next.as_str() > address);
    Ok(next.map(|address| Place { address, cursor: 0 }))
}

/// Microseconds of the server's clock.
async fn time(store: &RedisStore, address: &str) -> RedisResult<i64> {
    let answer = store.server.ask_at(address, &cmd("TIME")).await?;
    let (seconds, micros): (i64, i64) = from_redis_value(answer)?;
    let now = seconds.saturating_mul(1_000_000).saturating_add(micros);
    Ok(now.saturating_add(store.clock.skew()))
}

impl Place {
    fn read(cursor: &Cursor) -> Option<Self> {
        let (address, cursor) = cursor.as_str().rsplit_once(' ')?;
        Some(Self {
            address: address.to_owned(),
            cursor: cursor.parse().ok()?,
        })
    }

    fn write(&self) -> Cursor {
        Cursor::new(format!("{} {}", self.address, self.cursor))
    }
}
