//! From the end of a message to the broker's verdict on its delivery.

use idem_core::executor::ExecutionKind;

use super::Protocol;
use crate::{Breach, Delivery, Flaw, Phase, World, settlement::Settlement};

impl Protocol {
    pub(super) fn deliver(&self, world: &mut World, message: usize, to: usize) {
        world.messages[message].ready -= 1;
        let owner = self.has(Flaw::OwnerIsKept).then_some(0);
        world.workers[to] = Some(Delivery::new(message, owner));
    }

    /// A copy that was never delivered before.
    pub(super) fn deliver_first(&self, world: &mut World, message: usize, to: usize) {
        self.deliver(world, message, to);
        world.messages[message].fresh -= 1;
        world.delivery(to).is_first = true;
    }

    /// The broker has confirmed the dead letter, or the copy that comes back by the ladder.
    pub(super) fn publish(&self, world: &mut World, worker: usize) {
        let delivery = world.delivery(worker);
        let Phase::Settling(kind) = delivery.phase else {
            unreachable!("what is published is settled");
        };
        delivery.phase = Phase::Acking(kind);
        let message = delivery.message;
        match self.settlement(kind) {
            Settlement::SendAgain => world.messages[message].ready += 1,
            _ => world.messages[message].dead_lettered |= !self.has(Flaw::AckBeforeDeadLetter),
        }
    }

    /// On a channel that has ended an acknowledgement goes nowhere.
    pub(super) fn ack(&self, world: &mut World, worker: usize) {
        let acked = world.workers[worker].take().expect("somebody acknowledges");
        let Phase::Acking(kind) = acked.phase else {
            unreachable!("what is acknowledged is settled");
        };
        if acked.attached {
            self.note_ack(world, acked.message, Some(kind));
        } else if self.has(Flaw::VerdictOnNewChannel) {
            let mut deliveries = world.workers.iter_mut().flatten();
            if let Some(other) = deliveries.find(|other| other.attached) {
                other.attached = false;
                let message = other.message;
                self.note_ack(world, message, None);
            }
        }
    }

    /// A message has ended in the engine.
    pub(super) fn end(&self, world: &mut World, worker: usize, kind: ExecutionKind) {
        let phase = match self.settlement(kind) {
            Settlement::Ack | Settlement::Drop => Phase::Acking(kind),
            Settlement::Hold => Phase::Claiming,
            Settlement::DeadLetter | Settlement::SendAgain | Settlement::Leave => {
                Phase::Settling(kind)
            }
        };
        world.delivery(worker).phase = phase;
    }

    /// The broker forgets the delivery while its worker goes on.
    pub(super) fn ack_early(&self, world: &mut World, worker: usize) {
        let delivery = world.delivery(worker);
        let message = delivery.message;
        if std::mem::replace(&mut delivery.attached, false) {
            self.note_ack(world, message, None);
        }
    }

    fn note_ack(&self, world: &mut World, message: usize, kind: Option<ExecutionKind>) {
        let its = &mut world.messages[message];
        let rightly = match kind.map(|kind| self.settlement(kind)) {
            Some(Settlement::Ack) => its.kept.is_completed(),
            Some(Settlement::DeadLetter) => its.dead_lettered,
            // Whatever is dropped, only these were given up.
            Some(Settlement::Drop) => {
                let given_up = [ExecutionKind::Rejected, ExecutionKind::Exhausted].map(Some);
                its.dropped |= given_up.contains(&kind);
                its.has_an_end()
            }
            // What is held is acknowledged only as a copy that is dropped. Whether its message is lost by that, is seen
            // at the message.
            Some(Settlement::SendAgain | Settlement::Hold) => true,
            Some(Settlement::Leave) | None => its.has_an_end(),
        };
        if !rightly {
            world.breaches.insert(Breach::AckedTooEarly);
        }
    }
}

impl World {
    pub(super) fn delivery(&mut self, worker: usize) -> &mut Delivery {
        let delivery = self.workers[worker].as_mut();
        delivery.expect("only a worker with a delivery does anything")
    }

    /// The delivery is over; the broker has the message back if it has not got it back before.
    pub(super) fn leave(&mut self, worker: usize) {
        let delivery = self.workers[worker].take();
        let delivery = delivery.expect("somebody leaves it");
        self.messages[delivery.message].ready += u8::from(delivery.attached);
    }
}
