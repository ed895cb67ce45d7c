//! Messages of one handler that wait to share a call, and which of them leads.
//!
//! [`share`](super::share) puts a message in, and holds its [`Waiter`] until it is told what became of it. One of those
//! that wait gathers the next batch: the one that has waited longest. When it takes what waits, it is among that, and
//! the next one gathers, unless enough batches are under way.
//!
//! A message is in `waiting` from [`join`](BatchQueue::join) until a batch takes it or it leaves; then with the leader
//! of its batch, as a [`Waiting`], until it is told; and from then on with whoever has waited for it, who has its
//! heartbeat back.
//!
//! What must stay true:
//!
//! - Whoever leads a batch is in it, so its own end waits for no other batch.
//! - While somebody waits, somebody gathers or as many batches as may be are under way.
//! - A [`LeadPermit`] that is dropped goes to the next who waits.
//! - Whoever waits is told what became of it, by the drop of its [`Waiting`] if by nothing else.
//! - Nothing is dropped under the lock that may take it.

use std::{
    collections::VecDeque,
    mem,
    pin::{Pin, pin},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Notify, oneshot},
    time::sleep,
};

use super::{AT_ONCE, EndedTogether};
use crate::{
    executor::heartbeat::{KeptLease, Ran},
    handler::{Attempt, BatchOptions, Context, Operation, Outbox, Outgoing, Policy},
    message::{Envelope, Key},
    store::Lease,
};

/// The messages that wait, first come, first served. It lives as long as somebody waits in it or leads a batch of it.
pub(super) struct BatchQueue<H: Operation> {
    state: Mutex<State<H>>,
    /// Tells whoever gathers a batch that somebody has come.
    more: Notify,
}

struct State<H: Operation> {
    waiting: VecDeque<Waiting<H>>,
    /// How many bytes the bodies of those have.
    bytes: usize,
    /// Whether one of those gathers a batch: from its permit on until it takes the batch. Two who gathered would share
    /// what waits between them, and make smaller batches.
    gathers: bool,
    /// How many lead a batch, or gather one, but for those whose call takes long: `AT_ONCE` at most.
    leaders: usize,
    /// How many have come so far: a number for the next one.
    count: u64,
}

/// A message that waits, or that is in a batch. It is told once what became of it: by [`tell`](Self::tell), or by its
/// drop that it is to run by itself.
pub(super) struct Waiting<H: Operation> {
    /// The number by which the message finds itself: in the queue, to leave it, and in a batch that it leads.
    pub(super) number: u64,
    /// `None` while a batch has it, and afterwards.
    pub(super) message: Option<H::Message>,
    /// From this field on to `attempt`: what the handler is told of the message in its batch.
    pub(super) key: Key,
    pub(super) envelope: Envelope,
    pub(super) attempt: Attempt,
    /// What it takes to end its claim together with those of others.
    pub(super) claimed: Claimed,
    /// What calls so far may have left, in this batch or in the whole of which this is a part.
    pub(super) earlier: Earlier,
    /// Its heartbeat, which goes on while it waits and runs. `None` when it has been told, or has left.
    kept: Option<KeptLease>,
    /// Where it is told. `None` when it has been.
    answer: Option<oneshot::Sender<Answer<H>>>,
    /// Where it is told to lead. `None` from then on: nobody leads twice.
    permit: Option<oneshot::Sender<LeadPermit<H>>>,
}

/// The claim of a message that waits, as far as its mode needs it to end it with others.
pub(super) struct Claimed {
    /// Where its handler's messages are until they are written with its completion.
    pub(super) outbox: Option<Outbox>,
    pub(super) lease: Lease,
    /// How large its outcome may be, say: each member has its own.
    pub(super) policy: Policy,
    pub(super) retention: Duration,
}

