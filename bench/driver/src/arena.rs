//! The servers that contestants consume from and keep their keys in.

use std::{fs, io::ErrorKind, time::Duration};

use serde::{Serialize, de::DeserializeOwned};
use tempfile::TempDir;

use super::{
    StoreKind,
    consume::{Contestant, QueueKind},
    program::Program,
    server,
    slow_link::SlowLink,
};
use idem_servers::{Error, Postgres, RabbitMq, Redis, Result};

const QUEUE: &str = "bench";
const DATABASE: &str = "bench";

/// A broker for all contestants, the databases that some of them need, and their programs.
#[derive(Debug)]
pub(crate) struct Arena {
    program: Program,
    /// That of the contestants that are guests, if there are any.
    guests: Option<Program>,
    broker: RabbitMq,
    postgres: Option<Postgres>,
    redis: Option<Redis>,
    /// Where SQLite files are.
    files: TempDir,
    /// The links of contestants to the servers, each with the port that it leads to, if they are slow.
    links: Vec<(u16, SlowLink)>,
}

/// What is in the queue.
#[derive(Clone, Copy, Debug, Serialize, PartialEq, Eq)]
pub(crate) struct Messages {
    #[serde(rename = "messages")]
    pub(crate) count: u32,
    /// How many of a hundred of them are copies of earlier ones.
    pub(crate) duplicates: u8,
}

impl Messages {
    /// A tenth of them are copies.
    pub(crate) fn with_copies(count: u32) -> Self {
        Self {
            count,
            duplicates: 10,
        }
    }
}

impl Arena {
    /// Builds the programs and starts the servers.
    pub(crate) fn open(contestants: &[Contestant]) -> Result<Self> {
        let program = Program::build("bench-consume")?;
        let has_guests = contestants.iter().any(|contestant| contestant.is_guest());
        let guests = has_guests.then(|| Program::build("bench-mq-bridge"));
        let is_wanted = |store| {
            let mut contestants = contestants.iter();
            contestants.any(|contestant| contestant.server() == Some(store))
        };
        let postgres = is_wanted(StoreKind::Postgres).then(server::postgres);
        let redis = is_wanted(StoreKind::Redis).then(server::redis);
        Ok(Self {
            program,
            guests: guests.transpose()?,
            broker: server::rabbitmq()?,
            postgres: postgres.transpose()?,
            redis: redis.transpose()?,
            files: tempfile::tempdir().map_err(Error::io("make a folder for files"))?,
            links: Vec::new(),
        })
    }

    /// The same, with contestants that are far from all servers: whatever is sent takes so long, each way.
    pub(crate) fn far_away(mut self, delay: Duration) -> Result<Self> {
        let postgres = self.postgres.as_ref().map(|server| server.port());
        let redis = self.redis.as_ref().map(|server| server.port());
        for port in [Some(self.broker.port()), postgres, redis]
            .into_iter()
            .flatten()
        {
            self.links.push((port, SlowLink::to(port, delay)?));
        }
        Ok(self)
    }

    /// How a contestant reaches what has this URL.
    fn by_link(&self, url: &str) -> String {
        let links = self.links.iter();
        links.fold(url.to_owned(), |url, (port, link)| link.by(&url, *port))
    }

    /// Fills the queue.
    pub(crate) fn load(&self, messages: Messages, kind: QueueKind) -> Result<()> {
        self.bench::<()>("load", messages, &["--kind", kind.name()])?;
        Ok(())
    }

    /// Lets the program do something with the queue.
    pub(crate) fn bench<T: DeserializeOwned>(
        &self,
        what: &str,
        messages: Messages,
        options: &[&str],
    ) -> Result<Vec<T>> {
        run(
            &self.program,
            &self.broker.amqp_url(),
            what,
            messages,
            options,
        )
    }

    /// Lets a contestant do something with the queue, with a store that knows nothing yet, and returns
    /// what it told.
    pub(crate) fn let_act<T: DeserializeOwned>(
        &self,
        contestant: Contestant,
        what: &str,
        messages: Messages,
        options: &[&str],
    ) -> Result<T> {
        let store_url = self.empty_store(contestant)?;
        self.let_act_on(store_url.as_deref(), contestant, what, messages, options)
    }

    /// The same with a store that knows something.
    pub(crate) fn let_act_on<T: DeserializeOwned>(
        &self,
        store_url: Option<&str>,
        contestant: Contestant,
        what: &str,
        messages: Messages,
        options: &[&str],
    ) -> Result<T> {
        let name = contestant.name();
        let mut all = vec!["--contestant", &name];
        let store_url = store_url.map(|url| self.by_link(url));
        all.extend(store_url.iter().flat_map(|url| ["--store-url", url]));
        all.extend(options);
        let (program, amqp_url) = (self.program_of(contestant), self.broker.amqp_url());
        let told = run(program, &self.by_link(&amqp_url), what, messages, &all)?;
        Ok(told
            .into_iter()
            .next()
            .expect("a contestant that succeeds tells"))
    }

    fn program_of(&self, contestant: Contestant) -> &Program {
        let guests = self.guests.as_ref().filter(|_| contestant.is_guest());
        guests.unwrap_or(&self.program)
    }

    /// The URL of a new PostgreSQL database with so many completed keys in the table of a store.
    pub(crate) fn filled_database(&self, records: u64) -> Result<String> {
        let server = self.postgres.as_ref().expect("a contestant needs it");
        let url = server.create_database(&format!("{DATABASE}_{records}"))?;
        let records = records.to_string();
        let fill = ["fill", "--store-url", &url, "--records", &records];
        self.program.run::<()>(&fill)?;
        Ok(url)
    }

    /// The URL of a database, a file or a Redis without any key.
    fn empty_store(&self, contestant: Contestant) -> Result<Option<String>> {
        match (contestant.server(), &self.postgres, &self.redis) {
            (Some(StoreKind::Postgres), Some(server), _) => {
                server.drop_database(DATABASE)?;
                server.create_database(DATABASE).map(Some)
            }
            (Some(StoreKind::Redis), _, Some(server)) => {
                server.ask(["FLUSHALL"])?;
                Ok(Some(server.url()))
            }
            (Some(StoreKind::Sqlite), ..) => {
                let folder = self.files.path().join("sqlite");
                let removed = fs::remove_dir_all(&folder);
                removed
                    .or_else(|error| match error.kind() {
                        ErrorKind::NotFound => Ok(()),
                        _ => Err(error),
                    })
                    .and_then(|()| fs::create_dir(&folder))
                    .map_err(Error::io("make a folder for a file"))?;
                Ok(Some(format!("sqlite:{}/bench.db", folder.display())))
            }
            _ => Ok(None),
        }
    }
}

/// Lets a program do something with the queue.
fn run<T: DeserializeOwned>(
    program: &Program,
    amqp_url: &str,
    what: &str,
    messages: Messages,
    options: &[&str],
) -> Result<Vec<T>> {
    let (count, duplicates) = (messages.count.to_string(), messages.duplicates.to_string());
    let place = [
        what,
        "--amqp-url",
        amqp_url,
        "--queue",
        QUEUE,
        "--messages",
        &count,
        "--duplicates",
        &duplicates,
    ];
    program.run(&[&place, options].concat())
}
