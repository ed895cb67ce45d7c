//! Whether paths end. A checker of `eventually` takes a path that comes back to where it was for
//! one that goes on well; so there must be none.

use std::{
    collections::{HashMap, hash_map::Entry},
    hash::{DefaultHasher, Hash, Hasher},
};

use stateright::Model;

/// How long the longest path is, in steps; `None` if one comes back to where it was, and so can
/// go on for ever.
pub fn longest_path<M>(model: &M) -> Option<usize>
where
    M: Model<State: Hash>,
{
    let mut lengths = HashMap::new();
    let mut longest = 0;
    for state in model.init_states() {
        longest = longest.max(longest_from(model, &state, &mut lengths)?);
    }
    Some(longest)
}

/// A state on the path that is being walked, and the steps from it that are still to be tried.
struct Stop<S> {
    name: u64,
    untried: Vec<S>,
    longest: usize,
}

/// Depth first. A length is known when all that follows is; until then the state is on the path.
fn longest_from<M>(
    model: &M,
    start: &M::State,
    lengths: &mut HashMap<u64, Option<usize>>,
) -> Option<usize>
where
    M: Model<State: Hash>,
{
    let mut path = vec![Stop::at(model, start)];
    lengths.insert(path[0].name, None);
    while let Some(here) = path.last_mut() {
        if let Some(next) = here.untried.pop() {
            match lengths.entry(name(&next)) {
                Entry::Vacant(unknown) => {
                    unknown.insert(None);
                    path.push(Stop::at(model, &next));
                }
                Entry::Occupied(known) => here.longest = here.longest.max((*known.get())? + 1),
            }
        } else {
            let Stop { name, longest, .. } = path.pop()?;
            lengths.insert(name, Some(longest));
            let Some(before) = path.last_mut() else {
                return Some(longest);
            };
            before.longest = before.longest.max(longest + 1);
        }
    }
    None
}

impl<S: Hash> Stop<S> {
    fn at<M: Model<State = S>>(model: &M, state: &S) -> Self {
        Self {
            name: name(state),
            untried: model.next_states(state),
            longest: 0,
        }
    }
}

fn name(state: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    state.hash(&mut hasher);
    hasher.finish()
}
