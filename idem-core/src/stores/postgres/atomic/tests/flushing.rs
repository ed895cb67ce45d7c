//! What an atomic handler's claim does not wait for, and a leased one's does.

use std::{fmt::Debug, pin::pin};

use futures_util::{FutureExt as _, future};
use idem_servers::Postgres;

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
    commits_wait_from_now_on(&server, &mut bystander).await;
    (server, store, bystander)
}

/// Commits until one waits: it is the server's checkpointer that tells all sessions whether there
/// is a standby to wait for, and it reads the settings when it gets to it.
async fn commits_wait_from_now_on(server: &Postgres, bystander: &mut PgConnection) {
    let mut committing = PgConnection::connect(&server.url()).await.unwrap();
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()")
        .fetch_one(&mut committing)
        .await
        .unwrap();
    let commits = async {
        loop {
            execute(&mut committing, "SELECT pg_current_xact_id()")
                .await
                .unwrap();
        }
    };
    tokio::select! {
        () = commits => {}
        () = sessions_wait_for_the_standby(bystander) => {}
    }
    let terminate = "SELECT pg_terminate_backend($1, 10000)";
    let gone: bool = sqlx::query_scalar(terminate)
        .bind(pid)
        .fetch_one(&mut *bystander)
        .await
        .unwrap();
    assert!(gone, "the session that waits does not end");
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
