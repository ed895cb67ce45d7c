//! What can go wrong with an outbox, by what its table holds and what is there at the broker.
//!
//! [`examine`] is a pure function, tested as a table; [`look`] collects what it needs.

use std::{collections::BTreeMap, time::Duration};

use idem_core::{
    ErrorChain, StoreError,
    handler::OutgoingContent,
    store::{
        Finding,
        outbox::{OutboxCounts, OutboxEntry, OutboxGlance, OutboxState, SharedOutbox},
    },
};
use lapin::{
    Connection, ErrorKind,
    options::{ExchangeDeclareOptions, QueueDeclareOptions},
    types::FieldTable,
};

use super::span::Span;
use crate::wire::outgoing;

const OUTBOX: &str = "outbox";

/// Workers take what is due twice a second.
const UNTAKEN: Duration = Duration::from_mins(2);

/// At most so many messages of each kind are looked at, and so many places that they go to.
const MOST: u32 = 100;
const PLACES: usize = 20;

/// A head of an order that was tried so often stands.
const TRIED: u32 = 3;

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asker {
    /// A worker that starts, and takes what it finds from now on.
    Starting,
    /// Somebody who wants to know.
    Anybody,
}

/// What is known about an outbox.
struct Facts<'a> {
    glance: OutboxGlance,
    /// Those that may need somebody.
    entries: &'a [OutboxEntry],
    /// Where messages go, and what is not there.
    missing: &'a BTreeMap<String, Missing>,
    asker: Asker,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Missing {
    Queue(String),
    Exchange(String),
}

/// Looks at an outbox, and at the broker, if there is a connection to it.
pub(crate) async fn look(
    outbox: &SharedOutbox,
    connection: Option<&Connection>,
    asker: Asker,
) -> Vec<Finding> {
    match try_look(outbox, connection, asker).await {
        Ok(findings) => findings,
        // A worker whose handlers need it does not start, and says the same.
        Err(error @ StoreError::Refused(_)) => {
            let error = ErrorChain::of(&error);
            vec![Finding::warning(OUTBOX, error.to_string())]
        }
        Err(error) => {
            let text = format!(
                "the outbox cannot be read ({}); look again when the store answers",
                ErrorChain::of(&error)
            );
            vec![Finding::note("outbox-silent", text)]
        }
    }
}

async fn try_look(
    outbox: &SharedOutbox,
    connection: Option<&Connection>,
    asker: Asker,
) -> Result<Vec<Finding>, StoreError> {
    let glance = outbox.glance().await?;
    if glance.counts == OutboxCounts::default() {
        return Ok(Vec::new());
    }
    let entries = outbox.troubled(MOST).await?;
    let mut missing = BTreeMap::new();
    if let Some(connection) = connection {
        for (place, content) in places(outbox, &entries).await? {
            if let Some(thing) = lacks(connection, content).await {
                missing.insert(place, thing);
            }
        }
    }
    Ok(examine(&Facts {
        glance,
        entries: &entries,
        missing: &missing,
        asker,
    }))
}

/// Where those go that are not dead, and one message to each.
async fn places(
    outbox: &SharedOutbox,
    entries: &[OutboxEntry],
) -> Result<BTreeMap<String, OutgoingContent>, StoreError> {
    let mut places = BTreeMap::new();
    for entry in entries {
        let is_new = entry.state != OutboxState::Dead && !places.contains_key(&entry.target);
        if is_new
            && places.len() < PLACES
            && let Some((_, content)) = outbox.show(entry.id).await?
        {
            places.insert(entry.target.clone(), content);
        }
    }
    Ok(places)
}

