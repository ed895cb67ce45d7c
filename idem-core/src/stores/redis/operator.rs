//! What an operator sees of Redis, and changes there: each call a script of its own, and a listing
//! one server after the other.

use redis::Value;

use super::{
    RedisStore,
    calls::micros,
    fault::{self, Fault},
    script::Source,
    script_call::ScriptCall,
};
use crate::{
    message::Key,
    store::{
        Look, Looked, StoreError,
        operator::{
            Action, AuditEntry, Intervened, Intervention, KeyState, Listing, OperatorStore, Page,
            ScopeCounts,
        },
    },
};

mod listing;
mod record;

static SCRIPT: Source = Source::new(concat!(
    include_str!("script/record.lua"),
    include_str!("script/operator.lua"),
));

impl Look for RedisStore {
    async fn look(&self, key: &Key) -> Result<Option<Looked>, StoreError> {
        let answer = self.run_alone(&self.call(key, vec![b"L".to_vec()])).await;
        answer
            .and_then(|value| Ok(record::looked(key, value)?))
            .map_err(|fault| fault.of_key(key))
    }
}

impl OperatorStore for RedisStore {
    /// Lists keys as `SCAN` finds them, one server of a cluster after the other. While slots move from one server to
    /// another, keys in them may be missed.
    async fn list(&self, listing: &Listing) -> Result<Page, StoreError> {
        listing::page(self, listing).await
    }

    async fn audit(&self, key: &Key) -> Result<Vec<AuditEntry>, StoreError> {
        let answer = self.run_alone(&self.call(key, vec![b"A".to_vec()])).await;
        answer
            .and_then(|value| Ok(record::audit(value)?))
            .map_err(|fault| fault.of_key(key))
    }

    /// All records are read by this program.
    async fn counts(&self) -> Result<Vec<ScopeCounts>, StoreError> {
        let mut counts = Vec::new();
        let mut listing = Listing::all().limit(1000);
        loop {
            let page = self.list(&listing).await?;
            counts = ScopeCounts::sum(counts, ScopeCounts::of(&page.records));
            match page.next {
                Some(next) => listing = listing.after(next),
                None => return Ok(counts),
            }
        }
    }

    async fn intervene(&self, intervention: &Intervention) -> Result<Intervened, StoreError> {
        let key = &intervention.key;
        let arguments = vec![
            packed(intervention),
            intervention.by.as_bytes().to_vec(),
            intervention.outcome.as_bytes().to_vec(),
        ];
        let answer = self.run_alone(&self.call(key, arguments)).await;
        answer
            .and_then(|value| intervened(&value))
            .map_err(|fault| fault.of_key(key))
    }

    async fn prepare(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

impl RedisStore {
    fn call(&self, key: &Key, arguments: Vec<Vec<u8>>) -> ScriptCall {
        let naming = &self.calls.naming;
        ScriptCall {
            script: &SCRIPT,
            names: vec![naming.record(key), naming.audit(key)],
            arguments,
        }
    }
}

/// The intervention as `script/operator.lua` takes it.
fn packed(intervention: &Intervention) -> Vec<u8> {
    let action = match intervention.action {
        Action::Release => b"R",
        Action::Forget => b"F",
        Action::Complete => b"C",
    };
    let state = match intervention.seen.map(|seen| seen.state) {
        None => b"n",
        Some(KeyState::InProgress) => b"p",
        Some(KeyState::Completed) => b"c",
        Some(KeyState::Failed) => b"f",
    };
    let token = intervention.seen.map_or(0, |seen| seen.token.get());
    [
        b"I".as_slice(),
        action,
        state,
        &token.to_be_bytes(),
        &micros(intervention.retention),
        intervention.owner.as_bytes(),
    ]
    .concat()
}

fn intervened(answer: &Value) -> Result<Intervened, Fault> {
    match answer {
        Value::BulkString(word) if word == b"applied" => Ok(Intervened::Applied),
        Value::BulkString(word) if word == b"changed" => Ok(Intervened::Changed),
        Value::BulkString(word) if word == b"unfit" => Ok(Intervened::Unfit),
        _ => Err(Fault::Redis(fault::not_understood())),
    }
}
