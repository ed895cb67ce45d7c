//! Messages of one handler that wait to share a call, and which of them leads.
//!
//! One of those that wait gathers the next batch: the one that has waited longest. When it takes what waits, it is among
//! that, and the next one gathers, unless enough batches are under way.
//!
//! What must stay true: whoever leads a batch is in it, so its own end waits for no other batch; while somebody waits,
//! somebody gathers or as many batches as may be are under way; a [`LeadPermit`] that is dropped goes to the next who
//! waits; whoever waits is told what became of it, by the drop of its [`Waiting`] if by nothing else; nothing is dropped
//! under the lock that may take it.

use std::{
    collections::VecDeque,
    mem,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::{Notify, oneshot};

use super::{AT_ONCE, EndedTogether};
use crate::{
    executor::heartbeat::{KeptLease, Ran},
    handler::{Attempt, BatchOptions, Context, Operation, Outbox, Outgoing, Policy},
    message::{Envelope, Key},
    store::Lease,
};

/// The messages that wait, first come, first served.
pub(super) struct BatchQueue<H: Operation> {
    state: Mutex<State<H>>,
    /// Tells whoever gathers a batch that somebody has come.
    more: Notify,
}

struct State<H: Operation> {
    waiting: VecDeque<Waiting<H>>,
    /// How many bytes the bodies of those have.
    bytes: usize,
    /// Whether one of those gathers a batch.
    gathers: bool,
    /// How many lead a batch, or gather one.
    leaders: usize,
    /// How many have come so far: a number for the next one.
    count: u64,
}

/// A message that waits, or that is in a batch.
pub(super) struct Waiting<H: Operation> {
    pub(super) number: u64,
    /// `None` while a batch has it, and afterwards.
    pub(super) message: Option<H::Message>,
    pub(super) key: Key,
    pub(super) envelope: Envelope,
    pub(super) attempt: Attempt,
    pub(super) claimed: Claimed,
    pub(super) earlier: Earlier,
    kept: Option<KeptLease>,
    back: Option<oneshot::Sender<Back<H>>>,
    permit: Option<oneshot::Sender<LeadPermit<H>>>,
}

/// The claim of a message that waits.
pub(super) struct Claimed {
    pub(super) outbox: Option<Outbox>,
    pub(super) lease: Lease,
    pub(super) policy: Policy,
    pub(super) retention: Duration,
}

/// What an earlier call with a message may have left of it.
#[derive(Debug, Clone)]
pub(super) enum Earlier {
    /// There was none, or it was undone.
    Nothing,
    /// The call was dropped in the middle, and nobody knows what it did.
    Dropped,
    /// The call has failed of this, after it may have had effects.
    Failed(Arc<str>),
}

impl Claimed {
    /// What its handler has published.
    pub(super) fn outgoing(&self) -> Vec<Outgoing> {
        self.outbox.as_ref().map_or_else(Vec::new, Outbox::take)
    }
}

impl Earlier {
    /// Whether the message may have been done.
    pub(super) fn leaves_doubt(&self) -> bool {
        !matches!(self, Self::Nothing)
    }
}

/// What whoever waits is told.
pub(super) enum Back<H: Operation> {
    /// The handler ran, with the others.
    Ran {
        kept: KeptLease,
        ran: Ran<Result<H::Output, H::Error>>,
        ended: Option<EndedTogether>,
    },
    /// It has to be called by itself.
    Alone {
        kept: KeptLease,
        message: Option<H::Message>,
        earlier: Earlier,
    },
}

/// The place of somebody who waits.
pub(super) struct Place<H: Operation> {
    queue: Arc<BatchQueue<H>>,
    pub(super) number: u64,
    pub(super) back: oneshot::Receiver<Back<H>>,
    pub(super) permit: oneshot::Receiver<LeadPermit<H>>,
    /// Whether it has led, or knows that it will not.
    pub(super) has_led: bool,
}

/// Whoever has gone keeps nothing: with what waits goes its heartbeat, and the key is free when its lease has run out.
impl<H: Operation> Drop for Place<H> {
    fn drop(&mut self) {
        drop(self.queue.leave(self.number));
    }
}

/// The right to lead a batch. Dropped, it goes to the next who waits.
pub(super) struct LeadPermit<H: Operation> {
    queue: Arc<BatchQueue<H>>,
    /// Whether the batch is still to be taken.
    gathers: bool,
    /// What is left of the batch, if another one has led it so far.
    left: Vec<Waiting<H>>,
}

impl<H: Operation> Default for BatchQueue<H> {
    fn default() -> Self {
        Self {
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                bytes: 0,
                gathers: false,
                leaders: 0,
                count: 0,
            }),
            more: Notify::new(),
        }
    }
}

impl<H: Operation> BatchQueue<H> {
    /// Lines up.
    pub(super) fn join<St>(
        self: &Arc<Self>,
        message: H::Message,
        context: &Context<'_, St>,
        claimed: Claimed,
        kept: KeptLease,
    ) -> Place<H> {
        let (back_sender, back) = oneshot::channel();
        let (permit_sender, permit) = oneshot::channel();
        let mut state = self.lock();
        state.count += 1;
        state.bytes += context.envelope.body().len();
        let number = state.count;
        state.waiting.push_back(Waiting {
            number,
            message: Some(message),
            key: context.key.clone(),
            envelope: context.envelope.clone(),
            attempt: context.attempt,
            claimed,
            earlier: Earlier::Nothing,
            kept: Some(kept),
            back: Some(back_sender),
            permit: Some(permit_sender),
        });
        drop(state);
        self.more.notify_waiters();
        self.appoint();
        Place {
            queue: Arc::clone(self),
            number,
            back,
            permit,
            has_led: false,
        }
    }

