//! Paths that end, and paths that do not.

use idem_protocol::longest_path;
use stateright::Model;

/// Counts from 0 in ones and twos, up to a bound; and perhaps starts over there.
struct Count {
    to: u8,
    starts_over: bool,
}

impl Model for Count {
    type State = u8;
    type Action = u8;

    fn init_states(&self) -> Vec<u8> {
        vec![0]
    }

    fn actions(&self, count: &u8, actions: &mut Vec<u8>) {
        if *count < self.to {
            actions.extend([count + 1, (count + 2).min(self.to)]);
        } else if self.starts_over {
            actions.push(0);
        }
    }

    fn next_state(&self, _: &u8, next: u8) -> Option<u8> {
        Some(next)
    }
}

#[test]
fn the_longest_path_is_measured_by_its_steps() {
    let starts_over = false;
    assert_eq!(longest_path(&Count { to: 7, starts_over }), Some(7));
}

#[test]
fn a_path_that_comes_back_has_no_length() {
    let starts_over = true;
    assert_eq!(longest_path(&Count { to: 7, starts_over }), None);
}
