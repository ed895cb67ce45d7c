//! Free ports for servers that must come back on the same ones.

use std::{collections::BTreeSet, net::TcpListener, ops::Range};

use crate::{Error, Result};

/// Below Linux's range for outgoing connections: a client that keeps reconnecting while the
/// server is down must never be given the server's port as its own.
const CANDIDATES: Range<u16> = 20_000..32_000;

/// Picks `N` different ports on which nobody listens on the loopback interface.
pub(crate) fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let guesses = std::iter::repeat_with(|| fastrand::u16(CANDIDATES)).take(1_000);
    choose(guesses, |port| {
        TcpListener::bind(("127.0.0.1", port)).is_ok()
    })
    .ok_or_else(|| {
        Error::Missing(format!(
            "no free port between {} and {} on 127.0.0.1: stop some servers",
            CANDIDATES.start, CANDIDATES.end
        ))
    })
}

fn choose<const N: usize>(
    guesses: impl Iterator<Item = u16>,
    mut free: impl FnMut(u16) -> bool,
) -> Option<[u16; N]> {
    let mut chosen = BTreeSet::new();
    for port in guesses {
        if chosen.len() == N {
            break;
        }
        if !chosen.contains(&port) && free(port) {
            chosen.insert(port);
        }
    }
    Vec::from_iter(chosen).try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_chosen_once_and_only_if_free() {
        let chosen = choose::<2>([7, 8, 7, 9, 10].into_iter(), |port| port != 8);
        assert_eq!(chosen, Some([7, 9]));
    }

    #[test]
    fn too_few_free_ports_are_not_enough() {
        assert_eq!(choose::<2>([7, 7, 8].into_iter(), |port| port == 7), None);
    }

    #[test]
    fn a_port_somebody_listens_on_is_not_free() {
        let ports = free_ports::<3>().expect("three free ports");
        let _taken = TcpListener::bind(("127.0.0.1", ports[0])).expect("the port is free");
        assert!(TcpListener::bind(("127.0.0.1", ports[0])).is_err());
        assert!(ports.iter().all(|port| CANDIDATES.contains(port)));
    }
}
