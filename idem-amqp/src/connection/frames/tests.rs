use amq_protocol::frame::{AMQPFrame, parsing::parse_frame};
use lapin::types::ShortString;
use proptest::{collection::vec, prelude::*};

use super::*;
use crate::wire::unmark;

const FRAME_MAX: u32 = 4096;

/// Everything that comes out when everything has gone in.
pub(crate) fn through(frames: &mut Frames, mut input: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    loop {
        let Passed { bytes, then } = frames.pass(input);
        out.extend(&input[..bytes]);
        input = &input[bytes..];
        let Some(replaced) = then else {
            assert!(input.is_empty(), "a frame is missing its end");
            return out;
        };
        out.extend(replaced.by);
        input = &input[replaced.length..];
    }
}

pub(crate) fn frame(kind: u8, channel: u16, payload: &[u8]) -> Vec<u8> {
    let end = 0xce;
    Frame {
        kind,
        channel,
        payload,
        end,
    }
    .with(payload)
}

fn text_of(text: &[u8]) -> Vec<u8> {
    [&[u8::try_from(text.len()).unwrap()], text].concat()
}

fn deliver(channel: u16, exchange: &[u8], routing_key: &[u8]) -> Vec<u8> {
    let method = [
        &[0, 60, 0, 60][..],
        &text_of(b"consumer"),
        &[0, 0, 0, 0, 0, 0, 0, 1, 0],
        &text_of(exchange),
        &text_of(routing_key),
    ];
    frame(METHOD, channel, &method.concat())
}

pub(crate) fn content_header(channel: u16, properties: &[u8]) -> Vec<u8> {
    let before = [0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7];
    frame(HEADER, channel, &[&before[..], properties].concat())
}

fn tune(frame_max: u32) -> Vec<u8> {
    let offer = [&[0, 10, 0, 30, 0, 9][..], &frame_max.to_be_bytes(), &[0, 0]];
    frame(METHOD, 0, &offer.concat())
}

fn flaw(bytes: &[u8]) -> Option<String> {
    let (rest, frame) = parse_frame(bytes).unwrap();
    assert_eq!(rest, b"");
    let AMQPFrame::Header(_, mut header) = frame else {
        panic!("{frame:?}")
    };
    unmark(&mut header.properties)
}

#[test]
fn frames_larger_than_was_agreed_upon_lose_their_headers() {
    let note = vec![b'x'; 5000];
    let length = |bytes: usize| u32::try_from(bytes).unwrap().to_be_bytes();
    let entry = [b"\x01xS".as_slice(), &length(note.len()), &note].concat();
    let table = [&length(entry.len()), &entry[..]].concat();
    let header = content_header(1, &[&[0x20, 0], &table[..]].concat());
    for (asked, offered, replaced) in [
        (0, 0, false),
        (0, 8192, false),
        (0, 4096, true),
        // What is smaller than the least there is cannot be agreed upon.
        (0, 1, true),
        (4096, 8192, true),
        (4096, 0, true),
        (8192, 8192, false),
        (u32::try_from(header.len()).unwrap(), 8192, false),
        (u32::try_from(header.len()).unwrap() - 1, 8192, true),
    ] {
        let mut frames = Frames::new(asked);
        assert_eq!(through(&mut frames, &tune(offered)), tune(offered));
        let out = through(&mut frames, &header);
        assert_eq!(out != header, replaced, "{asked} {offered}");
        if replaced {
            let told = flaw(&out).unwrap();
            assert!(told.contains(&header.len().to_string()), "{told}");
            assert!(out.len() < FRAME_MAX as usize);
        }
    }
}

