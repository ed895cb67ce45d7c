//! Which permissions a worker's user needs.

use crate::topology::{DeadLetterTarget, Queue};

/// The name under which permissions know the default exchange, by which dead letters are sent.
const DEFAULT_EXCHANGE: &str = "amq.default";

/// All objects of the retry ladder, as a pattern.
const LADDER: &str = r"idem\..*";

/// The command that grants a user what it needs to consume the queue.
pub(super) fn command(user: &str, vhost: &str, queue: &Queue) -> String {
    let [vhost, user] = [vhost, user].map(quoted);
    let [configure, write, read] = patterns(queue).map(|pattern| quoted(&pattern));
    format!("rabbitmqctl set_permissions -p {vhost} {user} {configure} {write} {read}")
}

/// What to configure, write and read.
fn patterns(queue: &Queue) -> [String; 3] {
    let name = escaped(queue.name());
    let (exchange, dead) = match queue.dead_letter_target() {
        DeadLetterTarget::Queue(name) => (None, Some(escaped(name))),
        DeadLetterTarget::Exchange { name, .. } => (Some(escaped(name)), None),
    };
    let control = queue.control_queue().map(|control| escaped(&control));
    let mut configure = Vec::new();
    let mut write = vec![escaped(DEFAULT_EXCHANGE)];
    write.extend(exchange);
    let mut read = vec![name.clone()];
    if queue.is_ours() {
        configure.extend([name.clone()].into_iter().chain(dead));
    } else if queue.is_stream() {
        // The queue of what fails is the worker's own, and so are its dead letters.
        configure.extend(dead);
    } else {
        // RabbitMQ 4.3 tells only those that a queue is there who have some permission for it.
        read.extend(dead);
    }
    if let Some(control) = control {
        if queue.declared().is_some() {
            configure.push(control.clone());
        }
        read.push(control);
    }
    let failures = queue.comes_back_to().map(|failures| escaped(&failures));
    // What is bound to an exchange, that of the ladder too, by which what has failed in a stream comes back to another
    // queue.
    if queue.is_bound() || queue.has_ladder() && failures.is_none() {
        write.push(name);
    }
    if let Some(failures) = failures {
        for patterns in [&mut configure, &mut write, &mut read] {
            patterns.push(failures.clone());
        }
    }
    let mut sources: Vec<_> = queue
        .bindings()
        .iter()
        .map(|one| escaped(&one.exchange))
        .collect();
    sources.dedup();
    if let Some(partition) = queue.partition().filter(|_| queue.is_ours()) {
        let exchange = escaped(&partition.super_stream);
        configure.push(exchange.clone());
        sources.push(exchange);
    }
    read.extend(sources);
    if queue.has_ladder() {
        for patterns in [&mut configure, &mut write, &mut read] {
            patterns.push(LADDER.into());
        }
    }
    [configure, write, read].map(|patterns| any_of(&patterns))
}

fn any_of(patterns: &[String]) -> String {
    match patterns {
        [] => "^$".into(),
        [only] => format!("^{only}$"),
        several => format!("^({})$", several.join("|")),
    }
}

/// The name as a pattern that matches nothing else.
fn escaped(name: &str) -> String {
    let mut pattern = String::with_capacity(name.len());
    for character in name.chars() {
        if r"\.+*?()|[]{}^$#".contains(character) {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern
}

/// The text in quotes for a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_declared_queue_needs_itself_its_dead_letters_the_ladder_and_the_default_exchange() {
        assert_eq!(
            command("shop", "/", &Queue::quorum("orders.charge")),
            r"rabbitmqctl set_permissions -p '/' 'shop' '^(orders\.charge|orders\.charge\.dead|idem\..*)$' '^(amq\.default|orders\.charge|idem\..*)$' '^(orders\.charge|idem\..*)$'"
        );
    }

    #[test]
    fn an_existing_queue_is_read_its_dead_letters_are_looked_for_and_sent_by_the_default_exchange()
    {
        assert_eq!(
            command("it's", "/shop", &Queue::existing("a+b")),
            r"rabbitmqctl set_permissions -p '/shop' 'it'\''s' '^$' '^amq\.default$' '^(a\+b|a\+b\.dead)$'"
        );
    }

    #[test]
    fn a_ladder_for_an_existing_queue_is_declared_and_the_queue_bound_to_it() {
        let queue = Queue::existing("q").dead_letters("d");
        assert_eq!(
            patterns(&queue.ladder(idem_core::settlement::Ladder::default())),
            [
                r"^idem\..*$",
                r"^(amq\.default|q|idem\..*)$",
                r"^(q|d|idem\..*)$"
            ]
        );
    }

    #[test]
    fn a_queue_that_serves_sessions_needs_its_queue_of_registrations_too() {
        let declared = Queue::quorum("q").local_retries().in_sessions();
        assert_eq!(
            patterns(&declared),
            [
                r"^(q|q\.dead|q\.sessions)$",
                r"^amq\.default$",
                r"^(q|q\.sessions)$"
            ]
        );
        assert_eq!(
            patterns(&Queue::existing("q").in_sessions()),
            ["^$", r"^amq\.default$", r"^(q|q\.dead|q\.sessions)$"]
        );
    }

    #[test]
    fn a_partition_is_declared_with_its_exchange_and_bound_to_it() {
        let read = |queue: Queue| queue.read_by("o.c").partitions().remove(0);
        assert_eq!(
            patterns(&read(Queue::super_stream("s", 2))),
            [
                r"^(s-0|s~o\.c\.dead|s~o\.c|s|idem\..*)$",
                r"^(amq\.default|s-0|s~o\.c|idem\..*)$",
                r"^(s-0|s~o\.c|s|idem\..*)$"
            ]
        );
    }

    #[test]
    fn of_a_stream_that_somebody_else_declares_the_queues_of_what_fails_are_declared() {
        let stream = Queue::existing_stream("s").read_by("o.c");
        assert_eq!(
            patterns(&stream),
            [
                r"^(s~o\.c\.dead|s~o\.c|idem\..*)$",
                r"^(amq\.default|s~o\.c|idem\..*)$",
                r"^(s|s~o\.c|idem\..*)$"
            ]
        );
    }

    #[test]
    fn a_queue_that_is_bound_is_written_and_its_exchanges_are_read() {
        let queue = Queue::existing("q").bind("shop", "one").bind("shop", "two");
        assert_eq!(
            patterns(&queue),
            ["^$", r"^(amq\.default|q)$", r"^(q|q\.dead|shop)$"]
        );
    }

    #[test]
    fn an_exchange_for_dead_letters_is_written() {
        let queue = Queue::quorum("q").local_retries();
        assert_eq!(
            patterns(&queue.dead_letter_exchange("failed", None)),
            ["^q$", r"^(amq\.default|failed)$", "^q$"]
        );
    }

    #[test]
    fn a_declared_queue_without_a_ladder_needs_nothing_of_one() {
        assert_eq!(
            patterns(&Queue::quorum("q").local_retries()),
            [r"^(q|q\.dead)$", r"^amq\.default$", "^q$"]
        );
    }
}
