//! To whom the worker replies.

use super::Queue;
use crate::reply::Address;

impl Queue {
    /// Why nothing is sent to this address, if nothing is.
    pub(crate) fn objection_to(&self, reply_to: &str) -> Option<&'static str> {
        let malformed = Address::read(reply_to) == Address::Malformed;
        malformed.then_some("its `reply_to` is a malformed address of a direct reply")
    }
}
