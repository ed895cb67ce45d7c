//! Free ports for servers that must come back on the same ones.

use std::{
    collections::BTreeSet,
    env,
    fs::{File, OpenOptions},
    io,
    net::TcpListener,
    ops::Range,
    path::Path,
    sync::{Mutex, PoisonError},
};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, fcntl},
    libc::{F_WRLCK, SEEK_SET, flock},
    unistd::Uid,
};

use crate::{Error, Result};

/// Below Linux's range for outgoing connections: a client that keeps reconnecting while the
/// server is down must never be given the server's port as its own.
const CANDIDATES: Range<u16> = 20_000..32_000;

/// The ports that this process has taken.
static TAKEN: Mutex<Option<Reservations>> = Mutex::new(None);

/// Picks `N` different ports on which nobody listens on the loopback interface. They are ours until this
/// process ends, also while nobody listens: no other one that asks here is given them.
///
/// # Errors
///
/// All are taken, or the file that tells which ones are cannot be written.
pub fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let reservations = match &mut *taken {
        Some(reservations) => reservations,
        none => none.insert(Reservations::open()?),
    };
    let guesses = std::iter::repeat_with(|| fastrand::u16(CANDIDATES)).take(1_000);
    choose(guesses, |port| {
        TcpListener::bind(("127.0.0.1", port)).is_ok() && reservations.take(port)
    })
    .ok_or_else(|| {
        Error::Missing(format!(
            "no free port between {} and {} on 127.0.0.1: stop some servers",
            CANDIDATES.start, CANDIDATES.end
        ))
    })
}

/// A server takes seconds to listen: until then, a port that is free is no proof that nobody wants it.
/// The byte of that number in a file is locked for each port that a process of this user has taken.
#[derive(Debug)]
struct Reservations {
    // The locks are this open file's, and go with it. Locks of the process would go as soon as it closes the file
    // that it opened anywhere else.
    file: File,
    // An open file does not see its own locks.
    ours: BTreeSet<u16>,
}

impl Reservations {
    fn open() -> Result<Self> {
        Self::open_file(&env::temp_dir().join(format!("idem-ports-{}", Uid::effective())))
    }

    fn open_file(path: &Path) -> Result<Self> {
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(Error::io(format!("open {}", path.display())))?;
        Ok(Self {
            file,
            ours: BTreeSet::new(),
        })
    }

    fn take(&mut self, port: u16) -> bool {
        !self.ours.contains(&port) && self.lock(port).is_ok() && self.ours.insert(port)
    }

    fn lock(&self, port: u16) -> io::Result<()> {
        let byte = flock {
            l_type: i16::try_from(F_WRLCK).expect("a small number"),
            l_whence: i16::try_from(SEEK_SET).expect("a small number"),
            l_start: port.into(),
            l_len: 1,
            l_pid: 0,
        };
        fcntl(&self.file, FcntlArg::F_OFD_SETLK(&byte))
            .map(drop)
            .map_err(Errno::into)
    }
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
    use std::process::Command;

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
    fn closing_the_file_elsewhere_gives_no_port_back() {
        let directory = tempfile::tempdir().expect("a directory");
        let open = || Reservations::open_file(&directory.path().join("ports")).expect("a file");
        let mut first = open();
        assert!(first.take(7));
        assert!(!first.take(7));
        let mut second = open();
        assert!(!second.take(7));
        drop(second);
        assert!(!open().take(7));
    }

    #[test]
    fn a_port_is_never_given_twice_though_nobody_listens_on_it() {
        let all: Vec<_> = (0..300)
            .flat_map(|_| free_ports::<3>().expect("ports"))
            .collect();
        assert_eq!(BTreeSet::from_iter(&all).len(), all.len());
    }

    #[test]
    fn a_port_that_another_process_has_taken_is_not_free() {
        const TAKEN_PORT: &str = "IDEM_PORTS_TEST_TAKEN";
        if let Ok(port) = env::var(TAKEN_PORT) {
            let mut reservations = Reservations::open().expect("a file");
            assert!(!reservations.take(port.parse().expect("a port")));
            return;
        }
        let [port] = free_ports().expect("a port");
        let this = "ports::tests::a_port_that_another_process_has_taken_is_not_free";
        let other = Command::new(env::current_exe().expect("this program"))
            .args(["--exact", this])
            .env(TAKEN_PORT, port.to_string())
            .output()
            .expect("it runs");
        assert!(other.status.success(), "{other:?}");
        assert!(String::from_utf8_lossy(&other.stdout).contains("1 passed"));
    }

    #[test]
    fn a_port_somebody_listens_on_is_not_free() {
        let ports = free_ports::<3>().expect("three free ports");
        let _taken = TcpListener::bind(("127.0.0.1", ports[0])).expect("the port is free");
        assert!(TcpListener::bind(("127.0.0.1", ports[0])).is_err());
        assert!(ports.iter().all(|port| CANDIDATES.contains(port)));
    }
}
