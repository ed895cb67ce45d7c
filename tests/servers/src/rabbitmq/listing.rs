//! What a broker knows about its queues and its cluster.

use std::{
    thread,
    time::{Duration, Instant},
};

use serde::{Deserialize, de::DeserializeOwned};

use super::Broker;
use crate::{Error, Result};

/// One queue as the broker sees it.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueState {
    /// The queue's name.
    pub name: String,
    /// Messages that wait for a consumer.
    #[serde(rename = "messages_ready")]
    pub ready: u64,
    /// Messages that are with a consumer, neither acked nor returned.
    #[serde(rename = "messages_unacknowledged")]
    pub unacked: u64,
    /// Consumers attached.
    pub consumers: u64,
}

/// What is asked of each queue: the fields of [`QueueState`].
const ITEMS: [&str; 4] = [
    "name",
    "messages_ready",
    "messages_unacknowledged",
    "consumers",
];

/// How long a queue that has no leader is given to find one.
const ELECTION_LIMIT: Duration = Duration::from_secs(10);

/// The counts of a queue that has no leader are empty texts, or missing.
#[derive(Deserialize)]
#[serde(untagged)]
enum Listed {
    Counted(QueueState),
    WithoutLeader {},
}

/// RabbitMQ 3.10 has another name for it.
const RUNNING_NODES: &str = "rabbit_json:encode(try rabbit_nodes:list_running() \
     catch error:undef -> rabbit_nodes:all_running() end)";

impl Broker {
    /// All queues of a vhost, without those that have had no leader for ten seconds. In a cluster, the counts of quorum
    /// queues are up to five seconds old.
    ///
    /// # Errors
    ///
    /// As [`rabbitmqctl`](Self::rabbitmqctl).
    pub fn list_queues(&self, vhost: &str) -> Result<Vec<QueueState>> {
        once_counted(|| self.listed(vhost, None))
    }

    /// Those of the queues that are there, as [`list_queues`](Self::list_queues) tells of them. On a broker with many
    /// queues this is much quicker.
    ///
    /// # Errors
    ///
    /// As [`rabbitmqctl`](Self::rabbitmqctl).
    pub fn queues_named(&self, vhost: &str, names: &[String]) -> Result<Vec<QueueState>> {
        let mut states = once_counted(|| self.listed(vhost, Some(names)))?;
        states.retain(|state| names.contains(&state.name));
        Ok(states)
    }

    /// The names of the nodes of its cluster that run, as it sees them; itself included.
    ///
    /// # Errors
    ///
    /// It is down or frozen, or not one of ours.
    pub fn running_nodes(&self) -> Result<Vec<String>> {
        read(&self.evaluate(RUNNING_NODES)?, RUNNING_NODES)
    }

    fn listed(&self, vhost: &str, names: Option<&[String]>) -> Result<Vec<Listed>> {
        if self.answers_for_itself() {
            let question = question(vhost, names);
            return read(&self.evaluate(&question)?, &question);
        }
        let mut arguments = vec!["--formatter", "json", "list_queues", "-p", vhost];
        arguments.extend(ITEMS);
        read(&self.rabbitmqctl(&arguments)?, "rabbitmqctl list_queues")
    }
}

/// Asks again while a queue has no leader.
fn once_counted(listed: impl Fn() -> Result<Vec<Listed>>) -> Result<Vec<QueueState>> {
    let deadline = Instant::now() + ELECTION_LIMIT;
    loop {
        let listed = listed()?;
        let all = listed.len();
        let counted = counted(listed);
        if counted.len() == all || Instant::now() > deadline {
            return Ok(counted);
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// What a broker that is alone knows of its queues. In a cluster each node knows its own.
///
/// A quorum queue itself is asked. What the broker has noted of it is as old as its last tick, up to five seconds, and
/// quicker ticks are no way out: a tick before a queue's first entry is written ends the queue's process in RabbitMQ
/// 3.10. RabbitMQ 4.3 answers functions by their names only. What is neither ready nor gone when it is asked for all is
/// with a consumer, so that no message is overlooked that moves meanwhile. Of a queue that is deleted meanwhile nothing
/// is told.
fn question(vhost: &str, names: Option<&[String]>) -> String {
    let items = ITEMS.join(", ");
    let queues = match names {
        None => format!("rabbit_amqqueue:list(<<{vhost:?}/utf8>>)"),
        Some(names) => {
            let binaries = names.iter().map(|name| format!("<<{name:?}/utf8>>"));
            let binaries: Vec<_> = binaries.collect();
            format!(
                "[Queue || Name <- [{}], {{ok, Queue}} <- \
                 [rabbit_amqqueue:lookup(rabbit_misc:r(<<{vhost:?}/utf8>>, queue, Name))]]",
                binaries.join(", ")
            )
        }
    };
    format!(
        "Plain = fun({{name, Name}}) -> {{name, element(4, Name)}}; (Item) -> Item end, \
         Ask = fun(Queue, Query) -> \
             Process = amqqueue:get_pid(Queue), \
             {{ok, {{_, Count}}, _}} = try ra:leader_query(Process, fun rabbit_fifo:Query/1) \
             catch error:function_clause -> ra:leader_query(Process, {{rabbit_fifo, Query, []}}) end, \
             Count \
         end, \
         Counts = fun(Queue) -> try \
             All = Ask(Queue, query_messages_total), \
             Ready = Ask(Queue, query_messages_ready), \
             Consumers = Ask(Queue, query_consumer_count), \
             [{{messages_ready, Ready}}, {{messages_unacknowledged, max(All - Ready, 0)}}, {{consumers, Consumers}}] \
         catch _:_ -> [] end end, \
         Info = fun(Queue) -> case amqqueue:get_type(Queue) of \
             rabbit_quorum_queue -> [{{name, amqqueue:get_name(Queue)}} | Counts(Queue)]; \
             _ -> try rabbit_amqqueue:info(Queue, [{items}]) \
                  catch Class:Reason -> case rabbit_amqqueue:lookup(amqqueue:get_name(Queue)) of \
                      {{error, not_found}} -> []; \
                      _ -> erlang:raise(Class, Reason, []) \
                  end end \
         end end, \
         Queues = [Info(Queue) || Queue <- {queues}], \
         rabbit_json:encode([maps:from_list(lists:map(Plain, Queue)) || Queue <- Queues])"
    )
}

fn read<T: DeserializeOwned>(json: &str, asked: &str) -> Result<T> {
    serde_json::from_str(json).map_err(|error| {
        Error::io(format!("understand what `{asked}` answers: {json:?}"))(error.into())
    })
}

fn counted(listed: Vec<Listed>) -> Vec<QueueState> {
    let listed = listed.into_iter();
    let state = |listed| match listed {
        Listed::Counted(state) => Some(state),
        Listed::WithoutLeader {} => None,
    };
    listed.filter_map(state).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_read_from_what_rabbitmqctl_prints() {
        let json = r#"[
            {"name":"q","messages_ready":1,"messages_unacknowledged":2,"consumers":3},
            {"name":"new","messages_ready":"","messages_unacknowledged":"","consumers":""}
        ]"#;
        let listed: Vec<Listed> = serde_json::from_str(json).expect("valid");
        assert_eq!(
            counted(listed),
            [QueueState {
                name: "q".to_owned(),
                ready: 1,
                unacked: 2,
                consumers: 3
            }]
        );
    }
}
