//! Which node of a cluster leads a queue.

use super::Broker;
use crate::Result;

impl Broker {
    /// The name of the node that leads a queue, as this one knows it; `None` without such a queue.
    /// For a moment after the leader's end, that is still the old one.
    ///
    /// # Errors
    ///
    /// As [`rabbitmqctl`](Self::rabbitmqctl).
    pub fn leader_of(&self, vhost: &str, queue: &str) -> Result<Option<String>> {
        let answer = self.rabbitmqctl(["eval", &question(vhost, queue)])?;
        Ok(named(&answer))
    }
}

/// The list of queues knows it too, but waits for every node, frozen ones included.
fn question(vhost: &str, queue: &str) -> String {
    format!(
        "case rabbit_amqqueue:lookup(rabbit_misc:r(<<{vhost:?}>>, queue, <<{queue:?}>>)) of \
         {{ok, Queue}} -> case amqqueue:get_pid(Queue) of \
         {{_, Node}} -> Node; \
         Process when is_pid(Process) -> node(Process); \
         _ -> none end; \
         _ -> none end."
    )
}

/// An Erlang atom as it is printed: in quotes if it has an `@` in it.
fn named(answer: &str) -> Option<String> {
    let node = answer.trim().trim_matches('\'');
    (node != "none").then(|| node.to_owned())
}

#[cfg(test)]
mod tests {
    use super::named;

    #[test]
    fn a_node_is_read_from_what_erlang_prints() {
        assert_eq!(named("none\n"), None);
        let expected = Some("idem-1@localhost".to_owned());
        assert_eq!(named("'idem-1@localhost'\n"), expected);
        assert_eq!(named("idem-1@localhost\n"), expected);
    }
}
