//! The literal texts of brokers.

use super::*;

fn different(argument: &str, declared: Option<&str>, existing: Option<&str>) -> Problem {
    Problem::Different {
        argument: argument.into(),
        existing: existing.map(Into::into),
        declared: declared.map(Into::into),
    }
}

fn forbidden(user: &str, permission: Option<Permission>) -> Problem {
    Problem::Forbidden {
        user: user.into(),
        permission,
    }
}

#[test]
fn the_texts_of_the_brokers_are_understood() {
    use TopologyObject::{Exchange, Queue};
    let table = [
        (
            "PRECONDITION_FAILED - inequivalent arg 'x-dead-letter-exchange' for queue 'q1' in vhost '/': received none but current is the value '' of type 'longstr'",
            (
                Queue,
                "q1",
                different("x-dead-letter-exchange", None, Some("")),
            ),
        ),
        (
            "PRECONDITION_FAILED - inequivalent arg 'x-delivery-limit' for queue 'q2' in vhost '/': received the value '1000' of type 'signedint' but current is none",
            (
                Queue,
                "q2",
                different("x-delivery-limit", Some("1000"), None),
            ),
        ),
        (
            "PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue 'q2' in vhost '/': received 'classic' but current is 'quorum'",
            (
                Queue,
                "q2",
                different("x-queue-type", Some("classic"), Some("quorum")),
            ),
        ),
        (
            "PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'nd' in vhost '/': received 'true' but current is 'false'",
            (
                Queue,
                "nd",
                different("durable", Some("true"), Some("false")),
            ),
        ),
        (
            "PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue 'it's 'odd' for queue 'x'' in vhost '/': received the value '3' of type 'signedint' but current is none",
            (
                Queue,
                "it's 'odd' for queue 'x'",
                different("x-message-ttl", Some("3"), None),
            ),
        ),
        (
            "PRECONDITION_FAILED - inequivalent arg 'alternate-exchange' for exchange 'idem.return' in vhost '/': received 'idem.unrouted' but current is 'z'",
            (
                Exchange,
                "idem.return",
                different("alternate-exchange", Some("idem.unrouted"), Some("z")),
            ),
        ),
        (
            "NOT_FOUND - no queue 'orders' in vhost '/'",
            (Queue, "orders", Problem::Missing),
        ),
        (
            "NOT_FOUND - no exchange 'idem.return' in vhost '/'",
            (Exchange, "idem.return", Problem::Missing),
        ),
        (
            "ACCESS_REFUSED - access to queue 'q1' in vhost '/' refused for user 'shop'",
            (Queue, "q1", forbidden("shop", None)),
        ),
        (
            "ACCESS_REFUSED - configure access to queue 'q1' in vhost '/' refused for user 'shop'",
            (Queue, "q1", forbidden("shop", Some(Permission::Configure))),
        ),
        (
            "ACCESS_REFUSED - write access to exchange 'amq.default' in vhost '/' refused for user 'it's me'",
            (
                Exchange,
                "amq.default",
                forbidden("it's me", Some(Permission::Write)),
            ),
        ),
        (
            "ACCESS_REFUSED - read access to queue 'q1' in vhost '/' refused for user 'shop'",
            (Queue, "q1", forbidden("shop", Some(Permission::Read))),
        ),
    ];
    for (text, (object, name, problem)) in table {
        let expected = Answer {
            object,
            name: name.into(),
            vhost: "/".into(),
            problem,
        };
        assert_eq!(read(text), Some(expected), "{text}");
    }
}

#[test]
fn what_is_not_recognised_or_was_cut_is_no_answer() {
    for text in [
        "",
        "PRECONDITION_FAILED",
        "PRECONDITION_FAILED - inequivalent arg 'x-overflow' for queue 'a-very-long-name...",
        "PRECONDITION_FAILED - inequivalent arg 'x-overflow' for queue 'q' in vhost '/': received none but current is the value 'reject-pub...",
        "PRECONDITION_FAILED - invalid arg 'x-max-age' for queue 'q' in vhost '/' of queue type rabbit_quorum_queue",
        "NOT_FOUND - home node 'rabbit@a' of durable queue 'q' in vhost '/' is down or inaccessible",
        "ACCESS_REFUSED - queue name 'amq.own' contains reserved prefix 'amq.*'",
        "ACCESS_REFUSED - admin access to queue 'q' in vhost '/' refused for user 'shop'",
        "ACCESS_REFUSED - write access to topic 'a' in exchange 'e' in vhost '/' refused for user 'shop'",
        "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'ex' in vhost '/'.",
    ] {
        assert_eq!(read(text), None, "{text}");
    }
}
