//! Sequences: a claim of a numbered message is a script of its own.
//!
//! The store's `claim` comes here. Redis carries a script out as one step, so the script is the whole state machine of
//! `store::rules::sequence` once more, in Lua (`script/sequence.lua`). What must stay true:
//!
//! - The two decide alike, which the conformance suite holds.
//! - All that a script touches is in one slot.

use super::{
    RedisStore, answer,
    calls::{Calls, micros},
    script::Source,
    script_call::ScriptCall,
};
use crate::{
    message::SequencePlace,
    store::{Claim, ClaimRequest, SequenceStore, StoreError, rules::sequence::window},
};

// The ordinary claim is part of it: most numbers are decided by that.
static SCRIPT: Source = Source::new(concat!(
    include_str!("script/record.lua"),
    include_str!("script/claim.lua"),
    include_str!("script/sequence.lua"),
));

/// The script's keys and arguments: the claim as of any key, and where the message stands in its sequence.
fn call(calls: &Calls, request: &ClaimRequest, place: &SequencePlace) -> ScriptCall {
    let ordinary = calls.claim(request);
    let naming = &calls.naming;
    let beside = |what: &[u8]| [&*naming.beside(place.sequence.as_str()), what].concat();
    // -1 is never: a gap is waited for as long as it takes.
    let patience = match place.skip_after {
        Some(skip_after) => micros(skip_after),
        None => (-1_i64).to_be_bytes(),
    };
    // In the order and width in which `sequence.lua` unpacks them.
    let numbers = [
        number(place.number).as_slice(),
        &window(place).to_be_bytes(),
        &patience,
        &[u8::from(place.begins)],
    ]
    .concat();
    ScriptCall {
        script: &SCRIPT,
        names: vec![beside(b"mark"), ordinary.record, beside(b"exceptions")],
        arguments: vec![ordinary.request, numbers],
    }
}

impl RedisStore {
    /// Looks at the sequence and claims the key, in one script.
    pub(super) async fn claim_numbered(
        &self,
        request: &ClaimRequest,
        place: &SequencePlace,
    ) -> Result<Claim, StoreError> {
        let key = &request.key;
        let answer = self.run_alone(&call(&self.calls, request, place)).await;
        answer
            .and_then(|value| Ok(answer::claim(value, key)?))
            .map_err(|fault| fault.of_key(key))
    }
}

impl SequenceStore for RedisStore {}

/// The number for a script: at most one more than the greatest, which a double still holds.
fn number(number: u64) -> [u8; 8] {
    number.min(SequencePlace::MAX_NUMBER + 1).to_be_bytes()
}
