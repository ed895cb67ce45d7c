use super::*;
use crate::{
    message::SequencePlace,
    store::{
        OutOfPlace, Release,
        sequence::scene::{asks, with_an_exception, works},
    },
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
    assert_eq!(server.ask(["EXISTS", &name]).unwrap().trim(), "1");
    server.ask(["SET", &name, "something else"]).unwrap();
    works(&store, 6).await;
    alike::the_mark_waits_for_number_5(&store).await;
}

/// The sequence keeps its records for longer meanwhile.
#[tokio::test]
async fn the_mark_waits_for_what_is_no_record_and_leaves_it_alone() {
    for spoilt in [[1, 2, 3], [2, 3, 1], [3, 1, 2]] {
        let (store, server) = store().await;
        let beside = store.calls.naming.beside("readings:d-1");
        let name = |number: i32| {
            let number = number.to_string();
            String::from_utf8([&beside, number.as_bytes()].concat()).unwrap()
        };
        works(&store, 0).await;
        let names = spoilt.map(name);
        let names = names.each_ref().map(String::as_str);
        spoil(server, names);
        for _ in 0..3 {
            let place = SequencePlace::new(Key::new("readings", "d-1").unwrap(), 20);
            let place = place.window(8).skip_after(Duration::ZERO);
            let request = ClaimRequest::in_sequence(place, &Policy::DEFAULT);
            let ahead = store.claim(&request).await.unwrap();
            assert_eq!(
                ahead,
                Claim::OutOfPlace(OutOfPlace::Ahead { mark: 1, window: 8 })
            );
            are_spoilt(server, names);
            store.advance(Policy::DEFAULT.retention() / 2);
        }
    }
}

#[tokio::test]
async fn what_is_no_sequence_is_told_and_left_alone() {
    let (store, server) = store().await;
    let mark = [&*store.calls.naming.beside("readings:d-1"), b"mark"].concat();
    let mark = String::from_utf8(mark).unwrap();
    server.ask(["SET", &mark, "something else"]).unwrap();
    let said = corrupt(store.claim(&asks(0)).await);
    assert!(
        said.contains("of no layout that this program knows"),
        "{said}"
    );
    assert_eq!(server.ask(["GET", &mark]).unwrap().trim(), "something else");
}

/// Each look takes as long as the window is wide.
#[tokio::test]
async fn a_window_gets_no_wider_as_the_mark_moves() {
    let (store, server) = store().await;
    for number in 0..20 {
        works(&store, number).await;
    }
    let mark = [&*store.calls.naming.beside("readings:d-1"), b"mark"].concat();
    let mark = String::from_utf8(mark).unwrap();
    let script = "return (struct.unpack('>I4', redis.call('GET', KEYS[1]), 18))";
    let window = server.ask(["EVAL", script, "1", &mark]).unwrap();
    assert_eq!(window.trim(), "8");
    // Nobody looks again at once, either.
    let script = "local look_by = struct.unpack('>d', redis.call('GET', KEYS[1]), 38)
                  return look_by / 1000000 > redis.call('TIME')[1] + 60 and 1 or 0";
    let is_later = server.ask(["EVAL", script, "1", &mark]).unwrap();
    assert_eq!(is_later.trim(), "1");
}

/// With another `maxmemory-policy` than `noeviction` it may go alone.
#[tokio::test]
async fn if_the_exceptions_are_evicted_nothing_counts_as_done() {
    let (store, server) = store().await;
    with_an_exception(&store).await;
    let exceptions = store.calls.naming.beside("readings:d-1");
    let exceptions = [exceptions.as_slice(), b"exceptions"].concat();
    let exceptions = String::from_utf8(exceptions).unwrap();
    assert_eq!(server.ask(["DEL", &exceptions]).unwrap().trim(), "1");
    let name = store.calls.naming.beside("readings:d-1");
    let record = String::from_utf8([name.as_slice(), b"1"].concat()).unwrap();
    server.ask(["DEL", &record]).unwrap();
    for number in [0, 1] {
        let claim = store.claim(&asks(number)).await.unwrap();
        assert_eq!(claim, Claim::OutOfPlace(OutOfPlace::Late), "{number}");
    }
    let replay = store.claim(&asks(1).replay(true)).await.unwrap();
    assert!(matches!(replay, Claim::Acquired(_)), "{replay:?}");
}

