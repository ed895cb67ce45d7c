use std::thread;

use amq_protocol::frame::parsing::parse_content_header;
use lapin::types::{AMQPValue, ShortString};

use super::*;

/// The payload of a content header with these properties.
fn payload(flags: u16, list: &[u8]) -> Vec<u8> {
    let before = [0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7];
    [&before[..], &flags.to_be_bytes(), list].concat()
}

/// The payload of a content header with these entries of a table.
fn with_headers(entries: &[u8]) -> Vec<u8> {
    payload(1 << 13, &[&length(entries.len()), entries].concat())
}

fn arrays(levels: usize) -> Vec<u8> {
    let mut value = Vec::new();
    for _ in 0..levels {
        value = [b"A".as_slice(), &length(value.len()), &value].concat();
    }
    [b"\x01x".as_slice(), &value].concat()
}

fn is_read_by_the_client(payload: &[u8]) -> bool {
    matches!(parse_content_header(payload), Ok((&[], _)))
}

#[test]
fn what_the_client_cannot_read_is_told_by_its_flaw() {
    let text = |bit: u16, bytes: &[u8]| payload(1 << bit, bytes);
    for (payload, expected) in [
        (payload(0, &[]), Ok(())),
        (payload(0b11, &[]), Ok(())),
        (payload(0, &[0]), Err(Flaw::Length)),
        (text(15, b"\x02ok"), Ok(())),
        (text(15, b"\x02\xc3\xa9"), Ok(())),
        (text(15, b"\x02\xc3"), Err(Flaw::Length)),
        (text(15, b"\x01\xe9"), Err(Flaw::NotUtf8)),
        (text(2, b"\x01\xe9"), Err(Flaw::NotUtf8)),
        (text(6, &[0; 8]), Ok(())),
        (text(6, &[0; 7]), Err(Flaw::Length)),
        (with_headers(b""), Ok(())),
        (with_headers(b"\x01xV"), Ok(())),
        (with_headers(b"\x01x"), Err(Flaw::Length)),
        (with_headers(b"\x01"), Err(Flaw::Length)),
        (with_headers(b"\x01xl\0\0"), Err(Flaw::Length)),
        (with_headers(b"\x01\xe9V"), Err(Flaw::NotUtf8)),
        // The client asks for UTF-8 in names, not in values.
        (with_headers(b"\x01xS\0\0\0\x01\xe9"), Ok(())),
        (with_headers(b"\x01x?"), Err(Flaw::Type)),
        (with_headers(b"\x01xF\0\0\0\x03\x01y?"), Err(Flaw::Type)),
        (
            with_headers(b"\x01xF\0\0\0\x03\x01\xe9V"),
            Err(Flaw::NotUtf8),
        ),
        (with_headers(b"\x01xA\0\0\0\x02VVV"), Err(Flaw::Length)),
        (with_headers(b"\x01xA\0\0\0\x09V"), Err(Flaw::Length)),
        (with_headers(b"\x01xA\xff\xff\xff\xff"), Err(Flaw::Length)),
        (payload(1 << 13, &[0, 0, 0, 9]), Err(Flaw::Length)),
        (vec![0; BEFORE_FLAGS + 1], Err(Flaw::Length)),
    ] {
        assert_eq!(check(&payload), expected, "{payload:?}");
        assert_eq!(
            expected.is_ok(),
            is_read_by_the_client(&payload),
            "{payload:?}"
        );
    }
}

#[test]
fn every_type_is_known_that_the_client_knows() {
    for kind in 0..=u8::MAX {
        // Long enough for any number, and an empty text, array or table.
        for zeros in 0..=8 {
            let entry = [b"\x01x", &[kind][..], &vec![0; zeros]].concat();
            let payload = with_headers(&entry);
            let read = is_read_by_the_client(&payload);
            assert_eq!(
                check(&payload).is_ok(),
                read,
                "{:?}, {zeros}",
                char::from(kind)
            );
        }
    }
}

