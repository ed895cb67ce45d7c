use std::error::Error as _;

use super::*;
use crate::store::Look as _;
use crate::store::operator::{Action, Intervened, Intervention, Listing, OperatorStore as _};

async fn release(store: &PostgresStore, lease: &Lease) -> Result<Intervened, StoreError> {
    let known = store.look(&lease.key).await.unwrap();
    let seen = known.map(|known| known.record.seen());
    let release = Intervention::release(lease.key.clone(), seen, "operator@ops-1");
    store.intervene(&release).await
}

async fn granted(database: &Database) -> PostgresStore {
    let (role, url) = rights::stranger(database).await;
    database
        .run(&format!(
            "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role};
             GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {role};
             REVOKE UPDATE, DELETE ON idem_records_audit FROM {role}"
        ))
        .await;
    PostgresStore::connect(&url).await.unwrap()
}

#[tokio::test]
async fn an_operator_needs_no_right_to_create_tables_that_are_there() {
    let database = Database::new();
    drop(database.store().await);
    let store = granted(&database).await;
    let lease = acquire(&store, "a").await;
    assert_eq!(release(&store, &lease).await.unwrap(), Intervened::Applied);
    let audit = store.audit(&lease.key).await.unwrap();
    assert_eq!(audit[0].action, Action::Release);
    // Nor one to remove what is noted down.
    store.advance(100 * Duration::from_hours(24));
    assert_eq!(store.purge(10).await.unwrap(), 1);
    assert_eq!(store.audit(&lease.key).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_missing_table_that_may_not_be_created_names_who_can_help() {
    let database = Database::new();
    drop(database.store().await);
    let store = granted(&database).await;
    let lease = acquire(&store, "a").await;
    database.run("DROP TABLE idem_records_audit").await;
    let error = release(&store, &lease).await.unwrap_err();
    let source = error.source().unwrap().to_string();
    assert!(
        source.ends_with("let their owner run `idem migrate`"),
        "{source}"
    );
    complete(&store, &lease).await;
}

#[tokio::test]
async fn a_locked_row_makes_an_intervention_unavailable_and_not_wait_for_ever() {
    let database = Database::new();
    let store = database.store().await;
    let lease = acquire(&store, "a").await;
    let mut other = PgConnection::connect(&database.url).await.unwrap();
    let mut transaction = other.begin().await.unwrap();
    sqlx::query("SELECT FROM idem_records FOR UPDATE")
        .execute(&mut *transaction)
        .await
        .unwrap();
    let error = release(&store, &lease).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    transaction.rollback().await.unwrap();
    assert_eq!(release(&store, &lease).await.unwrap(), Intervened::Applied);
}

#[tokio::test]
async fn a_record_that_cannot_be_read_is_named_and_hides_no_other() {
    let database = Database::new();
    let store = database.store().await;
    for id in ["a", "b", "c"] {
        acquire(&store, id).await;
    }
    database
        .run("UPDATE idem_records SET state = 'strange' WHERE key LIKE '%:b'")
        .await;
    let page = store.list(&Listing::all()).await.unwrap();
    assert_eq!(page.records.len(), 2);
    assert_eq!(page.unreadable.len(), 1);
    assert!(page.unreadable[0].ends_with(":b"), "{page:?}");
}

#[tokio::test]
async fn keys_are_listed_once_and_in_their_order() {
    let database = Database::new();
    alike::keys_are_listed_once_and_in_their_order(&database.store().await).await;
}

/// As after a fail-over to a server that has not heard of the last numbers of the sequence.
#[tokio::test]
async fn tokens_grow_though_their_sequence_was_set_back() {
    let database = Database::new();
    let store = database.store().await;
    for id in ["taken over", "released", "completed"] {
        acquire(&store, id).await;
    }
    database
        .run("UPDATE idem_records SET token = token + 1000")
        .await;
    store.advance(2 * MINUTE);
    let next = acquire(&store, "taken over").await;
    assert!(next.token.get() > 1000, "{next:?}");
    for (id, action) in [
        ("released", Action::Release),
        ("completed", Action::Complete),
    ] {
        let key = request(id).key;
        let before = store.look(&key).await.unwrap().unwrap().record;
        let (key, seen) = (before.key.clone(), Some(before.seen()));
        let intervention = match action {
            Action::Release => Intervention::release(key, seen, "ops"),
            _ => Intervention::complete(key, seen, "ops", Outcome::default(), MINUTE),
        };
        let done = store.intervene(&intervention).await.unwrap();
        assert_eq!(done, Intervened::Applied);
        let after = store.look(&before.key).await.unwrap().unwrap().record;
        assert!(after.token > before.token, "{before:?}, {after:?}");
    }
}

#[tokio::test]
async fn what_operators_changed_long_ago_is_purged() {
    let database = Database::new();
    let store = database.store().await;
    alike::what_operators_changed_long_ago_is_purged(&store, |by| store.advance(by)).await;
}

#[tokio::test]
async fn it_is_told_if_nobody_purges() {
    let database = Database::new();
    let store = database.store().await;
    let advance = |by| store.advance(by);
    alike::it_is_told_if_nobody_purges(&store, advance, async || store.findings().await).await;
}
