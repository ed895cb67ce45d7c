//! What happens on stage: the workers, the publisher, the murder, and the wait for the end.

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader},
    process::ChildStdout,
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender},
    time::{Duration, Instant},
};

use super::{
    backlog::Backlog,
    programs::Programs,
    progress::Progress,
    publisher,
    tally::{Line, Tally},
    worker::Worker,
};
use idem_servers::{Error, RabbitMq, Result};

/// How long nothing may come to an end before the demonstration counts as stuck.
const PATIENCE: Duration = Duration::from_mins(1);
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How often workers are started once more for messages that were still in the queue.
const ENCORES: usize = 3;

/// What the programs tell us while they run.
#[derive(Debug)]
pub(crate) enum Event {
    Worker(Line),
    WorkerEnded(usize),
    Published(u64),
    PublisherEnded(Result<()>),
}

#[derive(Debug)]
pub(crate) struct Show<'a> {
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
    pub(crate) fn new(
        programs: &'a Programs,
        private: Option<&'a RabbitMq>,
        to_publish: u64,
    ) -> Self {
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

    /// The whole of it, until nothing is left to do and the workers have stopped.
    pub(crate) fn perform(&mut self, orders: u32, copies: u32) -> Result<()> {
        self.start_workers()?;
        publisher::start(self.programs, orders, copies, self.sender.clone())?;
        self.watch_until("half of the messages are settled", Duration::ZERO, |show| {
            Ok(show.tally.ended() >= show.to_publish / 2)
        })?;
        self.kill_one_and_start_it_again()?;
        self.watch_until_nothing_is_left()?;
        self.stop_workers()?;
        self.play_encores()
    }

    /// Kills the workers, so that they charge nothing more, and shows what they logged last.
    pub(crate) fn break_off(&mut self) {
        self.workers.clear();
        self.progress.say(&self.programs.last_words());
    }

    pub(crate) fn into_tally(self) -> Tally {
        self.progress.clear();
        self.tally
    }

    fn start_workers(&mut self) -> Result<()> {
        self.start_worker("worker-1")?;
        self.start_worker("worker-2")
    }

    fn start_worker(&mut self, name: &str) -> Result<()> {
        let (id, events) = (self.workers_started, self.sender.clone());
        let guarded = self.programs.guarded_worker(name)?;
        let worker = Worker::start(guarded, name, id, move |output| {
            listen(id, output, &events);
        })?;
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
            let ready = Backlog::after_the_workers(self.programs)?;
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
        match Backlog::after_the_workers(self.programs)? {
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

/// Each line that a worker prints becomes an event.
fn listen(id: usize, output: BufReader<ChildStdout>, events: &Sender<Event>) {
    for line in output.lines().map_while(std::result::Result::ok) {
        // Nobody listens any more when the demonstration is over.
        let _ = events.send(Event::Worker(Line::read(&line)));
    }
    let _ = events.send(Event::WorkerEnded(id));
}
