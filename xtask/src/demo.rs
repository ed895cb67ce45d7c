//! The demonstration: orders published several times each, two workers, one of them killed in the
//! middle, and a ledger that shows every order charged once.

mod backlog;
mod ledger;
mod programs;
mod progress;
mod publisher;
mod report;
mod tally;
mod worker;

use std::{
    collections::BTreeSet,
    process::{Command, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender},
    time::{Duration, Instant},
};

use self::{
    backlog::Backlog,
    ledger::Ledger,
    programs::Programs,
    progress::Progress,
    report::Report,
    tally::{Line, Tally},
    worker::Worker,
};
use crate::{
    Error, Result,
    cargo::{Workspace, cargo},
    install::{self, RabbitMqSource},
    services::RabbitMq,
};

/// How long nothing may come to an end before the demonstration counts as stuck.
const PATIENCE: Duration = Duration::from_mins(1);
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How often workers are started once more for messages that were still in the queue.
const ENCORES: usize = 3;

/// What to demonstrate.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// How many orders
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    orders: u32,
    /// How often each is published
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    copies: u32,
    /// Where the workers remember what they have done
    #[arg(long, value_enum, default_value_t = StoreKind::Sqlite)]
    store: StoreKind,
}

/// A store that the order worker can use.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum StoreKind {
    /// One SQLite file, shared by both workers.
    Sqlite,
}

/// Runs the demonstration, prints what happened and, last, one line of figures.
///
/// # Errors
///
/// Something is missing, got stuck, was lost or doubled.
pub fn run(options: &Options) -> Result<()> {
    let workspace = Workspace::load()?;
    let source = install::rabbitmq()?;
    build(&workspace)?;
    let (amqp_url, private) = broker(source)?;
    let StoreKind::Sqlite = options.store;
    let programs = Programs::new(&workspace, amqp_url)?;
    let published = u64::from(options.orders) * u64::from(options.copies);
    let mut show = Show::new(&programs, private.as_ref(), published);
    let end = show.perform(options);
    if end.is_err() {
        // Dead workers charge nothing while the ledger is read.
        show.workers.clear();
        show.progress.say(&programs.last_words());
    }
    show.progress.clear();
    let ledger = match (Ledger::read(&programs), &end) {
        (Err(unreadable), Ok(())) => return Err(unreadable),
        (Err(_), Err(_)) => return end,
        (Ok(ledger), _) => ledger,
    };
    let orders = programs.order_ids(options.orders);
    let delivered = if end.is_ok() { published } else { 0 };
    let report = Report::new(&orders, options.copies, delivered, &show.tally, &ledger);
    print!("{report}");
    end?;
    report.verdict()
}

/// The broker's URL, and the server if it is ours.
fn broker(source: RabbitMqSource) -> Result<(String, Option<RabbitMq>)> {
    match source {
        RabbitMqSource::Given(url) => {
            println!("RabbitMQ: the one that AMQP_URL names");
            Ok((url, None))
        }
        RabbitMqSource::Installed(_) => {
            let start = Instant::now();
            let server = RabbitMq::start()?;
            println!(
                "RabbitMQ: a private one on port {}, up in {:.1?}",
                server.port(),
                start.elapsed()
            );
            Ok((server.amqp_url(), Some(server)))
        }
    }
}

fn build(workspace: &Workspace) -> Result<()> {
    println!("building the order worker and the publisher");
    let mut build: Command = cargo(&workspace.root);
    build.args([
        "build",
        "--release",
        "--package",
        "order-worker",
        "--package",
        "publish-orders",
    ]);
    let status = build
        .stdin(Stdio::null())
        .status()
        .map_err(Error::io("run cargo"))?;
    if status.success() {
        return Ok(());
    }
    Err(Error::Command {
        command: "cargo build --release -p order-worker -p publish-orders".to_owned(),
        status: status.to_string(),
        output: String::new(),
    })
}

/// What the programs tell us while they run.
#[derive(Debug)]
enum Event {
    Worker(Line),
    WorkerEnded(usize),
    Published(u64),
    PublisherEnded(Result<()>),
}

#[derive(Debug)]
struct Show<'a> {
    programs: &'a Programs,
    /// The server, if it is ours to be asked.
    private: Option<&'a RabbitMq>,
    to_publish: u64,
    published: u64,
    everything_published: bool,
    workers: Vec<Worker>,
    workers_started: usize,
    tally: Tally,
    progress: Progress,
    last_end: Instant,
    events: Receiver<Event>,
    sender: Sender<Event>,
}

impl<'a> Show<'a> {
    fn new(programs: &'a Programs, private: Option<&'a RabbitMq>, to_publish: u64) -> Self {
        let (sender, events) = mpsc::channel();
        Self {
            programs,
            private,
            to_publish,
            published: 0,
            everything_published: false,
            workers: Vec::new(),
            workers_started: 0,
            tally: Tally::default(),
            progress: Progress::new(to_publish),
            last_end: Instant::now(),
            events,
            sender,
        }
    }

