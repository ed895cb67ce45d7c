//! A message as it is sent: whether it is compressed (1 byte), its length (4), itself.

const HEAD: usize = 5;

/// One message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frame<'a> {
    pub(super) is_compressed: bool,
    pub(super) message: &'a [u8],
}

/// The message that this is, if it is exactly one.
pub(super) fn of(body: &[u8]) -> Option<Frame<'_>> {
    let (head, message) = body.split_first_chunk()?;
    (message.len() == length(*head)).then_some(Frame {
        is_compressed: head[0] != 0,
        message,
    })
}

/// Whether this is one message or the beginning of one.
pub(crate) fn is_one(read: &[u8]) -> bool {
    let Some((head, message)) = read.split_first_chunk() else {
        return true;
    };
    message.len() <= length(*head)
}

fn length([_, a, b, c, d]: [u8; HEAD]) -> usize {
    u32::from_be_bytes([a, b, c, d]) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_a_message_a_part_of_one_or_more() {
        let frame = |is_compressed, message| {
            Some(Frame {
                is_compressed,
                message,
            })
        };
        for (body, expected, one) in [
            (&b""[..], None, true),
            (b"\0\0\0\0", None, true),
            (b"\0\0\0\0\0", frame(false, &b""[..]), true),
            (b"\x01\0\0\0\x02a", None, true),
            (b"\x01\0\0\0\x02ab", frame(true, b"ab"), true),
            (b"\x01\0\0\0\x02abc", None, false),
            (b"\0\0\0\0\0\0\0\0\0\0", None, false),
            (b"\0\xff\xff\xff\xffab", None, true),
        ] {
            assert_eq!(of(body), expected, "{body:?}");
            assert_eq!(is_one(body), one, "{body:?}");
        }
    }
}
