//! What happens on stage: a client asks, its replies are stolen, and either program is killed once.

use std::{
    io::{BufRead, BufReader},
    process::ChildStdout,
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender},
    time::{Duration, Instant},
};

use super::{
    super::worker::Worker,
    answers::{Answers, Line},
    programs::Programs,
};
use idem_servers::{Error, Result};

/// How long nothing may be answered before the demonstration counts as stuck.
const PATIENCE: Duration = Duration::from_mins(1);

/// What the programs tell us while they run.
#[derive(Debug)]
enum Event {
    /// The server serves.
    Ready,
    Answer(Line),
}

#[derive(Debug)]
pub(super) struct Show<'a> {
    programs: &'a Programs,
    requests: u32,
    started: usize,
    serving: bool,
    answers: Answers,
    events: Receiver<Event>,
    sender: Sender<Event>,
}

impl<'a> Show<'a> {
    pub(super) fn new(programs: &'a Programs, requests: u32) -> Self {
        let (sender, events) = mpsc::channel();
        Self {
            programs,
            requests,
            started: 0,
            serving: false,
            answers: Answers::default(),
            events,
            sender,
        }
    }

    /// The whole of it, until every request was answered and the programs have ended.
    pub(super) fn perform(&mut self) -> Result<()> {
        let requests = self.requests as usize;
        let mut server = self.start_server()?;
        let client = self.start_client()?;
        self.watch_until("a third is answered", |answers| {
            answers.are_complete() || answers.replies() >= requests / 3
        })?;
        let client = self.replace(client, "the client", Self::start_client)?;
        self.watch_until("two thirds are answered", |answers| {
            answers.are_complete() || answers.replies() >= requests * 2 / 3
        })?;
        server = self.replace(server, "the server", Self::start_server)?;
        self.watch_until("everything is answered", Answers::are_complete)?;
        client.wait_until_stopped()?;
        server.ask_to_stop()?;
        server.wait_until_stopped()
    }

    /// Shows what the programs logged last; they were killed when they were dropped.
    pub(super) fn break_off(&self) {
        println!("{}", self.programs.last_words());
    }

    pub(super) fn into_answers(self) -> Answers {
        self.answers
    }

    fn replace(
        &mut self,
        victim: Worker,
        name: &str,
        start: impl FnOnce(&mut Self) -> Result<Worker>,
    ) -> Result<Worker> {
        let answered = self.answers.replies();
        if self.answers.are_complete() {
            return Ok(victim);
        }
        println!("kill -9 {name} with {answered} requests answered; starting it again");
        victim.kill()?;
        start(self)
    }

    fn start_server(&mut self) -> Result<Worker> {
        let guarded = self.programs.guarded_server()?;
        self.serving = false;
        let server = self.start(guarded, "lease-server", |_| Event::Ready)?;
        self.watch("the server is there", |show| show.serving)?;
        Ok(server)
    }

    fn start_client(&mut self) -> Result<Worker> {
        let guarded = self.programs.guarded_client(self.requests)?;
        self.start(guarded, "lease-client", |line| {
            Event::Answer(Line::read(line))
        })
    }

    fn start(
        &mut self,
        guarded: std::process::Command,
        name: &str,
        hear: impl Fn(&str) -> Event + Send + 'static,
    ) -> Result<Worker> {
        let events = self.sender.clone();
        self.started += 1;
        let listen = move |output: BufReader<ChildStdout>| {
            for line in output.lines().map_while(std::result::Result::ok) {
                // Nobody listens any more when the demonstration is over.
                let _ = events.send(hear(&line));
            }
        };
        Worker::start(guarded, name, self.started, listen)
    }

    fn watch_until(&mut self, what: &str, done: impl Fn(&Answers) -> bool) -> Result<()> {
        self.watch(what, |show| done(&show.answers))
    }

    fn watch(&mut self, what: &str, done: impl Fn(&Self) -> bool) -> Result<()> {
        let mut last = Instant::now();
        while !done(self) {
            match self.events.recv_timeout(PATIENCE) {
                Ok(Event::Ready) => self.serving = true,
                Ok(Event::Answer(line)) => {
                    self.answers.note(line);
                    last = Instant::now();
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => unreachable!("we hold a sender"),
            }
            if last.elapsed() >= PATIENCE {
                return Err(self.stuck(what));
            }
        }
        Ok(())
    }

    fn stuck(&self, what: &str) -> Error {
        Error::Unmet(format!(
            "stuck: {} of {} requests are answered, and none was for {PATIENCE:?} while waiting until {what}",
            self.answers.replies(),
            self.requests
        ))
    }
}
