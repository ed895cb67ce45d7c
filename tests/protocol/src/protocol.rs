//! The protocol as a model: which worlds there are at first, what can happen, what comes of it.

use std::collections::BTreeSet;

use stateright::{Model, Property};

use crate::{Action, Flaw, Message, Setting, World, properties::properties};

mod calls;
mod faults;
mod possible;
mod verdicts;

/// The protocol in a setting, and perhaps with a flaw.
#[derive(Debug, Clone)]
pub struct Protocol {
    /// How large the world is, and what may go wrong in it.
    pub setting: Setting,
    /// What is broken on purpose.
    pub flaw: Option<Flaw>,
    /// Whether worlds are the same that differ only in the order of the workers. There are fewer of
    /// them then, but a worker changes its place on the way, and a path is hard to read.
    pub workers_are_alike: bool,
}

impl Protocol {
    /// The protocol as it is.
    pub fn sound(setting: Setting) -> Self {
        Self {
            setting,
            flaw: None,
            workers_are_alike: false,
        }
    }

    /// The protocol with one rule broken.
    pub fn broken(setting: Setting, flaw: Flaw) -> Self {
        Self {
            flaw: Some(flaw),
            ..Self::sound(setting)
        }
    }

    /// The same, without regard to the order of the workers.
    #[must_use]
    pub fn with_workers_alike(self) -> Self {
        Self {
            workers_are_alike: true,
            ..self
        }
    }

    pub(crate) fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }
}

impl Model for Protocol {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let message = |ready: &u8| Message {
            ready: *ready,
            fresh: if self.setting.drops_copies() {
                *ready
            } else {
                0
            },
            ..Message::default()
        };
        vec![World {
            messages: self.setting.copies.iter().map(message).collect(),
            workers: vec![None; self.setting.workers],
            under_way: Vec::new(),
            faults_left: self.setting.faults,
            breaches: BTreeSet::new(),
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        self.possible(world, actions);
    }

    /// A step that changes nothing, such as one more look at a key that is held, is none.
    fn next_state(&self, before: &World, action: Action) -> Option<World> {
        let mut world = before.clone();
        self.step(&mut world, action);
        world.settle_names();
        if self.workers_are_alike {
            world.workers.sort_unstable();
        }
        (world != *before).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties(&self.setting)
    }
}

impl Protocol {
    fn step(&self, world: &mut World, action: Action) {
        match action {
            Action::Delivers { message, to } => self.deliver(world, message, to),
            Action::DeliversFirst { message, to } => self.deliver_first(world, message, to),
            Action::Calls { worker, ask } => self.call(world, worker, ask, false),
            Action::ClaimsWhileStopping { worker, ask } => self.call(world, worker, ask, true),
            Action::HearsNothing { worker, ask } => self.hear_nothing(world, worker, ask),
            Action::Arrives(call) => self.arrive(world, call),
            Action::IsLost(call) => world.take_under_way(call),
            Action::Returns { worker } => self.handler_returns(world, worker),
            Action::Fails { worker } => self.handler_fails(world, worker, false),
            Action::Rejects { worker } => self.handler_fails(world, worker, true),
            Action::Publishes { worker } => self.publish(world, worker),
            Action::Acks { worker } => self.ack(world, worker),
            Action::Leaves { worker } => world.leave(worker),
            Action::TimePasses { message } => world.time_passes(message),
            Action::Crashes { worker } => world.crash(worker),
            Action::LosesChannel { worker } => world.lose_channel(worker),
        }
    }
}
