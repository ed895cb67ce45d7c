//! What a worker does about the store's answers: the engine's two modes, call by call.

use idem_core::{
    Failed, FencingToken,
    executor::ExecutionKind,
    model::{answered, failed, unrun},
    store::{Claim, Lease, Write},
};

use super::Protocol;
use crate::{
    Afterwards, Ask, Breach, Call, Flaw, Grant, Mode, Phase, Reason, World,
    store::{Answer, LEASE},
};

impl Protocol {
    pub(super) fn call(&self, world: &mut World, worker: usize, ask: Ask, stopping: bool) {
        let message = world.delivery(worker).message;
        if let Ask::Claim(owner) = ask {
            world.delivery(worker).owner = Some(owner);
        }
        let before = world.messages[message].kept.clone();
        let answer = self.apply(world, Call { message, ask });
        match (ask, answer) {
            (Ask::Extend(_), Answer::Write(Write::Applied)) => {
                if world.messages[message].kept != before {
                    world.faults_left = world.faults_left.saturating_sub(1);
                }
            }
            (_, Answer::Claim(claim)) => self.hear_claim(world, worker, claim, stopping),
            (_, Answer::Write(write)) => self.hear_write(world, worker, write),
        }
    }

    /// The caller has to take it that the call may have arrived, or not.
    pub(super) fn hear_nothing(&self, world: &mut World, worker: usize, ask: Ask) {
        world.faults_left -= 1;
        let delivery = world.delivery(worker);
        if let Ask::Claim(owner) = ask {
            delivery.owner = Some(owner);
            // The claim may still arrive.
            delivery.is_first &= self.has(Flaw::UnansweredIsDropped);
        }
        let message = delivery.message;
        delivery.phase = match (delivery.phase, ask) {
            (Phase::Completing(token), _) if self.has(Flaw::ReleaseUnknownCompletion) => {
                let failed = Afterwards::Ran(ExecutionKind::Failed);
                Phase::Releasing(token, Reason::Failed, failed)
            }
            (Phase::Committing(_), _) if self.has(Flaw::TrustUnknownCommit) => {
                Phase::Acking(ExecutionKind::Executed)
            }
            (Phase::Committing(grant), _) => Phase::Doubting(grant.token),
            (phase, _) => phase,
        };
        world.under_way.push(Call { message, ask });
    }

    /// Nobody hears the answer.
    pub(super) fn arrive(&self, world: &mut World, call: Call) {
        world.take_under_way(call);
        self.apply(world, call);
    }

    fn hear_claim(&self, world: &mut World, worker: usize, claim: Claim, stopping: bool) {
        match (world.delivery(worker).phase, claim) {
            (Phase::Doubting(token), Claim::Completed { .. }) => {
                world.delivery(worker).phase = Phase::Attributing(token);
            }
            // The commit did not happen, and the claim stands: the same attempt, once more.
            (Phase::Doubting(_), Claim::Acquired(_)) => {
                self.end(world, worker, ExecutionKind::StoreUnavailable);
            }
            (Phase::Doubting(_), _) => self.end(world, worker, ExecutionKind::LeaseLost),
            (_, Claim::Acquired(lease)) => self.acquired(world, worker, &lease, stopping),
            (_, Claim::Held { .. }) if self.drops(world, worker) => {
                world.delivery(worker).phase = Phase::Acking(ExecutionKind::Conflict);
            }
            (_, Claim::Held { .. }) if self.has(Flaw::ConflictIsDuplicate) => {
                self.end(world, worker, ExecutionKind::Duplicate);
            }
            (_, claim) => self.end(world, worker, answered(claim)),
        }
    }

    /// Whether a message whose key is held is dropped: if the policy says so, and it cannot be the one that holds it.
    fn drops(&self, world: &mut World, worker: usize) -> bool {
        let may_be_itself = !world.delivery(worker).is_first;
        self.setting.drops_copies() && (!may_be_itself || self.has(Flaw::RedeliveryIsDropped))
    }

    fn acquired(&self, world: &mut World, worker: usize, lease: &Lease, stopping: bool) {
        if stopping {
            world.faults_left -= 1;
        }
        // What an atomic handler did was rolled back.
        let doubt = self.setting.mode == Mode::Leased;
        world.delivery(worker).phase =
            if let Some((reason, kind)) = unrun(lease, &self.setting.policy, stopping, doubt) {
                let kind = Afterwards::Unrun(kind);
                Phase::Releasing(lease.token, Reason::from(&reason), kind)
            } else {
                let message = world.delivery(worker).message;
                world.messages[message].untold &= !lease.in_doubt;
                Phase::Running(Grant::from(lease))
            };
    }

    /// The handler has returned: what a leased one has done is done.
    pub(super) fn handler_returns(&self, world: &mut World, worker: usize) {
        let delivery = world.delivery(worker);
        let Phase::Running(grant) = delivery.phase else {
            unreachable!("a handler returns that has run");
        };
        let message = delivery.message;
        if self.setting.mode == Mode::Atomic {
            delivery.phase = Phase::Committing(grant);
            return;
        }
        delivery.phase = Phase::Completing(grant.token);
        // What it finds done is completed as it is. It is settled like what was done now: with an ack.
        if !(self.setting.finds_done && world.messages[message].effects > 0) {
            world.effect_happens(message, &grant);
        }
        if self.has(Flaw::AckBeforeCompletion) {
            self.ack_early(world, worker);
        }
    }

    pub(super) fn handler_fails(&self, world: &mut World, worker: usize, for_good: bool) {
        let delivery = world.delivery(worker);
        let Phase::Running(grant) = delivery.phase else {
            unreachable!("a handler fails that has run");
        };
        let error = if for_good {
            Failed::rejected("")
        } else {
            Failed::retry_after(LEASE, "")
        };
        let (reason, kind) = failed(&grant.lease(), &self.setting.policy, error);
        let kind = Afterwards::Ran(kind);
        delivery.phase = Phase::Releasing(grant.token, Reason::from(&reason), kind);
    }

    fn hear_write(&self, world: &mut World, worker: usize, write: Write) {
        use ExecutionKind::{Executed, LeaseLost};
        let phase = world.delivery(worker).phase;
        let ended = match (phase, write) {
            (Phase::Releasing(_, _, Afterwards::Unrun(kind)), _)
            | (Phase::Releasing(_, _, Afterwards::Ran(kind)), Write::Applied) => kind,
            (_, Write::Fenced) => LeaseLost,
            (_, Write::Applied) => {
                let token = world
                    .delivery(worker)
                    .token()
                    .expect("it has written under it");
                world.told_completed(worker, token);
                Executed
            }
        };
        self.end(world, worker, ended);
    }
}

impl World {
    /// A leased handler's effect. Under a lease that was taken over, whoever took it over has been
    /// told of it.
    fn effect_happens(&mut self, message: usize, grant: &Grant) {
        let its = &mut self.messages[message];
        its.effects = (its.effects + 1).min(2);
        if its.kept.holder() != Some(grant.token) {
            return;
        }
        if its.untold && !grant.in_doubt {
            self.breaches.insert(Breach::RepeatedUntold);
        }
        self.messages[message].untold = true;
    }

    fn told_completed(&mut self, worker: usize, token: FencingToken) {
        let message = self.delivery(worker).message;
        let before = self.messages[message].completed_by.replace(token);
        if before.is_some_and(|before| before != token) {
            self.breaches.insert(Breach::CompletedTwice);
        }
    }
}
