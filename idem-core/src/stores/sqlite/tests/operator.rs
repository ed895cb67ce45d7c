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

/// They are kept for 90 days.
#[tokio::test]
async fn what_operators_changed_long_ago_is_purged() {
    let file = File::new();
    let store = file.store().await;
    let key = acquire(&store, "a").await.key;
    let day = Duration::from_hours(24);
    let complete =
        |seen| Intervention::complete(key.clone(), seen, "ops", Outcome::default(), 365 * day);
    let seen = store.look(&key).await.unwrap().map(|it| it.record.seen());
    let applied = store.intervene(&complete(seen)).await.unwrap();
    assert_eq!(applied, Intervened::Applied);
    store.advance(89 * day);
    let seen = store.look(&key).await.unwrap().map(|it| it.record.seen());
    let forget = Intervention::forget(key.clone(), seen, "ops");
    assert_eq!(store.intervene(&forget).await.unwrap(), Intervened::Applied);
    assert_eq!(store.purge(10).await.unwrap(), 0);
    assert_eq!(store.audit(&key).await.unwrap().len(), 2);
    store.advance(day);
    assert_eq!(store.purge(10).await.unwrap(), 0, "they are no records");
    let left = store.audit(&key).await.unwrap();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[tokio::test]
async fn it_is_told_if_nobody_purges() {
    let file = File::new();
    let store = file.store().await;
    let codes = async || {
        let findings = store.findings().await.unwrap();
        findings.iter().map(|it| it.code).collect::<Vec<_>>()
    };
    complete(&store, &acquire(&store, "done").await).await;
    let _held = acquire(&store, "held").await;
    assert_eq!(codes().await, [""; 0]);
    // What is to be removed is not so for long.
    store.advance(Duration::from_hours(23));
    assert_eq!(codes().await, [""; 0]);
    store.advance(Duration::from_hours(2));
    assert_eq!(codes().await, ["unpurged"]);
    let findings = store.findings().await.unwrap();
    assert!(
        findings[0].text.contains("ended 24 hours ago"),
        "{}",
        findings[0].text
    );
    assert_eq!(store.purge(10).await.unwrap(), 2);
    assert_eq!(codes().await, [""; 0]);
}
