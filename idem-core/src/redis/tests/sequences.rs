use super::*;
use crate::{
    SequencePlace,
    sequence::scene::{asks, with_an_exception, works},
};

/// Another number's record is unreadable: its own claim says so, and that of no other.
#[tokio::test]
async fn the_mark_waits_for_what_cannot_be_read() {
    let (store, server) = store().await;
    for number in 0..6 {
        works(&store, number).await;
    }
    let name = store.calls.naming.beside("readings:d-1");
    let name = String::from_utf8([name.as_slice(), b"5"].concat()).unwrap();
    assert_eq!(server.cli(["EXISTS", &name]).unwrap().trim(), "1");
    server.cli(["SET", &name, "something else"]).unwrap();
    works(&store, 6).await;
    let ahead = store.claim(&asks(20)).await.unwrap();
    assert_eq!(ahead, Claim::Ahead { mark: 5, window: 8 });
    let broken = store.claim(&asks(5)).await;
    assert!(
        matches!(broken, Err(StoreError::Corrupt { .. })),
        "{broken:?}"
    );
}

/// With another `maxmemory-policy` than `noeviction` it may go alone.
#[tokio::test]
async fn if_the_exceptions_are_evicted_nothing_counts_as_done() {
    let (store, server) = store().await;
    with_an_exception(&store).await;
    let exceptions = store.calls.naming.beside("readings:d-1");
    let exceptions = [exceptions.as_slice(), b"exceptions"].concat();
    let exceptions = String::from_utf8(exceptions).unwrap();
    assert_eq!(server.cli(["DEL", &exceptions]).unwrap().trim(), "1");
    let name = store.calls.naming.beside("readings:d-1");
    let record = String::from_utf8([name.as_slice(), b"1"].concat()).unwrap();
    server.cli(["DEL", &record]).unwrap();
    for number in [0, 1] {
        let claim = store.claim(&asks(number)).await.unwrap();
        assert_eq!(claim, Claim::Late, "{number}");
    }
    let replay = store.claim(&asks(1).replay(true)).await.unwrap();
    assert!(matches!(replay, Claim::Acquired(_)), "{replay:?}");
}

/// Above it, doubles leave numbers out: whoever counts on by one stays there for ever.
#[tokio::test]
async fn the_last_numbers_of_a_sequence_are_kept() {
    let (store, _server) = store().await;
    let last = SequencePlace::MAX_NUMBER;
    let asks = |number| {
        let mut request = asks(number);
        request.retention = 10 * MINUTE;
        request
    };
    for number in [last - 1, last] {
        complete(&store, &acquire_as(&store, &asks(number)).await).await;
    }
    for _ in 0..5 {
        store.advance(3 * MINUTE);
        let again = store.claim(&asks(last)).await.unwrap();
        assert!(matches!(again, Claim::Completed { .. }), "{again:?}");
    }
}
