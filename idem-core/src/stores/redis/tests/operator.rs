use super::*;
use crate::store::Look as _;
use crate::store::operator::{Action, Intervened, Intervention, OperatorStore};

/// Changes the key as it is now, and says what came of it.
async fn intervene(
    store: &RedisStore,
    key: &Key,
    action: Action,
) -> Result<Intervened, StoreError> {
    let record = store.look(key).await.unwrap();
    let (key, seen, by) = (key.clone(), record.map(|it| it.record.seen()), "ops");
    let intervention = match action {
        Action::Release => Intervention::release(key, seen, by),
        Action::Forget => Intervention::forget(key, seen, by),
        Action::Complete => Intervention::complete(key, seen, by, Outcome::default(), MINUTE),
    };
    store.intervene(&intervention).await
}

/// The server's clock steps back: here, by another store whose clock was moved.
#[tokio::test]
async fn tokens_grow_over_interventions_though_the_clock_steps_back() {
    for action in [Action::Release, Action::Complete] {
        let (store, server) = store().await;
        let prefix = store.calls.naming.prefix();
        let later = RedisStore::builder(&server.url()).prefix(prefix);
        let later = later.build().await.unwrap();
        later.advance(60 * MINUTE);
        let lease = acquire(&later, 1).await;
        let done = intervene(&store, &lease.key, action).await;
        assert_eq!(done.unwrap(), Intervened::Applied);
        let record = store.look(&lease.key).await.unwrap().unwrap().record;
        assert!(record.token > lease.token, "{action:?}: {record:?}");
        let late = later.extend(&lease, MINUTE).await.unwrap();
        assert_eq!(late, Write::Fenced, "{action:?}");
    }
}

#[tokio::test]
async fn a_key_remembers_its_last_hundred_interventions_for_ninety_days() {
    let (store, server) = store().await;
    let key = request(1).key;
    for _ in 0..60 {
        for action in [Action::Complete, Action::Forget] {
            let done = intervene(&store, &key, action).await;
            assert_eq!(done.unwrap(), Intervened::Applied);
        }
    }
    let audit = store.audit(&key).await.unwrap();
    assert_eq!(audit.len(), 100);
    assert_eq!(audit.last().map(|entry| entry.action), Some(Action::Forget));
    let name = String::from_utf8(store.calls.naming.audit(&key)).unwrap();
    let left = server.ask(["TTL", &name]).unwrap();
    let left = Duration::from_secs(left.trim().parse().unwrap());
    let day = 24 * 60 * MINUTE;
    assert!(89 * day < left && left <= 90 * day, "{left:?}");
}

#[tokio::test]
async fn an_intervention_in_what_is_no_record_says_so_and_leaves_it_alone() {
    let (store, server) = store().await;
    let name = record(&store, 1);
    server.ask(["SET", &name, "something else"]).unwrap();
    let forget = Intervention::forget(request(1).key, None, "ops");
    let said = corrupt(store.intervene(&forget).await);
    assert!(
        said.contains("of no layout that this program knows"),
        "{said}"
    );
    assert_eq!(server.ask(["GET", &name]).unwrap().trim(), "something else");
}
