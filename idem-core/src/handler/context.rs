//! What a handler's further parameters are made from.

use std::{borrow::Cow, collections::BTreeMap, fmt, sync::Arc};

use crate::{
    handler::Outbox,
    message::{Envelope, HeaderSource, Key},
};

/// One attempt's surroundings: the application's state, the message's envelope, and the lease.
///
/// ```
/// use idem_core::{FromContext, handler::{Context, Rejection}};
///
/// /// For logs: which message this is, and which try.
/// struct Label(String);
///
/// impl<S> FromContext<S> for Label {
///     fn from_context(context: &Context<'_, S>) -> Result<Self, Rejection> {
///         Ok(Self(format!("{}, attempt {}", context.key, context.attempt.number())))
///     }
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Context<'a, S> {
    /// The state given to the worker.
    pub state: &'a S,
    /// The message as it was delivered.
    pub envelope: &'a Envelope,
    /// The message's key.
    pub key: &'a Key,
    /// Which attempt this is.
    pub attempt: Attempt,
    /// Where it publishes, if it does.
    pub(crate) outbox: Option<Outbox>,
}

/// The outbox of the message that a handler is called with.
#[doc(hidden)]
pub fn outbox<S>(context: &Context<'_, S>) -> Outbox {
    let outbox = context.outbox.clone();
    outbox.expect("the operation says that it publishes")
}

/// A handler's parameter, made from the attempt's [`Context`].
///
/// ```
/// use idem_core::{FromContext, handler::{Context, Rejection}};
///
/// struct Tenant(String);
///
/// impl<S> FromContext<S> for Tenant {
///     fn from_context(context: &Context<'_, S>) -> Result<Self, Rejection> {
///         let tenant = context.envelope.header("x-tenant");
///         tenant.map(|name| Tenant(name.into_owned())).ok_or_else(|| Rejection::new("no x-tenant header"))
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a parameter of a handler",
    label = "not an extractor",
    note = "a part of the worker's state is taken as `State<{Self}>`",
    note = "the first parameter is the message; further ones are `State<T>`, `Attempt`, `FencingToken`, `Headers`, `Key`, one `&mut` connection or transaction, an `Outbox` under that name, or a type of your own that implements `FromContext<S>`"
)]
// docs/decisions/0006
pub trait FromContext<S>: Sized {
    /// Makes the parameter.
    ///
    /// # Errors
    /// A message that lacks what the parameter needs is dead-lettered with the rejection's words;
    /// the handler never runs.
    fn from_context(context: &Context<'_, S>) -> Result<Self, Rejection>;
}

/// Why a handler's parameter could not be made.
///
/// ```
/// use idem_core::handler::Rejection;
///
/// fn priority(header: Option<&str>) -> Result<u8, Rejection> {
///     let text = header.ok_or_else(|| Rejection::new("no x-priority header"))?;
///     text.parse().map_err(|_| Rejection::new(format!("x-priority is `{text}`: send 0 to 255")))
/// }
///
/// assert_eq!(priority(Some("high")).unwrap_err().to_string(), "x-priority is `high`: send 0 to 255");
/// ```
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Rejection {
    reason: Cow<'static, str>,
}

crate::debug_as_chain!(Rejection);

impl Rejection {
    /// Says what the message lacks.
    pub fn new(reason: impl Into<Cow<'static, str>>) -> Self {
        Self {
            reason: reason.into(),
        }
    }
}

/// A part of the application's state, cloned for the handler.
///
/// ```
/// use idem_core::{Failed, State, idempotent};
/// # #[derive(Clone)] struct Mailer;
/// # impl Mailer { async fn send(&self, _to: &str) -> Result<(), std::io::Error> { Ok(()) } }
/// # #[derive(serde::Deserialize)] struct Welcome { to: String }
///
/// #[idempotent(key = "to", scope = "mails.welcome")]
/// async fn welcome(mail: Welcome, State(mailer): State<Mailer>) -> Result<(), Failed> {
///     mailer.send(&mail.to).await?;
///     Ok(())
/// }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct State<T>(pub T);

/// How to get a part out of the application's state. Every state is a part of itself. Derived for a struct, each of its
/// fields is one.
///
/// ```
/// use idem_core::FromRef;
///
/// #[derive(Clone)]
/// struct Mailer;
///
/// /// The worker's state. A handler asks for `State<App>`, or for `State<Mailer>`.
/// #[derive(Clone)]
/// struct App { mailer: Mailer }
///
/// impl FromRef<App> for Mailer {
///     fn from_ref(app: &App) -> Self {
///         app.mailer.clone()
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "the worker's state `{S}` does not hold a `{Self}`",
    label = "not part of the state",
    note = "give the worker its state with `.state(…)` before `.consume(…)`, or derive `FromRef` for `{S}`, or write `impl FromRef<{S}> for {Self}`"
)]
pub trait FromRef<S> {
    /// Clones the part.
    fn from_ref(state: &S) -> Self;
}

impl<T: Clone> FromRef<T> for T {
    fn from_ref(state: &T) -> Self {
        state.clone()
    }
}

impl<S, T: FromRef<S>> FromContext<S> for State<T> {
    fn from_context(context: &Context<'_, S>) -> Result<Self, Rejection> {
        Ok(Self(T::from_ref(context.state)))
    }
}

/// Which attempt at a key this is.
///
/// ```
/// use idem_core::{Attempt, Failed, idempotent};
/// # #[derive(serde::Deserialize)] struct Transfer { id: String }
/// # async fn is_booked(_: &str) -> bool { true }
/// # async fn book(_: &str) {}
///
/// #[idempotent(key = "id", scope = "bank.transfer")]
/// async fn transfer(order: Transfer, attempt: Attempt) -> Result<(), Failed> {
///     if attempt.is_in_doubt() && is_booked(&order.id).await {
///         return Ok(());
///     }
///     book(&order.id).await;
///     Ok(())
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    number: u32,
    max: u32,
    token: FencingToken,
    in_doubt: bool,
    protected: bool,
}

