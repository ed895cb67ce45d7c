//! A client's session: what numbers requests, and knows which answers it awaits.

use std::{fmt, time::Duration};

use idem_amqp::{
    client::unconnected::UnconnectedSession,
    worker::unconnected::{SessionServer, UnsentReply},
};
use idem_core::{ErrorChain, store::StoreError};

use super::Message;

/// A client's session with the worker of a harness, by [`Harness::open_session`](super::Harness::open_session).
///
/// It numbers requests as the product's own client does. To deliver them, and to say which are answered, is up to the
/// test.
///
/// ```test_harness
/// # use idem_amqp::{executor::ExecutionKind, prelude::*, session::Sessions};
/// # use idem_testing::amqp::{Message, Setup};
/// # #[idempotent(key = message_id(), scope = "leases.grant")]
/// # async fn grant(_: String) -> Result<u64, Failed> { Ok(7) }
/// #[tokio::test(start_paused = true)]
/// async fn a_request_whose_answer_is_there_is_never_handled_again() {
///     let harness = Setup::new(|| ()).consume_in_sessions::<grant>("leases", Sessions::default());
///     let mut session = harness.open_session().await;
///
///     let printer = session.request(&Message::json("printer"));
///     harness.deliver(&printer).await;
///     let again = harness.deliver(&printer).await;
///     assert!(again.reply().unwrap().is_replayed());
///
///     session.answered(&printer);
///     harness.deliver(&session.request(&Message::json("scanner"))).await;
///     let late = harness.deliver(&printer.redelivered()).await;
///     assert_eq!(late.kind(), ExecutionKind::Stale);
/// }
/// ```
///
/// Each request that is claimed is a sign of life. Others are given in the delays of
/// [`deliver_until_done`](super::Harness::deliver_until_done), and by [`heartbeat`](Self::heartbeat). When a test lets
/// the clock go on for the session's [`life`](Self::life), the session ends, as that of a client that is gone.
pub struct Session {
    client: UnconnectedSession,
    server: SessionServer,
}

impl Session {
    /// # Panics
    /// If the store does not answer.
    pub(super) async fn open(server: SessionServer) -> Self {
        let reply = answer(server.open().await);
        assert!(
            !reply.is_refusal,
            "the worker opens no session: {}",
            String::from_utf8_lossy(&reply.body)
        );
        let opened = UnconnectedSession::opened(server.queue().name(), &reply.body);
        let client = opened.expect("a client reads what its server answers");
        Self { client, server }
    }

    /// The id that the worker has given it, as it stands in the header `idem-session`.
    pub fn id(&self) -> &str {
        self.client.id()
    }

    /// How many requests may be in flight.
    pub fn window(&self) -> u32 {
        self.client.window()
    }

    /// How long it lives without a sign of life.
    pub fn life(&self) -> Duration {
        self.client.life()
    }

    /// The message as the session's next request: with its number, the lowest number whose answer is awaited now, and
    /// a `reply_to` if it has none.
    ///
    /// What a client never sends, a number beyond the window say, is a message with headers of the test's own:
    /// `.header("idem-session", session.id())`, `idem-number` and `idem-awaited`.
    ///
    /// # Panics
    /// If the window is full, because the lowest request is not [answered](Self::answered): a client's call waits then.
    /// Also if the message is larger than a client sends.
    pub fn request(&mut self, message: &Message) -> Message {
        match (self.client).number(message.body(), message.properties()) {
            Ok(Some(properties)) => message.with_properties(properties),
            Ok(None) => panic!(
                "the session's window is full: it has room for {} numbers, from the lowest one on whose answer is \
                 awaited, and a client's call waits now. Say first which answers are there: \
                 `session.answered(&request)`",
                self.window()
            ),
            Err(error) => panic!("{}", ErrorChain::of(&error)),
        }
    }

    /// The client has the answer to this request. With the next one it tells the worker that it is not awaited any
    /// more.
    ///
    /// # Panics
    /// If it is no request of this session.
    pub fn answered(&mut self, request: &Message) {
        let settled = self.client.settle(request.properties());
        assert!(
            settled,
            "the message is no request of the session `{}`: `session.request(&message)` makes one of it",
            self.id()
        );
    }

    /// Gives a sign of life. Tells whether the session lives: one that has ended never lives again.
    ///
    /// # Panics
    /// If the store does not answer.
    pub async fn heartbeat(&self) -> bool {
        !answer(self.server.heartbeat(self.id()).await).is_refusal
    }

    /// Ends the session: the worker forgets its answers now, and refuses its requests.
    ///
    /// # Panics
    /// If the store does not answer.
    pub async fn close(self) {
        answer(self.server.close(self.id()).await);
    }
}

fn answer(reply: Result<UnsentReply, StoreError>) -> UnsentReply {
    match reply {
        Ok(reply) => reply,
        Err(error) => panic!(
            "the worker does not answer, because its store does not: {}",
            ErrorChain::of(&error)
        ),
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("id", &self.id())
            .field("window", &self.window())
            .field("life", &self.life())
            .finish_non_exhaustive()
    }
}
