//! What is still in the queue.

use std::time::Duration;

use serde::Deserialize;

use super::{Programs, programs::LEASE_MS};
use idem_servers::{Error, RabbitMq, Result};

/// Messages that are not settled.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub(crate) struct Backlog {
    ready: u64,
    /// With a worker; only a broker of our own tells.
    #[serde(skip)]
    unacked: Option<u64>,
}

impl Backlog {
    pub(crate) fn look(programs: &Programs, private: Option<&RabbitMq>) -> Result<Self> {
        match private {
            Some(server) => Self::ask_server(server, &programs.queue()),
            None => Self::ask_publisher(programs),
        }
    }

    /// How many messages are left once no worker runs.
    pub(crate) fn after_the_workers(programs: &Programs) -> Result<u64> {
        // Exact at once, where the list of queues lags a little.
        Self::ask_publisher(programs).map(|backlog| backlog.ready)
    }

    fn ask_server(server: &RabbitMq, queue: &str) -> Result<Self> {
        let queues = server.list_queues("/")?;
        let queue = queues.iter().find(|state| state.name == queue);
        Ok(Self {
            ready: queue.map_or(0, |state| state.ready),
            unacked: Some(queue.map_or(0, |state| state.unacked)),
        })
    }

    fn ask_publisher(programs: &Programs) -> Result<Self> {
        let output = programs
            .publisher()
            .arg("--depth")
            .output()
            .map_err(Error::io("start publish-orders"))?;
        if !output.status.success() {
            return Err(Error::command("publish-orders --depth", &output));
        }
        serde_json::from_slice(&output.stdout)
            .map_err(|error| Error::io("understand `publish-orders --depth`")(error.into()))
    }

    /// Whether nothing is left to do, `quiet` after the last message was settled. Where it is not
    /// known what the workers still hold, that takes silence: for longer than a lease if some
    /// messages are missing, because what the killed worker held is done after that.
    pub(crate) fn is_settled(self, all_accounted_for: bool, quiet: Duration) -> bool {
        let silence = if all_accounted_for {
            1_000
        } else {
            2 * LEASE_MS
        };
        self.ready == 0
            && match self.unacked {
                Some(unacked) => unacked == 0,
                None => quiet >= Duration::from_millis(silence),
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_settled_when_nothing_waits_and_nothing_is_held() {
        let second = Duration::from_secs(1);
        let lease = Duration::from_millis(LEASE_MS);
        let cases = [
            ((1, Some(0)), true, 9 * lease, false),
            ((0, Some(1)), true, 9 * lease, false),
            ((0, Some(0)), false, Duration::ZERO, true),
            ((0, None), true, second / 2, false),
            ((0, None), true, second, true),
            ((0, None), false, lease, false),
            ((0, None), false, 2 * lease, true),
        ];
        for ((ready, unacked), all, quiet, expected) in cases {
            let backlog = Backlog { ready, unacked };
            assert_eq!(
                backlog.is_settled(all, quiet),
                expected,
                "{backlog:?} {all} {quiet:?}"
            );
        }
    }

    #[test]
    fn the_publisher_tells_how_many_wait() {
        let backlog: Backlog =
            serde_json::from_str(r#"{"ready":3,"dead":1,"consumers":2}"#).expect("valid");
        assert_eq!(
            backlog,
            Backlog {
                ready: 3,
                unacked: None
            }
        );
    }
}
