//! One request at a time: what the layer adds to it beyond the two calls of the store that it makes.

use std::time::{Duration, Instant};

use bench_http::{Contestant, Load, Result, measure};
use idem_core::{
    Key, MemoryStore, Policy, PostgresStore, RedisStore, SqliteStore, Store,
    handler::Outcome,
    store::{Claim, ClaimRequest, Write},
};

use crate::leased;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Seconds for each service in each round
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Rounds
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

pub(crate) struct Stores {
    pub(crate) memory: MemoryStore,
    pub(crate) sqlite: SqliteStore,
    pub(crate) redis: RedisStore,
    pub(crate) postgres: PostgresStore,
}

/// How often a store is called by itself.
const CALLS: usize = 2_000;

pub(crate) async fn run(options: &Options, stores: Stores) -> Result<()> {
    let load = Load::of_one_connection(options.seconds, options.rounds);
    let mut contestants = vec![
        Contestant::bare().await?,
        leased("memory", stores.memory.clone()).await?,
        leased("SQLite", stores.sqlite.clone()).await?,
        leased("Redis", stores.redis.clone()).await?,
        leased("PostgreSQL", stores.postgres.clone()).await?,
    ];
    measure(&mut contestants, &load).await?;
    let calls = [
        claims_and_completes(&stores.memory).await?,
        claims_and_completes(&stores.sqlite).await?,
        claims_and_completes(&stores.redis).await?,
        claims_and_completes(&stores.postgres).await?,
    ];
    let bare = contestants[0].median();
    println!(
        "\n| alone, p50 in µs | request | store | beyond the store and the service |\n|---|--:|--:|--:|"
    );
    println!("| {} | {} | | |", contestants[0].name(), bare.as_micros());
    for (it, store) in contestants[1..].iter().zip(calls) {
        let request = it.median();
        let beyond = request.saturating_sub(bare + store);
        let [request, store, beyond] = [request, store, beyond].map(|it| it.as_micros());
        println!("| {} | {request} | {store} | {beyond} |", it.name());
    }
    Ok(())
}

/// What a claim and the completion behind it take in the middle.
async fn claims_and_completes<S: Store>(store: &S) -> Result<Duration> {
    // As long as what the layer remembers of the response.
    let outcome = Outcome::new(vec![b' '; 160]);
    let mut delays = Vec::with_capacity(CALLS);
    for call in 0..CALLS {
        let key = Key::new("lone", call.to_string())?;
        let request = ClaimRequest::new(key, &Policy::DEFAULT);
        let begun = Instant::now();
        let Claim::Acquired(lease) = store.claim(&request).await? else {
            return Err("a key is not new".into());
        };
        let applied = store.complete(&lease, &outcome, request.retention).await?;
        delays.push(begun.elapsed());
        if applied != Write::Applied {
            return Err("a completion was refused".into());
        }
    }
    delays.sort();
    Ok(delays[CALLS / 2])
}
