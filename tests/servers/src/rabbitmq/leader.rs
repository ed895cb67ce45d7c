//! Which node of a cluster leads a queue.

use super::Broker;
use crate::Result;

impl Broker {
    /// The name of the node that leads a queue, as this one knows it; `None` without such a queue.
    /// For a moment after the leader's end, that is still the old one.
    ///
    /// # Errors
    ///
    /// It is down or frozen, or not one of ours.
    pub fn leader_of(&self, vhost: &str, queue: &str) -> Result<Option<String>> {
        let node = self.evaluate(&question(vhost, queue))?;
        Ok(Some(node).filter(|node| node != "none"))
    }
}

/// The list of queues knows it too, but waits for every node, frozen ones included.
fn question(vhost: &str, queue: &str) -> String {
    format!(
        "atom_to_binary(case rabbit_amqqueue:lookup(rabbit_misc:r(<<{vhost:?}>>, queue, <<{queue:?}>>)) of \
         {{ok, Queue}} -> case amqqueue:get_pid(Queue) of \
         {{_, Node}} -> Node; \
         Process when is_pid(Process) -> node(Process); \
         _ -> none end; \
         _ -> none end)"
    )
}
