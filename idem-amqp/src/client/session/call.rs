//! A call of a session in the making.

use std::{fmt, future::IntoFuture, marker::PhantomData, pin::Pin, sync::Arc, time::Duration};

use idem_core::Request;
use tokio::time::{Instant, timeout_at};

use super::{
    super::{
        Again, CallError, Replied,
        message::{Message, Unsendable},
        ongoing_call::OngoingCall,
        retry_interval::RetryInterval,
    },
    Session,
    moment::Moment,
    request_window::Taken,
    shared_session::CallSlot,
    state::EndReason,
    verdict::{Known, Verdict, judge},
};
use crate::client::RequestNumber;

/// A call of a session in the making, by [`Session::call`] or [`Session::resume`]: awaiting it gives
/// the request its number, sends it and waits for the reply.
///
/// It waits while the window is full, and is saved if the session is kept anywhere. Then it is sent,
/// and sent again, as any [`Call`](crate::client::Call) is.
///
/// ```no_run
/// # use idem_amqp::{Request, client::CallError, session::Session};
/// # #[derive(serde::Serialize)] struct CreateLease { name: String }
/// # impl Request for CreateLease { type Reply = u64; type Error = String; }
/// # async fn example(session: Session) -> Result<(), CallError<String>> {
/// use std::time::Duration;
///
/// let request = CreateLease { name: "printer".into() };
/// let lease = session.call(&request).deadline(Duration::from_secs(10)).await?;
/// println!("lease {}", lease.reply);
/// # Ok(()) }
/// ```
///
/// # Errors
/// See [`CallError`]. [`CallError::Unknown`] says how to ask again: usually with
/// [`Session::resume`] and the number.
///
/// # Cancel safety
/// A dropped call that was sent is among [`Session::unanswered`], as one is that has ended as
/// `Unknown`. Until it is resumed its number is in use: it is given up when a later call needs its
/// place in the window. From then on no copy of it is handled any more.
#[must_use = "nothing is sent until the call is awaited"]
pub struct SessionCall<R> {
    session: Session,
    asked: Asked,
    deadline: Duration,
    timeout: Duration,
    request: PhantomData<fn() -> R>,
}

enum Asked {
    New(Result<Message, Unsendable>),
    /// This number once more.
    Again(RequestNumber),
}

type Source = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, thiserror::Error)]
enum Why {
    #[error("all places of the session's window ({0}) are taken by calls that wait for replies")]
    WindowFull(u32),
    #[error("the request was not saved before the deadline")]
    NotSaved,
    #[error("the session has ended")]
    Ended,
    #[error("another call of the session asks for number {0} now")]
    Asked(u64),
    #[error("number {0} was answered or given up: the session has its request no more")]
    Settled(u64),
    #[error("the session has given no request the number {0} yet")]
    Unused(u64),
}

/// A deadline that never comes.
const NEVER: Duration = Duration::from_hours(24 * 365 * 30);

impl<R> SessionCall<R> {
    pub(super) fn new(session: Session, message: Result<Message, Unsendable>) -> Self {
        Self::of(session, Asked::New(message))
    }

    pub(super) fn again(session: Session, number: RequestNumber) -> Self {
        Self::of(session, Asked::Again(number))
    }

    fn of(session: Session, asked: Asked) -> Self {
        let client = &session.shared().client;
        Self {
            deadline: client.deadline,
            timeout: client.timeout,
            session,
            asked,
            request: PhantomData,
        }
    }

    /// How long the call may take, all of it: waiting for a place in the window, saving, all tries.
    /// 30 s unless set for the call or its client.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// How long the first try may take before the request is sent again. As
    /// [`Call::timeout`](crate::client::Call::timeout).
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Adds a header to a new request; one that is resumed has the headers that it had. As
    /// [`Call::header`](crate::client::Call::header).
    pub fn header(mut self, name: &str, value: &str) -> Self {
        if let Asked::New(message) = self.asked {
            let message = message.and_then(|message| message.with_header(name, value));
            self.asked = Asked::New(message);
        }
        self
    }
}

impl<R: Request> SessionCall<R> {
    async fn make(self) -> Result<Replied<R::Reply>, CallError<R::Error>> {
        let begun = Instant::now();
        let deadline = begun.checked_add(self.deadline).unwrap_or(begun + NEVER);
        let (slot, message) = self.slot(deadline).await?;
        let (shared, place) = (self.session.shared(), slot.place);
        let message = message.in_session(&shared.id, place.number, place.awaited);
        let message = message.map_err(|error| CallError::Request(error.into()))?;
        let slot = self.save(slot, deadline).await?;
        let (verdict, slot) = self.converse(slot, message, deadline).await;
        self.conclude(verdict, slot, deadline).await
    }

    /// Saves the request before it is sent.
    async fn save(
        &self,
        slot: CallSlot,
        deadline: Instant,
    ) -> Result<CallSlot, CallError<R::Error>> {
        let (place, shared) = (slot.place, self.session.shared());
        let (source, unsent): (Source, fn(Source) -> _) =
            match timeout_at(deadline, shared.save()).await {
                Ok(Ok(())) => return Ok(slot),
                Ok(Err(error)) => (error.into(), CallError::Unsaved),
                Err(_) => (Why::NotSaved.into(), CallError::Unsent),
            };
        if place.doubtful {
            return Err(self.open(place.number, source));
        }
        slot.settle();
        // What failed may have been saved all the same, and what takes long will be.
        drop(shared.correct());
        Err(unsent(source))
    }

