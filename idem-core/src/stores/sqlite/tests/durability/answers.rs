//! What may be told before it is on the disk, and what may not.

use sqlx::SqliteConnection;

use super::{super::super::atomic::OpenTransaction, *};
use crate::message::Key;
use crate::store::{
    Begun, Completion, Finish, Finished, Look as _, MarkMove, Open, Owner, StreamClaim,
    StreamStore as _, TransactionalStore,
    operator::{Listing, OperatorStore as _},
};

/// A disk that does nothing before it is told to.
struct Disk {
    store: SqliteStore,
    go_on: mpsc::Sender<Result<(), SyncError>>,
    _file: File,
}

impl Disk {
    async fn new() -> Self {
        let file = File::new();
        let (go_on, goes_on) = mpsc::channel();
        let goes_on = Mutex::new(goes_on);
        let builder = SqliteStore::builder(file.path());
        let sync = move || goes_on.lock().unwrap().recv().unwrap_or(Ok(()));
        let store = builder.build_with(|_| LogSync::of(sync)).await.unwrap();
        Self {
            store,
            go_on,
            _file: file,
        }
    }

    fn sync(&self) {
        self.go_on.send(Ok(())).unwrap();
    }

    fn fail(&self) {
        self.go_on
            .send(Err(SyncError::Lost(Arc::new(std::io::Error::other(
                "no disk",
            )))))
            .unwrap();
    }

    /// Waits for an answer that is not told before a sync.
    async fn told_when_synced<T: fmt::Debug>(&self, answer: impl Future<Output = T>) -> T {
        let mut answer = std::pin::pin!(answer);
        let soon = tokio::time::timeout(Duration::from_millis(200), answer.as_mut()).await;
        assert!(soon.is_err(), "told before it was on the disk: {soon:?}");
        self.sync();
        answer.await
    }

    async fn begin(&self, id: &str) -> (Lease, OpenTransaction) {
        match TransactionalStore::<SqliteConnection>::begin(&self.store, &request(id)).await {
            Ok(Begun::Acquired(lease, open)) => (lease, open),
            other => panic!("{other:?}"),
        }
    }

    async fn commit(&self, lease: &Lease, open: OpenTransaction) -> Result<Finished, StoreError> {
        let outcome = Outcome::new("done");
        let complete = Finish::Complete(Completion::new(lease, &outcome, 10 * MINUTE));
        TransactionalStore::<SqliteConnection>::finish(&self.store, open, complete).await
    }
}

/// Another process may have committed it, and lost its power or been killed before the disk had it.
#[tokio::test]
async fn a_copy_is_told_that_its_key_is_completed_when_that_is_on_the_disk() {
    let disk = Disk::new().await;
    // These are synced by SQLite itself.
    let lease = acquire(&disk.store, "o-1").await;
    complete(&disk.store, &lease).await;
    assert!(
        disk.told_when_synced(is_completed(&disk.store, "o-1"))
            .await
    );
    // Also if it would have run in a transaction.
    let request = request("o-1");
    let begun = TransactionalStore::<SqliteConnection>::begin(&disk.store, &request);
    let begun = disk.told_when_synced(begun).await;
    assert_matches!(begun, Ok(Begun::Not(Claim::Completed { .. })));
}

#[tokio::test]
async fn an_atomic_handler_begins_at_once_and_its_commit_is_told_when_it_is_on_the_disk() {
    let disk = Disk::new().await;
    let (lease, open) = disk.begin("o-1").await;
    let committed = disk.told_when_synced(disk.commit(&lease, open)).await;
    assert_eq!(committed.unwrap(), Finished::Committed);
}

/// Else a message could be acknowledged, or passed, whose effect a power cut takes away.
#[tokio::test]
async fn a_mark_that_is_moved_with_a_commit_is_told_when_it_is_on_the_disk() {
    let disk = Disk::new().await;
    let stream = Key::new("ledger", "postings").unwrap();
    // Synced by SQLite itself.
    let claim = disk.store.claim_stream(&stream, Owner::new(), MINUTE).await;
    let Ok(StreamClaim::Acquired { lease, .. }) = claim else {
        panic!("{claim:?}");
    };
    let open = TransactionalStore::<SqliteConnection>::open(&disk.store, Open::Batch);
    let open = open.await.unwrap();
    let moving = Finish::MoveMark {
        mark: MarkMove::new(&lease, 0, 1),
        outgoing: &[],
    };
    let moved = TransactionalStore::<SqliteConnection>::finish(&disk.store, open, moving);
    let moved = disk.told_when_synced(moved).await;
    assert_eq!(moved.unwrap(), Finished::Committed);
}

