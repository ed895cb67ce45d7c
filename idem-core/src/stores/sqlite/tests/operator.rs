use super::*;
use crate::store::Look as _;
use crate::store::operator::{Intervened, Intervention, OperatorStore};

#[tokio::test]
async fn keys_are_listed_once_and_in_their_order() {
    let file = File::new();
    alike::keys_are_listed_once_and_in_their_order(&file.store().await).await;
}

/// Tables that an earlier build has created lack the one for interventions.
#[tokio::test]
async fn a_file_without_a_table_for_interventions_gets_one_with_the_first() {
    let file = File::new();
    let store = file.store().await;
    let lease = acquire(&store, "a").await;
    sqlx::raw_sql("DROP TABLE idem_records_audit")
        .execute(&mut file.bystander().await)
        .await
        .unwrap();
    assert_eq!(store.audit(&lease.key).await.unwrap(), []);
    let known = store.look(&lease.key).await.unwrap();
    let seen = known.map(|known| known.record.seen());
    let release = Intervention::release(lease.key.clone(), seen, "ops");
    assert_eq!(
        store.intervene(&release).await.unwrap(),
        Intervened::Applied
    );
    assert_eq!(store.audit(&lease.key).await.unwrap().len(), 1);
}

#[tokio::test]
async fn what_operators_changed_long_ago_is_purged() {
    let file = File::new();
    let store = file.store().await;
    alike::what_operators_changed_long_ago_is_purged(&store, |by| store.advance(by)).await;
}

#[tokio::test]
async fn it_is_told_if_nobody_purges() {
    let file = File::new();
    let store = file.store().await;
    let advance = |by| store.advance(by);
    alike::it_is_told_if_nobody_purges(&store, advance, async || store.findings().await).await;
}
