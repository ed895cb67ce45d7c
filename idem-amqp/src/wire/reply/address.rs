//! Where a reply goes, as far as its address tells.

/// What addresses begin with that name no queue, but a channel of the requester's.
const DIRECT: &str = "amq.rabbitmq.reply-to.";

/// Where a reply goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    Queue,
    /// A channel of the requester's, on this node of the broker's if the address says so in a form that
    /// is known.
    Channel(Option<Node>),
    /// It looks like that of a channel, and cannot be one. By many of these RabbitMQ 3.10 and 4.0 close
    /// the connection.
    Malformed,
}

/// A node of the broker's, by the name that addresses have for it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Node(String);

impl Address {
    /// Reads `amq.rabbitmq.reply-to.PROCESS.KEY`, both in Base64. Anything else is a queue's name.
    pub(crate) fn read(to: &str) -> Self {
        let Some(address) = to.strip_prefix(DIRECT) else {
            return Self::Queue;
        };
        match address.split_once('.') {
            Some((process, key)) if is_base64(process) && is_base64(key) => {
                Self::Channel(node(process))
            }
            _ => Self::Malformed,
        }
    }

    /// Whether it is one of a channel, or looks like one: there is no queue that a reply could wait in.
    pub(crate) fn is_direct(to: &str) -> bool {
        to.starts_with(DIRECT)
    }
}

/// Whether the text is base64, of either alphabet: a later version of the broker may prefer the other one.
fn is_base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || b"+/-_".contains(&byte);
    !digits.is_empty() && text.len() - digits.len() <= 2 && digits.bytes().all(is_digit)
}

/// The node of a process in Erlang's external format, as RabbitMQ 3.10 to 4.3 write it: `NEW_PID_EXT`, a
/// name as `ATOM_UTF8_EXT`, and twelve bytes of numbers.
fn node(process: &str) -> Option<Node> {
    let bytes = decoded(process)?;
    let [131, 88, 118, high, low, rest @ ..] = bytes.as_slice() else {
        return None;
    };
    let (name, numbers) = rest.split_at_checked(u16::from_be_bytes([*high, *low]).into())?;
    if numbers.len() != 12 {
        return None;
    }
    String::from_utf8(name.to_vec()).ok().map(Node)
}

fn decoded(base64: &str) -> Option<Vec<u8>> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bytes = Vec::new();
    let (mut bits, mut many) = (0_u32, 0);
    for byte in base64.trim_end_matches('=').bytes() {
        let digit = DIGITS.iter().position(|digit| *digit == byte)?;
        bits = bits << 6 | u32::try_from(digit).ok()?;
        many += 6;
        if many >= 8 {
            many -= 8;
            bytes.push(u8::try_from(bits >> many & 0xff).ok()?);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::headers::UNADDRESSED;

    fn on(node: &str) -> Address {
        Address::Channel(Some(Node(node.into())))
    }

    fn direct(address: &str) -> Address {
        Address::read(&format!("{DIRECT}{address}"))
    }

    #[test]
    fn the_addresses_that_brokers_write_tell_their_node() {
        for (address, node) in [
            // RabbitMQ 3.10, 4.0 and 4.3.
            (
                "g1h2AA5yZXBseUAxMDIwMDE2NAAAAzMAAAAAawQ9nw==.zUjTBB1SJKv1cZZltxt8pA==",
                "reply@10200164",
            ),
            (
                "g1h2AA9yZXBseUAxMDUzNTg0NTIAAANzAAAAAGsEP8A=.w0ugrJf7dyb+xJdsOwrf8Q==",
                "reply@105358452",
            ),
            (
                "g1h2AA5yZXBseUAxNDU5MTA0NAAAAusAAAAAawQ9pA==.NH5q+zcVpaz7rCRbsnXTHg==",
                "reply@14591044",
            ),
            (
                "g1h2AA5yZXBseUA1Mjg2NDE2NAAAA4UAAAAAawQ9qQ==.WAA34jP0MFFuNH+RCTtP+g==",
                "reply@52864164",
            ),
        ] {
            assert_eq!(direct(address), on(node), "{address}");
        }
    }

    #[test]
    fn an_address_of_another_form_may_be_one_of_a_later_version() {
        for address in [
            "AAAA.x",
            "g1h2.abc==",
            "g1h2AA5yZXBseUA1Mjg2NDE2NAAAA4UAAAAAawQ9.x",
            "g1h3B3JlcGx5QDEAAAH0AAAAAAAAAAA=.x",
            "a-b_c.d",
        ] {
            assert_eq!(direct(address), Address::Channel(None), "{address}");
        }
    }

    #[test]
    fn what_no_version_could_write_is_malformed() {
        for address in [
            "", "x", ".", "x.", ".x", "!!!.x", "x.!!!", "a.b.c", "....!.x", "=.x", "a===.x",
            "a=b.x",
        ] {
            assert_eq!(direct(address), Address::Malformed, "{address}");
        }
    }

    #[test]
    fn any_other_name_is_a_queues() {
        for to in [
            "replies",
            "amq.gen-1",
            UNADDRESSED,
            "amq.rabbitmq.reply-tox",
        ] {
            assert_eq!(Address::read(to), Address::Queue, "{to}");
        }
    }
}
