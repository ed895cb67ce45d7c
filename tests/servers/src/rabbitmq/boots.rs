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
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
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

fn booting() -> MutexGuard<'static, usize> {
    BOOTING.lock().unwrap_or_else(PoisonError::into_inner)
}
