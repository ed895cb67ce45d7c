//! What the code under test writes to its log.

use std::{
    io,
    sync::{Arc, Mutex},
};

use tracing_subscriber::util::SubscriberInitExt as _;

const NO_PANIC: &str = "nothing panics under the lock";

/// Keeps what is logged.
#[derive(Debug, Clone, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Keeps what this thread logs until the guard is dropped.
    pub fn capture(&self) -> impl Sized + use<> {
        let log = self.clone();
        tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || log.clone())
            .set_default()
    }

    /// What was logged until now.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().expect(NO_PANIC)).into_owned()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect(NO_PANIC).extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
