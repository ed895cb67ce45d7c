use super::*;

/// Another process on the file closes it, and its clock is ahead of this one's.
#[tokio::test]
async fn a_closed_session_stays_closed_when_the_clock_steps_back() {
    let file = File::new();
    let (store, later) = (file.store().await, file.store().await);
    later.advance(MINUTE);
    alike::a_closed_session_stays_closed(&store, &later).await;
}