#[test]
fn nesting_has_a_bound() {
    // The table of all headers is a level, too.
    assert_eq!(check(&with_headers(&arrays(DEEPEST - 1))), Ok(()));
    for levels in [DEEPEST, 1_500, 26_000] {
        assert_eq!(check(&with_headers(&arrays(levels))), Err(Flaw::Depth));
    }
    let most = with_headers(&arrays(DEEPEST - 1));
    // A quarter of what the client's thread has.
    let small = thread::Builder::new().stack_size(512 * 1024);
    let read = small.spawn(move || is_read_by_the_client(&most)).unwrap();
    assert!(read.join().unwrap());
}

#[test]
fn what_can_be_read_is_kept_but_for_the_headers() {
    let all = 0b1111_1111_1111_1100;
    let list = [
        b"\x02ct".as_slice(),
        b"\x01\xe9",
        &length(3),
        b"\x01x?",
        b"\x02\x05",
        b"\x02co\x02rt\x02ex\x02id",
        &[0, 0, 0, 0, 0, 0, 0, 9],
        b"\x01\xe9\x02us\x02ap\x02cl",
    ];
    let replaced = replacement(&payload(all, &list.concat()), Flaw::Type).unwrap();
    let (rest, header) = parse_content_header(&replaced[..]).unwrap();
    assert!(rest.is_empty());
    assert_eq!((header.class_id, header.body_size), (60, 7));
    let of = header.properties;
    let kept = [
        of.content_type(),
        of.correlation_id(),
        of.reply_to(),
        of.expiration(),
        of.message_id(),
        of.user_id(),
        of.app_id(),
        of.cluster_id(),
    ];
    let kept = kept.map(|text| text.as_ref().unwrap().as_str());
    assert_eq!(kept, ["ct", "co", "rt", "ex", "id", "us", "ap", "cl"]);
    assert_eq!((of.content_encoding(), of.kind()), (&None, &None));
    assert_eq!((of.delivery_mode(), of.priority()), (&Some(2), &Some(5)));
    assert_eq!(of.timestamp(), &Some(9));
    let headers = of.headers().as_ref().unwrap().inner();
    let names: Vec<_> = headers.keys().map(ShortString::as_str).collect();
    assert_eq!(names, [NAME]);
    let told = mark(Flaw::Type);
    assert_eq!(headers[NAME], AMQPValue::LongString(told.into()));
}

#[test]
fn what_comes_behind_a_wrong_length_is_left_out() {
    let list = [b"\x02ct".as_slice(), &[0, 0, 1, 0], b"\x02id"].concat();
    let flags = (1 << 15) | (1 << 13) | (1 << 7);
    let replaced = replacement(&payload(flags, &list), Flaw::Length).unwrap();
    let (_, header) = parse_content_header(&replaced[..]).unwrap();
    let kept = header.properties.content_type();
    assert_eq!(kept.as_ref().map(ShortString::as_str), Some("ct"));
    assert_eq!(header.properties.message_id(), &None);
}

#[test]
fn a_message_of_a_stream_keeps_its_offset() {
    let offset = [
        b"\x0fx-stream-offset".as_slice(),
        b"l",
        &7_i64.to_be_bytes(),
    ]
    .concat();
    let deep = arrays(DEEPEST);
    let named = b"\x01\xe9V";
    for entries in [
        [&deep[..], &offset].concat(),
        [&offset[..], &deep].concat(),
        [&named[..], &offset].concat(),
    ] {
        let payload = with_headers(&entries);
        let flaw = check(&payload).unwrap_err();
        let replaced = replacement(&payload, flaw).unwrap();
        let (rest, header) = parse_content_header(&replaced[..]).unwrap();
        assert!(rest.is_empty());
        assert_eq!(crate::wire::stream::offset(&header.properties), Some(7));
    }
}
