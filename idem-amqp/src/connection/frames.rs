//! Looks at what the broker sends before the AMQP client does, frame by frame (pure).
// docs/decisions/0029

use super::properties;
use crate::wire::unreadable::Flaw;

/// What a frame begins with: its type, its channel, the size of its payload.
const HEAD: usize = 7;
const END: usize = 1;

const METHOD: u8 = 1;
const HEADER: u8 = 2;
const BODY: u8 = 3;
const HEARTBEAT: u8 = 8;

/// No method and no header is longer, whatever its head says. RabbitMQ sends headers longer than was agreed upon.
const LONGEST: usize = 16 << 20;

/// No smaller frames than these can be agreed upon.
const SMALLEST_FRAME: u32 = 4096;

/// What the client would do with frames, as far as it is known before it has seen them.
#[derive(Debug)]
pub(super) struct Frames {
    /// What was asked for, and then what was agreed upon; 0 if nothing was.
    frame_max: u32,
    /// Bytes to come that are passed on unseen: the rest of a body, most of all.
    passing: usize,
    /// Channels whose next message came by a name that the client cannot read.
    misrouted: Vec<u16>,
}

/// What can be passed on.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Passed {
    /// How many bytes are passed on unchanged.
    pub(super) bytes: usize,
    /// A frame that is then passed on in place of the next one that came.
    pub(super) then: Option<Replaced>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Replaced {
    /// The frame's length as it came.
    pub(super) length: usize,
    pub(super) by: Vec<u8>,
}

/// What a whole frame says.
struct Frame<'a> {
    kind: u8,
    channel: u16,
    payload: &'a [u8],
    end: u8,
}

impl Frames {
    /// The frames of a connection whose client asks for none larger than this; 0 for any.
    pub(super) fn new(frame_max: u32) -> Self {
        Self {
            frame_max,
            passing: 0,
            misrouted: Vec::new(),
        }
    }

    /// What can be passed on of this input. What is left behind that is the beginning of a frame, and
    /// has to come again with the rest of it.
    pub(super) fn pass(&mut self, input: &[u8]) -> Passed {
        let mut at = 0;
        loop {
            let rest = &input[at..];
            let passing = self.passing.min(rest.len());
            at += passing;
            self.passing -= passing;
            let rest = &input[at..];
            let Some(&kind) = rest.first() else {
                return Passed {
                    bytes: at,
                    then: None,
                };
            };
            if !matches!(kind, METHOD | HEADER | BODY | HEARTBEAT) {
                // No AMQP, or no longer: the client says so.
                self.passing = usize::MAX;
                continue;
            }
            let Some(length) = length(rest) else {
                return Passed {
                    bytes: at,
                    then: None,
                };
            };
            if !matches!(kind, METHOD | HEADER) {
                self.passing = length;
                continue;
            }
            if length > LONGEST {
                // It would have to be kept whole. The client says so.
                self.passing = usize::MAX;
                continue;
            }
            let Some(bytes) = rest.get(..length) else {
                return Passed {
                    bytes: at,
                    then: None,
                };
            };
            let frame = Frame {
                kind,
                channel: u16::from_be_bytes([bytes[1], bytes[2]]),
                payload: &bytes[HEAD..length - END],
                end: bytes[length - END],
            };
            let by = if kind == METHOD {
                self.method(&frame)
            } else {
                self.header(&frame)
            };
            if let Some(by) = by {
                let then = Some(Replaced { length, by });
                return Passed { bytes: at, then };
            }
            at += length;
        }
    }

    /// What the client gets instead of a content header.
    fn header(&mut self, frame: &Frame<'_>) -> Option<Vec<u8>> {
        let flaw = self.flaw(frame)?;
        let payload = properties::replacement(frame.payload, flaw)?;
        Some(frame.with(&payload))
    }

