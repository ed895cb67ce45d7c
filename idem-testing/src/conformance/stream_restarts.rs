//! What was answered about a stream is still true after the store was opened again.

use idem_core::store::Write::Applied;

use super::{DurableHarness, LEASE, Rule, StreamHarness, reader::Reader};

/// The mark, and who reads.
pub async fn a_mark_survives_a_restart<H: DurableHarness + StreamHarness>(harness: &H) {
    let reader = Reader::new(harness, Rule::KeptForEver);
    let lease = reader.acquires(None, "it is free").await;
    reader.releases(&lease, 30, Applied, "it has it").await;
    let lease = reader.acquires(Some(30), "it was given back").await;
    harness.reopen().await;
    reader.is_held(LEASE, "it was claimed before").await;
    reader.releases(&lease, 31, Applied, "it has it").await;
    harness.reopen().await;
    reader
        .acquires(Some(31), "it was given back before the restart")
        .await;
}
