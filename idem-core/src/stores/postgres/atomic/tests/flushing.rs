//! What an atomic handler's claim does not wait for, and a leased one's does.

use std::{fmt::Debug, pin::pin};

use futures_util::{FutureExt as _, future};
use xtask::services::Postgres;

use super::*;

/// A server of its own on which from now on no commit is ever safe, because the standby that
/// should have it is away.
async fn without_its_standby() -> (Postgres, PostgresStore, PgConnection) {
    let server = Postgres::start().expect("PostgreSQL can be started");
    let store = PostgresStore::connect(&server.url()).await.unwrap();
    let mut bystander = PgConnection::connect(&server.url()).await.unwrap();
    for statement in [
        "ALTER SYSTEM SET synchronous_standby_names = 'away'",
        "SELECT pg_reload_conf()",
    ] {
        execute(&mut bystander, statement).await.unwrap();
    }
    let waits = "SELECT bool_and(setting = 'away') FROM pg_settings
                 WHERE name = 'synchronous_standby_names'";
    while !sqlx::query_scalar::<_, bool>(waits)
        .fetch_one(&mut bystander)
        .await
        .unwrap()
    {
        tokio::task::yield_now().await;
    }
    (server, store, bystander)
}

async fn sessions_wait_for_the_standby(bystander: &mut PgConnection) {
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    while sqlx::query_scalar::<_, i64>(waiting)
        .fetch_one(&mut *bystander)
        .await
        .unwrap()
        == 0
    {
        tokio::task::yield_now().await;
    }
}

/// Fails if the answer comes without waiting for the standby.
async fn waits_for_the_standby<T: Debug>(
    answer: impl Future<Output = T>,
    bystander: &mut PgConnection,
) {
    tokio::select! {
        biased;
        answer = answer => panic!("{answer:?}"),
        () = sessions_wait_for_the_standby(bystander) => {}
    }
}

#[tokio::test]
async fn only_a_leased_handlers_claim_waits_until_no_crash_can_undo_it() {
    let (_server, store, mut bystander) = without_its_standby().await;
    let begun = begin(&store, &request("atomic")).await;
    assert!(matches!(begun, Ok(Begun::Acquired(..))), "{begun:?}");
    waits_for_the_standby(store.claim(&request("leased")), &mut bystander).await;
}

#[tokio::test]
async fn a_leased_handlers_claim_waits_beside_an_atomic_one_too() {
    let (_server, store, mut bystander) = without_its_standby().await;
    let (atomic, leased) = (request("atomic"), request("leased"));
    // Sent before the lane's task runs, so that they share a statement.
    let (begun, claimed) = (pin!(begin(&store, &atomic)), pin!(store.claim(&leased)));
    let either = future::select(begun.map(drop), claimed.map(drop));
    waits_for_the_standby(either.map(drop), &mut bystander).await;
}