/// Number 2 is at work, so the mark waits for it, and what is done above is kept for longer.
#[tokio::test]
async fn nothing_of_a_sequence_is_removed_a_millisecond_too_early() {
    let (store, server) = store().await;
    let asks = |number| {
        let mut request = asks(number);
        request.retention = 10 * MINUTE;
        request
    };
    let begun = async |number| acquire_as(&store, &asks(number)).await;
    let beside = store.calls.naming.beside("readings:d-1");
    let name = |what: &str| String::from_utf8([&beside, what.as_bytes()].concat()).unwrap();
    let (mark, until) = (name("mark"), "struct.unpack('>d', value, 46)");
    complete(&store, &begun(0).await).await;
    is_kept_until(server, &mark, until, Duration::ZERO);
    let (lease, reason) = (begun(1).await, Release::gave_up("no"));
    let given_up = store.release(&lease, &reason).await;
    assert_eq!(given_up.unwrap(), Write::Applied);
    begun(2).await;
    complete(&store, &begun(3).await).await;
    let (lease, outcome) = (begun(5).await, Outcome::new("done"));
    let written = store.complete(&lease, &outcome, 60 * MINUTE).await;
    assert_eq!(written.unwrap(), Write::Applied);
    let later = 2 * MINUTE;
    store.advance(later);
    // Or the two would be removed in the same millisecond whatever is done.
    tokio::time::sleep(Duration::from_millis(3)).await;
    begun(4).await;
    is_kept_until(server, &mark, until, later);
    is_kept_until(server, &name("3"), FORGET_AT, later);
    let removed = |name: &str| server.ask(["PEXPIRETIME", name]).unwrap();
    assert_eq!(removed(&name("exceptions")), removed(&mark));
    assert_eq!(removed(&name("3")), removed(&mark));
    // It has asked for more by itself.
    is_kept_until(server, &name("5"), FORGET_AT, Duration::ZERO);
    let left = server.ask(["TTL", &name("5")]).unwrap();
    let left: u64 = left.trim().parse().unwrap();
    assert!(left > 55 * 60, "{left}");
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

/// A user who is taken this command, and given it again.
struct User {
    server: Redis,
}

impl User {
    fn start() -> Self {
        let server = Redis::start_with(&[("user", "shop on >hush ~* +@all")]).unwrap();
        Self { server }
    }

    async fn store(&self) -> RedisStore {
        let url = self.server.url().replace("//", "//shop:hush@");
        RedisStore::connect(&url).await.unwrap()
    }

    fn rule(&self, rule: &str) {
        let rule = ["ACL", "SETUSER", "shop", rule];
        self.server.ask(rule).unwrap();
    }
}

/// Number 0 is done and 1 is given up: to pass them, the mark needs a command that it may not run. Number 3 has to be
/// kept for longer then, because 2 is still at work.
#[tokio::test]
async fn a_mark_that_cannot_be_saved_forgets_no_number() {
    let asks = |number| {
        let mut request = asks(number);
        request.retention = 10 * MINUTE;
        request
    };
    for command in ["sadd", "set", "pexpireat", "setrange", "del"] {
        let user = User::start();
        let store = user.store().await;
        let begun = async |number| acquire_as(&store, &asks(number)).await;
        complete(&store, &begun(0).await).await;
        let (lease, reason) = (begun(1).await, Release::gave_up("no"));
        let given_up = store.release(&lease, &reason).await;
        assert_eq!(given_up.unwrap(), Write::Applied);
        let at_work = begun(2).await;
        complete(&store, &begun(3).await).await;
        store.advance(2 * MINUTE);

        user.rule(&format!("-{command}"));
        super::refused(store.claim(&asks(4)).await);
        user.rule(&format!("+{command}"));
        let again = store.claim(&asks(0)).await.unwrap();
        assert!(
            matches!(again, Claim::Completed { .. }),
            "{command}: {again:?}"
        );
        complete(&store, &at_work).await;
        for number in 4..10 {
            complete(&store, &begun(number).await).await;
        }
        for number in [0, 2, 3] {
            let again = store.claim(&asks(number)).await.unwrap();
            let is_done = matches!(again, Claim::Completed { .. });
            assert!(is_done, "{command}, {number}: {again:?}");
        }
        assert_eq!(
            store.claim(&asks(1)).await.unwrap(),
            Claim::OutOfPlace(OutOfPlace::Late)
        );
    }
}

#[tokio::test]
async fn what_may_not_be_read_is_told_and_not_waited_for() {
    let user = User::start();
    let store = user.store().await;
    for number in 0..4 {
        works(&store, number).await;
    }
    user.rule("-getrange");
    let said = super::refused(store.claim(&asks(20)).await);
    assert!(said.contains("does not let this user run"), "{said}");
}
