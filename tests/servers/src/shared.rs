//! Servers that ordinary tests share: given by `cargo xtask test`, named by a URL, or started on the first call.

use std::{
    env,
    ffi::OsStr,
    ops::Deref,
    sync::{Mutex, OnceLock, PoisonError},
};

use super::given;
use crate::Result;

/// A server that is named by a URL.
pub(crate) struct AtUrl<S> {
    /// The variable that holds it.
    pub(crate) variable: &'static str,
    /// What it has to be like, with `PORT` for the port.
    pub(crate) like: &'static str,
    /// The server at a port.
    pub(crate) server: fn(u16) -> Result<S>,
}

/// A place for the server that `O` owns: our own one, or that of somebody else.
#[derive(Debug)]
pub(crate) struct Shared<O: Deref<Target: Sized>> {
    own: OnceLock<O>,
    given: OnceLock<O::Target>,
    starting: Mutex<()>,
}

impl<O: Deref<Target: Sized>> Shared<O> {
    pub(crate) const fn new() -> Self {
        Self {
            own: OnceLock::new(),
            given: OnceLock::new(),
            starting: Mutex::new(()),
        }
    }

    /// What `variable` holds, attached to; if it is not set, the server at the URL that another variable holds; if that
    /// is not set either, one of our own that goes with this process. Later calls answer the same.
    pub(crate) fn get(
        &self,
        variable: &str,
        attach: impl FnOnce(&OsStr) -> Result<O::Target>,
        at_url: Option<AtUrl<O::Target>>,
        start: impl FnOnce() -> Result<O>,
    ) -> Result<&O::Target> {
        let _one_at_a_time = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(given) = env::var_os(variable) {
            if self.given.get().is_none() {
                let _ = self.given.set(attach(&given)?);
            }
            return Ok(self.given.get().expect("set above"));
        }
        let named = at_url.and_then(|named| Some((env::var(named.variable).ok()?, named)));
        if let Some((url, named)) = named {
            if self.given.get().is_none() {
                let port = given::port(named.variable, &url, named.like)?;
                let _ = self.given.set((named.server)(port)?);
            }
            return Ok(self.given.get().expect("set above"));
        }
        if self.own.get().is_none() {
            let _ = self.own.set(start()?);
        }
        Ok(self.own.get().expect("set above"))
    }
}
