//! A message made ready to be handled: decoded, with its key and its fingerprint.
//!
//! A transport makes one [`Prepared`] of each delivery and hands it to [`Executor::handle`](crate::Executor::handle),
//! if need be several times. What must stay true:
//!
//! - The key is the same each time.
//! - The owner stays the same while nothing has run, so that it gets a claim back whose answer was lost.
//! - The user's code that panics here ends its message, not the worker.

use std::{borrow::Cow, fmt, time::SystemTime};

use super::{
    given_up_number::GiveUpReason,
    guarded::{self, caught},
    history::History,
    in_flight::Watcher,
};
use crate::{
    error_chain::ErrorChain,
    executor::{Execution, ExecutionKind},
    handler::{Answer, Late, Mode as _, Operation, Outcome, Policy, Refusal},
    message::{Envelope, Key, KeyError, Position, SequencePlace, SessionKey, SessionPlace},
    random,
    store::{Claim, ClaimRequest, MarkMove, StreamLease},
};

/// A message that has a key and a body that its handler understands.
///
/// It can be handed to [`Executor::handle`](crate::Executor::handle) again, as the same owner,
/// when nothing ran.
pub struct Prepared<H: Operation> {
    pub(super) envelope: Envelope,
    /// What is claimed. The owner stays the same while nothing has run: it gets a claim back whose answer was lost.
    pub(super) request: ClaimRequest,
    /// The handler's policy, without what would let a message of a session or a sequence run unclaimed, and without
    /// what is for late messages, unless this is one.
    pub(super) policy: Policy,
    /// Why it has no usable key. It then runs under a random key that nobody else has, because its policy says so.
    pub(super) keyless: Option<KeyError>,
    pub(super) history: History,
    /// The mark of its stream, if that is its record.
    pub(super) mark: Option<MarkBefore>,
    /// Why its number is given up instead of being handled.
    pub(super) given_up: Option<GiveUpReason>,
    /// Notices when those end that work on its key in this process. It is made before each claim, so that no end is
    /// missed between the store's answer and the wait.
    pub(super) watcher: Option<Watcher>,
    /// What the store would answer if it were asked again; used once.
    pub(super) answered: Option<Claim>,
    /// `None` while an attempt has it, and afterwards: the next attempt decodes it again.
    pub(super) body: Option<H::Message>,
}

impl<H: Operation> Prepared<H> {
    /// Decodes the message, [validates](Operation::validate) it and finds its key.
    ///
    /// A numbered message that cannot be decoded is a message all the same if its envelope tells its
    /// [place](crate::handler::SequenceOptions::in_envelope): handled, its number is given up, so that none of its
    /// sequence waits for it. So is one that is not valid.
    ///
    /// # Errors
    /// How the message ended, if it cannot be decoded, is not valid or has no usable key.
    pub fn new(envelope: Envelope, policy: &Policy) -> Result<Self, Ended<H>> {
        let named = caught(|| name::<H>(&envelope, policy)).unwrap_or_else(|panic| {
            let error = format!("decoding panicked: {panic}");
            Err(Execution::Undecodable { error })
        });
        match named {
            Ok(named) => Ok(Self {
                body: Some(named.body),
                keyless: named.keyless,
                given_up: named.given_up,
                ..Self::of(envelope, named.request, policy)
            }),
            Err(Execution::Undecodable { error }) => {
                let given_up = GiveUpReason::Undecodable(error.clone());
                let given_up = Self::given_up(envelope, policy, given_up);
                given_up.ok_or(Execution::Undecodable { error })
            }
            Err(ended) => Err(ended),
        }
    }

    /// A numbered message that its publisher has withdrawn: handled, its number is given up, and the
    /// handler does not run. `None` if its envelope does not tell its
    /// [place](crate::handler::SequenceOptions::in_envelope).
    pub fn withdrawn(envelope: Envelope, policy: &Policy) -> Option<Self> {
        Self::given_up(envelope, policy, GiveUpReason::Withdrawn)
    }

    /// A numbered message whose number is given up; `None` if the envelope alone does not tell its place.
    fn given_up(envelope: Envelope, policy: &Policy, why: GiveUpReason) -> Option<Self> {
        // In a session it is claimed at its place there, not at one in a sequence.
        if envelope.session().is_some() {
            return None;
        }
        let place = caught(|| H::SEQUENCE?.place_in(&envelope)).ok().flatten()?;
        let request = ClaimRequest::in_sequence(place, policy);
        Some(Self {
            given_up: Some(why),
            ..Self::of(envelope, request, policy)
        })
    }

    /// A message that claims this, without a body and without a history.
    fn of(envelope: Envelope, request: ClaimRequest, policy: &Policy) -> Self {
        let policy = request.heeded_by(policy);
        let policy = if is_late::<H>(&envelope, &request, &policy) {
            policy
        } else {
            policy.in_time()
        };
        Self {
            policy,
            request,
            keyless: None,
            history: History::default(),
            mark: None,
            given_up: None,
            watcher: None,
            answered: None,
            body: None,
            envelope,
        }
    }

