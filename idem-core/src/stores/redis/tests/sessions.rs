use idem_servers::redis::RedisCluster;

use super::*;
use crate::stores::tests::asks_in;
use crate::{
    message::{SessionKey, SessionPlace},
    store::{OpenSession, Opened, OutOfPlace, SessionStore, Touched},
};

fn session(name: &str) -> SessionKey {
    Key::new("leases", name).unwrap().into()
}

async fn open(store: &RedisStore, name: &str) -> SessionKey {
    let opening = OpenSession::new(Key::new("leases", name).unwrap()).life(MINUTE);
    assert_eq!(store.open(&opening).await.unwrap(), Opened::New);
    session(name)
}

fn name_of(store: &RedisStore, session: &SessionKey) -> String {
    String::from_utf8(store.calls.naming.session(session)).unwrap()
}

#[tokio::test]
async fn a_session_and_its_answers_are_on_one_node() {
    let cluster = RedisCluster::start().unwrap();
    let url = cluster.url();
    let store = RedisStore::builder(&url).build().await.unwrap();
    for client in 0..20 {
        let session = open(&store, &format!("c-{client}")).await;
        for number in 0..3 {
            let lease = acquire_as(&store, &asks_in(&session, number, 0)).await;
            complete(&store, &lease).await;
        }
        let pattern = format!("idem:{{{session}}}~*");
        let found = cluster.nodes().iter().map(|node| {
            let names = node.ask(["KEYS", &pattern]).unwrap();
            names.lines().filter(|name| !name.is_empty()).count()
        });
        let mut found: Vec<_> = found.collect();
        found.sort_unstable();
        assert_eq!(found, [0, 0, 4], "{session}");
    }
}

#[tokio::test]
async fn redis_forgets_a_session_a_life_after_its_end() {
    let (store, server) = store().await;
    let session = open(&store, "c-1").await;
    let name = name_of(&store, &session);
    let left: u64 = server.ask(["PTTL", &name]).unwrap().trim().parse().unwrap();
    let lives = u64::try_from(MINUTE.as_millis()).unwrap();
    assert!(
        (lives..=2 * lives + 1).contains(&left),
        "{left} ms are left"
    );
    assert_eq!(store.touch(&session).await.unwrap(), Touched::Living);
    server.ask(["DEL", &name]).unwrap();
    assert_eq!(store.touch(&session).await.unwrap(), Touched::Expired);
    let claim = store.claim(&asks_in(&session, 0, 0)).await.unwrap();
    assert_eq!(claim, Claim::OutOfPlace(OutOfPlace::SessionExpired));
}

/// Its end comes into another hour, so its answers are kept for longer.
#[tokio::test]
async fn nothing_of_a_session_is_removed_a_millisecond_too_early() {
    let (store, server) = store().await;
    let hour = 60 * MINUTE;
    let opening = OpenSession::new(Key::new("leases", "c-1").unwrap()).life(2 * hour);
    assert_eq!(store.open(&opening).await.unwrap(), Opened::New);
    let session = session("c-1");
    let name = name_of(&store, &session);
    let removed =
        "struct.unpack('>d', value, 22) + math.max(struct.unpack('>d', value, 14), 60000000)";
    is_kept_until(server, &name, removed, Duration::ZERO);
    let mut answers = Vec::new();
    for number in 0..5 {
        let request = asks_in(&session, number, 0);
        let (lease, outcome) = (acquire_as(&store, &request).await, Outcome::new("done"));
        let written = store.complete(&lease, &outcome, 90 * MINUTE).await;
        assert_eq!(written.unwrap(), Write::Applied);
        let name = String::from_utf8(store.calls.naming.record(&request.key)).unwrap();
        // Who reads the time two bytes too early finds a number that is far greater.
        server
            .ask(["SETRANGE", &name, "13", "\u{7f}\u{7f}"])
            .unwrap();
        answers.push(name);
    }
    store.advance(hour);
    assert_eq!(store.touch(&session).await.unwrap(), Touched::Living);
    is_kept_until(server, &name, removed, hour);
    for answer in answers {
        is_kept_until(server, &answer, FORGET_AT, hour);
        // An hour longer than the session.
        let left = server.ask(["TTL", &answer]).unwrap();
        let left: u64 = left.trim().parse().unwrap();
        assert!(left > 175 * 60, "{left}");
    }
}