#[test]
fn a_name_that_is_not_utf_8_marks_the_next_message_of_its_channel_alone() {
    let mut frames = Frames::new(0);
    let good = content_header(1, &[0, 0]);
    let returned = [
        &[0, 60, 0, 50, 1, 56],
        &text_of(b"NO_ROUTE")[..],
        &[0],
        &text_of(b"\xe9"),
    ];
    let got = [
        &[0, 60, 0, 71][..],
        &[0; 9],
        &text_of(b"\xe9"),
        &[0],
        &[0; 4],
    ];
    for (method, shown) in [
        (deliver(1, b"", b"commande.pass\xe9e"), "commande.pass?e"),
        (deliver(1, b"\xff\xfe", "é".as_bytes()), "é"),
        (frame(METHOD, 1, &returned.concat()), "?"),
        (frame(METHOD, 1, &got.concat()), ""),
    ] {
        let out = through(&mut frames, &method);
        assert_eq!(out.len(), method.len());
        let (_, seen) = parse_frame(&out[..]).unwrap();
        let key = ShortString::from(shown);
        assert!(
            format!("{seen:?}").contains(&format!("routing_key: {key:?}")),
            "{seen:?}"
        );
        let other = content_header(2, &[0, 0]);
        assert_eq!(through(&mut frames, &other), other);
        let told = flaw(&through(&mut frames, &good)).unwrap();
        assert!(told.contains("routing key"), "{told}");
        assert_eq!(through(&mut frames, &good), good, "the one behind it");
    }
    for fine in [deliver(1, b"", b""), deliver(1, "é".as_bytes(), b"x")] {
        assert_eq!(through(&mut frames, &fine), fine);
    }
}

/// RabbitMQ cuts a long text after 252 bytes.
/// No broker does that.
#[test]
fn a_message_that_is_broken_off_marks_one_message_alone() {
    let mut frames = Frames::new(0);
    let (method, header) = (deliver(1, b"", b"\xe9"), content_header(1, &[0, 0]));
    for _ in 0..2 {
        assert_ne!(through(&mut frames, &method), method);
    }
    assert!(flaw(&through(&mut frames, &header)).is_some());
    assert_eq!(through(&mut frames, &header), header);
}

#[test]
fn a_refusal_that_is_cut_within_a_character_is_readable() {
    let text = ["x".as_bytes(), "é".repeat(200).as_bytes()].concat();
    let text = [&text[..252], b"..."].concat();
    for method in [[0, 10, 0, 50], [0, 20, 0, 40]] {
        let payload = [&method[..], &[1, 148], &text_of(&text), &[0, 50, 0, 10]];
        let sent = frame(METHOD, 1, &payload.concat());
        assert!(parse_frame(&sent[..]).is_err());
        let mut frames = Frames::new(0);
        let out = through(&mut frames, &sent);
        assert_eq!(out.len(), sent.len());
        let (_, seen) = parse_frame(&out[..]).unwrap();
        assert!(format!("{seen:?}").contains("reply_code: 404"), "{seen:?}");
        let header = content_header(1, &[0, 0]);
        assert_eq!(through(&mut frames, &header), header);
    }
}

#[test]
fn what_is_no_frame_is_left_to_the_client() {
    for stream in [
        &b"AMQP\0\0\x09\x01"[..],
        b"HTTP/1.1 400 Bad Request",
        b"\x03",
    ] {
        let passed = Frames::new(0).pass(stream);
        assert_eq!(passed.then, None);
        assert_eq!(passed.bytes == stream.len(), stream.len() > 1, "{stream:?}");
    }
}

/// A field table's value, most often right.
fn value() -> impl Strategy<Value = Vec<u8>> {
    let number = |kinds: &'static [u8], bytes: usize| {
        (prop::sample::select(kinds), vec(any::<u8>(), bytes))
            .prop_map(|(kind, bytes)| [&[kind], &bytes[..]].concat())
    };
    let leaf = prop_oneof![
        number(b"V", 0),
        number(b"tbB", 1),
        number(b"sUu", 2),
        number(b"Iif", 4),
        number(b"D", 5),
        number(b"LldT", 8),
        (prop::sample::select(&b"Sx"[..]), vec(any::<u8>(), 0..9)).prop_map(|(kind, text)| [
            &[kind],
            &long(&text)[..]
        ]
        .concat()),
    ];
    leaf.prop_recursive(8, 64, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(|of| [b"A", &long(&of.concat())[..]].concat()),
            vec((name(), inner), 0..4).prop_map(|of| [b"F", &table(&of)[..]].concat()),
        ]
    })
}