    /// Says whether this is a dead letter that a person sent again.
    pub fn replay(mut self, replay: bool) -> Self {
        self.request = self.request.replay(replay);
        self.sent_again(replay).begins_unless(replay)
    }

    /// Says whether a person has sent it again, now or at an earlier delivery: then it is never
    /// [late](crate::handler::Late), and may have been attempted before, as one that is
    /// [redelivered](Self::redelivered).
    pub fn sent_again(mut self, sent_again: bool) -> Self {
        if sent_again {
            self.policy = self.policy.in_time();
            self.history.attempted = true;
        }
        self
    }

    /// Says whether it may have been attempted before: the transport delivers it again, or it comes
    /// back for another attempt. A handler that is [recorded in its own table](crate::handler::RecordedBy)
    /// then counts the attempt before it runs, and a [sequence](SequencePlace::begins) does not begin with
    /// it. An atomic handler neither shares a transaction for it nor claims before its transaction is open: if it is
    /// what ends the process, all that had claimed lose an attempt. So say it of all that may have been.
    pub fn redelivered(mut self, redelivered: bool) -> Self {
        self.history.attempted |= redelivered;
        self.begins_unless(redelivered)
    }

    /// Says how many attempts have been made before, as far as the transport knows. What runs without
    /// a claim, because it is only [observed](crate::handler::Enforcement::Observe), say, has no other count.
    pub fn attempted_before(mut self, times: u32) -> Self {
        self.history.earlier = times;
        self
    }

    /// Has the mark of its stream moved over it, from here to there, in the transaction of its handler. For a message
    /// of a handler whose messages the [mark records](crate::Executor::records_by_mark), that is handled by itself. If
    /// another worker has the stream by then, or its mark was set, it ends as [`Execution::LeaseLost`].
    #[doc(hidden)]
    pub fn moving_mark(mut self, mark: Option<MarkMove<'_>>) -> Self {
        self.mark = mark.map(|MarkMove { lease, from, to }| MarkBefore {
            lease: lease.clone(),
            from,
            to,
        });
        self
    }

    /// How the message would have ended when it was handled last, if its policy were enforced and not
    /// to [observe](crate::handler::Enforcement::Observe); `None` if it would have run all the same.
    pub fn would_have_been(&self) -> Option<ExecutionKind> {
        self.history.would_have_been
    }

    /// Whether nothing is claimed for it: it has no usable key and runs all the same, or its handler is
    /// [plain](crate::handler::Enforcement::Plain).
    pub fn is_unclaimed(&self) -> bool {
        self.keyless.is_some() || self.policy.is_plain()
    }

    /// Waits until somebody else who works on its key in this process has ended, since this was handled
    /// last; for ever if there is nobody. A hint for when to handle it again, no more.
    ///
    /// If the key was completed then, and this is a copy of what was handled, it [is
    /// answered](Self::is_answered).
    ///
    /// # Cancel safety
    /// A dropped call loses no hint.
    pub async fn holder_ended(&mut self) {
        match &mut self.watcher {
            Some(watcher) => self.answered = watcher.holder_ended(&self.request).await,
            None => std::future::pending().await,
        }
    }

    /// Whether it is known how it ends: handled, it neither runs nor asks the store.
    pub fn is_answered(&self) -> bool {
        self.answered.is_some()
    }

    /// A message that came before does not begin a sequence: it may have been done long ago, like those after it, and
    /// the mark would wait for these for ever.
    fn begins_unless(mut self, came_before: bool) -> Self {
        if let Position::Sequence(place) = &mut self.request.position {
            place.begins &= !came_before;
        }
        self
    }

    /// What a copy of the message is answered with, by what is remembered of it: the output, for the
    /// handler as it is [now](Operation::recall).
    ///
    /// # Errors
    /// The refusal that is the answer instead.
    pub fn recall(outcome: &Outcome) -> Result<Cow<'_, [u8]>, Refusal> {
        match outcome.answer() {
            Answer::Output(output) => guarded::recall::<H>(output),
            Answer::Rejected(refusal) | Answer::Forgotten(refusal) => Err(refusal),
        }
    }

    /// The message's key.
    pub fn key(&self) -> &Key {
        &self.request.key
    }

    /// Where it stands in its producer's sequence, if it is a numbered message.
    pub fn place_in_sequence(&self) -> Option<&SequencePlace> {
        self.request.position.sequence()
    }

    /// The next claim is a replay's: it starts over, though the message was late.
    pub fn start_over(&mut self) {
        self.request.replay = true;
    }

    /// The next claim is a new owner's, and a further attempt: an owner whose lease was ended never
    /// acquires again, and a replay starts over only once.
    pub fn renew_owner(&mut self) {
        self.request.owner = crate::store::Owner::new();
        self.request.replay = false;
    }

    /// The body for an attempt, decoded anew if an earlier attempt has used it up. The error says what is wrong with
    /// it.
    pub(super) fn take(&mut self) -> Result<H::Message, String> {
        match self.body.take() {
            Some(body) => Ok(body),
            None => guarded::decode::<H>(&self.envelope),
        }
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

/// A mark that is to move when a message is done.
#[derive(Debug)]
pub(super) struct MarkBefore {
    lease: StreamLease,
    from: u64,
    to: u64,
}

impl MarkBefore {
    pub(super) fn to_move(&self) -> MarkMove<'_> {
        MarkMove::new(&self.lease, self.from, self.to)
    }
}

