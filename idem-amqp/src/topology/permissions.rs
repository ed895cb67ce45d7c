//! Which permissions a worker's user needs.

use crate::Queue;

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
    let dead = escaped(queue.dead_letter_queue());
    let default = escaped(DEFAULT_EXCHANGE);
    if queue.declared().is_none() {
        return ["^$".into(), format!("^{default}$"), format!("^{name}$")];
    }
    [
        format!("^({name}|{dead}|{LADDER})$"),
        format!("^({default}|{name}|{LADDER})$"),
        format!("^({name}|{LADDER})$"),
    ]
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

/// For a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_declared_queue_needs_itself_its_dead_letters_the_ladder_and_the_default_exchange() {
        assert_eq!(
            command("shop", "/", &Queue::declare("orders.charge")),
            r"rabbitmqctl set_permissions -p '/' 'shop' '^(orders\.charge|orders\.charge\.dead|idem\..*)$' '^(amq\.default|orders\.charge|idem\..*)$' '^(orders\.charge|idem\..*)$'"
        );
    }

    #[test]
    fn an_existing_queue_is_read_and_its_dead_letters_are_sent_by_the_default_exchange() {
        assert_eq!(
            command("it's", "/shop", &Queue::existing("a+b")),
            r"rabbitmqctl set_permissions -p '/shop' 'it'\''s' '^$' '^amq\.default$' '^a\+b$'"
        );
    }
}
