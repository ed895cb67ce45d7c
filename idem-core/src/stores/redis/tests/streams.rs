//! What is kept of a stream, as somebody else may have left it.

use super::*;
use crate::store::{StreamClaim, StreamLease, StreamStore as _};

/// Later than any clock: tokens grow from there on one by one.
const FAR: i64 = 1 << 52;

/// A stream in which somebody was up to offset 41, without a lease; `layout` is the first byte.
async fn kept(layout: u8) -> (RedisStore, Key) {
    let (store, server) = store().await;
    let stream = Key::new("books.book", "ledger").unwrap();
    let name = String::from_utf8(store.calls.naming.stream(&stream)).unwrap();
    let script = format!(
        "local kept = struct.pack('>Bdddc16', {layout}, {FAR}, 1, 41, string.rep('o', 16))
         return redis.call('SET', KEYS[1], kept)"
    );
    server.ask(["EVAL", &script, "1", &name]).unwrap();
    (store, stream)
}

async fn claim(store: &RedisStore, stream: &Key) -> (StreamLease, Option<u64>) {
    let claimed = store.claim_stream(stream, Owner::new(), MINUTE).await;
    match claimed.unwrap() {
        StreamClaim::Acquired { lease, mark } => (lease, mark),
        held @ StreamClaim::Held { .. } => panic!("{held:?}"),
    }
}

#[tokio::test]
async fn a_mark_is_read_as_earlier_versions_have_written_it() {
    let (store, stream) = kept(1).await;
    assert_eq!(claim(&store, &stream).await.1, Some(41));
}

#[tokio::test]
async fn a_mark_of_an_unknown_layout_is_an_error_and_is_left_alone() {
    let (store, stream) = kept(2).await;
    for _ in 0..2 {
        let claimed = store.claim_stream(&stream, Owner::new(), MINUTE).await;
        let error = claimed.unwrap_err();
        assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
        let why = crate::ErrorChain::of(&error).to_string();
        assert!(
            why.contains("it is of no layout that this program"),
            "{why}"
        );
    }
}

/// A server's clock may be set back, or another server take its place.
#[tokio::test]
async fn tokens_grow_where_the_clock_is_behind_them() {
    let (store, stream) = kept(1).await;
    let (first, _) = claim(&store, &stream).await;
    assert_eq!(first.token.get(), FAR + 1);
    let released = store.release_stream(&first, None).await.unwrap();
    assert_eq!(released, Write::Applied);
    let (second, _) = claim(&store, &stream).await;
    assert!(second.token > first.token, "{second:?}");
    let late = store.extend_stream(&first, Some(50), MINUTE).await.unwrap();
    assert_eq!(late, Write::Fenced);
}
