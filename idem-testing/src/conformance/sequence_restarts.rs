//! What was answered about a sequence is still true after the store was opened again.

use idem_core::store::Release;

use super::{DurableHarness, Producer, Rule, SequenceHarness};

/// Its mark, its records, and what is below.
pub async fn a_sequence_survives_a_restart<H: DurableHarness + SequenceHarness>(harness: &H) {
    let producer = Producer::new(harness, Rule::StaysKnown);
    producer.works(0).await;
    producer.releases(1, &Release::gave_up("no")).await;
    producer.works_on(2..5).await;
    producer.mark_is(5, "nobody waits for a dead letter").await;
    producer.works(6).await;
    harness.reopen().await;
    producer.are_done(0..1, "it was passed").await;
    producer.are_late(1..2, "it was given up").await;
    producer.hears(6, "it was done").await;
    producer.mark_is(5, "5 has not come").await;
}
