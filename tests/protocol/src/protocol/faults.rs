//! What goes wrong, and what only takes time.

use crate::{Call, World, store::LEASE};

impl World {
    /// All that is left of the worker's delivery is what the store and the broker know of it.
    pub(super) fn crash(&mut self, worker: usize) {
        self.faults_left -= 1;
        self.leave(worker);
    }

    pub(super) fn lose_channel(&mut self, worker: usize) {
        self.faults_left -= 1;
        let delivery = self.delivery(worker);
        delivery.attached = false;
        let message = delivery.message;
        self.messages[message].ready += 1;
    }

    pub(super) fn time_passes(&mut self, message: usize) {
        self.messages[message].kept.later(LEASE);
    }

    pub(super) fn take_under_way(&mut self, call: Call) {
        let position = self.under_way.iter().position(|other| *other == call);
        self.under_way
            .remove(position.expect("the call is under way"));
    }
}
