//! Opens sessions for a queue as a worker would, and ends them when the test says so.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use lapin::types::FieldTable;
use serde_json::json;

use crate::{
    bed::Bed,
    journal::Journal,
    responder::{Answer, Asked, Responder},
};

/// Answers what clients ask beside their requests.
#[derive(Debug)]
pub struct Registrar {
    /// What was asked so far.
    pub asked: Journal<Asked>,
    state: Arc<State>,
    _responder: Responder,
}

#[derive(Debug)]
struct State {
    window: u32,
    life: Duration,
    ended: AtomicBool,
    /// How many answers get lost from now on.
    to_lose: AtomicUsize,
}

impl Registrar {
    /// Grants sessions of this window and life to clients of the bed's queue.
    pub async fn start(bed: &Bed, window: u32, life: Duration) -> Self {
        let queue = sessions(bed);
        bed.declare_foreign(&queue, FieldTable::default()).await;
        let state = Arc::new(State {
            window,
            life,
            ended: false.into(),
            to_lose: 0.into(),
        });
        let own = Arc::clone(&state);
        let responder = Responder::start(bed, &queue, move |asked| {
            let answers = own.answer(&asked);
            async move { answers }
        });
        Self {
            asked: responder.asked.clone(),
            state,
            _responder: responder,
        }
    }

    /// All sessions have ended.
    pub fn end_all(&self) {
        self.state.ended.store(true, SeqCst);
    }

    /// The next so many answers get lost.
    pub fn lose(&self, answers: usize) {
        self.state.to_lose.store(answers, SeqCst);
    }

    /// What was asked of this kind so far.
    pub fn of_kind(&self, kind: &str) -> Vec<Asked> {
        let asked = self.asked.entries().into_iter();
        asked.filter(|asked| asked.kind() == kind).collect()
    }
}

/// The queue that sessions are opened on.
pub fn sessions(bed: &Bed) -> String {
    format!("{}.sessions", bed.name())
}

impl State {
    fn answer(&self, asked: &Asked) -> Vec<Answer> {
        let losing = |left: usize| left.checked_sub(1);
        if self.to_lose.fetch_update(SeqCst, SeqCst, losing).is_ok() {
            return Vec::new();
        }
        let answer = match &*asked.kind() {
            "idem.open" => asked.answer(&json!({
                "session": asked.message_id(),
                "window": self.window,
                "life_ms": self.life.as_millis(),
            })),
            "idem.heartbeat" if self.ended.load(SeqCst) => asked.refused_as("session-expired"),
            "idem.heartbeat" | "idem.close" => asked.answer(&json!({})),
            "idem.reserve" => asked.answer(&json!({"key": format!("key-{}", asked.number)})),
            _ => asked.refused_as("undecodable"),
        };
        vec![answer]
    }
}
