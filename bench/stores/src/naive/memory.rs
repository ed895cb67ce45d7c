//! A map behind a lock.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Mutex, PoisonError},
};

use super::{not_done, not_new};
use crate::{Result, contender::Contender};

#[derive(Debug, PartialEq, Eq)]
enum State {
    Processing,
    Done,
}

#[derive(Debug, Default)]
pub(crate) struct NaiveMemory(Mutex<HashMap<String, State>>);

impl Contender for NaiveMemory {
    async fn first(&self, name: &str) -> Result<()> {
        let map = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match map().entry(name.to_owned()) {
            Entry::Occupied(_) => return Err(not_new(name)),
            Entry::Vacant(vacant) => vacant.insert(State::Processing),
        };
        map().insert(name.to_owned(), State::Done);
        Ok(())
    }

    async fn again(&self, name: &str) -> Result<()> {
        let map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match map.get(name) {
            Some(State::Done) => Ok(()),
            _ => Err(not_done(name)),
        }
    }
}