/// What is not there that this message needs. To which queues an exchange leads, AMQP does not say.
async fn lacks(connection: &Connection, content: OutgoingContent) -> Option<Missing> {
    let publication = outgoing::publication(content).ok()?;
    let channel = connection.create_channel().await.ok()?;
    let (name, missing, asked) = match publication.address() {
        ("", queue) => {
            let passive = QueueDeclareOptions {
                passive: true,
                ..QueueDeclareOptions::default()
            };
            let asked = channel.queue_declare(queue.into(), passive, FieldTable::default());
            let missing: fn(String) -> Missing = Missing::Queue;
            (queue, missing, asked.await.map(drop))
        }
        (exchange, _) => {
            let passive = ExchangeDeclareOptions {
                passive: true,
                ..ExchangeDeclareOptions::default()
            };
            let kind = lapin::ExchangeKind::Direct;
            let asked =
                channel.exchange_declare(exchange.into(), kind, passive, FieldTable::default());
            let missing: fn(String) -> Missing = Missing::Exchange;
            (exchange, missing, asked.await)
        }
    };
    match asked {
        Ok(()) => {
            let _ = channel.close(200, "done".into()).await;
            None
        }
        Err(error) => match error.kind() {
            ErrorKind::ProtocolError(refusal) if refusal.get_id() == 404 => {
                Some(missing(name.to_owned()))
            }
            _ => None,
        },
    }
}

fn examine(facts: &Facts<'_>) -> Vec<Finding> {
    let several = [untaken(facts), dead(facts)].into_iter().flatten();
    several
        .chain(places_that_are_missing(facts))
        .chain(orders_that_stand(facts))
        .collect()
}

fn untaken(facts: &Facts<'_>) -> Option<Finding> {
    let untaken = facts.glance.untaken;
    if untaken < UNTAKEN || facts.asker == Asker::Starting {
        return None;
    }
    Some(Finding::warning(
        "outbox-untaken",
        format!(
            "a message of the outbox could have left {} ago, and nobody has taken it: no worker with an outbox and no \
             relay runs on this store, or none reaches the broker; start one (`idem outbox relay`)",
            Span(Duration::from_secs(untaken.as_secs()))
        ),
    ))
}

fn dead(facts: &Facts<'_>) -> Option<Finding> {
    let dead = facts.glance.counts.dead;
    if dead == 0 {
        return None;
    }
    let first = facts
        .entries
        .iter()
        .find(|entry| entry.state == OutboxState::Dead);
    let first = first.map_or_else(String::new, |entry| {
        let error = entry.error.as_deref().unwrap_or_default();
        format!(
            ", `{}` to `{}` among them ({error})",
            entry.message_id, entry.target
        )
    });
    Some(Finding::warning(
        "outbox-dead",
        format!(
            "{dead} messages of the outbox were given up{first}: see `idem outbox list --state dead`, mend the cause, \
             then `idem outbox retry --all`"
        ),
    ))
}

fn places_that_are_missing(facts: &Facts<'_>) -> impl Iterator<Item = Finding> {
    facts.missing.iter().map(|(place, missing)| {
        let (what, name) = match missing {
            Missing::Queue(name) => ("queue", name),
            Missing::Exchange(name) => ("exchange", name),
        };
        Finding::warning(
            "outbox-target",
            format!(
                "messages of the outbox go to `{place}`, and the {what} `{name}` does not exist: they will be given up; \
                 declare it, or send them elsewhere with `idem outbox redirect`"
            ),
        )
    })
}