    fn perform(&mut self, options: &Options) -> Result<()> {
        self.start_workers()?;
        publisher::start(
            self.programs,
            options.orders,
            options.copies,
            self.sender.clone(),
        )?;
        self.watch_until("half of the messages are settled", Duration::ZERO, |show| {
            Ok(show.tally.ended() >= show.to_publish / 2)
        })?;
        self.kill_one_and_start_it_again()?;
        self.watch_until_nothing_is_left()?;
        self.stop_workers()?;
        self.play_encores()
    }

    fn start_workers(&mut self) -> Result<()> {
        self.start_worker("worker-1")?;
        self.start_worker("worker-2")
    }

    fn start_worker(&mut self, name: &str) -> Result<()> {
        let worker = Worker::start(self.programs, name, self.workers_started, &self.sender)?;
        self.workers_started += 1;
        self.workers.push(worker);
        Ok(())
    }

    fn kill_one_and_start_it_again(&mut self) -> Result<()> {
        let victim = self.workers.remove(0);
        let (name, pid) = (victim.name().to_owned(), victim.pid());
        victim.kill()?;
        let ended = self.tally.ended();
        self.progress.say(&format!(
            "kill -9 {name} (process {pid}) with {ended} messages settled; starting it again"
        ));
        self.start_worker(&name)
    }

    fn watch_until_nothing_is_left(&mut self) -> Result<()> {
        self.watch_until("every message is settled", LOOK_EVERY, |show| {
            let all_accounted_for = show.tally.ended() >= show.to_publish;
            Ok(show.everything_published
                && show
                    .backlog()?
                    .is_settled(all_accounted_for, show.last_end.elapsed()))
        })
    }

    /// Stops the workers; each must end well. What they still print is counted.
    fn stop_workers(&mut self) -> Result<()> {
        let workers = std::mem::take(&mut self.workers);
        let mut talking: BTreeSet<_> = workers.iter().map(Worker::id).collect();
        workers.iter().try_for_each(Worker::ask_to_stop)?;
        for worker in workers {
            worker.wait_until_stopped()?;
        }
        while !talking.is_empty() {
            match self.events.recv_timeout(PATIENCE) {
                Ok(Event::WorkerEnded(id)) => drop(talking.remove(&id)),
                Ok(event) => self.note(event)?,
                Err(_) => return Err(self.stuck("the workers' last words are read")),
            }
        }
        Ok(())
    }

    /// What the workers gave back when they stopped is done by the next ones.
    fn play_encores(&mut self) -> Result<()> {
        for _ in 0..ENCORES {
            let ready = self.backlog()?.ready;
            if ready == 0 {
                return Ok(());
            }
            self.progress.say(&format!(
                "{ready} messages are still in the queue: starting the workers once more"
            ));
            self.last_end = Instant::now();
            self.start_workers()?;
            self.watch_until_nothing_is_left()?;
            self.stop_workers()?;
        }
        match self.backlog()?.ready {
            0 => Ok(()),
            ready => Err(Error::Unmet(format!(
                "stuck: {ready} messages stay in the queue"
            ))),
        }
    }

    fn watch_until(
        &mut self,
        what: &str,
        look_every: Duration,
        done: impl Fn(&Self) -> Result<bool>,
    ) -> Result<()> {
        let mut last_look = Instant::now();
        loop {
            match self.events.recv_timeout(LOOK_EVERY) {
                Ok(event) => self.note(event)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => unreachable!("we hold a sender"),
            }
            self.progress.show(self.published, &self.tally);
            if last_look.elapsed() >= look_every {
                if done(self)? {
                    return Ok(());
                }
                last_look = Instant::now();
            }
            if self.last_end.elapsed() > PATIENCE {
                return Err(self.stuck(what));
            }
        }
    }

    fn note(&mut self, event: Event) -> Result<()> {
        match event {
            Event::Worker(line) => {
                let before = self.tally.ended();
                self.tally.count(&line);
                if self.tally.ended() > before {
                    self.last_end = Instant::now();
                }
            }
            Event::WorkerEnded(id) => {
                if let Some(worker) = self.workers.iter().find(|worker| worker.id() == id) {
                    return Err(Error::Unmet(format!("{} ended by itself", worker.name())));
                }
            }
            Event::Published(published) => self.published = published,
            Event::PublisherEnded(end) => {
                end?;
                self.everything_published = true;
            }
        }
        Ok(())
    }

    fn backlog(&self) -> Result<Backlog> {
        Backlog::look(self.programs, self.private)
    }

    fn stuck(&self, what: &str) -> Error {
        Error::Unmet(format!(
            "stuck: {} of {} messages are settled, and none was for {PATIENCE:?} while waiting until {what}",
            self.tally.ended(),
            self.to_publish
        ))
    }
}
