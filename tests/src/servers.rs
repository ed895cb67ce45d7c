//! Private servers, from tests that must not block their thread.

use tokio::task::spawn_blocking;

/// Does something with a server that blocks a thread while it takes its time.
///
/// # Panics
/// If the server does not do it: says what it said.
pub async fn off_thread<T: Send + 'static>(
    act: impl FnOnce() -> xtask::Result<T> + Send + 'static,
) -> T {
    let done = spawn_blocking(act).await;
    let done = done.expect("starting and stopping servers does not panic");
    done.unwrap_or_else(|error| panic!("{error}"))
}