fn orders_that_stand<'a>(facts: &'a Facts<'a>) -> impl Iterator<Item = Finding> {
    let stand = facts.entries.iter().filter_map(|entry| {
        let lane = entry.lane.as_ref()?;
        let why = entry.error.as_deref().unwrap_or_default();
        let stands = match entry.state {
            OutboxState::Dead => format!("was given up ({why})"),
            OutboxState::Waiting if entry.attempts >= TRIED => {
                format!("was tried {} times ({why})", entry.attempts)
            }
            _ => return None,
        };
        Some((lane, entry, stands))
    });
    // The others are of the same kind, and counted as dead.
    stand.take(3).map(|(lane, entry, stands)| {
        Finding::warning(
            "outbox-order",
            format!(
                "what is ordered by `{lane}` stands: its first message `{}` to `{}` {stands}, and those behind it wait; \
                 mend the cause and `idem outbox retry {id}`, or `idem outbox discard {id}`",
                entry.message_id,
                entry.target,
                id = entry.id
            ),
        )
    })
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use idem_core::store::outbox::OutboxRow;

    use super::*;

    fn entry(state: OutboxState, lane: Option<&str>, attempts: u32) -> OutboxEntry {
        OutboxEntry::from(OutboxRow {
            id: "019abf3e-5d3c-7a11-8c44-0b6d1f7e2a90".parse().unwrap(),
            message_id: "orders:1#0".into(),
            target: "shipping".into(),
            lane: lane.map(str::to_owned),
            state,
            due_micros: 0,
            attempts,
            error: Some("NOT_FOUND".into()),
            created_micros: 0,
            bytes: 2,
        })
    }

    fn codes(
        [waiting, dead]: [u64; 2],
        untaken: u64,
        entries: &[OutboxEntry],
        missing: &BTreeMap<String, Missing>,
        asker: Asker,
    ) -> Vec<&'static str> {
        let counts = OutboxCounts::new(waiting, 0, dead, Duration::ZERO);
        let facts = Facts {
            glance: OutboxGlance::new(counts, Duration::from_secs(untaken)),
            entries,
            missing,
            asker,
        };
        examine(&facts).iter().map(|one| one.code).collect()
    }

    #[test]
    fn what_an_outbox_holds_says_what_is_wrong() {
        let none = BTreeMap::new();
        let queue = BTreeMap::from([("shipping".into(), Missing::Queue("shipping".into()))]);
        let waits = |lane, attempts| [entry(OutboxState::Waiting, lane, attempts)];
        let dead = |lane| [entry(OutboxState::Dead, lane, 1)];
        let (asks, starts) = (Asker::Anybody, Asker::Starting);
        let found = [
            codes([1, 0], 119, &waits(None, 9), &none, asks),
            codes([1, 0], 120, &waits(None, 0), &none, asks),
            codes([1, 0], 120, &waits(None, 0), &none, starts),
            codes([0, 2], 0, &dead(None), &none, starts),
            codes([1, 0], 0, &waits(None, 0), &queue, starts),
            codes([2, 0], 0, &waits(Some("c-1"), 2), &none, asks),
            codes([2, 0], 0, &waits(Some("c-1"), 3), &none, asks),
            codes([1, 1], 0, &dead(Some("c-1")), &none, asks),
        ];
        let expected: [&[&str]; 8] = [
            &[],
            &["outbox-untaken"],
            &[],
            &["outbox-dead"],
            &["outbox-target"],
            &[],
            &["outbox-order"],
            &["outbox-dead", "outbox-order"],
        ];
        assert_eq!(found.each_ref().map(Vec::as_slice), expected);
    }

    #[test]
    fn a_finding_names_what_is_to_be_done() {
        let entry = entry(OutboxState::Dead, Some("c-1"), 1);
        assert!(entry.created <= SystemTime::now());
        let counts = OutboxCounts::new(0, 0, 1, Duration::ZERO);
        let found = examine(&Facts {
            glance: OutboxGlance::new(counts, Duration::ZERO),
            entries: &[entry],
            missing: &BTreeMap::new(),
            asker: Asker::Anybody,
        });
        let texts: Vec<_> = found.iter().map(|one| &*one.text).collect();
        assert_eq!(
            texts,
            [
                "1 messages of the outbox were given up, `orders:1#0` to `shipping` among them (NOT_FOUND): see \
                 `idem outbox list --state dead`, mend the cause, then `idem outbox retry --all`",
                "what is ordered by `c-1` stands: its first message `orders:1#0` to `shipping` was given up \
                 (NOT_FOUND), and those behind it wait; mend the cause and `idem outbox retry \
                 019abf3e-5d3c-7a11-8c44-0b6d1f7e2a90`, or `idem outbox discard 019abf3e-5d3c-7a11-8c44-0b6d1f7e2a90`",
            ]
        );
    }
}
