//! What can be asked of a Redis that runs, by its owner or by another process.

use std::{path::Path, process::Command, time::Duration};

use serde::{Deserialize, Serialize};

use super::{
    layout::{Layout, Mode},
    wire,
};
use crate::{Error, Installed, Result, Server, probe, watchdog::Launch};

/// A running private Redis: its address and its commands.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(transparent)]
pub struct Node {
    layout: Layout,
}

impl Server for Node {
    const PRODUCT: &'static str = "Redis";
    const BOOT_LIMIT: Duration = Duration::from_mins(1);

    fn folder(&self) -> &Path {
        &self.layout.folder
    }

    /// A server that still loads its data refuses `GET`-like commands, and so tells no sizes.
    fn is_ready(&self) -> bool {
        let password = self.layout.password.as_ref();
        let asks = |words: &str, expected: &str| {
            let login = password.map_or_else(String::new, |it| format!("AUTH {it}\r\n"));
            probe::answers(self.port(), (login + words).as_bytes(), expected)
        };
        if self.layout.is_sentinel {
            return asks("ROLE\r\n", "\r\nsentinel\r\n");
        }
        let expected = format!("{}\r\n:", self.layout.folder.display());
        asks("CONFIG GET dir\r\nDBSIZE\r\n", &expected)
    }

    fn launch(&self) -> Launch {
        self.layout.launch()
    }
}

impl Node {
    pub(crate) fn lay_out(
        folder: &Path,
        installed: &Installed,
        mode: Mode,
        settings: &[(&str, &str)],
    ) -> Result<Self> {
        let layout = Layout::create(folder, installed, mode, settings)?;
        Ok(Self { layout })
    }

    /// A server that somebody else has started, of which nothing but the port is known.
    pub(crate) fn at(port: u16) -> Self {
        let layout = Layout::of_port(port);
        Self { layout }
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.layout.port
    }

    pub(crate) fn bus_port(&self) -> u16 {
        self.layout.bus_port
    }

    /// The URL of the server, for its database 0.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.layout.port)
    }

    pub(crate) fn tool(&self) -> Command {
        self.layout.tool()
    }

    /// What Redis answers to one command: an element of a list is a line, and nothing is an empty one.
    ///
    /// # Errors
    ///
    /// [`Error::Command`] with what it said, if Redis refuses the command. A server that is down is an error; for a
    /// frozen one this waits until it is thawed.
    pub fn ask<S: AsRef<str>>(&self, command: impl IntoIterator<Item = S>) -> Result<String> {
        let words: Vec<_> = command
            .into_iter()
            .map(|word| word.as_ref().to_owned())
            .collect();
        let answer = wire::ask(self.port(), self.layout.password.as_deref(), &words);
        let answer = answer.map_err(Error::io(format!("ask Redis `{}`", words.join(" "))))?;
        answer.map_err(|refusal| Error::Command {
            command: words.join(" "),
            status: "refused".to_owned(),
            output: format!("\n{refusal}"),
        })
    }
}