/// What an earlier call with a message may have left of it. It is told to the handler at the next call, and decides
/// what becomes of the key if there is none.
#[derive(Debug, Clone)]
pub(super) enum Earlier {
    /// There was none, or it was undone with its transaction. So it stays in modes that leave no doubt.
    Nothing,
    /// The call was dropped in the middle, and nobody knows what it did. Set when the handler is polled first, and
    /// left when it has returned.
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
pub(super) enum Answer<H: Operation> {
    /// The handler ran, with the others.
    Ran {
        /// Its heartbeat comes back with it: the claim is still to be ended, or was ended just now.
        kept: KeptLease,
        ran: Ran<Result<H::Output, H::Error>>,
        /// How its claim was ended with the others; `None` if it is to be ended by itself.
        ended: Option<EndedTogether>,
    },
    /// It has to be called by itself.
    Alone {
        kept: KeptLease,
        /// `None` if a batch has used it up.
        message: Option<H::Message>,
        earlier: Earlier,
    },
}

/// A message that waits, on the side of whoever sent it here. It is told to lead, at most once, and what became of it,
/// once.
pub(super) struct Waiter<H: Operation> {
    queue: Arc<BatchQueue<H>>,
    pub(super) number: u64,
    pub(super) answer: oneshot::Receiver<Answer<H>>,
    pub(super) permit: oneshot::Receiver<LeadPermit<H>>,
    /// Whether it has led, or knows that it will not. `permit` must not be polled any more then: it has answered.
    pub(super) has_led: bool,
}

/// Whoever has gone keeps nothing: with what waits goes its heartbeat, and the key is free when its lease has run out.
/// A permit that it was sent and has not seen is dropped after that, and goes to the next one.
impl<H: Operation> Drop for Waiter<H> {
    fn drop(&mut self) {
        drop(self.queue.leave(self.number));
    }
}

/// The right to lead a batch, counted in `leaders`. Dropped, it goes to the next who waits.
pub(super) struct LeadPermit<H: Operation> {
    queue: Arc<BatchQueue<H>>,
    /// Whether it is one of `leaders` still: see [`hold_for`](Self::hold_for).
    counts: bool,
    /// Whether the batch is still to be taken. Not so once it was, nor when the permit is handed over with what is left
    /// of one.
    gathers: bool,
    /// What is left of the batch, if another one has led it so far. Dropped with the permit, each of these is told to
    /// run by itself.
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
    /// Lines up. If nobody gathers a batch, the one that has waited longest is told to, perhaps this one.
    pub(super) fn join<St>(
        self: &Arc<Self>,
        message: H::Message,
        context: &Context<'_, St>,
        claimed: Claimed,
        kept: KeptLease,
    ) -> Waiter<H> {
        let (answer_sender, answer) = oneshot::channel();
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
            answer: Some(answer_sender),
            permit: Some(permit_sender),
        });
        // Without the lock, which whoever is woken or appointed takes.
        drop(state);
        // First whoever gathers already: its batch may be full now.
        self.more.notify_waiters();
        self.appoint();
        Waiter {
            queue: Arc::clone(self),
            number,
            answer,
            permit,
            has_led: false,
        }
    }

    /// Takes the one with this number out, if it is in no batch yet, and gives its heartbeat back. `None`: a batch has
    /// it, and runs to its end.
    pub(super) fn leave(&self, number: u64) -> Option<KeptLease> {
        let mut state = self.lock();
        let at = state.waiting.iter().position(|it| it.number == number)?;
        let mut left = state.waiting.remove(at)?;
        state.bytes -= left.bytes();
        // The rest of it is dropped below, without the lock: the message is the user's, and so is what its drop does.
        drop(state);
        left.answer = None;
        left.kept.take()
    }

    /// Whether as many wait as a batch may have, or as large ones.
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
        // Counted under the same lock as the look, so that two who come together appoint one.
        state.gathers = true;
        state.leaders += 1;
        drop(state);
        // Without the lock: if it has gone, the permit is dropped here, which takes the lock, and it goes to the next.
        let _ = next.send(LeadPermit {
            queue: Arc::clone(self),
            counts: true,
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
    /// Waits until as many wait as fit into a batch, for a handler that has asked for such a wait. A dropped call
    /// leaves nothing behind.
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
            // The first one goes whatever its size: it would never be taken otherwise, and keep all behind it waiting.
            if bytes > batch.most_bytes() && !taken.is_empty() {
                break;
            }
            taken.extend(state.waiting.pop_front());
        }
        state.bytes -= taken.iter().map(Waiting::bytes).sum::<usize>();
        // From here on the next one may gather, while this batch runs. Those who wait then are not in this one.
        state.gathers = false;
        drop(state);
        // So that the drop of this permit does not end the gathering of another.
        self.gathers = false;
        self.queue.appoint();
        taken
    }

    /// Waits for a call. If that takes longer than `most`, another one may begin beside it, so that calls that hang, or
    /// rest, do not hold up all messages of the handler. Boxed: as a whole, a call would be in this future twice.
    pub(super) async fn hold_for<T>(
        &mut self,
        most: Duration,
        mut call: Pin<Box<impl Future<Output = T>>>,
    ) -> T {
        if self.counts {
            tokio::select! {
                biased;
                done = &mut call => return done,
                () = sleep(most) => {}
            }
            self.counts = false;
            self.queue.lock().leaders -= 1;
            self.queue.appoint();
        }
        call.await
    }

    /// What another one has left of its batch for this one to lead; nothing if the batch is still to be taken.
    pub(super) fn left(&mut self) -> Vec<Waiting<H>> {
        mem::take(&mut self.left)
    }

    /// Lets one of these lead what is left of the batch that they are in. If it has gone, each runs by itself.
    pub(super) fn hand_over(mut self, mut left: Vec<Waiting<H>>) {
        // Nobody among them has led before: whoever leads hands over only what it is not in. So there is a next one.
        if let Some(next) = left.iter_mut().find_map(|it| it.permit.take()) {
            self.left = left;
            // If that one has gone, the permit comes back from the channel and is dropped, with all that is left.
            let _ = next.send(self);
        }
    }
}

