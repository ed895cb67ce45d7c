use super::*;
use crate::store::Look as _;

/// Milliseconds until Redis forgets the record by itself.
fn expires_in(server: &Node, name: &str) -> u64 {
    let answer = server.ask(["PTTL", name]).unwrap();
    answer.trim().parse().unwrap()
}

fn about(milliseconds: u64, expected: Duration) -> bool {
    let gap = expected.abs_diff(Duration::from_millis(milliseconds));
    gap < Duration::from_secs(20)
}

#[tokio::test]
async fn a_record_expires_when_its_retention_ends() {
    let (store, server) = store().await;
    let name = record(&store, 1);
    let lease = acquire(&store, 1).await;
    assert!(about(expires_in(server, &name), 11 * MINUTE));
    let extended = store.extend(&lease, 5 * MINUTE).await.unwrap();
    assert_eq!(extended, Write::Applied);
    assert!(about(expires_in(server, &name), 15 * MINUTE));
    complete(&store, &lease).await;
    assert!(about(expires_in(server, &name), 10 * MINUTE));
}

#[tokio::test]
async fn a_record_is_not_removed_a_millisecond_too_early() {
    let (store, server) = store().await;
    let hour = 60 * MINUTE;
    store.advance(hour);
    for id in 0..5_u32 {
        let name = record(&store, id);
        let lease = acquire(&store, id).await;
        is_kept_until(server, &name, FORGET_AT, hour);
        complete(&store, &lease).await;
        is_kept_until(server, &name, FORGET_AT, hour);
    }
}

#[tokio::test]
async fn a_record_that_waits_for_its_retry_expires_after_that() {
    let (store, server) = store().await;
    let lease = acquire(&store, 1).await;
    let reason = Release::retry_after(30 * MINUTE, "not today");
    let released = store.release(&lease, &reason).await.unwrap();
    assert_eq!(released, Write::Applied);
    assert!(about(expires_in(server, &record(&store, 1)), 40 * MINUTE));
}

#[tokio::test]
async fn a_completed_record_keeps_no_more_than_it_needs() {
    let (store, server) = store().await;
    let name = record(&store, 1);
    let content = crate::message::Fingerprint::of(b"ten euros");
    let lease = acquire_as(&store, &request(1).fingerprint(content)).await;
    let written = store.complete(&lease, &Outcome::new("null"), MINUTE).await;
    assert_eq!(written.unwrap(), Write::Applied);
    assert_eq!(server.ask(["STRLEN", &name]).unwrap().trim(), "60");
}

/// As an earlier version of this program has left them: each is read, and written as it is now.
#[tokio::test]
async fn records_of_the_first_layout_are_read_and_brought_up_to_date() {
    let (store, server) = store().await;
    let [held, failed, done] = ["held", "failed", "done"].map(|id| record(&store, id));
    let lease = acquire(&store, "held").await;
    let given_back = acquire(&store, "failed").await;
    let reason = Release::failed("card declined");
    let released = store.release(&given_back, &reason).await.unwrap();
    assert_eq!(released, Write::Applied);
    complete(&store, &acquire(&store, "done").await).await;
    for name in [&held, &failed, &done] {
        // Without the two times.
        let script = "local value = redis.call('GET', KEYS[1])
            local first = string.char(1) .. string.sub(value, 2, 23) .. string.sub(value, 40)
            return redis.call('SET', KEYS[1], first, 'KEEPTTL')";
        server.ask(["EVAL", script, "1", name]).unwrap();
    }
    for id in ["held", "failed", "done"] {
        let known = store.look(&request(id).key).await.unwrap();
        let record = known.unwrap().record;
        assert_eq!((record.created_at, record.completed_at), (None, None));
        assert!(record.age < MINUTE, "{record:?}");
        assert_eq!(record.attempts, 1);
    }
    assert!(is_completed(&store, "done").await);
    complete(&store, &lease).await;
    let again = acquire(&store, "failed").await;
    assert_eq!(again.attempt, 2);
    let shown = store.look(&lease.key).await.unwrap().unwrap().record;
    assert_eq!(shown.created_at, None);
    assert!(shown.completed_at.is_some());
    for name in [&held, &failed] {
        let layout = server.ask(["GETRANGE", name, "0", "0"]).unwrap();
        assert_eq!(layout.trim_end_matches('\n'), "\u{2}");
    }
}

#[tokio::test]
async fn records_of_odd_keys_are_named_so_that_they_can_be_listed() {
    let (store, server) = store().await;
    let prefix = store.calls.naming.prefix().to_owned();
    let keys = ["{", "}{", "{a}", "\r\n", "\0", "*", "日本", "%7B", " "];
    for key in keys {
        acquire(&store, key).await;
    }
    let listed = server.ask(["KEYS", &format!("{prefix}:{{orders:*}}")]);
    assert_eq!(listed.unwrap().lines().count(), keys.len());
}

#[tokio::test]
async fn a_value_of_another_type_is_corrupt_and_left_alone() {
    let (store, server) = store().await;
    let name = record(&store, 1);
    server.ask(["HSET", &name, "theirs", "1"]).unwrap();
    let said = corrupt(store.claim(&request(1)).await);
    assert!(
        said.contains("WRONGTYPE") || said.contains("wrong kind"),
        "{said}"
    );
    assert_eq!(server.ask(["HGET", &name, "theirs"]).unwrap().trim(), "1");
    acquire(&store, 2).await;
}

#[tokio::test]
async fn a_text_that_is_no_record_is_corrupt_and_left_alone() {
    let (store, server) = store().await;
    let name = record(&store, 1);
    // Nothing, text, a layout of the future, a state of the future, a record cut short.
    let head = "\u{1}z".to_owned() + &"x".repeat(60);
    for text in [
        "",
        "{}",
        "completed",
        "\u{3}p",
        &head,
        "\u{1}pxxxxxxx",
        "\u{2}pxxxxxxx",
    ] {
        server.ask(["SET", &name, text]).unwrap();
        let lease = Lease::new(
            request(1).key,
            crate::handler::FencingToken::new(1),
            1,
            false,
        );
        corrupt(store.claim(&request(1)).await);
        corrupt(store.extend(&lease, MINUTE).await);
        corrupt(store.complete(&lease, &Outcome::default(), MINUTE).await);
        corrupt(store.release(&lease, &Release::Abandoned).await);
        let left = server.ask(["GET", &name]).unwrap();
        assert_eq!(left.trim_end_matches('\n'), text);
    }
}

#[tokio::test]
async fn a_record_in_a_state_of_the_future_is_corrupt_and_left_alone() {
    let (store, server) = store().await;
    let name = record(&store, 1);
    acquire(&store, 1).await;
    for state in ["z", "."] {
        server.ask(["SETRANGE", &name, "1", state]).unwrap();
        store.advance(20 * MINUTE);
        let said = corrupt(store.claim(&request(1)).await);
        let expected = "in no state that this program knows";
        assert!(said.contains(expected), "{said}");
        let left = server.ask(["GETRANGE", &name, "1", "1"]).unwrap();
        assert_eq!(left.trim(), state);
    }
}

#[tokio::test]
async fn stores_with_different_prefixes_know_nothing_of_each_other() {
    let (one, _) = store().await;
    let (other, _) = store().await;
    let lease = acquire(&one, 1).await;
    complete(&one, &lease).await;
    assert!(!is_completed(&other, 1).await);
}
