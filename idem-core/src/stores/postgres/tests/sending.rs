//! `idem_records_send`: how what was published gets into the outbox.

use super::*;

/// Publishes a message in a lane, by a store whose clock is ahead by this.
async fn publish(connection: &mut PgConnection, id: u8, lane: &str, skew: Duration) {
    let skew = skew.as_micros();
    let send = format!(
        "SELECT idem_records_send(
             ARRAY['00000000-0000-0000-0000-0000000000{id:02}']::uuid[], '{{6d}}', '{{71}}', '{{\"\"}}', '{{\"\"}}',
             ARRAY[encode('{lane}', 'hex')], '{{false}}', '{{0}}', '{{NULL}}', {skew}
         )"
    );
    run(connection, &send).await;
}

/// Who has the higher number commits later.
#[tokio::test]
async fn who_publishes_in_a_lane_waits_for_the_commit_of_whoever_did_before() {
    let database = Database::new();
    let _tables = database.store().await;
    let (mut first, mut second) = (database.bystander().await, database.bystander().await);
    let mut other = database.bystander().await;
    run(&mut first, "BEGIN").await;
    publish(&mut first, 1, "customer-7", Duration::ZERO).await;
    publish(&mut other, 2, "customer-8", Duration::ZERO).await;
    let late =
        tokio::spawn(async move { publish(&mut second, 3, "customer-7", Duration::ZERO).await });
    tokio::select! {
        () = database.sessions_wait(1) => {}
        () = async {
            while !late.is_finished() {
                tokio::task::yield_now().await;
            }
        } => panic!("the other transaction of its lane is still open"),
    }
    run(&mut first, "COMMIT").await;
    late.await.unwrap();
    let in_order =
        "SELECT count(*) FROM idem_records_outbox AS one JOIN idem_records_outbox AS other
                    ON one.lane = other.lane AND one.number < other.number AND one.id < other.id";
    assert_eq!(database.number(in_order).await, 1);
}

#[tokio::test]
async fn what_is_published_has_the_time_of_the_stores_clock() {
    let database = Database::new();
    let _tables = database.store().await;
    let mut publisher = database.bystander().await;
    publish(&mut publisher, 1, "customer-7", 60 * MINUTE).await;
    let ahead = "SELECT count(*) FROM idem_records_outbox
                 WHERE created_at > now() + interval '59 minutes' AND due > now() + interval '59 minutes'";
    assert_eq!(database.number(ahead).await, 1);
}