    /// Takes the one with this number out, if it is in no batch yet.
    pub(super) fn leave(&self, number: u64) -> Option<KeptLease> {
        let mut state = self.lock();
        let at = state.waiting.iter().position(|it| it.number == number)?;
        let mut left = state.waiting.remove(at)?;
        state.bytes -= left.bytes();
        drop(state);
        left.back = None;
        left.kept.take()
    }

    fn fills(&self, batch: BatchOptions) -> bool {
        let state = self.lock();
        state.waiting.len() >= batch.most() || state.bytes >= batch.most_bytes()
    }

    /// Lets the one that has waited longest gather a batch, if nobody does and one more may be under way.
    fn appoint(self: &Arc<Self>) {
        let mut state = self.lock();
        if state.gathers || state.leaders >= AT_ONCE {
            return;
        }
        let Some(next) = state.waiting.iter_mut().find_map(|it| it.permit.take()) else {
            return;
        };
        state.gathers = true;
        state.leaders += 1;
        drop(state);
        // If it has gone, the permit is dropped, and goes to the next.
        let _ = next.send(LeadPermit {
            queue: Arc::clone(self),
            gathers: true,
            left: Vec::new(),
        });
    }

    /// Held for one look or one change, never over an await; what is written under it is never half done.
    fn lock(&self) -> MutexGuard<'_, State<H>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<H: Operation> LeadPermit<H> {
    /// Waits until as many wait as fit into a batch. A dropped call leaves nothing behind.
    pub(super) async fn full(&mut self, batch: BatchOptions) {
        loop {
            let mut more = pin!(self.queue.more.notified());
            // Registered before the look: whoever came between the two would wake nobody.
            more.as_mut().enable();
            if self.queue.fills(batch) {
                return;
            }
            more.await;
        }
    }

    /// Takes what waits, as much as a batch may have, and lets the next one gather.
    pub(super) fn take(&mut self, batch: BatchOptions) -> Vec<Waiting<H>> {
        let mut taken: Vec<Waiting<H>> = Vec::new();
        let mut bytes = 0_usize;
        let mut state = self.queue.lock();
        while taken.len() < batch.most()
            && let Some(next) = state.waiting.front()
        {
            bytes = bytes.saturating_add(next.bytes());
            if bytes > batch.most_bytes() && !taken.is_empty() {
                break;
            }
            taken.extend(state.waiting.pop_front());
        }
        state.bytes -= taken.iter().map(Waiting::bytes).sum::<usize>();
        state.gathers = false;
        drop(state);
        self.gathers = false;
        self.queue.appoint();
        taken
    }

    /// What another one has left of its batch for this one to lead; nothing if the batch is still to be taken.
    pub(super) fn left(&mut self) -> Vec<Waiting<H>> {
        mem::take(&mut self.left)
    }

    /// Lets one of these lead what is left of the batch that they are in. If it has gone, each runs by itself.
    pub(super) fn hand_over(mut self, mut left: Vec<Waiting<H>>) {
        // Nobody among them has led before: whoever leads hands over only what it is not in.
        if let Some(next) = left.iter_mut().find_map(|it| it.permit.take()) {
            self.left = left;
            let _ = next.send(self);
        }
    }
}

impl<H: Operation> Drop for LeadPermit<H> {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        state.leaders -= 1;
        state.gathers &= !self.gathers;
        drop(state);
        self.queue.appoint();
    }
}

impl<H: Operation> Waiting<H> {
    fn bytes(&self) -> usize {
        self.envelope.body().len()
    }

    /// Its heartbeat.
    pub(super) fn kept(&mut self) -> &mut KeptLease {
        self.kept.as_mut().expect(UNTOLD)
    }

    /// Whether another worker has its key, as far as is known.
    pub(super) fn has_lost_lease(&self) -> bool {
        self.kept.as_ref().is_some_and(KeptLease::is_lost)
    }

    /// Tells it that the handler ran.
    pub(super) fn tell(
        mut self,
        ran: Ran<Result<H::Output, H::Error>>,
        ended: Option<EndedTogether>,
    ) {
        let kept = self.kept.take().expect(UNTOLD);
        self.send(Back::Ran { kept, ran, ended });
    }

    fn send(&mut self, back: Back<H>) {
        if let Some(sender) = self.back.take() {
            // Whoever has gone leaves its claim to its lease.
            let _ = sender.send(back);
        }
    }
}

const UNTOLD: &str = "it has its heartbeat until it is told";

/// Who was told nothing else is called by itself.
impl<H: Operation> Drop for Waiting<H> {
    fn drop(&mut self) {
        if let Some(kept) = self.kept.take() {
            let message = self.message.take();
            let earlier = self.earlier.clone();
            self.send(Back::Alone {
                kept,
                message,
                earlier,
            });
        }
    }
}
