//! When to stop.

/// Resolves on ctrl-c, and on Unix on SIGTERM, which is what process managers send.
///
/// ```no_run
/// # async fn example(worker: idem_amqp::Worker) -> Result<(), idem_amqp::RunError> {
/// use idem_amqp::shutdown_signal;
///
/// let balance = worker.run_until(shutdown_signal()).await?;
/// println!("{balance}");
/// # Ok(()) }
/// ```
pub async fn shutdown_signal() {
    let interrupt = async {
        if let Err(error) = tokio::signal::ctrl_c().await {
            tracing::error!(%error, "ctrl-c cannot be listened for");
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        () = interrupt => {}
        () = terminate() => {}
    }
}

#[cfg(unix)]
async fn terminate() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => {
            terminate.recv().await;
        }
        Err(error) => {
            tracing::error!(%error, "SIGTERM cannot be listened for");
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(not(unix))]
async fn terminate() {
    std::future::pending::<()>().await;
}
