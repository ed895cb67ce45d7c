//! What a server says about itself.

use std::collections::BTreeMap;

use redis::{RedisResult, cmd, from_redis_value};

use super::server::Server;

type Words = BTreeMap<String, String>;

/// One server, as it describes itself.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// What `INFO` and `CLUSTER INFO` say.
    pub(super) info: Words,
    /// What `CONFIG GET` says, where that is allowed.
    pub(super) settings: Option<Words>,
}

impl Facts {
    const SETTINGS: [&str; 3] = ["appendfsync", "save", "min-replicas-to-write"];

    /// Gathers the facts of every server that takes writes.
    pub(super) async fn gather(server: &Server) -> RedisResult<Vec<Self>> {
        let mut facts = BTreeMap::new();
        for (address, answer) in server.ask_each(cmd("INFO")).await? {
            let info = lines(&from_redis_value::<String>(answer)?);
            let settings = None;
            facts.insert(address, Self { info, settings });
        }
        if let Some(settings) = Self::all_settings(server).await {
            for (address, settings) in settings {
                facts.entry(address).or_default().settings = Some(settings);
            }
        }
        if facts.values().any(|facts| facts.is("cluster_enabled", "1")) {
            let mut ask = cmd("CLUSTER");
            ask.arg("INFO");
            for (address, answer) in server.ask_each(ask).await? {
                let cluster = lines(&from_redis_value::<String>(answer)?);
                facts.entry(address).or_default().info.extend(cluster);
            }
        }
        Ok(facts.into_values().collect())
    }

    /// Managed servers forbid `CONFIG`, or do not know it.
    async fn all_settings(server: &Server) -> Option<BTreeMap<String, Words>> {
        let mut settings = BTreeMap::<String, Words>::new();
        for name in Self::SETTINGS {
            let mut ask = cmd("CONFIG");
            ask.arg("GET").arg(name);
            for (address, answer) in server.ask_each(ask).await.ok()? {
                let words: Words = from_redis_value::<BTreeMap<_, _>>(answer).ok()?;
                settings.entry(address).or_default().extend(words);
            }
        }
        Some(settings)
    }

    pub(super) fn is(&self, name: &str, value: &str) -> bool {
        self.info.get(name).is_some_and(|known| known == value)
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.info.get(name)?.parse().ok()
    }

    pub(super) fn setting(&self, name: &str) -> Option<&str> {
        Some(self.settings.as_ref()?.get(name)?)
    }
}

/// `name:value` per line, with headings between them.
fn lines(text: &str) -> Words {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_owned(), value.trim_end().to_owned()))
        .collect()
}
