//! Sessions: each call a script of its own, so that the others' stays as short as it is.

use redis::Value;

use super::{
    Naming, RedisStore, answer,
    calls::{Calls, micros},
    fault::{self, Fault},
    script::Source,
    script_call::ScriptCall,
};
use crate::{
    message::{SessionKey, SessionPlace},
    store::{Claim, ClaimRequest, OpenSession, Opened, SessionStore, StoreError, Touched},
};

static SCRIPT: Source = Source::new(concat!(
    include_str!("script/record.lua"),
    include_str!("script/claim.lua"),
    include_str!("script/session.lua"),
));

fn call(naming: &Naming, session: &SessionKey, request: Vec<u8>) -> ScriptCall {
    ScriptCall {
        script: &SCRIPT,
        names: vec![naming.session(session)],
        arguments: vec![request],
    }
}

fn open(naming: &Naming, request: &OpenSession) -> ScriptCall {
    let window = request.window.clamp(1, OpenSession::MAX_WINDOW);
    let (window, life) = (window.to_be_bytes(), micros(request.life));
    let request_bytes = [b"O".as_slice(), &window, &life].concat();
    call(naming, &request.session, request_bytes)
}

fn claim(calls: &Calls, request: &ClaimRequest, place: &SessionPlace) -> ScriptCall {
    let ordinary = calls.claim(request);
    let numbers = [number(place.number), number(place.awaited)].concat();
    ScriptCall {
        script: &SCRIPT,
        names: vec![calls.naming.session(&place.session), ordinary.record],
        arguments: vec![ordinary.request, numbers],
    }
}

impl RedisStore {
    /// Looks at the session and claims the key, in one script.
    pub(super) async fn claim_place(
        &self,
        request: &ClaimRequest,
        place: &SessionPlace,
    ) -> Result<Claim, StoreError> {
        let call = claim(&self.calls, request, place);
        let key = &request.key;
        let answer = self.run_alone(&call).await;
        answer
            .and_then(|value| Ok(answer::claim(value, key)?))
            .map_err(|fault| fault.of_key(key))
    }

    /// Asks one session something that is answered by yes or no.
    async fn ask_session(
        &self,
        session: &SessionKey,
        call: &ScriptCall,
    ) -> Result<bool, StoreError> {
        let answer = self.run_alone(call).await;
        answer
            .and_then(|value| match value {
                Value::Int(answer @ 0..=1) => Ok(answer == 1),
                _ => Err(Fault::Redis(fault::not_understood())),
            })
            .map_err(|fault| fault.of_key(session.as_key()))
    }

    pub(super) async fn run_alone(&self, call: &ScriptCall) -> Result<Value, Fault> {
        if let Some(sender) = &self.sender {
            return sender.run_apart(call).await;
        }
        let ask = |command| async move { Ok(self.server.ask(&command).await?) };
        call.run(self.clock.skew(), ask).await
    }
}

impl SessionStore for RedisStore {
    async fn open(&self, request: &OpenSession) -> Result<Opened, StoreError> {
        let call = open(&self.calls.naming, request);
        let begins = self.ask_session(&request.session, &call).await?;
        Ok(if begins { Opened::New } else { Opened::Known })
    }

    async fn touch(&self, session: &SessionKey) -> Result<Touched, StoreError> {
        let call = call(&self.calls.naming, session, b"T".to_vec());
        let lives = self.ask_session(session, &call).await?;
        Ok(if lives {
            Touched::Living
        } else {
            Touched::Expired
        })
    }

    async fn close(&self, session: &SessionKey) -> Result<(), StoreError> {
        let call = call(&self.calls.naming, session, b"X".to_vec());
        self.ask_session(session, &call).await.map(drop)
    }

    /// Redis forgets sessions and answers by itself.
    async fn expire(&self, _: u32) -> Result<u32, StoreError> {
        Ok(0)
    }
}

/// The number for a script: at most one more than the greatest, which a double still holds.
fn number(number: u64) -> [u8; 8] {
    number.min(SessionPlace::MAX_NUMBER + 1).to_be_bytes()
}
