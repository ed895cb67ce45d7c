//! Which frames of a broker's answers are on their way to the client, and which are dropped (pure).

use std::collections::HashMap;

/// One frame of AMQP 0-9-1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) channel: u16,
    pub(super) payload: Vec<u8>,
}

/// What becomes of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Passed,
    /// It is part of a message that is not delivered.
    Dropped,
    /// It was to be delivered, and the client is cut off instead.
    CutOff,
}

/// What is to become of the next message that is delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plan {
    Deliver,
    Drop,
    CutOff,
}

const METHOD: u8 = 1;
const HEADER: u8 = 2;
const BODY: u8 = 3;

/// The class and the method of `basic.deliver`.
const DELIVER: [u8; 4] = [0, 60, 0, 60];

/// What is left of a message that is being dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    Header,
    Body(u64),
}

/// The messages that are being dropped, at most one per channel: a channel sends one after the other.
#[derive(Debug, Default)]
pub(super) struct Dropping {
    by_channel: HashMap<u16, Rest>,
}

impl Dropping {
    /// Looks at the next frame; `plan` is asked once for each message that is delivered.
    pub(super) fn fate(&mut self, frame: &Frame, plan: impl FnOnce() -> Plan) -> Fate {
        if frame.kind == METHOD && frame.payload.starts_with(&DELIVER) {
            return match plan() {
                Plan::Deliver => Fate::Passed,
                Plan::CutOff => Fate::CutOff,
                Plan::Drop => {
                    self.by_channel.insert(frame.channel, Rest::Header);
                    Fate::Dropped
                }
            };
        }
        let Some(rest) = self.by_channel.get(&frame.channel).copied() else {
            return Fate::Passed;
        };
        let left = match (frame.kind, rest) {
            (HEADER, Rest::Header) => body_size(&frame.payload),
            (BODY, Rest::Body(left)) => left.saturating_sub(frame.payload.len() as u64),
            _ => return Fate::Passed,
        };
        if left == 0 {
            self.by_channel.remove(&frame.channel);
        } else {
            self.by_channel.insert(frame.channel, Rest::Body(left));
        }
        Fate::Dropped
    }
}

/// Behind the class and the weight of a content header.
fn body_size(payload: &[u8]) -> u64 {
    let size = payload.get(4..12).and_then(|size| size.try_into().ok());
    size.map_or(0, u64::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, channel: u16, payload: &[u8]) -> Frame {
        Frame {
            kind,
            channel,
            payload: payload.to_vec(),
        }
    }

    /// A message with a body in pieces of these sizes.
    fn message(channel: u16, pieces: &[usize]) -> Vec<Frame> {
        let size: usize = pieces.iter().sum();
        let header = [&[0, 60, 0, 0][..], &(size as u64).to_be_bytes(), &[0, 0]].concat();
        let mut frames = vec![
            frame(METHOD, channel, &[&DELIVER[..], b"..."].concat()),
            frame(HEADER, channel, &header),
        ];
        let bodies = pieces.iter().map(|size| vec![0; *size]);
        frames.extend(bodies.map(|body| frame(BODY, channel, &body)));
        frames
    }

    fn fates(dropping: &mut Dropping, frames: &[Frame], plan: Plan) -> Vec<Fate> {
        let fates = frames.iter().map(|frame| dropping.fate(frame, || plan));
        fates.collect()
    }

    #[test]
    fn a_message_is_dropped_with_all_its_frames() {
        let mut dropping = Dropping::default();
        for pieces in [&[][..], &[7], &[100, 100, 1]] {
            let dropped = fates(&mut dropping, &message(1, pieces), Plan::Drop);
            assert!(
                dropped.iter().all(|fate| *fate == Fate::Dropped),
                "{pieces:?}"
            );
            let passed = fates(&mut dropping, &message(1, pieces), Plan::Deliver);
            assert!(
                passed.iter().all(|fate| *fate == Fate::Passed),
                "{pieces:?}"
            );
        }
    }

    #[test]
    fn what_is_no_delivery_passes_also_in_between() {
        let mut dropping = Dropping::default();
        let of_one = message(1, &[5]);
        assert_eq!(
            fates(&mut dropping, &of_one[..1], Plan::Drop),
            [Fate::Dropped]
        );
        // A confirm, a heartbeat, and a message of another channel.
        let others = [frame(METHOD, 1, &[0, 60, 0, 80]), frame(8, 0, &[])];
        assert_eq!(fates(&mut dropping, &others, Plan::Drop), [Fate::Passed; 2]);
        let of_two = message(2, &[5]);
        assert_eq!(
            fates(&mut dropping, &of_two, Plan::Deliver),
            [Fate::Passed; 3]
        );
        assert_eq!(
            fates(&mut dropping, &of_one[1..], Plan::Deliver),
            [Fate::Dropped; 2]
        );
    }

    #[test]
    fn a_client_is_cut_off_before_the_message() {
        let mut dropping = Dropping::default();
        let fate = dropping.fate(&message(1, &[5])[0], || Plan::CutOff);
        assert_eq!(fate, Fate::CutOff);
    }
}