impl Attempt {
    /// The first of several attempts: for calling a handler by hand, in a unit test.
    pub const fn first() -> Self {
        Self::numbered(1)
    }

    /// An attempt that is not the last, with its number as its token: for calling a handler by
    /// hand, in a unit test.
    pub const fn numbered(number: u32) -> Self {
        Self {
            number,
            max: u32::MAX,
            token: FencingToken::new(number as i64),
            in_doubt: false,
            protected: true,
        }
    }

    /// What the store says of it, and how many there may be.
    pub(crate) const fn recorded(
        number: u32,
        max: u32,
        token: FencingToken,
        in_doubt: bool,
    ) -> Self {
        Self {
            number,
            max,
            token,
            in_doubt,
            protected: true,
        }
    }

    /// The first of several, which no record counts.
    pub(crate) const fn unrecorded(max: u32) -> Self {
        Self {
            number: 1,
            max,
            token: FencingToken::new(0),
            in_doubt: false,
            protected: true,
        }
    }

    /// Nobody gave it a token: a downstream system that has seen any refuses it.
    pub(crate) fn unprotected(mut self) -> Self {
        self.token = FencingToken::new(0);
        self.protected = false;
        self
    }

    /// An atomic handler's earlier attempt was rolled back: there is nothing to doubt.
    pub(crate) fn without_doubt(mut self) -> Self {
        self.in_doubt = false;
        self
    }

    /// It was called before, in a batch that failed or was dropped in the middle.
    pub(crate) fn in_doubt(mut self) -> Self {
        self.in_doubt = true;
        self
    }

    /// The number of this attempt, from 1.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Whether a failure of this attempt dead-letters the message.
    pub fn is_last(&self) -> bool {
        self.number >= self.max
    }

    /// The number to pass to a downstream system that refuses older ones. 0 if nobody gave one: see
    /// [`is_protected`](Self::is_protected); and in the first attempt of a handler that is
    /// [recorded in its own table](crate::handler::RecordedBy).
    pub fn token(&self) -> FencingToken {
        self.token
    }

    /// Whether the attempt before this one ended without a word, or the batch has failed that the message was called
    /// with first: its effects may or may not have happened. Never so for an atomic handler.
    pub fn is_in_doubt(&self) -> bool {
        self.in_doubt
    }

    /// Whether the store has granted it: always, unless the policy is to fail open, or to observe.
    /// Without a grant another process may be at the same work, or have done it, and the
    /// [`token`](Self::token) is 0.
    pub fn is_protected(&self) -> bool {
        self.protected
    }
}

impl<S> FromContext<S> for Attempt {
    fn from_context(context: &Context<'_, S>) -> Result<Self, Rejection> {
        Ok(context.attempt)
    }
}

/// A number that grows with every claim of a key; a write that carries an older one is refused.
///
/// ```
/// use idem_core::{Failed, FencingToken, idempotent};
/// # #[derive(serde::Deserialize)] struct Report { name: String, text: String }
/// # async fn put(_: &str, _: &str, _: i64) -> Result<(), std::io::Error> { Ok(()) }
///
/// /// The file service refuses a token that is lower than the last that it saw for this name.
/// #[idempotent(key = "name", scope = "reports.upload")]
/// async fn upload(report: Report, token: FencingToken) -> Result<(), Failed> {
///     put(&report.name, &report.text, token.get()).await?;
///     Ok(())
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(i64);

impl FencingToken {
    /// A token as a store has kept it.
    pub const fn new(token: i64) -> Self {
        Self(token)
    }

    /// The number.
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<S> FromContext<S> for FencingToken {
    fn from_context(context: &Context<'_, S>) -> Result<Self, Rejection> {
        Ok(context.attempt.token)
    }
}

impl<S> FromContext<S> for Key {
    fn from_context(context: &Context<'_, S>) -> Result<Self, Rejection> {
        Ok(context.key.clone())
    }
}

/// The message's headers.
///
/// ```
/// use idem_core::{Failed, Headers, idempotent};
/// # #[derive(serde::Deserialize)] struct Order { id: String }
///
/// #[idempotent(key = "id", scope = "orders.file")]
/// async fn file(order: Order, headers: Headers) -> Result<String, Failed> {
///     let tenant = headers.get("x-tenant").ok_or_else(|| Failed::rejected("no tenant"))?;
///     Ok(format!("{tenant}/{}", order.id))
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let filed = file(Order { id: "o-17".into() }, Headers::from([("x-tenant", "acme")])).await;
/// assert_eq!(filed.unwrap(), "acme/o-17");
/// # });
/// ```
#[derive(Clone)]
pub struct Headers(Arc<dyn HeaderSource>);

/// Headers for calling a handler by hand, in a unit test.
impl<const N: usize> From<[(&str, &str); N]> for Headers {
    fn from(headers: [(&str, &str); N]) -> Self {
        let owned = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self(Arc::new(BTreeMap::from(owned)))
    }
}

impl Headers {
    /// A header's value as text.
    pub fn get(&self, name: &str) -> Option<Cow<'_, str>> {
        self.0.get(name)
    }

    /// The names of all headers.
    pub fn names(&self) -> Vec<&str> {
        self.0.names()
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Headers").field(&self.0.names()).finish()
    }
}

impl<S> FromContext<S> for Headers {
    fn from_context(context: &Context<'_, S>) -> Result<Self, Rejection> {
        Ok(Self(context.envelope.headers()))
    }
}