fn long(bytes: &[u8]) -> Vec<u8> {
    [&u32::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![9 => "[a-z-é]{0,6}".prop_map(String::into_bytes), 1 => vec(any::<u8>(), 0..4)]
}

fn table(entries: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let entries = entries
        .iter()
        .map(|(name, value)| [&text_of(name), &value[..]].concat());
    long(&entries.collect::<Vec<_>>().concat())
}

/// The properties of a message, most often right.
fn properties() -> impl Strategy<Value = Vec<u8>> {
    let headers = vec((name(), value()), 0..5).prop_map(|entries| table(&entries));
    let rest = (vec(name(), 12), any::<u64>());
    (any::<u16>(), headers, rest).prop_map(|(flags, headers, (texts, time))| {
        let mut list = flags.to_be_bytes().to_vec();
        for at in (0..14).filter(|at| flags & (0x8000 >> at) != 0) {
            match at {
                2 => list.extend(&headers),
                3 | 4 => list.push(2),
                9 => list.extend(time.to_be_bytes()),
                _ => list.extend(text_of(&texts[at.min(11)])),
            }
        }
        list
    })
}

/// Some of its bytes are others, or it ends too early.
fn damaged(bytes: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let damage = vec((any::<prop::sample::Index>(), any::<u8>()), 0..3);
    let cut = prop::option::weighted(0.1, any::<prop::sample::Index>());
    (bytes, damage, cut).prop_map(|(mut bytes, damage, cut)| {
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            // At least the flags.
            bytes.truncate(cut.index(bytes.len()).max(2));
        }
        bytes
    })
}

/// Frames as a broker sends them, one after the other.
fn frames() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let one = (
        1u16..3,
        prop_oneof![
            (0u8..1, properties()),
            (0u8..1, damaged(properties())),
            (1u8..2, name()),
            (2u8..4, vec(any::<u8>(), 0..40)),
        ],
    );
    let one = one.prop_map(|(channel, (what, bytes))| match what {
        0 => content_header(channel, &bytes),
        1 => deliver(channel, b"orders", &bytes),
        2 => frame(BODY, channel, &bytes),
        _ => frame(HEARTBEAT, 0, &[]),
    });
    vec(one, 0..12)
}

proptest! {
    /// What the client can read comes as it was; what it could not is replaced by what it can.
    #[test]
    fn the_client_can_read_whatever_comes_out(sent in frames()) {
        let mut filter = Frames::new(FRAME_MAX);
        let mut misrouted = [false; 3];
        for sent in sent {
            let came = through(&mut filter, &sent);
            let read = parse_frame(&came[..]);
            prop_assert!(matches!(read, Ok((b"", _))), "{read:?}");
            let (Ok((_, AMQPFrame::Method(channel, _) | AMQPFrame::Header(channel, _))), method) =
                (&read, sent[0] == METHOD)
            else {
                prop_assert_eq!(came, sent);
                continue;
            };
            let was_readable = parse_frame(&sent[..]).is_ok() && sent.len() <= FRAME_MAX as usize;
            let misrouted = &mut misrouted[usize::from(*channel)];
            prop_assert_eq!(came == sent, was_readable && (method || !*misrouted));
            *misrouted = method && (*misrouted || !was_readable);
            if !method && came != sent {
                prop_assert!(flaw(&came).is_some());
            }
        }
    }

    /// Wherever the stream is cut.
    #[test]
    fn cuts_make_no_difference(sent in frames(), cuts in vec(any::<prop::sample::Index>(), 0..20)) {
        let sent = sent.concat();
        let whole = through(&mut Frames::new(FRAME_MAX), &sent);
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(sent.len() + 1)).collect();
        cuts.push(sent.len());
        cuts.sort_unstable();
        let (mut filter, mut came) = (Frames::new(FRAME_MAX), Vec::new());
        let mut at = 0;
        for cut in cuts {
            loop {
                let Passed { bytes, then } = filter.pass(&sent[at..cut]);
                came.extend(&sent[at..at + bytes]);
                at += bytes;
                let Some(replaced) = then else { break };
                came.extend(replaced.by);
                at += replaced.length;
            }
        }
        prop_assert_eq!(came, whole);
    }
}

#[test]
fn a_header_that_says_it_is_endless_is_not_waited_for() {
    for kind in [METHOD, HEADER] {
        let head = [&[kind, 0, 1][..], &u32::MAX.to_be_bytes(), b"xyz"].concat();
        let passed = Frames::new(0).pass(&head);
        assert_eq!((passed.bytes, passed.then), (head.len(), None));
    }
}
