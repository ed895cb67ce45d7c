//! What became of messages, until the outbox has it in writing.

use idem_core::{
    StoreError,
    handler::OutgoingId,
    store::outbox::{OutboxTable, Unpublished},
};

/// What is to be written into the outbox.
#[derive(Default)]
pub(super) struct Updates {
    pub(super) confirmed: Vec<OutgoingId>,
    pub(super) unpublished: Vec<Unpublished>,
    /// Whether the next one of a lane may leave then.
    pub(super) frees_lane: bool,
}

impl Updates {
    pub(super) fn ids(&self) -> impl Iterator<Item = OutgoingId> {
        let unpublished = self.unpublished.iter().map(|it| it.id);
        self.confirmed.iter().copied().chain(unpublished)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.confirmed.is_empty() && self.unpublished.is_empty()
    }

    /// Keeps what is to be written again, and returns what is not: what was not tried may have been noted down, and
    /// then has the number again with which the next one takes it. Its lease runs out.
    pub(super) fn put_back(&mut self, mut unwritten: Self) -> Self {
        let untried = |it: &mut Unpublished| !it.was_tried;
        let unpublished = unwritten.unpublished.extract_if(.., untried).collect();
        self.confirmed.extend(unwritten.confirmed);
        self.unpublished.extend(unwritten.unpublished);
        self.frees_lane |= unwritten.frees_lane;
        Self {
            unpublished,
            ..Self::default()
        }
    }

    /// Writes all of it into the outbox, and returns it.
    pub(super) async fn write(self, outbox: &dyn OutboxTable) -> (Self, Result<(), StoreError>) {
        let written = async {
            if !self.confirmed.is_empty() {
                outbox.remove(&self.confirmed).await?;
            }
            if !self.unpublished.is_empty() {
                outbox.note(&self.unpublished).await?;
            }
            Ok(())
        };
        let written = written.await;
        (self, written)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Written again, it could put back what somebody else has taken under the same number.
    #[test]
    fn what_was_not_tried_is_not_noted_down_a_second_time() {
        let ids = [
            "019abf3e-5d3c-7a11-8c44-0b6d1f7e2a90",
            "019abf3e-5d3c-7a11-8c44-0b6d1f7e2a91",
        ];
        let [tried, untried]: [OutgoingId; 2] = ids.map(|id| id.parse().unwrap());
        let unwritten = Updates {
            unpublished: vec![
                Unpublished::again(tried, 1, "full", Duration::ZERO),
                Unpublished::untried(untried, 1, "no broker", Duration::ZERO),
            ],
            ..Updates::default()
        };
        let mut updates = Updates::default();
        let left = updates.put_back(unwritten);
        assert_eq!(left.ids().collect::<Vec<_>>(), [untried]);
        assert_eq!(updates.ids().collect::<Vec<_>>(), [tried]);
    }
}
