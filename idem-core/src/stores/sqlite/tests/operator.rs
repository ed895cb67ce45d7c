use super::*;
use crate::store::operator::{Intervened, Intervention, Listing, OperatorStore};

/// Nothing is told of twice, wherever a page ends.
#[tokio::test]
async fn keys_are_listed_once_and_in_their_order() {
    let file = File::new();
    let store = file.store().await;
    for id in ["d", "b", "e", "a", "c"] {
        acquire(&store, id).await;
    }
    for limit in 1..=6 {
        let mut listing = Listing::all().limit(limit);
        let mut listed = Vec::new();
        // One page more than there are keys: a listing that does not end is wrong.
        for _ in 0..6 {
            let page = store.list(&listing).await.unwrap();
            listed.extend(
                page.records
                    .into_iter()
                    .map(|record| record.key.to_string()),
            );
            let Some(next) = page.next else { break };
            listing = listing.after(next);
        }
        let expected = ["orders:a", "orders:b", "orders:c", "orders:d", "orders:e"];
        assert_eq!(listed, expected, "in pages of {limit}");
    }
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
    let shown = store.show(&lease.key).await.unwrap();
    assert_eq!(shown.audit, []);
    let seen = shown.record.map(|record| record.seen());
    let release = Intervention::release(lease.key.clone(), seen, "ops");
    assert_eq!(
        store.intervene(&release).await.unwrap(),
        Intervened::Applied
    );
    assert_eq!(store.show(&lease.key).await.unwrap().audit.len(), 1);
}
