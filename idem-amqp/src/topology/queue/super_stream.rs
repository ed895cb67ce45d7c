//! A super stream: an exchange and the streams that it leads to, which one call consumes.

use super::{
    Queue,
    partitions::{Partition, Partitions},
    stream::Shape,
};

impl Queue {
    /// A super stream, declared by the worker, for [`consume_stream`](crate::WorkerBuilder::consume_stream): a direct
    /// exchange of this name, and a stream for each of the [`Partitions`], bound by its routing key.
    ///
    /// Each partition is read as a [stream](Self::stream) by itself, with a mark of its own in the store, and workers
    /// share the partitions. All that is set here is set for each of them: its age, its bytes, where it begins, its
    /// prefetch and its concurrency. What fails in any of them goes to one queue of the handler's own,
    /// `<name>~<scope>`.
    ///
    /// A publisher sends to the exchange, with the routing key of a partition.
    ///
    /// ```
    /// use std::time::Duration;
    /// use idem_amqp::Queue;
    ///
    /// let ledger = Queue::super_stream("ledger", 3).max_age(Duration::from_hours(24 * 30)).prefetch(16);
    /// # drop(ledger);
    /// ```
    pub fn super_stream(name: impl Into<String>, partitions: impl Into<Partitions>) -> Self {
        Self::stream(name).in_partitions(partitions.into())
    }

    /// A super stream that somebody else declares: its exchange, streams and bindings are left as they are. Of its own,
    /// the worker declares the queues of what fails.
    pub fn existing_super_stream(
        name: impl Into<String>,
        partitions: impl Into<Partitions>,
    ) -> Self {
        Self::existing_stream(name).in_partitions(partitions.into())
    }

    fn in_partitions(self, partitions: Partitions) -> Self {
        self.with_stream(|stream| stream.shape = Shape::Super(partitions))
    }

    /// Why it is no super stream that can be read, if it is to be one and is not.
    pub(crate) fn impossible_partitions(&self) -> Option<&'static str> {
        let Shape::Super(partitions) = &self.as_stream()?.shape else {
            return None;
        };
        if self.name.is_empty() {
            return Some("its name is empty");
        }
        if !self.bindings.is_empty() {
            return Some(
                "it is a super stream, which has an exchange of its own: leave `bind` out, and publish to that",
            );
        }
        partitions.objection(&self.name)
    }

    /// The streams that are read: its partitions, of a super stream; else itself.
    pub(crate) fn partitions(&self) -> Vec<Self> {
        let shape = self.as_stream().map(|stream| &stream.shape);
        let Some(Shape::Super(partitions)) = shape else {
            return vec![self.clone()];
        };
        let streams = partitions.of(&self.name);
        let of = u16::try_from(streams.len()).unwrap_or(u16::MAX);
        let streams = (0..).zip(streams);
        let streams = streams.map(|(order, (stream, routing_key))| {
            let super_stream = self.shared_name();
            let partition = Self {
                name: stream.into(),
                ..self.clone()
            };
            partition.with_stream(|stream| {
                stream.shape = Shape::Partition(Partition {
                    super_stream,
                    routing_key,
                    order,
                    of,
                });
            })
        });
        streams.collect()
    }

    /// Whether the worker binds it to exchanges beside that of its ladder.
    pub(crate) fn is_bound(&self) -> bool {
        !self.bindings.is_empty() || (self.is_ours() && self.partition().is_some())
    }

    /// Which partition it is, if it is one.
    pub(crate) fn partition(&self) -> Option<&Partition> {
        match &self.as_stream()?.shape {
            Shape::Partition(partition) => Some(partition),
            Shape::Alone | Shape::Super(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn streams(queue: &Queue) -> Vec<(String, String)> {
        let partitions = queue.partitions();
        let streams = partitions.iter().map(|stream| {
            let partition = stream.partition().expect("it is one");
            (stream.name().to_owned(), partition.routing_key.clone())
        });
        streams.collect()
    }

    fn named(names: &[(&str, &str)]) -> Vec<(String, String)> {
        let names = names.iter();
        names
            .map(|(stream, key)| ((*stream).into(), (*key).into()))
            .collect()
    }

    #[test]
    fn partitions_are_named_as_rabbitmqs_own_tool_names_them() {
        assert_eq!(
            streams(&Queue::super_stream("ledger", 2)),
            named(&[("ledger-0", "0"), ("ledger-1", "1")])
        );
        let by_keys = named(&[("ledger-eu", "eu"), ("ledger-us", "us")]);
        assert_eq!(
            streams(&Queue::super_stream("ledger", ["eu", "us"])),
            by_keys
        );
        let keys = vec!["eu".to_owned(), "us".to_owned()];
        assert_eq!(streams(&Queue::super_stream("ledger", keys)), by_keys);
        let theirs = [("europe", "eu"), ("america", "us")];
        assert_eq!(
            streams(&Queue::existing_super_stream(
                "ledger",
                Partitions::named(theirs)
            )),
            named(&theirs)
        );
    }

    #[test]
    fn partitions_share_the_queues_of_what_fails() {
        let read = Queue::super_stream("ledger", 2).read_by("books.book");
        for partition in read.partitions() {
            let failures = partition.failures().expect("it is a stream");
            assert_eq!(failures.name(), "ledger~books.book");
            let dead = Some("ledger~books.book.dead");
            assert_eq!(failures.dead_letter_queue(), dead);
            assert_eq!(partition.dead_letter_queue(), dead);
        }
        assert_eq!(
            Queue::stream("ledger").partitions(),
            [Queue::stream("ledger")]
        );
    }

    #[test]
    fn what_is_no_super_stream_is_told() {
        let none: [&str; 0] = [];
        let table = [
            (Queue::super_stream("ledger", 0), "no partitions"),
            (Queue::super_stream("ledger", none), "no partitions"),
            (Queue::super_stream("ledger", 1_001), "more than 1,000"),
            (Queue::super_stream("", 1), "its name is empty"),
            (
                Queue::super_stream("ledger", ["eu", ""]),
                "partition is empty",
            ),
            (Queue::super_stream("ledger", ["eu", "eu"]), "the same name"),
            (
                Queue::super_stream("ledger", Partitions::named([("a", "eu"), ("b", "eu")])),
                "the same routing key",
            ),
            (
                Queue::super_stream("ledger", Partitions::named([("a", "eu"), ("a", "us")])),
                "the same name",
            ),
            (
                Queue::super_stream("ledger", ["k".repeat(256)]),
                "longer than 255",
            ),
            (
                Queue::super_stream("ledger", 1).bind("shop", "#"),
                "leave `bind` out",
            ),
        ];
        for (queue, part) in table {
            let text = queue.impossible_partitions().unwrap_or_default();
            assert!(text.contains(part), "{queue:?}: {text}");
        }
        for possible in [
            Queue::super_stream("ledger", 1),
            Queue::stream("ledger").bind("shop", "#"),
            Queue::quorum("ledger"),
        ] {
            assert_eq!(possible.impossible_partitions(), None);
        }
    }
}
