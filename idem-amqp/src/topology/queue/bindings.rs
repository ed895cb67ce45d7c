//! The exchanges whose messages a queue gets.

use super::Queue;

/// An exchange, and which of its messages the queue gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Binding {
    pub(crate) exchange: String,
    pub(crate) routing_key: String,
}

impl Binding {
    /// Whether no exchange or no key can be called so.
    pub(crate) fn is_impossible(&self) -> bool {
        const LONGEST: usize = 255;
        self.exchange.is_empty()
            || self.exchange.len() > LONGEST
            || self.routing_key.len() > LONGEST
    }
}

impl Queue {
    /// Has the worker bind the queue to this exchange, by this routing key; as often as there are exchanges and keys.
    ///
    /// The exchange must exist: the worker declares none but its own. A worker does not start as long as it is missing.
    /// A binding that somebody removes is made again when the worker opens its next channel; one that is no longer
    /// asked for stays until somebody removes it.
    ///
    /// ```
    /// use idem_amqp::Queue;
    ///
    /// let queue = Queue::quorum("orders.charge").bind("shop", "order.placed").bind("shop", "order.repaired");
    /// # drop(queue);
    /// ```
    pub fn bind(mut self, exchange: impl Into<String>, routing_key: impl Into<String>) -> Self {
        self.bindings.push(Binding {
            exchange: exchange.into(),
            routing_key: routing_key.into(),
        });
        self
    }

    pub(crate) fn bindings(&self) -> &[Binding] {
        &self.bindings
    }
}
