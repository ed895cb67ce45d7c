//! Messages on their way from a broker to a client, some of which do not arrive.

use std::{
    collections::HashMap,
    io,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use amq_protocol::{
    frame::{AMQPFrame, parsing::parse_frame},
    protocol::{AMQPClass, basic},
};

/// One of so many messages that do not arrive is one instead of which the client is cut off.
const CUTS: u32 = 4;

/// What became of the messages of all connections.
#[derive(Debug)]
pub struct Deliveries {
    /// Which share of them does not arrive.
    share: f64,
    delivered: AtomicU64,
    dropped: AtomicU64,
    cut: AtomicU64,
}

/// What is to become of the next message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Delivered,
    Dropped,
    /// The client is cut off instead.
    CutOff,
}

impl Deliveries {
    /// None yet, of which this share will not arrive.
    pub(super) fn losing(share: f64) -> Self {
        Self {
            share,
            delivered: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            cut: AtomicU64::new(0),
        }
    }

    /// How many arrived, how many were dropped, and how many times the client was cut off instead.
    pub fn counts(&self) -> [u64; 3] {
        [&self.delivered, &self.dropped, &self.cut].map(|count| count.load(Relaxed))
    }

    fn fate(&self) -> Fate {
        let (count, fate) = if fastrand::f64() >= self.share {
            (&self.delivered, Fate::Delivered)
        } else if fastrand::u32(..CUTS) == 0 {
            (&self.cut, Fate::CutOff)
        } else {
            (&self.dropped, Fate::Dropped)
        };
        count.fetch_add(1, Relaxed);
        fate
    }
}

/// What a broker says on one connection.
#[derive(Debug, Default)]
pub(super) struct Filter {
    /// The beginning of a frame, if it is not whole.
    rest: Vec<u8>,
    /// What is still to come of the messages that are being dropped, at most one per channel: a channel sends one after
    /// the other.
    dropping: HashMap<u16, Left>,
}

#[derive(Clone, Copy, Debug)]
enum Left {
    Header,
    Body(u64),
}

impl Filter {
    /// What of it the client gets to hear.
    ///
    /// # Errors
    /// The client is to be cut off, or this is not AMQP.
    pub(super) fn pass(&mut self, said: &[u8], deliveries: &Deliveries) -> io::Result<Vec<u8>> {
        self.pass_if(said, || deliveries.fate())
    }

    fn pass_if(&mut self, said: &[u8], mut fate: impl FnMut() -> Fate) -> io::Result<Vec<u8>> {
        let mut said = [&std::mem::take(&mut self.rest), said].concat();
        let mut passed = Vec::new();
        loop {
            let (left, frame) = match parse_frame(&said[..]) {
                Ok((left, frame)) => (left.len(), frame),
                Err(error) if error.is_incomplete() => break,
                Err(_) => return Err(io::ErrorKind::InvalidData.into()),
            };
            let later = said.split_off(said.len() - left);
            if self.passes(&frame, &mut fate)? {
                passed.extend(said);
            }
            said = later;
        }
        self.rest = said;
        Ok(passed)
    }

    fn passes(&mut self, frame: &AMQPFrame, fate: &mut impl FnMut() -> Fate) -> io::Result<bool> {
        let (channel, left) = match frame {
            AMQPFrame::Method(channel, AMQPClass::Basic(basic::AMQPMethod::Deliver(_))) => {
                match fate() {
                    Fate::Delivered => return Ok(true),
                    Fate::CutOff => return Err(io::ErrorKind::ConnectionReset.into()),
                    Fate::Dropped => {}
                }
                self.dropping.insert(*channel, Left::Header);
                return Ok(false);
            }
            AMQPFrame::Header(channel, header) => match self.dropping.get(channel) {
                Some(Left::Header) => (channel, header.body_size),
                _ => return Ok(true),
            },
            AMQPFrame::Body(channel, body) => match self.dropping.get(channel) {
                Some(Left::Body(left)) => (channel, left.saturating_sub(body.len() as u64)),
                _ => return Ok(true),
            },
            _ => return Ok(true),
        };
        if left == 0 {
            self.dropping.remove(channel);
        } else {
            self.dropping.insert(*channel, Left::Body(left));
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, channel: u8, payload: &[u8]) -> Vec<u8> {
        let size = u32::try_from(payload.len()).expect("it is short");
        [
            &[kind, 0, channel],
            &size.to_be_bytes()[..],
            payload,
            &[0xce],
        ]
        .concat()
    }

    /// A message with a body in pieces of these sizes.
    fn message(channel: u8, pieces: &[usize]) -> Vec<u8> {
        let size: usize = pieces.iter().sum();
        let deliver = [&[0, 60, 0, 60, 1, b'c'][..], &[0; 11]].concat();
        let header = [&[0, 60, 0, 0][..], &(size as u64).to_be_bytes(), &[0, 0]].concat();
        let mut frames = vec![frame(1, channel, &deliver), frame(2, channel, &header)];
        frames.extend(pieces.iter().map(|size| frame(3, channel, &vec![0; *size])));
        frames.concat()
    }

    /// A confirm, and a heartbeat.
    fn others() -> Vec<u8> {
        let ack = [&[0, 60, 0, 80][..], &[0; 9]].concat();
        [frame(1, 1, &ack), frame(8, 0, &[])].concat()
    }

    #[test]
    fn a_message_is_dropped_with_all_its_frames_however_they_arrive() {
        for pieces in [&[][..], &[7], &[100, 100, 1]] {
            let said = [message(1, pieces), others(), message(1, pieces)].concat();
            for length in [1, 10, said.len()] {
                let mut fates = [Fate::Dropped, Fate::Delivered].into_iter();
                let mut filter = Filter::default();
                let mut passed = Vec::new();
                for part in said.chunks(length) {
                    let part = filter.pass_if(part, || fates.next().expect("two messages"));
                    passed.extend(part.expect("the client stays"));
                }
                assert_eq!(passed, [others(), message(1, pieces)].concat(), "{length}");
            }
        }
    }

    #[test]
    fn what_comes_between_the_frames_of_a_dropped_message_passes() {
        let dropped = message(1, &[5]);
        let (begin, end) = dropped.split_at(dropped.len() - 13);
        let said = [begin, &others(), &message(2, &[5]), end].concat();
        let mut fates = [Fate::Dropped, Fate::Delivered].into_iter();
        let mut filter = Filter::default();
        let passed = filter.pass_if(&said, || fates.next().expect("two messages"));
        assert_eq!(
            passed.expect("the client stays"),
            [others(), message(2, &[5])].concat()
        );
    }

    #[test]
    fn a_client_is_cut_off_before_the_message() {
        let cut = Filter::default().pass_if(&message(1, &[5]), || Fate::CutOff);
        cut.expect_err("the client is cut off");
    }

    #[test]
    fn so_many_arrive() {
        let all = Deliveries::losing(0.0);
        let passed = Filter::default().pass(&message(1, &[5]), &all);
        assert_eq!(passed.expect("the client stays"), message(1, &[5]));
        assert_eq!(all.counts(), [1, 0, 0]);
    }
}
