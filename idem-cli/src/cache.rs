//! The cache that workers share in front of their store, if they have one.

use idem_amqp::stores::SharedCache;

use crate::{arguments::StoreArguments, error::Error};

/// It is asked when it is needed.
pub(crate) fn open(store: &StoreArguments) -> Result<Option<SharedCache>, Error> {
    match (&store.cache, &store.cache_name) {
        (None, None) => Ok(None),
        (Some(url), Some(name)) => of(url, name, store).map(Some),
        _ => Err(Error::Usage(
            "`--cache` says where it is, `--cache-name` which: give both".into(),
        )),
    }
}

#[cfg(feature = "redis")]
fn of(url: &str, name: &str, store: &StoreArguments) -> Result<SharedCache, Error> {
    let builder = idem_amqp::RedisStore::builder(url).response_timeout(store.timeout);
    Ok(builder.cache(name)?)
}

#[cfg(not(feature = "redis"))]
fn of(_: &str, _: &str, _: &StoreArguments) -> Result<SharedCache, Error> {
    let text =
        "`--cache` is in Redis, for which this command was not built: add the feature `redis`";
    Err(Error::Usage(text.into()))
}
