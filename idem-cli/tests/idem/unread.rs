//! Commands whose output nobody reads any more: what they are to do is done, and the status says so.

use idem_amqp::{MemoryStore, store::Write};
use idem_tests::{
    bed::{Bed, dead},
    store_at::StoreAt,
};
use tempfile::tempdir;

use crate::{
    command::{Idem, acquire, complete},
    dead::bury,
};

#[tokio::test]
async fn a_change_is_made_though_nobody_reads_of_it() {
    let folder = tempdir().unwrap();
    let sqlite = StoreAt::sqlite(&folder.path().join("idem.db"));
    let (store, idem) = (sqlite.open_sqlite().await.into(), Idem::on(&sqlite));
    let holder = acquire(&store, "o-1").await;
    let release = ["keys", "release", "orders.charge:o-1"];
    assert_eq!(
        idem.run_unread(&release).await,
        4,
        "nobody has confirmed it"
    );
    let release = ["keys", "release", "orders.charge:o-1", "--yes"];
    assert_eq!(idem.run_unread(&release).await, 0);
    assert_eq!(complete(&store, &holder).await, Write::Fenced);
}

#[tokio::test]
async fn a_purge_goes_on_though_nobody_reads_of_it() {
    let folder = tempdir().unwrap();
    let sqlite = StoreAt::sqlite(&folder.path().join("idem.db"));
    let idem = Idem::on(&sqlite);
    idem.run(&["migrate"]).await.ends(0);
    for key in ["orders.charge:o-1", "orders.charge:o-2"] {
        let over = ["keys", "complete", key, "--retention", "0s", "--yes"];
        idem.run(&over).await.ends(0);
    }
    assert_eq!(idem.run_unread(&["purge", "--batch", "1"]).await, 0);
    assert_eq!(idem.run(&["keys", "list"]).await.ends(0), "0 keys\n");
}

#[tokio::test]
async fn letters_are_dealt_with_though_nobody_reads_of_it() {
    let (bed, store) = (Bed::new().await, MemoryStore::new());
    bury(&bed, &store, &["a", "b"]).await;
    let (idem, queue) = (Idem::at(bed.url()), dead(bed.name()));
    let one = ["--key", "orders.charge:a", "--yes"];
    let replay = [&["dead", "replay", &queue][..], &one].concat();
    assert_eq!(idem.run_unread(&replay).await, 0);
    bed.until_waiting(1).await;

    bed.delete(bed.name()).await;
    let rest = ["dead", "replay", &queue, "--yes"];
    assert_eq!(idem.run_unread(&rest).await, 1, "one letter stays");
}

#[tokio::test]
async fn a_doctor_whom_nobody_reads_has_a_status_all_the_same() {
    let folder = tempdir().unwrap();
    let store = StoreAt::sqlite(&folder.path().join("idem.db"));
    let idem = Idem::on(&store).and_at("amqp://127.0.0.1:1/%2f");
    assert_eq!(idem.run_unread(&["doctor", "orders"]).await, 1);
}

#[tokio::test]
async fn a_listing_that_nobody_reads_to_its_end_is_no_failure() {
    let folder = tempdir().unwrap();
    let sqlite = StoreAt::sqlite(&folder.path().join("idem.db"));
    let (store, idem) = (sqlite.open_sqlite().await.into(), Idem::on(&sqlite));
    acquire(&store, "o-1").await;
    for listing in [&["keys", "list"][..], &["stats"], &["migrate", "--print"]] {
        assert_eq!(idem.run_unread(listing).await, 0, "{listing:?}");
    }
    let unknown = ["keys", "show", "orders.charge:o-2"];
    assert_eq!(idem.run_unread(&unknown).await, 3);
}
