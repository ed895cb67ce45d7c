//! What an operator does, as a worker meets it.

use idem_amqp::executor::ExecutionKind as Kind;
use idem_tests::{bed::Bed, script::Script, store_at::StoreAt};
use tempfile::tempdir;

use crate::command::Idem;

#[tokio::test]
async fn a_message_runs_again_once_its_key_is_forgotten() {
    let (bed, folder) = (Bed::new().await, tempdir().unwrap());
    let store = StoreAt::sqlite(&folder.path().join("idem.db"));
    let (script, idem) = (Script::succeeding(), Idem::on(&store));
    let worker = bed.charging(store.open_sqlite().await, &script);
    bed.order("a").await;
    worker.ended(Kind::Executed, 1).await;
    bed.order("a").await;
    worker.ended(Kind::Duplicate, 1).await;
    idem.run(&["keys", "forget", "orders.charge:a", "--yes"])
        .await
        .ends(0);
    bed.order("a").await;
    worker.ended(Kind::Executed, 2).await;
    script.assert_effects(["a", "a"]);
    worker.stop().await;
}

#[tokio::test]
async fn a_message_whose_key_was_completed_by_hand_does_not_run() {
    let (bed, folder) = (Bed::new().await, tempdir().unwrap());
    let store = StoreAt::sqlite(&folder.path().join("idem.db"));
    let (script, idem) = (Script::succeeding(), Idem::on(&store));
    idem.run(&["migrate"]).await.ends(0);
    idem.run(&["keys", "complete", "orders.charge:a", "--yes"])
        .await
        .ends(0);
    let worker = bed.charging(store.open_sqlite().await, &script);
    bed.order("a").await;
    worker.ended(Kind::Duplicate, 1).await;
    script.assert_effects::<&str>([]);
    worker.stop().await;
}
