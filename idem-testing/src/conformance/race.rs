//! Contenders that really run at the same time.

use std::{
    panic,
    sync::{Arc, Barrier},
};

use tokio::{runtime::Handle, task::spawn_blocking};

use futures_util::future::BoxFuture;

/// Runs each contender on a thread of its own, lets all go at once, and collects what they say.
///
/// Threads rather than tasks: a store that never yields would run tasks one after the other, and
/// a paused clock allows no runtime of several threads.
pub(super) async fn race<T: Send + 'static>(contenders: Vec<BoxFuture<'static, T>>) -> Vec<T> {
    let start = Arc::new(Barrier::new(contenders.len()));
    let threads: Vec<_> = contenders
        .into_iter()
        .map(|contender| {
            let (start, runtime) = (Arc::clone(&start), Handle::current());
            spawn_blocking(move || {
                start.wait();
                runtime.block_on(contender)
            })
        })
        .collect();
    let mut said = Vec::with_capacity(threads.len());
    for thread in threads {
        match thread.await {
            Ok(answer) => said.push(answer),
            Err(error) => panic::resume_unwind(error.into_panic()),
        }
    }
    said
}
