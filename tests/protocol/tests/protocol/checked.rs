//! Runs the checker, and tells what it found in words.

use std::{fmt, time::Instant};

use idem_protocol::{Action, Protocol, Setting, World, longest_path};
use stateright::{Checker, Expectation, HasDiscoveries, Model, Path};

/// Visits every state that the protocol can reach in a setting: all properties hold in all of them,
/// every path ends, and everything that is to be reached is reached.
pub(crate) fn exhaustively(setting: Setting) {
    let protocol = Protocol::sound(setting);
    let alike = protocol.clone().with_workers_alike();
    let start = Instant::now();
    let checked = alike.clone().checker().spawn_dfs().join();
    for property in protocol.properties() {
        let is_found = checked.discovery(property.name).is_some();
        match property.expectation {
            Expectation::Sometimes => assert!(is_found, "never reached: {}", property.name),
            Expectation::Always | Expectation::Eventually => {
                assert!(!is_found, "{}", shortest(&protocol, property.name));
            }
        }
    }
    let longest = longest_path(&alike).expect("every path ends");
    println!(
        "{}: {} states, the longest path has {longest} steps, {:.1?}",
        protocol.setting,
        checked.unique_state_count(),
        start.elapsed(),
    );
}

/// The checker finds how the broken protocol violates a property.
pub(crate) fn catches(protocol: &Protocol, property: &'static str) {
    println!("{}", shortest(protocol, property));
}

/// As short as can be: the first path that the checker finds has detours.
fn shortest(protocol: &Protocol, property: &'static str) -> Counterexample {
    let found = counterexample(protocol, property, usize::MAX);
    let found = found.unwrap_or_else(|| panic!("not noticed by \"{property}\": {protocol:?}"));
    let steps = (2..=found.len()).find_map(|depth| counterexample(protocol, property, depth));
    let steps = steps.unwrap_or(found);
    Counterexample { property, steps }
}

/// A path to where a property does not hold, that visits fewer worlds than `depth`.
fn counterexample(protocol: &Protocol, property: &'static str, depth: usize) -> Option<Steps> {
    let wanted = HasDiscoveries::AnyOf([property].into());
    let search = protocol.clone().checker().finish_when(wanted);
    let found = search.target_max_depth(depth).spawn_bfs().join();
    found.discovery(property).map(Path::into_vec)
}

/// Each world, and what is done in it next.
type Steps = Vec<(World, Option<Action>)>;

struct Counterexample {
    property: &'static str,
    steps: Steps,
}

/// Step by step; the world is shown as it is at the end.
impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "it does not hold that {}:", self.property)?;
        let (last, before) = self.steps.split_last().expect("there is a first world");
        for (number, (_, action)) in before.iter().enumerate() {
            let action = action.as_ref().expect("a step follows");
            writeln!(f, "{:>4}. {action:?}", number + 1)?;
        }
        let world = &last.0;
        for message in &world.messages {
            writeln!(f, "      {message:?}")?;
        }
        for worker in &world.workers {
            writeln!(f, "      {worker:?}")?;
        }
        writeln!(f, "      under way: {:?}", world.under_way)
    }
}
