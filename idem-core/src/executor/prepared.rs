//! A message made ready: decoded, named, fingerprinted.

use std::{error::Error as _, fmt};

use super::guarded::caught;
use crate::{ClaimRequest, DecodeError, Envelope, Execution, Fingerprint, Key, Operation, Policy};

/// A message that has a key and a body that its handler understands.
///
/// It can be handed to [`Executor::handle`](crate::Executor::handle) again, as the same owner,
/// when nothing ran.
pub struct Prepared<H: Operation> {
    pub(super) envelope: Envelope,
    pub(super) request: ClaimRequest,
    pub(super) policy: Policy,
    body: Option<H::Message>,
}

impl<H: Operation> Prepared<H> {
    /// Decodes the message and finds its key.
    ///
    /// # Errors
    /// How the message ended, if it cannot be decoded or has no usable key.
    pub fn new(envelope: Envelope, policy: &Policy) -> Result<Self, Ended<H>> {
        let (body, key, fingerprint) = caught(|| name::<H>(&envelope)).unwrap_or_else(|panic| {
            let error = format!("decoding panicked: {panic}");
            Err(Execution::Undecodable { error })
        })?;
        Ok(Self {
            request: ClaimRequest::new(key, policy).fingerprint(fingerprint),
            policy: *policy,
            body: Some(body),
            envelope,
        })
    }

    /// Says whether this is a dead letter that a person sent again.
    pub fn replay(mut self, replay: bool) -> Self {
        self.request = self.request.replay(replay);
        self
    }

    /// The message's key.
    pub fn key(&self) -> &Key {
        &self.request.key
    }

    /// The next claim is a new owner's, and a further attempt: an owner whose lease was ended never
    /// acquires again, and a replay starts over only once.
    pub fn renew_owner(&mut self) {
        self.request.owner = crate::Owner::new();
        self.request.replay = false;
    }

    pub(super) fn take(&mut self) -> Result<H::Message, String> {
        match self.body.take() {
            Some(body) => Ok(body),
            None => caught(|| H::decode(&self.envelope).map_err(|error| describe(&error)))
                .unwrap_or_else(|panic| Err(format!("decoding panicked: {panic}"))),
        }
    }

    pub(super) fn put_back(&mut self, body: H::Message) {
        self.body = Some(body);
    }
}

impl<H: Operation> fmt::Debug for Prepared<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared")
            .field("envelope", &self.envelope)
            .field("request", &self.request)
            .finish_non_exhaustive()
    }
}

type Named<H> = (<H as Operation>::Message, Key, Option<Fingerprint>);
type Ended<H> = Execution<<H as Operation>::Output, <H as Operation>::Error>;

/// Runs the operation's own code, which may panic.
fn name<H: Operation>(envelope: &Envelope) -> Result<Named<H>, Ended<H>> {
    let body = H::decode(envelope).map_err(|error| Execution::Undecodable {
        error: describe(&error),
    })?;
    let key = H::key(&body, envelope).map_err(|error| Execution::Keyless { error })?;
    let fingerprint = H::fingerprint(&body, envelope);
    Ok((body, key, fingerprint))
}

/// What the decoder said is what the sender needs to know.
fn describe(error: &DecodeError) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
