//! Requests whose session or sequence a store does not keep: they are refused before it is asked.
//!
//! Every claim comes through here, in [`Job::of`](super::attempt::Job::of); so does a claim of the local memory. What
//! must stay true: no such request reaches a store that does not keep its position. That store would claim the key as
//! one that stands alone: a number would run far ahead of its sequence, a request after its session has ended. So the
//! author of a store that keeps neither need not think of them.
// docs/decisions/0034

use crate::{
    message::{Position, PositionKind},
    store::{ClaimRequest, Store, StoreError},
};

/// Refuses a request whose position is in what the store does not keep. The error is [`StoreError::Refused`],
/// which is no outage: such a message must not run without the store either.
pub(super) fn refuse_unsupported_position(
    store: &impl Store,
    request: &ClaimRequest,
) -> Result<(), StoreError> {
    let key = &request.key;
    let refusal = match &request.position {
        Position::Session(place) if !store.keeps(PositionKind::Session) => format!(
            "this store keeps no sessions, and `{key}` is a request of session `{}`: use a store \
             that does, `PostgresStore` say",
            place.session
        ),
        Position::Sequence(place) if !store.keeps(PositionKind::Sequence) => format!(
            "this store keeps no sequences, and `{key}` is a message of sequence `{}`: use a store \
             that does, `PostgresStore` say",
            place.sequence
        ),
        Position::None | Position::Session(_) | Position::Sequence(_) => return Ok(()),
    };
    Err(StoreError::Refused(refusal.into()))
}
