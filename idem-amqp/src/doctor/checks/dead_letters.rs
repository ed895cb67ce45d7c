//! How the dead-letter queue was declared. It is the last place of its messages: what it drops is lost.
//!
//! The names of the findings are its own, so that who accepts a weakness of the queue does not accept the
//! same of its dead letters.

use idem_core::store::Finding;

use crate::doctor::{
    Declaration, Diagnosis, QueueFacts, Version,
    arguments::{Arguments, DEAD_LETTER_EXCHANGE, DELIVERY_LIMIT, Kind, Limit},
    facts::HIDDEN,
    span::Span,
};

pub(super) const STREAM: &str = "dead-letters-stream";
pub(super) const TRANSIENT: &str = "dead-letters-transient";
pub(super) const AUTO_DELETE: &str = "dead-letters-auto-delete";
pub(super) const EXPIRES: &str = "dead-letters-expires";
pub(super) const MESSAGE_TTL: &str = "dead-letters-message-ttl";
pub(super) const MAX_LENGTH: &str = "dead-letters-max-length";
pub(super) const RETURNS: &str = "dead-letters-delivery-limit";

/// A queue with this limit or a higher one keeps its letters: somebody who looks at them once a minute
/// needs two years to use it up.
const MANY_LOOKS: u64 = 1_000_000;

pub(super) fn look(known: &QueueFacts, broker: Option<Version>) -> impl Iterator<Item = Diagnosis> {
    let found = match &known.answers.dead_letters {
        Declaration::Ours => Vec::new(),
        Declaration::Missing => vec![missing(known)],
        Declaration::Hidden(why) => vec![hidden(known, why)],
        Declaration::Arguments(arguments) => weaknesses(known, arguments, broker),
    };
    found.into_iter()
}

fn missing(known: &QueueFacts) -> Diagnosis {
    Diagnosis::reported(Finding::error(
        "missing",
        format!(
            "the dead-letter {} does not exist, and a worker does not start without it; declare it, or name \
             another one with `.dead_letters(…)` or `.dead_letter_exchange(…)`",
            known.queue().dead_letter_target()
        ),
    ))
}

fn hidden(known: &QueueFacts, why: &str) -> Diagnosis {
    Diagnosis::reported(Finding::note(
        HIDDEN,
        format!(
            "how the dead-letter {} was declared cannot be looked up ({why}), so it is not \
             known whether it can lose dead letters; grant the user the configure permission on it",
            known.queue().dead_letter_target()
        ),
    ))
}

fn weaknesses(
    known: &QueueFacts,
    arguments: &Arguments,
    broker: Option<Version>,
) -> Vec<Diagnosis> {
    if arguments.kind() == Kind::Stream {
        return vec![stream(known, arguments)];
    }
    let always = [
        transient(known, arguments),
        auto_delete(known, arguments),
        deleted_unused(known, arguments),
    ];
    // What leaves the queue for another one is not lost.
    let unless_it_goes_on = if leads_elsewhere(known, arguments) {
        [None, None, None]
    } else {
        [
            expiring(known, arguments),
            bounded(known, arguments),
            limited(known, arguments, broker),
        ]
    };
    always
        .into_iter()
        .chain(unless_it_goes_on)
        .flatten()
        .collect()
}

/// Whether the broker publishes to another queue what it takes out of this one. By the default exchange
/// and without another routing key it would be this one again: of such a circle the broker drops messages.
fn leads_elsewhere(known: &QueueFacts, arguments: &Arguments) -> bool {
    let own = known.queue().dead_letter_queue();
    match arguments.text(DEAD_LETTER_EXCHANGE) {
        None => false,
        Some("") => {
            let key = arguments.text("x-dead-letter-routing-key");
            key.is_some_and(|key| Some(key) != own)
        }
        Some(_) => true,
    }
}

/// It loses dead letters, as it was declared: a policy can lengthen no age, length or limit.
fn losing(known: &QueueFacts, code: &'static str, loses: &str, cure: &str) -> Diagnosis {
    let target = known.queue().dead_letter_target();
    let so = format!("the dead-letter {target} {loses}; {cure}");
    if known.queue().declared().is_some() {
        // The broker refuses the worker's own declaration of it, whatever is accepted.
        let text = format!("{so}, or name another one with `.dead_letters(…)`");
        return Diagnosis::broken(Finding::error(code, text));
    }
    let text = format!(
        "{so}, name another one with `.dead_letters(…)`, or accept that with `.accept(\"{code}\")`"
    );
    Diagnosis::losing(Finding::error(code, text))
}

fn stream(known: &QueueFacts, arguments: &Arguments) -> Diagnosis {
    let drops = arguments.has("x-max-age") || arguments.has("x-max-length-bytes");
    let loses = if drops {
        "is a stream, which drops its oldest letters, and out of which none can be sent again"
    } else {
        "is a stream, out of which no letter can be sent again or taken"
    };
    losing(known, STREAM, loses, "declare a quorum queue")
}

fn transient(known: &QueueFacts, arguments: &Arguments) -> Option<Diagnosis> {
    let loses = "is not durable: a restart of the broker loses the dead letters";
    (!arguments.durable).then(|| losing(known, TRANSIENT, loses, "declare it as durable"))
}

fn auto_delete(known: &QueueFacts, arguments: &Arguments) -> Option<Diagnosis> {
    let loses = "is deleted with its letters as soon as somebody has looked at them";
    let cure = "declare it without auto-delete";
    arguments
        .auto_delete
        .then(|| losing(known, AUTO_DELETE, loses, cure))
}

fn deleted_unused(known: &QueueFacts, arguments: &Arguments) -> Option<Diagnosis> {
    let unused = Span(arguments.milliseconds("x-expires")?);
    let loses = format!("is deleted with its letters when nobody has looked at them for {unused}");
    let cure = "declare it without `x-expires`";
    Some(losing(known, EXPIRES, &loses, cure))
}

fn expiring(known: &QueueFacts, arguments: &Arguments) -> Option<Diagnosis> {
    let age = Span(arguments.milliseconds("x-message-ttl")?);
    let loses = format!("drops letters that are older than {age}");
    let cure = "declare it without `x-message-ttl`, give it a dead-letter exchange";
    Some(losing(known, MESSAGE_TTL, &loses, cure))
}

fn bounded(known: &QueueFacts, arguments: &Arguments) -> Option<Diagnosis> {
    let loses = "drops its oldest letters when it is full";
    let cure = "set `x-overflow` to `reject-publish`, give it a dead-letter exchange";
    arguments
        .drops_when_full()
        .then(|| losing(known, MAX_LENGTH, loses, cure))
}

/// Every look at letters returns them. A limit that RabbitMQ sets by itself a policy can raise, so it
/// bars nothing.
fn limited(
    known: &QueueFacts,
    arguments: &Arguments,
    broker: Option<Version>,
) -> Option<Diagnosis> {
    if arguments.kind() != Kind::Quorum {
        return None;
    }
    let declared = arguments.delivery_limit();
    let by_itself = || broker?.default_delivery_limit().map(Limit::Returns);
    let returns = match declared.or_else(by_itself)? {
        Limit::Returns(returns) if returns < MANY_LOOKS => returns,
        Limit::Returns(_) | Limit::None => return None,
    };
    let loses = format!("drops a letter that was looked at and returned {returns} times");
    let cure = format!("declare it with `{DELIVERY_LIMIT}` 1000000000, as the worker itself would");
    let mut found = losing(known, RETURNS, &loses, &cure);
    if declared.is_none() && known.queue().declared().is_none() {
        found = Diagnosis::reported(found.finding);
    }
    Some(found)
}
