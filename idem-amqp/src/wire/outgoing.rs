//! A publication as the outbox of a store keeps it, and back.
//!
//! The head holds all but the body: a version, whether it is mandatory, the exchange, the routing key, and the
//! properties as they are on the wire. What must stay true:
//!
//! - What is read back is what was written, also by another version of the program.
//! - What cannot be read is told, and not published.
// No publishing ids for streams: docs/decisions/0052

use std::io::Cursor;

use amq_protocol::{
    frame::WriteContext,
    protocol::basic::{gen_properties, parse_properties},
};
use idem_core::handler::OutgoingContent;
use lapin::types::ShortString;

use super::Publication;

/// The form of the head that is written. Others are refused.
const VERSION: u8 = 1;

/// Why a head cannot be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UnreadableHead {
    #[error(
        "a later version of the program has written how to publish it (form {0}): it waits for that one"
    )]
    Version(u8),
    #[error("how to publish it cannot be read: it was changed, or another program has written it")]
    Damaged,
}

/// A publication as the outbox keeps it.
pub(crate) fn content(publication: Publication) -> OutgoingContent {
    let head = head(&publication);
    OutgoingContent {
        message_id: publication.id().to_owned(),
        target: target(&publication),
        head,
        body: publication.body,
    }
}

/// Where it goes, as people write it.
pub(crate) fn target(publication: &Publication) -> String {
    match publication.address() {
        ("", queue) => queue.to_owned(),
        (exchange, "") => format!("{exchange}/"),
        (exchange, routing_key) => format!("{exchange}/{routing_key}"),
    }
}

pub(crate) fn head(publication: &Publication) -> Vec<u8> {
    let mut head = vec![VERSION, u8::from(publication.mandatory)];
    for name in [&publication.exchange, &publication.routing_key] {
        let bytes = name.as_str().as_bytes();
        head.push(u8::try_from(bytes.len()).expect("a short string has at most 255 bytes"));
        head.extend_from_slice(bytes);
    }
    let mut room = vec![0; 1024];
    loop {
        let buffer = WriteContext::from(Cursor::new(&mut room[..]));
        let written = gen_properties(&publication.properties)(buffer);
        let length = written.map(|written| written.into_inner().1);
        if let Ok(length) = length {
            let length = usize::try_from(length).expect("it is in memory");
            head.extend_from_slice(&room[..length]);
            return head;
        }
        // Too small: there is no other error in memory.
        room = vec![0; 2 * room.len()];
    }
}

/// What is to be published.
pub(crate) fn publication(content: OutgoingContent) -> Result<Publication, UnreadableHead> {
    let head = &content.head[..];
    let (version, head) = head.split_first().ok_or(UnreadableHead::Damaged)?;
    if *version != VERSION {
        return Err(UnreadableHead::Version(*version));
    }
    let (mandatory, head) = head.split_first().ok_or(UnreadableHead::Damaged)?;
    let (exchange, head) = name(head).ok_or(UnreadableHead::Damaged)?;
    let (routing_key, head) = name(head).ok_or(UnreadableHead::Damaged)?;
    let Ok((rest, properties)) = parse_properties(head) else {
        return Err(UnreadableHead::Damaged);
    };
    if !rest.is_empty() {
        return Err(UnreadableHead::Damaged);
    }
    let publication = Publication::raw(&exchange, &routing_key, content.body, properties);
    Ok(if *mandatory == 0 {
        publication.optional()
    } else {
        publication
    })
}

fn name(head: &[u8]) -> Option<(String, &[u8])> {
    let (length, head) = head.split_first()?;
    let (name, head) = head.split_at_checked(usize::from(*length))?;
    let name = std::str::from_utf8(name).ok()?;
    ShortString::try_new(name).ok()?;
    Some((name.to_owned(), head))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lapin::types::{AMQPValue, FieldArray, FieldTable};

    use super::*;

    fn full() -> Publication {
        let mut table = FieldTable::default();
        table.insert(
            "deep".into(),
            AMQPValue::FieldArray(FieldArray::from(vec![
                AMQPValue::Double(1.5),
                AMQPValue::Void,
            ])),
        );
        Publication::json("ignored", &"é")
            .exchange("events", "order.charged")
            .message_id("orders.charge:o-17#0")
            .header("x-tenant", "acme")
            .reply_to("answers")
            .correlation_id("c-1")
            .priority(7)
            .expiration(Duration::from_secs(5))
            .own_header("x-table", AMQPValue::FieldTable(table))
    }

    fn parts(it: &Publication) -> (String, String, Vec<u8>, lapin::BasicProperties, bool) {
        let (exchange, routing_key) = it.address();
        (
            exchange.into(),
            routing_key.into(),
            it.body.clone(),
            it.properties.clone(),
            it.mandatory,
        )
    }

    #[test]
    fn what_is_read_back_is_what_was_written() {
        let bare = Publication::raw("", "orders", Vec::new(), lapin::BasicProperties::default());
        let long = Publication::bytes("orders", vec![7; 100_000]).header("x", &"y".repeat(70_000));
        for publication in [full(), bare.optional(), long] {
            let kept = content(publication.clone());
            let read = super::publication(kept).unwrap();
            assert_eq!(parts(&read), parts(&publication));
        }
    }

    #[test]
    fn it_says_where_it_goes() {
        let queue = Publication::bytes("orders", "{}");
        assert_eq!(target(&queue), "orders");
        assert_eq!(target(&full()), "events/order.charged");
        assert_eq!(target(&full().exchange("events", "")), "events/");
    }

    #[test]
    fn what_cannot_be_read_is_told() {
        let kept = content(full());
        let with = |head: Vec<u8>| {
            super::publication(OutgoingContent {
                head,
                ..kept.clone()
            })
        };
        for end in 0..kept.head.len() {
            let cut = with(kept.head[..end].to_vec()).map(drop);
            assert_eq!(cut, Err(UnreadableHead::Damaged), "{end}");
        }
        let mut more = kept.head.clone();
        more.push(0);
        assert_eq!(with(more).map(drop), Err(UnreadableHead::Damaged));
        let mut later = kept.head.clone();
        later[0] = 2;
        assert_eq!(with(later).map(drop), Err(UnreadableHead::Version(2)));
    }
}