impl<H: Operation> Drop for LeadPermit<H> {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        state.leaders -= usize::from(self.counts);
        // If its batch was not taken, nobody gathers now, and the next one is told to below.
        state.gathers &= !self.gathers;
        drop(state);
        self.queue.appoint();
    }
}

impl<H: Operation> Waiting<H> {
    // Of the body as it came: that is what `BatchOptions::most_bytes` limits.
    fn bytes(&self) -> usize {
        self.envelope.body().len()
    }

    /// What a call needs of it: its heartbeat, under which the batch runs, and what calls so far may have left.
    pub(super) fn called(&mut self) -> (&mut KeptLease, &mut Earlier) {
        (self.kept.as_mut().expect(NOT_TOLD), &mut self.earlier)
    }

    /// Whether another worker has its key, as far as is known.
    pub(super) fn has_lost_lease(&self) -> bool {
        self.kept.as_ref().is_some_and(KeptLease::is_lost)
    }

    /// Whether its lease holds, as far as is known.
    pub(super) fn holds_lease(&self) -> bool {
        self.kept.as_ref().is_some_and(KeptLease::holds)
    }

    /// Tells it that the handler ran.
    pub(super) fn tell(
        mut self,
        ran: Ran<Result<H::Output, H::Error>>,
        ended: Option<EndedTogether>,
    ) {
        let kept = self.kept.take().expect(NOT_TOLD);
        self.send(Answer::Ran { kept, ran, ended });
    }

    fn send(&mut self, answer: Answer<H>) {
        if let Some(sender) = self.answer.take() {
            // Whoever has gone leaves its claim to its lease.
            let _ = sender.send(answer);
        }
    }
}

const NOT_TOLD: &str = "it has its heartbeat until it is told";

/// Who was told nothing else is called by itself. So whatever becomes of the leader (it is dropped, or panics), no
/// message of its batch is left waiting.
impl<H: Operation> Drop for Waiting<H> {
    fn drop(&mut self) {
        if let Some(kept) = self.kept.take() {
            let message = self.message.take();
            let earlier = self.earlier.clone();
            self.send(Answer::Alone {
                kept,
                message,
                earlier,
            });
        }
    }
}