    /// Sends the request until there is a reply, and judges what became of it.
    async fn converse(
        &self,
        mut slot: CallSlot,
        message: Message,
        deadline: Instant,
    ) -> (Verdict, CallSlot) {
        let (place, shared) = (slot.place, self.session.shared());
        slot.mark_doubtful();
        let client = &shared.client.shared;
        let call = OngoingCall::new(
            message,
            RetryInterval::new(self.timeout),
            client.orders.clone(),
            &client.pending_calls,
        );
        let since = Moment::now();
        let left = deadline.saturating_duration_since(Instant::now());
        let told = call.hold_traced(left, &client.pending_calls).await;
        let known = Known {
            doubtful: place.doubtful,
            since: since.elapsed(),
            life: shared.life,
            closed: shared.state.ended() == Some(EndReason::Closed),
        };
        (judge(told, known), slot)
    }

    /// The number to ask with, and the request.
    async fn slot(&self, deadline: Instant) -> Result<(CallSlot, Message), CallError<R::Error>> {
        let shared = self.session.shared();
        let message = match &self.asked {
            Asked::New(message) => message.clone(),
            Asked::Again(request) => return self.slot_again(request),
        };
        let message = message.map_err(|error| CallError::Request(error.into()))?;
        let message = Arc::new(message);
        match timeout_at(deadline, shared.begin(&message)).await {
            Ok(Ok(slot)) => Ok((slot, Message::clone(&message))),
            Ok(Err(EndReason::Closed | EndReason::Expired)) => Err(CallError::SessionExpired),
            Err(_) => Err(CallError::Unsent(Why::WindowFull(shared.window).into())),
        }
    }

    fn slot_again(
        &self,
        request: &RequestNumber,
    ) -> Result<(CallSlot, Message), CallError<R::Error>> {
        let (shared, number) = (self.session.shared(), request.number);
        if request.session != shared.id {
            return Err(CallError::OtherSession {
                request: request.clone(),
                session: shared.id.clone(),
            });
        }
        let (slot, message) = shared.again(number).map_err(|taken| match taken {
            Taken::Asked => self.open(number, Why::Asked(number).into()),
            Taken::Settled => self.unknown(number, Again::Never, Why::Settled(number).into()),
            Taken::Unused => CallError::Request(Why::Unused(number).into()),
        })?;
        if shared.state.ended().is_some() {
            return Err(self.unknown(number, Again::Never, Why::Ended.into()));
        }
        Ok((slot, Message::clone(&message)))
    }

    async fn conclude(
        &self,
        verdict: Verdict,
        slot: CallSlot,
        deadline: Instant,
    ) -> Result<Replied<R::Reply>, CallError<R::Error>> {
        let (shared, number) = (self.session.shared(), slot.place.number);
        match verdict {
            Verdict::Answered(reply) => {
                slot.settle();
                reply.read::<R>()
            }
            Verdict::Expired => {
                shared.state.end(EndReason::Expired);
                self.never_ran(slot, deadline).await;
                Err(CallError::SessionExpired)
            }
            Verdict::Ended(why) => {
                shared.state.end(EndReason::Expired);
                Err(self.unknown(number, Again::Never, why))
            }
            Verdict::Stale(why) => {
                slot.settle();
                Err(self.unknown(number, Again::Never, why))
            }
            Verdict::Unroutable => {
                self.never_ran(slot, deadline).await;
                let queue = shared.client.queue.to_string();
                Err(CallError::Unroutable { queue })
            }
            Verdict::Unsent(why) => {
                self.never_ran(slot, deadline).await;
                Err(CallError::Unsent(why))
            }
            Verdict::Open(last) => Err(self.open(number, last)),
        }
    }

    /// It is told that the request did not run. So it must not be among those that may have after a
    /// restart, where it is now: that is saved before it is told, if there is time.
    async fn never_ran(&self, slot: CallSlot, deadline: Instant) {
        slot.settle();
        let _ = timeout_at(deadline, self.session.shared().correct()).await;
    }

    /// Nobody knows yet: the session can ask again.
    fn open(&self, number: u64, last: Source) -> CallError<R::Error> {
        let again = Again::Number(RequestNumber::new(self.session.id(), number));
        self.unknown(number, again, last)
    }

    fn unknown(&self, number: u64, again: Again, last: Source) -> CallError<R::Error> {
        let over = self.session.shared().state.ended().is_some();
        let again = if over { Again::Never } else { again };
        CallError::Unknown {
            key: RequestNumber::new(self.session.id(), number).to_string(),
            again,
            last,
        }
    }
}

impl<R: Request> IntoFuture for SessionCall<R> {
    type Output = Result<Replied<R::Reply>, CallError<R::Error>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.make())
    }
}

/// Leaves out the request, which may hold private data.
impl<R> fmt::Debug for SessionCall<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionCall")
            .field("session", &self.session.id())
            .field("deadline", &self.deadline)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}
