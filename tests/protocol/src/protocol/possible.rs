//! What can happen next.

use idem_core::FencingToken;

use super::Protocol;
use crate::{Action, Ask, Delivery, Phase, World, settlement::Settlement};

impl Protocol {
    pub(super) fn possible(&self, world: &World, actions: &mut Vec<Action>) {
        // All idle workers are alike.
        if let Some(to) = world.workers.iter().position(Option::is_none) {
            let messages = world.messages.iter().enumerate();
            for (message, its) in messages {
                if its.ready > its.fresh {
                    actions.push(Action::Delivers { message, to });
                }
                if its.fresh > 0 {
                    actions.push(Action::DeliversFirst { message, to });
                }
            }
        }
        for (worker, delivery) in world.workers.iter().enumerate() {
            if let Some(delivery) = delivery {
                goes_on(world, worker, delivery, actions);
                if let Phase::Settling(kind) = delivery.phase {
                    settles(worker, delivery, self.settlement(kind), actions);
                }
                goes_wrong(world, worker, delivery, actions);
            }
        }
        for (index, call) in world.under_way.iter().enumerate() {
            if index == 0 || world.under_way[index - 1] != *call {
                actions.extend([Action::Arrives(*call), Action::IsLost(*call)]);
            }
        }
        for (message, its) in world.messages.iter().enumerate() {
            if its.kept.is_waiting() {
                actions.push(Action::TimePasses { message });
            }
        }
    }
}

fn goes_on(world: &World, worker: usize, delivery: &Delivery, actions: &mut Vec<Action>) {
    if let Some(ask) = delivery.ask(world.new_owner(delivery.message)) {
        actions.push(Action::Calls { worker, ask });
        if world.faults_left > 0 && delivery.phase == Phase::Claiming {
            actions.push(Action::ClaimsWhileStopping { worker, ask });
        }
    }
    match delivery.phase {
        Phase::Claiming if !delivery.attached => actions.push(Action::Leaves { worker }),
        Phase::Running(grant) => {
            actions.extend([
                Action::Returns { worker },
                Action::Fails { worker },
                Action::Rejects { worker },
            ]);
            if beats(world, delivery.message, grant.token) {
                let ask = Ask::Extend(grant.token);
                actions.push(Action::Calls { worker, ask });
            }
        }
        Phase::Acking(_) => actions.push(Action::Acks { worker }),
        _ => {}
    }
}

/// Whether a heartbeat changes anything: the lease has run out, or was taken over.
fn beats(world: &World, message: usize, token: FencingToken) -> bool {
    let kept = &world.messages[message].kept;
    kept.holder() != Some(token) || (!kept.is_waiting() && world.faults_left > 0)
}

/// On a channel that has ended, a dead letter may have been under way already.
fn settles(worker: usize, delivery: &Delivery, how: Settlement, actions: &mut Vec<Action>) {
    let publishes = match how {
        Settlement::DeadLetter => true,
        Settlement::SendAgain => delivery.attached,
        Settlement::Ack | Settlement::Drop | Settlement::Leave | Settlement::Hold => false,
    };
    if publishes {
        actions.push(Action::Publishes { worker });
    }
    if how == Settlement::Leave || !delivery.attached {
        actions.push(Action::Leaves { worker });
    }
}

fn goes_wrong(world: &World, worker: usize, delivery: &Delivery, actions: &mut Vec<Action>) {
    if world.faults_left > 0 {
        actions.push(Action::Crashes { worker });
    }
    if world.faults_left > 0 && delivery.attached {
        actions.push(Action::LosesChannel { worker });
    }
    if world.faults_left == 0 {
        return;
    }
    if let Some(ask) = delivery.ask(world.new_owner(delivery.message)) {
        actions.push(Action::HearsNothing { worker, ask });
    }
    match delivery.phase {
        Phase::Running(grant) if world.faults_left > 0 => {
            let ask = Ask::Extend(grant.token);
            actions.push(Action::HearsNothing { worker, ask });
        }
        _ => {}
    }
}
