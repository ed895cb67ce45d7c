//! To whom the worker replies.

use crate::topology::Queue;
use crate::wire::reply::Address;

impl Queue {
    /// Sends no replies for messages of this queue: they are handled as if they had no `reply_to`.
    ///
    /// Whoever publishes to a queue chooses by `reply_to` to which queue of the vhost its worker
    /// publishes. Say this of queues that take no requests and are open to publishers that are not
    /// trusted; [`reply_to_prefixes`](Self::reply_to_prefixes) where only some addresses are right.
    pub fn no_replies(self) -> Self {
        self.reply_to_prefixes::<&str>([])
    }

    /// Sends replies only to a `reply_to` that begins with one of these; to any unless set.
    ///
    /// The queues of [`Client`](crate::Client) begin with `amq.gen-`, addresses of RabbitMQ's direct
    /// reply-to with `amq.rabbitmq.reply-to.`. A message with another `reply_to` is handled as if it
    /// had none; that is counted ([`ReplyStats::disallowed`](crate::worker::ReplyStats::disallowed)) and logged.
    ///
    /// ```
    /// use idem_amqp::Queue;
    ///
    /// let quotes = Queue::quorum("quotes").reply_to_prefixes(["amq.gen-", "amq.rabbitmq.reply-to."]);
    /// # drop(quotes);
    /// ```
    pub fn reply_to_prefixes<P: Into<String>>(
        mut self,
        prefixes: impl IntoIterator<Item = P>,
    ) -> Self {
        self.reply_to_prefixes = Some(prefixes.into_iter().map(Into::into).collect());
        self
    }

    /// Whether no address may be replied to.
    pub(crate) fn replies_to_nobody(&self) -> bool {
        self.reply_to_prefixes.as_ref().is_some_and(Vec::is_empty)
    }

    /// Why nothing is sent to this address, if nothing is.
    pub(crate) fn objection_to(&self, reply_to: &str) -> Option<&'static str> {
        let begins = |prefix: &String| reply_to.starts_with(prefix);
        let prefixes = self.reply_to_prefixes.as_ref();
        if prefixes.is_some_and(|prefixes| !prefixes.iter().any(begins)) {
            return Some("the queue's options do not allow its `reply_to`");
        }
        let malformed = Address::read(reply_to) == Address::Malformed;
        malformed.then_some("its `reply_to` is a malformed address of a direct reply")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_go_where_the_queue_allows_and_somebody_can_wait() {
        let direct = "amq.rabbitmq.reply-to.g1h2.abc==";
        let malformed = "amq.rabbitmq.reply-to.!!!.x";
        let any = Queue::quorum("q");
        let some = any
            .clone()
            .reply_to_prefixes(["amq.gen-", "amq.rabbitmq.reply-to."]);
        let none = any.clone().no_replies();
        for (queue, to, allowed) in [
            (&any, "payments", true),
            (&any, direct, true),
            (&any, malformed, false),
            (&some, "amq.gen-1", true),
            (&some, direct, true),
            (&some, malformed, false),
            (&some, "payments", false),
            (&some, "", false),
            (&none, "amq.gen-1", false),
            (&none, direct, false),
        ] {
            assert_eq!(queue.objection_to(to).is_none(), allowed, "{queue:?} {to}");
        }
        assert!(none.replies_to_nobody() && !some.replies_to_nobody() && !any.replies_to_nobody());
    }
}
