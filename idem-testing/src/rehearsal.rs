//! What `assert_idempotent` asks of a harness, whatever its transport.

use std::{borrow::Cow, fmt};

use idem_core::executor::ExecutionKind;

use crate::{Call, CrashPoint};

/// The harnesses are this crate's: a further method of [`Rehearsal`] breaks nobody.
pub(crate) mod sealed {
    pub trait Rehearsal {}
}

/// What [`assert_idempotent`](super::assert_idempotent) and [`assert_distinct_keys`](super::assert_distinct_keys) ask
/// of a harness: [`Harness`](crate::Harness), or that of `amqp`. Sealed.
pub trait Rehearsal: sealed::Rehearsal + Sized {
    /// What is delivered.
    type Message: Clone;

    /// Whether somebody waits for the answer, who may go away, and sends keys that need not fit what comes with them.
    #[doc(hidden)]
    const HAS_CLIENT: bool = false;

    /// The handler's scope.
    fn scope(&self) -> &'static str;

    /// What a report calls whatever handles this message.
    #[doc(hidden)]
    fn name_of(&self, _: &Self::Message) -> Cow<'static, str> {
        self.scope().into()
    }

    /// Another harness, with fresh state and a fresh store.
    fn fresh(&self) -> impl Future<Output = Self>;

    /// A harness on the same state, whose store knows nothing.
    #[doc(hidden)]
    fn forgetful(&self) -> impl Future<Output = Self>;

    /// The message as it is delivered again.
    fn again(message: &Self::Message) -> Self::Message;

    /// Delivers the message until it is done with.
    fn ending(&self, message: &Self::Message) -> impl Future<Output = Ending>;

    /// Delivers it to two workers at once, and to each until it is done with.
    fn endings_at_once(&self, message: &Self::Message) -> impl Future<Output = [Ending; 2]>;

    /// Delivers the message to a worker that vanishes; if the delivery does not come as far as that, how
    /// it ended.
    fn crash_or_end(
        &self,
        point: CrashPoint,
        message: &Self::Message,
    ) -> impl Future<Output = Option<Ending>>;

    /// The next call of this kind has its effect, and its answer is lost.
    fn lose_answer(&self, call: Call);

    /// The next call of this kind does not reach the store.
    #[doc(hidden)]
    fn fail(&self, _: Call) {}

    /// Delivers the message for a client that goes away at this wait of the handler; if it does not come as far as
    /// that, how it ended.
    #[doc(hidden)]
    fn leave_or_end(
        &self,
        _wait: u32,
        message: &Self::Message,
    ) -> impl Future<Output = Option<Ending>> {
        async { Some(self.ending(message).await) }
    }

    /// Another message under the same key.
    #[doc(hidden)]
    fn with_other_content(_: &Self::Message) -> Option<Self::Message> {
        None
    }
}

/// What [`assert_idempotent_together`](super::assert_idempotent_together) asks of a harness besides:
/// [`Harness`](crate::Harness), or that of `amqp`. Sealed.
pub trait RehearsalTogether: Rehearsal {
    /// Delivers messages to one worker at once, and each until it is done with. How they ended, in their order.
    #[doc(hidden)]
    fn endings_together(&self, messages: &[Self::Message]) -> impl Future<Output = Vec<Ending>>;

    /// Delivers messages to one worker at once, which vanishes when any of them comes to this point; if none does, how
    /// the first one ended.
    #[doc(hidden)]
    fn crash_together_or_end(
        &self,
        point: CrashPoint,
        messages: &[Self::Message],
    ) -> impl Future<Output = Option<Ending>>;
}

/// How a message ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// Which kind of execution was its last.
    pub kind: ExecutionKind,
    /// Its key, if it has one.
    pub key: Option<String>,
    /// What went wrong.
    pub error: Option<String>,
}

impl Ending {
    /// Whether the work is done.
    pub(super) fn is_done(&self) -> bool {
        use ExecutionKind as Kind;
        matches!(
            self.kind,
            Kind::Executed | Kind::Unprotected | Kind::Observed | Kind::Duplicate | Kind::Refused
        )
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.kind)?;
        match &self.error {
            Some(error) => write!(f, ": {error}"),
            None => Ok(()),
        }
    }
}
