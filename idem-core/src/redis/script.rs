//! The four scripts, and a call of one of them as a command.

use std::sync::LazyLock;

use redis::{Arg, Cmd, ToRedisArgs};

/// A script, and the digest under which the server keeps it.
#[derive(Debug)]
pub(super) struct Script {
    text: &'static str,
    digest: String,
}

impl Script {
    fn new(text: &'static str) -> Self {
        Self {
            text,
            digest: redis::Script::new(text).get_hash().to_owned(),
        }
    }
}

/// The file with what all have in common, and the script's own.
macro_rules! script {
    ($file:literal) => {
        LazyLock::new(|| Script::new(concat!(include_str!("record.lua"), include_str!($file))))
    };
}

pub(super) static CLAIM: LazyLock<Script> = script!("claim.lua");
pub(super) static EXTEND: LazyLock<Script> = script!("extend.lua");
pub(super) static COMPLETE: LazyLock<Script> = script!("complete.lua");
pub(super) static RELEASE: LazyLock<Script> = script!("release.lua");

/// A call of a script, as often as it takes.
#[derive(Debug)]
pub(super) struct Invocation {
    script: &'static Script,
    by_digest: Cmd,
}

impl Invocation {
    /// `EVALSHA digest 1`, before the key and the arguments.
    const BEFORE_KEY: usize = 3;

    pub(super) fn new(script: &'static Script, record: &[u8]) -> Self {
        let mut by_digest = Cmd::new();
        by_digest
            .arg("EVALSHA")
            .arg(&script.digest)
            .arg(1)
            .arg(record);
        Self { script, by_digest }
    }

    pub(super) fn arg(mut self, argument: impl ToRedisArgs) -> Self {
        self.by_digest.arg(argument);
        self
    }

    /// The command for a server that knows the script.
    pub(super) fn by_digest(&self) -> &Cmd {
        &self.by_digest
    }

    /// The command for one that does not, and does afterwards. In a cluster it goes to the one
    /// server that is asked; loading a script would take all of them.
    pub(super) fn by_text(&self) -> Cmd {
        let mut command = Cmd::new();
        command.arg("EVAL").arg(self.script.text).arg(1);
        for argument in self.by_digest.args_iter().skip(Self::BEFORE_KEY) {
            if let Arg::Simple(bytes) = argument {
                command.arg(bytes);
            }
        }
        command
    }
}
