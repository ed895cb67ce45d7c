//! Messages of one handler that wait to share a call, and which of them may lead.
//!
//! What must stay true: while somebody waits, as many may lead as batches may be under way; a [`LeadPermit`] that is
//! dropped goes to the next who waits; whoever waits is told what became of it, by the drop of its [`Waiting`] if by
//! nothing else; nothing is dropped under the lock that may take it.

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
    handler::{Attempt, BatchOptions, Context, Operation, Policy},
    message::{Envelope, Key},
    store::Lease,
};

/// The messages that wait, first come, first served.
pub(super) struct BatchQueue<H: Operation> {
    state: Mutex<State<H>>,
    /// Tells whoever waits for a batch to become larger that somebody has come, or was taken.
    more: Notify,
}

struct State<H: Operation> {
    waiting: VecDeque<Waiting<H>>,
    /// How many may lead now.
    permits: usize,
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
    /// Whether it may have been done: the handler ran, and was dropped in the middle.
    pub(super) in_doubt: bool,
    kept: Option<KeptLease>,
    back: Option<oneshot::Sender<Back<H>>>,
    permit: Option<oneshot::Sender<LeadPermit<H>>>,
}

/// The claim of a message that waits.
pub(super) struct Claimed {
    pub(super) lease: Lease,
    pub(super) policy: Policy,
    pub(super) retention: Duration,
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
        in_doubt: bool,
    },
    /// The executor was closed before it was called.
    Closed { kept: KeptLease },
}

/// The place of somebody who waits.
pub(super) struct Place<H: Operation> {
    queue: Arc<BatchQueue<H>>,
    pub(super) number: u64,
    pub(super) back: oneshot::Receiver<Back<H>>,
    pub(super) permit: oneshot::Receiver<LeadPermit<H>>,
    /// Whether it has led, or was late for it.
    pub(super) has_led: bool,
}

/// Whoever has gone keeps nothing: with what waits goes its heartbeat, and the key is free when its lease has run out.
impl<H: Operation> Drop for Place<H> {
    fn drop(&mut self) {
        drop(self.queue.leave(self.number));
    }
}

/// The right to take a batch. Dropped, it goes to the next who waits.
pub(super) struct LeadPermit<H: Operation>(Option<Arc<BatchQueue<H>>>);

impl<H: Operation> Default for BatchQueue<H> {
    fn default() -> Self {
        Self {
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                permits: 0,
                count: 0,
            }),
            more: Notify::new(),
        }
    }
}

impl<H: Operation> BatchQueue<H> {
    /// Lines up. Whoever has waited longest may lead, if not enough do.
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
        let number = state.count;
        state.waiting.push_back(Waiting {
            number,
            message: Some(message),
            key: context.key.clone(),
            envelope: context.envelope.clone(),
            attempt: context.attempt,
            claimed,
            in_doubt: false,
            kept: Some(kept),
            back: Some(back_sender),
            permit: Some(permit_sender),
        });
        let is_free = state.permits < AT_ONCE;
        state.permits += usize::from(is_free);
        drop(state);
        self.more.notify_waiters();
        if is_free {
            self.pass_permit();
        }
        Place {
            queue: Arc::clone(self),
            number,
            back,
            permit,
            has_led: false,
        }
    }

    fn is_full(&self, batch: BatchOptions) -> bool {
        self.lock().waiting.len() >= batch.most()
    }

    /// Whether the one with this number is in no batch yet.
    pub(super) fn waits(&self, number: u64) -> bool {
        self.lock().waiting.iter().any(|it| it.number == number)
    }

    /// Takes the one with this number out, if it is in no batch yet.
    pub(super) fn leave(&self, number: u64) -> Option<KeptLease> {
        let mut state = self.lock();
        let at = state.waiting.iter().position(|it| it.number == number)?;
        let mut left = state.waiting.remove(at)?;
        drop(state);
        left.back = None;
        left.kept.take()
    }

    /// Takes what waits, as much as a batch may have.
    pub(super) fn take(&self, batch: BatchOptions) -> Vec<Waiting<H>> {
        let mut taken: Vec<Waiting<H>> = Vec::new();
        let mut gone = Vec::new();
        let mut bytes = 0_usize;
        let mut state = self.lock();
        while taken.len() < batch.most()
            && let Some(next) = state.waiting.pop_front()
        {
            if next.is_gone() {
                gone.push(next);
                continue;
            }
            bytes = bytes.saturating_add(next.envelope.body().len());
            if bytes > batch.most_bytes() && !taken.is_empty() {
                state.waiting.push_front(next);
                break;
            }
            taken.push(next);
        }
        drop(state);
        // Whoever has waited for others may be among those who were taken.
        self.more.notify_waiters();
        // Without the lock: with a heartbeat may go the last reference to a store.
        drop(gone);
        taken
    }

    /// Waits until as many wait as fit into a batch, or the one with this number is in one. A dropped call leaves nothing
    /// behind.
    pub(super) async fn full(&self, batch: BatchOptions, number: u64) {
        loop {
            let mut more = pin!(self.more.notified());
            // Registered before the look: whoever came between the two would wake nobody.
            more.as_mut().enable();
            if self.is_full(batch) || !self.waits(number) {
                return;
            }
            more.await;
        }
    }

    /// Gives a permit that is free to the next who waits; if there is nobody, it is free for whoever comes.
    fn pass_permit(self: &Arc<Self>) {
        loop {
            let mut state = self.lock();
            let Some(next) = state.waiting.iter_mut().find_map(|it| it.permit.take()) else {
                state.permits -= 1;
                return;
            };
            drop(state);
            match next.send(LeadPermit(Some(Arc::clone(self)))) {
                Ok(()) => return,
                // It has gone. Its permit is not dropped, which would come here again, but given to the next.
                Err(mut permit) => permit.0 = None,
            }
        }
    }

    /// Held for one look or one change, never over an await; what is written under it is never half done.
    fn lock(&self) -> MutexGuard<'_, State<H>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<H: Operation> Drop for LeadPermit<H> {
    fn drop(&mut self) {
        if let Some(queue) = self.0.take() {
            queue.pass_permit();
        }
    }
}

impl<H: Operation> Waiting<H> {
    /// Whether nobody waits for it any more.
    fn is_gone(&self) -> bool {
        self.back.as_ref().is_none_or(oneshot::Sender::is_closed)
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

    /// Tells it that nothing is called any more.
    pub(super) fn close(mut self) {
        let kept = self.kept.take().expect(UNTOLD);
        self.send(Back::Closed { kept });
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
            let in_doubt = mem::take(&mut self.in_doubt);
            self.send(Back::Alone {
                kept,
                message,
                in_doubt,
            });
        }
    }
}