/// The server's clock steps back: here, by another store whose clock was moved.
#[tokio::test]
async fn a_closed_session_stays_closed_when_the_clock_steps_back() {
    let server = Redis::start().unwrap();
    let (store, later) = (impatient(&server).await, impatient(&server).await);
    later.advance(MINUTE / 2);
    alike::a_closed_session_stays_closed(&store, &later).await;
}

#[tokio::test]
async fn a_session_is_read_as_earlier_versions_have_written_it() {
    let (store, server) = store().await;
    let session = session("c-1");
    let script = "local ends_at = redis.call('TIME')[1] * 1000000 + 60000000
        local kept = struct.pack('>BdI4dd', 1, 7, 10, 60000000, ends_at)
        return redis.call('SET', KEYS[1], kept)";
    server
        .ask(["EVAL", script, "1", &name_of(&store, &session)])
        .unwrap();
    let before_the_mark = store.claim(&asks_in(&session, 6, 0)).await.unwrap();
    assert_eq!(before_the_mark, Claim::OutOfPlace(OutOfPlace::Stale));
    complete(&store, &acquire_as(&store, &asks_in(&session, 16, 0)).await).await;
    assert_eq!(store.touch(&session).await.unwrap(), Touched::Living);
}

#[tokio::test]
async fn what_is_no_session_is_told_and_left_alone() {
    let (store, server) = store().await;
    let session = session("c-1");
    let name = name_of(&store, &session);
    server.ask(["SET", &name, "something else"]).unwrap();
    let said = corrupt(store.touch(&session).await);
    assert!(
        said.contains("of no layout that this program knows"),
        "{said}"
    );
    let said = corrupt(store.claim(&asks_in(&session, 0, 0)).await);
    assert!(
        said.contains("of no layout that this program knows"),
        "{said}"
    );
    assert_eq!(server.ask(["GET", &name]).unwrap().trim(), "something else");
}

#[tokio::test]
async fn what_is_no_answer_is_left_alone_by_the_mark() {
    let (store, server) = store().await;
    let session = open(&store, "c-1").await;
    let record = store.calls.naming.record(&session.request(0));
    let record = String::from_utf8(record).unwrap();
    server.ask(["HSET", &record, "field", "value"]).unwrap();
    acquire_as(&store, &asks_in(&session, 1, 1)).await;
    let kind = server.ask(["TYPE", &record]).unwrap();
    assert_eq!(kind.trim(), "hash");
}

#[tokio::test]
async fn what_is_no_answer_is_left_alone_when_answers_are_kept_for_longer() {
    let (store, server) = store().await;
    let hour = 60 * MINUTE;
    let opening = OpenSession::new(Key::new("leases", "c-1").unwrap()).life(2 * hour);
    assert_eq!(store.open(&opening).await.unwrap(), Opened::New);
    let session = session("c-1");
    let names = [0, 1, 2].map(|number| {
        let name = store.calls.naming.record(&session.request(number));
        String::from_utf8(name).unwrap()
    });
    let names = names.each_ref().map(String::as_str);
    spoil(server, names);
    store.advance(hour);
    assert_eq!(store.touch(&session).await.unwrap(), Touched::Living);
    are_spoilt(server, names);
    acquire_as(&store, &asks_in(&session, 3, 3)).await;
    are_spoilt(server, names);
}

#[tokio::test]
async fn scripts_of_sessions_that_were_dropped_are_sent_again() {
    let server = Redis::start().unwrap();
    let store = impatient(&server).await;
    let session = open(&store, "c-1").await;
    for number in 0..3 {
        server.ask(["SCRIPT", "FLUSH"]).unwrap();
        let lease = acquire_as(&store, &asks_in(&session, number, number)).await;
        server.ask(["SCRIPT", "FLUSH"]).unwrap();
        complete(&store, &lease).await;
    }
}

/// Above it, doubles leave numbers out: whoever counts on by one stays there for ever.
#[tokio::test]
async fn a_session_ends_whose_numbers_are_the_last() {
    let (store, _server) = store().await;
    let session = open(&store, "c-1").await;
    let last = SessionPlace::MAX_NUMBER;
    complete(
        &store,
        &acquire_as(&store, &asks_in(&session, last, last)).await,
    )
    .await;
    assert_eq!(store.touch(&session).await.unwrap(), Touched::Living);
    store.close(&session).await.unwrap();
    assert_eq!(store.touch(&session).await.unwrap(), Touched::Expired);
}