    fn flaw(&mut self, frame: &Frame<'_>) -> Option<Flaw> {
        let mut misrouted = self.misrouted.iter();
        if let Some(at) = misrouted.position(|channel| *channel == frame.channel) {
            self.misrouted.swap_remove(at);
            return Some(Flaw::Route);
        }
        let (bytes, most) = (HEAD + frame.payload.len() + END, self.frame_max as usize);
        if most > 0 && bytes > most {
            return Some(Flaw::Size { bytes, most });
        }
        properties::check(frame.payload).err()
    }

    /// What the client gets instead of a method.
    fn method(&mut self, frame: &Frame<'_>) -> Option<Vec<u8>> {
        let (method, arguments) = frame.payload.split_first_chunk::<4>()?;
        let mut brings_a_message = true;
        let (mut texts, count) = match method {
            [0, 10, 0, 30] => {
                self.agree(arguments);
                return None;
            }
            // Deliver: consumer, delivery tag, redelivered, exchange, routing key.
            [0, 60, 0, 60] => (text(arguments)?.1.get(9..)?, 2),
            // Return: code, text, exchange, routing key.
            [0, 60, 0, 50] => (arguments.get(2..)?, 3),
            // Got: delivery tag, redelivered, exchange, routing key.
            [0, 60, 0, 71] => (arguments.get(9..)?, 2),
            // The end of the connection or of the channel: code, text, which RabbitMQ cuts after 252 bytes.
            [0, 10, 0, 50] | [0, 20, 0, 40] => {
                brings_a_message = false;
                (arguments.get(2..)?, 1)
            }
            _ => return None,
        };
        let mut payload = None;
        for _ in 0..count {
            let (text, behind) = text(texts)?;
            if std::str::from_utf8(text).is_err() {
                let at = frame.payload.len() - behind.len() - text.len();
                let payload = payload.get_or_insert_with(|| frame.payload.to_vec());
                let bytes = payload[at..at + text.len()].iter_mut();
                bytes
                    .filter(|byte| !byte.is_ascii())
                    .for_each(|byte| *byte = b'?');
            }
            texts = behind;
        }
        let payload = payload?;
        // Once, also if a broker breaks off one message and sends the next.
        if brings_a_message && !self.misrouted.contains(&frame.channel) {
            self.misrouted.push(frame.channel);
        }
        Some(frame.with(&payload))
    }

    /// Agrees on a size of frames as the client does when the broker offers a channel count and a size of frames.
    fn agree(&mut self, offer: &[u8]) {
        let offered = offer.get(2..).and_then(<[u8]>::first_chunk);
        let offered = offered.map_or(0, |bytes| u32::from_be_bytes(*bytes));
        if offered != 0 && (self.frame_max == 0 || offered < self.frame_max) {
            self.frame_max = offered.max(SMALLEST_FRAME);
        }
    }
}

impl Frame<'_> {
    /// The same frame with another payload.
    fn with(&self, payload: &[u8]) -> Vec<u8> {
        let size = u32::try_from(payload.len()).expect("it fits into a frame");
        let mut frame = vec![self.kind];
        frame.extend(self.channel.to_be_bytes());
        frame.extend(size.to_be_bytes());
        frame.extend(payload);
        frame.push(self.end);
        frame
    }
}

/// The length of the frame that begins here, if that has come.
fn length(rest: &[u8]) -> Option<usize> {
    let size = rest.get(3..)?.first_chunk()?;
    Some((u32::from_be_bytes(*size) as usize).saturating_add(HEAD + END))
}

/// How many bytes a frame lacks whose beginning this is, or its head. `None` of no beginning.
pub(super) fn missing(partial: &[u8]) -> Option<usize> {
    let whole = length(partial).unwrap_or(HEAD);
    (!partial.is_empty()).then(|| whole.saturating_sub(partial.len()))
}

/// A short text, and what is behind it.
fn text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first()?;
    rest.split_at_checked(usize::from(*length))
}

#[cfg(test)]
pub(super) mod tests;