/// Or one slow disk would let one handler run at a time.
#[tokio::test]
async fn a_handler_does_not_wait_for_the_disk_of_those_before_it() {
    let disk = Disk::new().await;
    let mut commits = Vec::new();
    for id in ["o-1", "o-2", "o-3"] {
        let (lease, mut open) = disk.begin(id).await;
        let lent: &mut SqliteConnection = SqliteStore::lend(&mut open);
        // Takes the write lock, which the one before has let go of.
        sqlx::query("CREATE TABLE IF NOT EXISTS charges (id TEXT)")
            .execute(lent)
            .await
            .unwrap();
        let disk = &disk;
        let mut commit = Box::pin(async move { disk.commit(&lease, open).await });
        let soon = tokio::time::timeout(Duration::from_millis(200), commit.as_mut()).await;
        assert!(soon.is_err(), "told before it was on the disk: {soon:?}");
        commits.push(commit);
    }
    // One for the first, which has begun, and one for the rest.
    disk.sync();
    disk.sync();
    for commit in commits {
        assert_eq!(commit.await.unwrap(), Finished::Committed);
    }
}

#[tokio::test]
async fn what_could_not_be_written_to_the_disk_is_not_told() {
    let disk = Disk::new().await;
    let (lease, open) = disk.begin("o-1").await;
    disk.fail();
    let committed = disk.commit(&lease, open).await;
    assert_matches!(committed, Err(StoreError::Unavailable(_)));
    // It is in the file, and nobody knows for how long: a copy is not acknowledged for it.
    let claim = disk.store.claim(&request("o-1")).await;
    assert_matches!(claim, Err(StoreError::Unavailable(_)));
}

/// Synchronous code that asks the store occupies all threads that the runtime has for blocking work.
#[test]
fn a_sync_needs_no_thread_of_the_runtime() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(1)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let file = File::new();
        let store = file.store().await;
        let lease = acquire(&store, "o-1").await;
        complete(&store, &lease).await;
        let handle = tokio::runtime::Handle::current();
        let asked =
            tokio::task::spawn_blocking(move || handle.block_on(is_completed(&store, "o-1")));
        let answer = tokio::time::timeout(Duration::from_secs(20), asked).await;
        assert!(answer.expect("the sync is carried out").unwrap());
    });
}

/// A message may be what takes the machine down: what was delivered before is claimed with a transaction at hand, and
/// counted. Who claims before that is told at once.
#[tokio::test]
async fn a_claim_made_ahead_is_told_before_it_is_on_the_disk() {
    let disk = Disk::new().await;
    let waiting = request("o-1");
    let claimed = TransactionalStore::<SqliteConnection>::claim_ahead(&disk.store, &waiting);
    let Ok(Begun::Acquired(lease, opening)) = claimed.await else {
        panic!("the key is free");
    };
    let open = opening.await.unwrap();
    let committed = disk.told_when_synced(disk.commit(&lease, open)).await;
    assert_eq!(committed.unwrap(), Finished::Committed);
}

/// An operator decides by it, what to do by hand, say.
#[tokio::test]
async fn an_operator_is_told_what_is_on_the_disk() {
    let disk = Disk::new().await;
    // These are synced by SQLite itself.
    let lease = acquire(&disk.store, "o-1").await;
    complete(&disk.store, &lease).await;
    let shown = disk.told_when_synced(disk.store.look(&lease.key)).await;
    assert!(shown.unwrap().is_some());
    let listing = Listing::all();
    let listed = disk.told_when_synced(disk.store.list(&listing)).await;
    assert_eq!(listed.unwrap().records.len(), 1);
    let counted = disk.told_when_synced(disk.store.counts()).await;
    assert_eq!(counted.unwrap().len(), 1);
}

/// SQLite syncs the log when it copies it into the database's file, too, and tells nobody if that fails.
#[tokio::test]
async fn an_extension_is_told_at_once_and_found_out_if_the_disk_has_not_taken_it() {
    let disk = Disk::new().await;
    let lease = acquire(&disk.store, "o-1").await;
    // Told at once: the disk has done nothing yet.
    let extended = disk.store.extend(&lease, MINUTE).await;
    assert_eq!(extended.unwrap(), Write::Applied);
    disk.fail();
    for i in 0..250 {
        // Synced by SQLite itself, which knows of nothing.
        let claim = disk.store.claim(&request(format!("later-{i}"))).await;
        if let Err(StoreError::Unavailable(_)) = claim {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the store goes on as if nothing had happened");
}
