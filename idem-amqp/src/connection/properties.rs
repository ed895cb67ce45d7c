//! Whether the AMQP client can read a message's properties, and what it is given if it cannot (pure).

use crate::wire::stream::OFFSET;
use crate::wire::unreadable::DEEPEST;
use crate::wire::unreadable::{Flaw, NAME, mark};

/// Class, weight and the size of the body, before the properties' own flags.
const BEFORE_FLAGS: usize = 12;
const FLAGS: usize = 2;

/// What a property is, in the order of the flags that say whether it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Property {
    Text,
    Headers,
    Octet,
    Time,
}

const LAYOUT: [Property; 14] = {
    use Property::{Headers, Octet, Text, Time};
    [
        Text, Text, Headers, Octet, Octet, Text, Text, Text, Text, Time, Text, Text, Text, Text,
    ]
};

/// Whether the payload of a content header's frame can be read.
pub(super) fn check(payload: &[u8]) -> Result<(), Flaw> {
    let (flags, mut rest) = split(payload).ok_or(Flaw::Length)?;
    for (property, _) in present(flags) {
        let (value, behind) = property.split(rest).ok_or(Flaw::Length)?;
        property.check(value)?;
        rest = behind;
    }
    // The two lowest flags mean nothing, to RabbitMQ as well as to the client.
    if rest.is_empty() {
        Ok(())
    } else {
        Err(Flaw::Length)
    }
}

/// The payload with all properties that can be read, and the mark in the place of the headers. A message of a stream
/// keeps its offset: without that, the handler's mark could not pass it. Nothing if the payload does not even tell the
/// size of the body.
pub(super) fn replacement(payload: &[u8], flaw: Flaw) -> Option<Vec<u8>> {
    let (flags, mut rest) = split(payload)?;
    let (mut before, mut behind) = (Vec::new(), Vec::new());
    let mut kept = flag_of_headers();
    let mut offset = None;
    for (property, flag) in present(flags) {
        let Some((value, after)) = property.split(rest) else {
            break;
        };
        if property == Property::Headers {
            offset = entry_of_offset(&value[LONG..]);
        } else if property.check(value).is_ok() {
            let list = if flag > flag_of_headers() {
                &mut before
            } else {
                &mut behind
            };
            list.extend_from_slice(value);
            kept |= flag;
        }
        rest = after;
    }
    let mut replaced = payload[..BEFORE_FLAGS].to_vec();
    replaced.extend(kept.to_be_bytes());
    replaced.extend(before);
    replaced.extend(headers(&mark(flaw), offset.unwrap_or_default()));
    replaced.extend(behind);
    Some(replaced)
}

/// The flags, and the properties that they announce.
fn split(payload: &[u8]) -> Option<(u16, &[u8])> {
    let (_, own) = payload.split_at_checked(BEFORE_FLAGS)?;
    let (flags, properties) = own.split_first_chunk::<FLAGS>()?;
    Some((u16::from_be_bytes(*flags), properties))
}

fn present(flags: u16) -> impl Iterator<Item = (Property, u16)> {
    let all = (0..).map(|at| 0x8000 >> at);
    let all = LAYOUT.into_iter().zip(all);
    all.filter(move |(_, flag)| flags & flag != 0)
}

fn flag_of_headers() -> u16 {
    0x8000 >> 2
}

/// A table with one text, and one more entry.
fn headers(value: &str, further: &[u8]) -> Vec<u8> {
    let mut entry = vec![u8::try_from(NAME.len()).expect("a short name")];
    entry.extend(NAME.bytes());
    entry.push(b'S');
    entry.extend(length(value.len()));
    entry.extend(value.bytes());
    entry.extend(further);
    let mut table = length(entry.len()).to_vec();
    table.extend(entry);
    table
}