/// A message that was decoded, and what is claimed for it.
struct Named<H: Operation> {
    body: H::Message,
    request: ClaimRequest,
    keyless: Option<KeyError>,
    given_up: Option<GiveUpReason>,
}

type Ended<H> = Execution<<H as Operation>::Output, <H as Operation>::Error>;

/// Decodes and validates the message, and finds its key and its fingerprint. It runs the operation's own code, which
/// may panic: the caller catches that.
fn name<H: Operation>(envelope: &Envelope, policy: &Policy) -> Result<Named<H>, Ended<H>> {
    let body = H::decode(envelope).map_err(|error| Execution::Undecodable {
        error: ErrorChain::of(&error).to_string(),
    })?;
    // Before its key is looked for: a field that the key needs may be what is wrong.
    if let Err(error) = validate::<H>(&body) {
        // Only its number is claimed, to be given up.
        return match place::<H>(&body, envelope) {
            Some(place) => Ok(Named {
                request: ClaimRequest::in_sequence(place, policy),
                body,
                keyless: None,
                given_up: Some(GiveUpReason::Invalid(error)),
            }),
            None => Err(Execution::Invalid { error }),
        };
    }
    // If the policy is plain, nothing is claimed, and no key is looked for. Otherwise the key; and if there is none,
    // the policy says whether the message runs all the same.
    let plain = policy.is_plain().then(|| nameless::<H>(envelope, policy));
    let plain = plain.flatten();
    let (request, keyless) = match plain.map_or_else(|| request::<H>(&body, envelope, policy), Ok) {
        Ok(request) => (request, None),
        Err(error) => match nameless::<H>(envelope, policy) {
            Some(request) if policy.runs_keyless() => (request, Some(error)),
            _ => return Err(Execution::Keyless { error }),
        },
    };
    let fingerprint = H::fingerprint(&body, envelope);
    Ok(Named {
        body,
        request: request.fingerprint(fingerprint),
        keyless,
        given_up: None,
    })
}

/// Whether all that a store knew of its key may be forgotten. A timestamp in whole seconds is up to a second before the
/// message: it is late so much too soon, and never too late.
fn is_late<H: Operation>(envelope: &Envelope, request: &ClaimRequest, policy: &Policy) -> bool {
    if policy.late() == Late::Run || !H::Mode::FORGETS || !request.position.is_none() {
        return false;
    }
    let sent_at = envelope.sent_at(policy.time_header());
    // A time in the future tells nothing, but that clocks differ.
    let age = sent_at.and_then(|at| SystemTime::now().duration_since(at).ok());
    age.is_some_and(|age| age >= policy.retention())
}

/// The error says what is wrong with the message, a panic included.
fn validate<H: Operation>(body: &H::Message) -> Result<(), String> {
    caught(|| H::validate(body).map_err(|error| error.to_string()))
        .unwrap_or_else(|panic| Err(format!("validating panicked: {panic}")))
}

/// Where a message stands in its sequence. `None` in a session: it is claimed at its place there.
fn place<H: Operation>(body: &H::Message, envelope: &Envelope) -> Option<SequencePlace> {
    let numbered = H::SEQUENCE.filter(|_| envelope.session().is_none())?;
    numbered.place(body, envelope).ok()
}

/// Stands for the claim of a message that has no key and runs all the same. Its key is random, so nothing else has it,
/// and the store is never asked about it.
///
/// `None` if nothing like it can run without a claim: it has its place in a session or a sequence, or its handler
/// writes in the store's transaction.
fn nameless<H: Operation>(envelope: &Envelope, policy: &Policy) -> Option<ClaimRequest> {
    if !H::Mode::RUNS_UNCLAIMED || envelope.session().is_some() || H::SEQUENCE.is_some() {
        return None;
    }
    let key = Key::new(H::SCOPE, format!("keyless-{}", random::name()));
    Some(ClaimRequest::new(key.ok()?, policy))
}

/// What is claimed: the place in the client's session, if the message came in one; else the place in a producer's
/// sequence, if the handler takes numbered messages; else the handler's key.
fn request<H: Operation>(
    body: &H::Message,
    envelope: &Envelope,
    policy: &Policy,
) -> Result<ClaimRequest, KeyError> {
    if let Some(session) = envelope.session() {
        let key = SessionKey::new(H::SCOPE, &session.id)?;
        let place = SessionPlace::new(key, session.number, session.awaited);
        return Ok(ClaimRequest::in_session(place, policy));
    }
    match &H::SEQUENCE {
        Some(numbered) => {
            let place = numbered.place(body, envelope)?;
            Ok(ClaimRequest::in_sequence(place, policy))
        }
        None => Ok(ClaimRequest::new(H::key(body, envelope)?, policy)),
    }
}
