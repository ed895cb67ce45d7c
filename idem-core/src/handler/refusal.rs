//! The reply that is an error.

use std::{borrow::Cow, fmt};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::handler::cut_error;

/// A reply that is an error: a code for programs, a message for people, and the typed error of a
/// handler that has one.
///
/// As JSON it is `{"code":…,"message":…,"error":…}`, without `error` if there is none. The codes
/// that idem gives are constants here, and frozen; a [`Failure`](crate::Failure) may have others.
///
/// ```
/// use idem_core::{Failure, Verdict, handler::Refusal};
///
/// #[derive(Debug)]
/// struct Taken { by: String }
///
/// # impl std::fmt::Display for Taken {
/// #     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
/// #         write!(f, "{} has it", self.by)
/// #     }
/// # }
/// impl Failure for Taken {
///     fn verdict(&self) -> Verdict { Verdict::Reject }
///     fn refusal(&self) -> Refusal { Refusal::new("taken", self.to_string()) }
/// }
///
/// assert_eq!(Taken { by: "ann".into() }.refusal().code(), "taken");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    code: Cow<'static, str>,
    message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<Value>,
}

impl Refusal {
    /// The handler rejected the request for good.
    pub const REJECTED: &'static str = "rejected";
    /// The attempts are used up.
    pub const EXHAUSTED: &'static str = "exhausted";
    /// The body, or a parameter of the handler, could not be made out.
    pub const UNDECODABLE: &'static str = "undecodable";
    /// The request's properties, exchange or routing key cannot be read by the AMQP client.
    pub const UNREADABLE: &'static str = "unreadable";
    /// The handler's [`validate`](crate::handler::Operation::validate) rejected it.
    pub const INVALID: &'static str = "invalid";
    /// The request has no usable key.
    pub const KEYLESS: &'static str = "keyless";
    /// The key stands for other content.
    pub const KEY_REUSED: &'static str = "key-reused";
    /// An earlier attempt ended without a word: its effects may have happened.
    pub const IN_DOUBT: &'static str = "in-doubt";
    /// It is older than its key would be remembered, or its number's turn has passed without it: it was not handled,
    /// unless a copy was.
    pub const LATE: &'static str = "late";
    /// The output has more bytes than are remembered. A leased handler's effect has happened, an
    /// atomic one's was rolled back.
    pub const OUTCOME_TOO_LARGE: &'static str = "outcome-too-large";
    /// JSON cannot express the output. A leased handler's effect has happened, an atomic one's was
    /// rolled back.
    pub const OUTCOME_NOT_SERIALIZABLE: &'static str = "outcome-not-serializable";
    /// It was done, and what is remembered of it cannot be read any more.
    pub const OUTCOME_OUTDATED: &'static str = "outcome-outdated";
    /// It was done before, says the handler, and nobody knows with what output.
    pub const DONE_BEFORE: &'static str = "done-before";
    /// The request's number is below the lowest whose answer its session still awaits.
    pub const STALE: &'static str = "stale";
    /// The session is unknown, or has expired.
    pub const SESSION_EXPIRED: &'static str = "session-expired";
    /// The request's number is further ahead than its session allows.
    pub const BEYOND_WINDOW: &'static str = "beyond-window";

    /// The longest code that is kept, in bytes.
    pub const MAX_CODE_LEN: usize = 255;

    /// A refusal with this code; code and message are cut to [`Refusal::MAX_CODE_LEN`] and
    /// [`Release::MAX_ERROR_LEN`](crate::store::Release::MAX_ERROR_LEN) bytes.
    pub fn new(code: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        let mut code = code.into();
        if code.len() > Self::MAX_CODE_LEN {
            let cut = code.floor_char_boundary(Self::MAX_CODE_LEN);
            code.to_mut().truncate(cut);
        }
        Self {
            code,
            message: cut_error(message.into()),
            error: None,
        }
    }

    /// A handler's rejection: [`Refusal::REJECTED`].
    pub fn rejected(message: impl Into<String>) -> Self {
        Self::new(Self::REJECTED, message)
    }

    /// Adds the typed error.
    #[must_use]
    pub fn typed(mut self, error: Value) -> Self {
        self.error = Some(error);
        self
    }

    /// What kind of refusal it is, for programs.
    pub fn code(&self) -> &str {
        &self.code
    }

    /// Why, in one line, for people.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The handler's typed error, if it has one.
    pub fn error(&self) -> Option<&Value> {
        self.error.as_ref()
    }

    /// The body of the reply.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("strings and a JSON value are expressible as JSON")
    }

    /// The same without the typed error.
    pub(crate) fn untyped(self) -> Self {
        Self {
            error: None,
            ..self
        }
    }
}

/// The message.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
