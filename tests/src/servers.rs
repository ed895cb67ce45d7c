//! Private servers, from tests that must not block their thread.

use std::{sync::Arc, thread::sleep, time::Duration};

use idem_servers::{Private, Server};
use tokio::task::spawn_blocking;

/// Does something with a server that blocks a thread while it takes its time.
///
/// # Panics
/// If the server does not do it: says what it said.
pub async fn off_thread<T: Send + 'static>(
    act: impl FnOnce() -> idem_servers::Result<T> + Send + 'static,
) -> T {
    let done = spawn_blocking(act).await;
    let done = done.expect("starting and stopping servers does not panic");
    done.unwrap_or_else(|error| panic!("{error}"))
}

/// Kills a server, and starts it again after a while.
///
/// # Panics
/// As [`off_thread`].
pub async fn crash<S: Server + Send + Sync + 'static>(server: &Arc<Private<S>>, down: Duration) {
    let server = Arc::clone(server);
    off_thread(move || {
        server.kill()?;
        sleep(down);
        server.restart()
    })
    .await;
}

/// Freezes a server for a while: it answers nobody, and its connections stay open.
///
/// # Panics
/// As [`off_thread`].
pub async fn hang<S: Server + Send + Sync + 'static>(server: &Arc<Private<S>>, lasting: Duration) {
    let server = Arc::clone(server);
    off_thread(move || {
        server.freeze()?;
        sleep(lasting);
        server.thaw()
    })
    .await;
}
