//! A call in the making.

use std::{fmt, future::IntoFuture, marker::PhantomData, pin::Pin, time::Duration};

use idem_core::Request;

use super::{
    Again, CallError, Client, Replied,
    call_state::Fault,
    message::{Message, Unsendable},
    ongoing_call::OngoingCall,
    retry_interval::RetryInterval,
};

/// A call in the making, by [`Client::call`]: awaiting it sends the request and waits for the reply.
///
/// The request is sent again, as it is and under the same key, when no reply has come within the
/// [`timeout`](Self::timeout), and when the connection was lost; again and again until there is a
/// reply or the [`deadline`](Self::deadline) has passed. A worker handles it once, and repeats the
/// reply if it was lost.
///
/// ```no_run
/// # use idem_amqp::{Client, Request, client::CallError};
/// # #[derive(serde::Serialize)] struct CreateLease { name: String }
/// # impl Request for CreateLease { type Reply = u64; type Error = String; }
/// # async fn example(leases: Client) -> Result<(), CallError<String>> {
/// use std::time::Duration;
///
/// let request = CreateLease { name: "printer".into() };
/// let lease = leases.call(&request).key("job-17").deadline(Duration::from_secs(10)).await?;
/// println!("lease {}", lease.reply);
/// # Ok(()) }
/// ```
///
/// # Errors
/// See [`CallError`]: each variant says whether the request was handled, and what to do.
///
/// # Cancel safety
/// Dropping a call, awaited or not, leaves nothing behind in the client; a reply that comes later is
/// ignored. A request that was sent is handled all the same: call again with its
/// [`id`](Self::id) as the [`key`](Self::key) to get its reply.
#[must_use = "nothing is sent until the call is awaited"]
pub struct Call<R> {
    client: Client,
    message: Result<Message, Unsendable>,
    deadline: Duration,
    timeout: Duration,
    request: PhantomData<fn() -> R>,
}

impl<R> Call<R> {
    pub(super) fn new(client: Client, message: Result<Message, Unsendable>) -> Self {
        Self {
            deadline: client.deadline,
            timeout: client.timeout,
            client,
            message,
            request: PhantomData,
        }
    }

    /// Names the unit of work: the message id of the request; a `UUIDv7` that is made once for
    /// the call unless set. 1 to 255 bytes.
    ///
    /// Set it to repeat a call whose reply did not come ([`CallError::Unknown`] has the key), also in
    /// another process; or to an id that the work has anyway, so that it is done once whoever asks for
    /// it. A handler sees it if its key is `message_id()`. A key must not be used for other content:
    /// that is refused as `key-reused`.
    pub fn key(mut self, key: impl AsRef<str>) -> Self {
        self.message = self
            .message
            .and_then(|message| message.with_id(key.as_ref()));
        self
    }

    /// The key: keep it before the call, and the call can be repeated after a crash. Empty if the
    /// request cannot be sent.
    pub fn id(&self) -> &str {
        self.message.as_ref().map_or("", Message::id)
    }

    /// How long the call may take, all tries included; 30 s unless set for the call or its client.
    /// Beyond it the call ends with [`CallError::Unknown`], or [`CallError::Unsent`].
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// How long the first try may take before the request is sent again; 5 s unless set for the call
    /// or its client, at least 10 ms. Each further try may take twice as long, and up to a quarter
    /// longer at random.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Adds a header to the request, in place of one of the same name. Names that begin with
    /// `idem-` are idem's own; all headers together may have 32 KiB.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.message = self
            .message
            .and_then(|message| message.with_header(name, value));
        self
    }
}

impl<R: Request> Call<R> {
    async fn make(self) -> Result<Replied<R::Reply>, CallError<R::Error>> {
        let message = self
            .message
            .map_err(|error| CallError::Request(error.into()))?;
        let (key, queue) = (message.id().to_owned(), message.queue.to_string());
        let shared = &self.client.shared;
        let call = OngoingCall::new(
            message,
            RetryInterval::new(self.timeout),
            shared.orders.clone(),
            &shared.pending_calls,
        );
        match call.hold_traced(self.deadline, &shared.pending_calls).await {
            Ok(told) => told.reply.read::<R>(),
            Err(Fault::Unroutable) => Err(CallError::Unroutable { queue }),
            Err(Fault::Unsent(why)) => Err(CallError::Unsent(why)),
            Err(Fault::Unknown(last)) => Err(CallError::Unknown {
                key,
                again: Again::Key,
                last,
            }),
        }
    }
}

impl<R: Request> IntoFuture for Call<R> {
    type Output = Result<Replied<R::Reply>, CallError<R::Error>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.make())
    }
}

/// Leaves out the request, which may hold private data.
impl<R> fmt::Debug for Call<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("id", &self.id())
            .field("deadline", &self.deadline)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}
