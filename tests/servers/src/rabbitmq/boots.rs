//! How many brokers of this process boot at a time: more than there are processors would all be up later.

use std::{
    num::NonZero,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    thread,
};

static BOOTING: Mutex<usize> = Mutex::new(0);
static BOOTED: Condvar = Condvar::new();

/// The permission to boot one, until it is dropped.
#[derive(Debug)]
pub(crate) struct Permit(());

/// Waits while as many boot as there are processors.
pub(crate) fn permit() -> Permit {
    let processors = processors();
    let mut booting = BOOTED
        .wait_while(booting(), |booting| *booting >= processors)
        .unwrap_or_else(PoisonError::into_inner);
    *booting += 1;
    Permit(())
}

impl Drop for Permit {
    fn drop(&mut self) {
        *booting() -= 1;
        BOOTED.notify_one();
    }
}

fn processors() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

fn booting() -> MutexGuard<'static, usize> {
    BOOTING.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, time::Duration};

    use super::*;

    #[test]
    fn no_more_boot_at_a_time_than_there_are_processors_and_the_next_when_one_is_up() {
        let mut permits: Vec<_> = (0..processors()).map(|_| permit()).collect();
        let (boots, booted) = mpsc::channel();
        // Nobody waits for it if this fails.
        thread::spawn(move || boots.send(permit()));
        // Nothing may happen, and nothing tells that it does not.
        let soon = booted.recv_timeout(Duration::from_millis(50));
        assert!(soon.is_err(), "one more boots");
        permits.pop();
        let next = booted.recv_timeout(Duration::from_secs(30));
        assert!(next.is_ok(), "the next one waits although there is room");
    }
}
