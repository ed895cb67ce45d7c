//! How many requests a second each crate makes, beside the same service without a layer.

use axum::routing::post;
use bench_http::{Contestant, Load, charge, measure};
use idem_core::{MemoryStore, RedisStore};
use idempotent::{memory, valkey};

use crate::{
    Result,
    peer::{axum_idempotent, idem, idempotent, session},
};

pub(crate) async fn compare(load: &Load) -> Result<()> {
    let (own, other) = (idem_servers::Redis::start()?, idem_servers::Redis::start()?);
    let in_memory = memory::MemoryStore::builder().try_build()?;
    let in_valkey = valkey::ValkeyStore::with_url(other.url())
        .try_build()
        .await?;
    let tenant = |it: Contestant| it.header("x-tenant", "ann");
    let by_session = axum_idempotent(post(charge));
    let by_session = Contestant::serve("axum-idempotent, memory", by_session).await?;
    let cookie = session(by_session.address()).await?;
    let on =
        async |name, router| Ok::<_, crate::Error>(tenant(Contestant::serve(name, router).await?));
    let of_idem = idem(post(charge), RedisStore::connect(&own.url()).await?);
    let mut contestants = vec![
        Contestant::bare().await?,
        on("idem-http, memory", idem(post(charge), MemoryStore::new())).await?,
        on("idempotent, memory", idempotent(post(charge), in_memory)).await?,
        by_session.header("cookie", &cookie),
        on("idem-http, Redis", of_idem).await?,
        on("idempotent, Redis", idempotent(post(charge), in_valkey)).await?,
    ];
    measure(&mut contestants, load).await
}
