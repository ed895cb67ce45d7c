//! One stream: its name, and which message has which number.

use std::sync::{Mutex, MutexGuard, PoisonError};

use lapin::types::{AMQPValue, LongString};
use tokio::sync::Notify;
use uuid::Uuid;

use super::ledger::{Caller, Entered, Ledger, Open, Taken, Withdrawing};
use crate::wire::Publication;
use crate::wire::headers::{EPOCH, PRODUCER, SEQUENCE, WITHDRAWN};

/// What the clones of a publisher share.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) producer: LongString,
    pub(super) epoch: LongString,
    ledger: Mutex<Ledger>,
    /// Tells that a number was confirmed, or left behind.
    moved: Notify,
}

impl Stream {
    pub(super) fn new(producer: &str) -> Self {
        Self {
            producer: producer.into(),
            epoch: Uuid::now_v7().to_string().into(),
            ledger: Mutex::default(),
            moved: Notify::new(),
        }
    }

    /// What to publish next, to have this published; nothing if it has been.
    pub(super) async fn enter(&self, publication: &Publication) -> Option<OpenNumber<'_>> {
        loop {
            let mut moved = std::pin::pin!(self.moved.notified());
            moved.as_mut().enable();
            let entered = self.ledger().enter(publication);
            match entered {
                Entered::Confirmed => return None,
                Entered::Publish(open) => return Some(OpenNumber { stream: self, open }),
                Entered::Full => moved.await,
            }
        }
    }

    /// What nobody sees to, if there is something.
    pub(super) fn left_behind(&self) -> Option<OpenNumber<'_>> {
        let open = self.ledger().left_behind()?;
        Some(OpenNumber { stream: self, open })
    }

    /// The number, to be given up; or what another call has given up; nothing if it is not known, or was
    /// confirmed.
    pub(super) async fn withdraw(&self, number: u64) -> Option<Result<OpenNumber<'_>, Taken>> {
        let _wanted = Wanted::new(self, number);
        loop {
            let mut moved = std::pin::pin!(self.moved.notified());
            moved.as_mut().enable();
            let withdrawing = self.ledger().withdraw(number);
            match withdrawing {
                Withdrawing::Unknown => return None,
                Withdrawing::Done(taken) => return Some(Err(taken)),
                Withdrawing::Publish(open) => return Some(Ok(OpenNumber { stream: self, open })),
                Withdrawing::Busy => moved.await,
            }
        }
    }

    /// How many bytes [`stamp`](Self::stamp) adds to the headers, or a few more.
    pub(super) fn stamp_bytes(&self) -> usize {
        const NAMES: usize = PRODUCER.len() + EPOCH.len() + SEQUENCE.len();
        const LENGTHS_AND_NUMBER: usize = 4 + 3 + 5 + 5 + 9;
        NAMES + LENGTHS_AND_NUMBER + self.producer.len() + self.epoch.len()
    }

    /// The message with its place, or the place alone.
    pub(super) fn stamp(&self, open: &Open) -> Publication {
        let number = i64::try_from(open.number).unwrap_or(i64::MAX);
        let message = if open.withdrawn {
            let way = self.ledger().way();
            let place = open.publication.without_content(way);
            place.own_header(WITHDRAWN, AMQPValue::Boolean(true))
        } else {
            (*open.publication).clone()
        };
        message
            .own_header(PRODUCER, AMQPValue::LongString(self.producer.clone()))
            .own_header(EPOCH, AMQPValue::LongString(self.epoch.clone()))
            .own_header(SEQUENCE, AMQPValue::LongLongInt(number))
    }

    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        // What is written under the lock is never half done.
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A number that a call waits to withdraw, until it is dropped.
struct Wanted<'a> {
    stream: &'a Stream,
    number: u64,
}

impl<'a> Wanted<'a> {
    fn new(stream: &'a Stream, number: u64) -> Option<Self> {
        let wanted = stream.ledger().want(number);
        wanted.then_some(Self { stream, number })
    }
}

impl Drop for Wanted<'_> {
    fn drop(&mut self) {
        self.stream.ledger().want_no_longer(self.number);
        self.stream.moved.notify_waiters();
    }
}

/// A number that a call publishes until it is confirmed. Dropped before it is confirmed, it is left behind.
#[derive(Debug)]
pub(super) struct OpenNumber<'a> {
    stream: &'a Stream,
    pub(super) open: Open,
}

impl OpenNumber<'_> {
    /// Who publishes it, if it is the call that is to publish this.
    pub(super) fn caller(&self, publication: &Publication) -> Caller {
        if !self.open.withdrawn && self.open.publication.is_same(publication) {
            Caller::Own
        } else {
            Caller::Another
        }
    }

    /// Notes that the message may have come to the broker, or that this try has certainly not brought it there.
    pub(super) fn set_may_have_arrived(&self, it_may: bool) -> bool {
        let number = self.open.number;
        self.stream.ledger().set_may_have_arrived(number, it_may)
    }

    pub(super) fn confirmed(self, by: Caller) {
        self.stream.ledger().confirm(&self.open, by);
    }
}

impl Drop for OpenNumber<'_> {
    fn drop(&mut self) {
        self.stream.ledger().leave(self.open.number);
        self.stream.moved.notify_waiters();
    }
}