/// The entry of the offset in a stream, as far as the table can be read. The last one, as the client takes it.
fn entry_of_offset(table: &[u8]) -> Option<&[u8]> {
    let (mut rest, mut found) = (table, None);
    while let Some((name, behind)) = Property::Text.split(rest) {
        let Some(size) = behind
            .split_first()
            .and_then(|(kind, value)| size(*kind, value).ok())
        else {
            break;
        };
        let Some((entry, after)) = rest.split_at_checked(name.len() + 1 + size) else {
            break;
        };
        if &name[1..] == OFFSET.as_bytes() && matches!(behind[0], b'l' | b'L') {
            found = Some(entry);
        }
        rest = after;
    }
    found
}

fn length(bytes: usize) -> [u8; 4] {
    u32::try_from(bytes)
        .expect("a text of this module's own")
        .to_be_bytes()
}

impl Property {
    /// Its bytes, length included, and those behind it.
    fn split(self, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
        let length = match self {
            Self::Text => 1 + usize::from(*bytes.first()?),
            Self::Headers => long(bytes)?.checked_add(LONG)?,
            Self::Octet => 1,
            Self::Time => 8,
        };
        bytes.split_at_checked(length)
    }

    fn check(self, value: &[u8]) -> Result<(), Flaw> {
        match self {
            Self::Text => text(&value[1..]),
            Self::Headers => table(&value[LONG..]),
            Self::Octet | Self::Time => Ok(()),
        }
    }
}

/// Bytes of a long length.
const LONG: usize = 4;

fn long(bytes: &[u8]) -> Option<usize> {
    let length = bytes.first_chunk::<LONG>()?;
    usize::try_from(u32::from_be_bytes(*length)).ok()
}

fn text(bytes: &[u8]) -> Result<(), Flaw> {
    match std::str::from_utf8(bytes) {
        Ok(_) => Ok(()),
        Err(_) => Err(Flaw::NotUtf8),
    }
}

/// A table or an array that is being read.
#[derive(Debug, Clone, Copy)]
struct Open {
    end: usize,
    named: bool,
}

/// Reads a table to its end. No recursion: how deep it is is the publisher's choice.
fn table(bytes: &[u8]) -> Result<(), Flaw> {
    let end = bytes.len();
    let mut open = [Open { end, named: true }; DEEPEST];
    let (mut depth, mut at) = (0, 0);
    loop {
        let Open { end, named } = open[depth];
        if at == end {
            match depth.checked_sub(1) {
                Some(outer) => depth = outer,
                None => return Ok(()),
            }
            continue;
        }
        if named {
            let (name, _) = Property::Text.split(&bytes[at..end]).ok_or(Flaw::Length)?;
            Property::Text.check(name)?;
            at += name.len();
        }
        let rest = &bytes[at..end];
        let (kind, value) = rest.split_first().ok_or(Flaw::Length)?;
        let size = size(*kind, value)?;
        if size > value.len() {
            return Err(Flaw::Length);
        }
        at += 1;
        if matches!(kind, b'A' | b'F') {
            depth += 1;
            *open.get_mut(depth).ok_or(Flaw::Depth)? = Open {
                end: at + size,
                named: *kind == b'F',
            };
            at += LONG;
        } else {
            at += size;
        }
    }
}

/// How many bytes the value of a table's entry has, by its type and its first bytes.
fn size(kind: u8, value: &[u8]) -> Result<usize, Flaw> {
    Ok(match kind {
        b'V' => 0,
        b't' | b'b' | b'B' => 1,
        b's' | b'U' | b'u' => 2,
        b'I' | b'i' | b'f' => 4,
        b'D' => 5,
        b'L' | b'l' | b'd' | b'T' => 8,
        b'S' | b'x' | b'A' | b'F' => {
            let length = long(value).ok_or(Flaw::Length)?;
            length.checked_add(LONG).ok_or(Flaw::Length)?
        }
        _ => return Err(Flaw::Type),
    })
}

#[cfg(test)]
mod tests;
