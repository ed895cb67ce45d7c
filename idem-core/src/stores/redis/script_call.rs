//! Calls that are scripts of their own, so that the one of all others stays as short as it is.

use redis::{Cmd, Value};

use super::{
    fault::{self, Fault},
    script::{Script, Source},
};

/// A call that shares its command with none, as often as it takes.
#[derive(Debug)]
pub(super) struct ScriptCall {
    pub(super) script: &'static Source,
    /// What it is about; all in one slot.
    pub(super) names: Vec<Vec<u8>>,
    pub(super) arguments: Vec<Vec<u8>>,
}

impl ScriptCall {
    fn command(&self, script: &Script<'_>, skew: i64) -> Cmd {
        let mut command = Cmd::new();
        command.arg(script.name).arg(script.text);
        command.arg(self.names.len()).arg(&self.names);
        command.arg(skew).arg(&self.arguments);
        command
    }

    /// Carries it out.
    pub(super) async fn run<Fut>(&self, skew: i64, ask: impl Fn(Cmd) -> Fut) -> Result<Value, Fault>
    where
        Fut: Future<Output = Result<Value, Fault>>,
    {
        let answer = self.script.run(|script| self.command(&script, skew), ask);
        match answer.await? {
            Value::Array(mut answers) if answers.len() == 1 => {
                Ok(fault::checked(answers.remove(0))?)
            }
            _ => Err(Fault::Redis(fault::not_understood())),
        }
    }
}
