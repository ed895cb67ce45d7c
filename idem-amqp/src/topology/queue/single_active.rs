//! A queue of which one consumer at a time has all messages.

use super::Queue;

impl Queue {
    /// Declares the queue so that one of its consumers has all messages at a time (`x-single-active-consumer`): one
    /// worker handles them, the others stand by, and one of those takes over when it is gone. With
    /// [`ordered_by`](crate::idempotent), messages keep their order over several workers by that.
    ///
    /// A queue that is there without it is refused, as with any other argument. Does nothing to an existing queue, and
    /// nothing to a stream, which has one reader anyway.
    ///
    /// ```
    /// use idem_amqp::Queue;
    ///
    /// let postings = Queue::quorum("postings").single_active_consumer();
    /// # drop(postings);
    /// ```
    pub fn single_active_consumer(mut self) -> Self {
        self.is_single_active = self.kind.is_some();
        self
    }

    pub(crate) fn is_single_active(&self) -> bool {
        self.is_single_active
    }
}
