use super::*;
use crate::store::Look as _;
use crate::{handler::Policy, message::Key, random, store::OutOfPlace};

async fn refused(url: &str) -> String {
    AnyStore::connect(url).await.unwrap_err().to_string()
}

#[tokio::test]
async fn memory_is_a_store() {
    let store = AnyStore::connect("memory:").await.unwrap();
    let request = ClaimRequest::new(Key::new("orders", 1).unwrap(), &Policy::DEFAULT);
    let Ok(Claim::Acquired(lease)) = store.claim(&request).await else {
        panic!("the key is free")
    };
    let outcome = Outcome::new("done");
    let done = store.complete(&lease, &outcome, Policy::DEFAULT.retention());
    assert_eq!(done.await.unwrap(), Write::Applied);
    let again = store.clone().claim(&request).await.unwrap();
    assert!(matches!(again, Claim::Completed { .. }));
    assert_eq!(store.purge(10).await.unwrap(), 0);
}

#[tokio::test]
async fn a_hidden_store_shows_its_keys_if_it_can() {
    let key = Key::new("orders", 1).unwrap();
    let store = AnyStore::from(MemoryStore::new());
    let request = ClaimRequest::new(key.clone(), &Policy::DEFAULT);
    assert!(matches!(
        store.claim(&request).await,
        Ok(Claim::Acquired(_))
    ));
    assert!(store.look(&key).await.unwrap().is_some());
    let hidden = AnyStore::new(MemoryStore::new());
    let error = hidden.look(&key).await.unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(
        source.starts_with("this store cannot show its keys"),
        "{source}"
    );
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn sqlite_is_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("idem.db").display());
    let request = ClaimRequest::new(Key::new("orders", 1).unwrap(), &Policy::DEFAULT);
    let claim = AnyStore::connect(&url).await.unwrap().claim(&request).await;
    assert!(matches!(claim, Ok(Claim::Acquired(_))));
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn postgres_is_a_store() {
    let url = idem_servers::postgres::shared().unwrap().url();
    for url in [url.clone(), url.replacen("postgres:", "postgresql:", 1)] {
        let store = AnyStore::connect(&url).await.unwrap();
        let key = Key::new("any", random::name()).unwrap();
        let claim = store.claim(&ClaimRequest::new(key, &Policy::DEFAULT)).await;
        assert!(matches!(claim, Ok(Claim::Acquired(_))), "{claim:?}");
    }
}

#[cfg(not(feature = "postgres"))]
#[tokio::test]
async fn postgres_that_is_not_compiled_in_names_its_feature() {
    let error = refused("postgresql://u:secret@host/db").await;
    assert!(error.contains("the cargo feature `postgres`"), "{error}");
}

#[cfg(feature = "redis")]
#[tokio::test]
async fn redis_is_a_store_that_purges_itself() {
    let url = idem_servers::redis::shared().unwrap().url();
    let store = AnyStore::connect(&url).await.unwrap();
    let key = Key::new("any", random::name()).unwrap();
    let request = ClaimRequest::new(key, &Policy::DEFAULT);
    let claim = store.claim(&request).await;
    assert!(matches!(claim, Ok(Claim::Acquired(_))), "{claim:?}");
    assert_eq!(store.purge(10).await.unwrap(), 0);
}

#[cfg(not(feature = "redis"))]
#[tokio::test]
async fn redis_that_is_not_compiled_in_names_its_feature() {
    for url in [
        "redis://host",
        "redis+cluster://a,b",
        "redis+sentinel://a,b/orders",
    ] {
        let error = refused(url).await;
        assert!(error.contains("the cargo feature `redis`"), "{error}");
    }
}

#[cfg(not(feature = "sqlite"))]
#[tokio::test]
async fn a_store_that_is_not_compiled_in_names_its_feature() {
    assert_eq!(
        refused("sqlite:orders.db").await,
        "`sqlite:` needs the cargo feature `sqlite`, which is not switched on"
    );
}

#[tokio::test]
async fn a_url_that_names_no_store_says_what_would() {
    assert_eq!(
        refused("mysql://u:secret@host/db").await,
        "`mysql:` is no store; use `memory:`, `sqlite:FILE`, `postgres://USER@HOST/DATABASE` or \
         `redis://HOST`"
    );
    for (url, hint) in [
        ("orders.db", "`sqlite:FILE`"),
        ("memory:x", "nothing comes after"),
    ] {
        let error = refused(url).await;
        assert!(error.contains(hint), "{error}");
    }
}

fn first(session: &SessionKey) -> ClaimRequest {
    let place = crate::message::SessionPlace::new(session.clone(), 0, 0);
    ClaimRequest::in_session(place, &Policy::DEFAULT)
}

#[tokio::test]
async fn a_store_that_a_url_names_keeps_sessions() {
    let store = AnyStore::connect("memory:").await.unwrap();
    let session = SessionKey::from(Key::new("leases", "c-1").unwrap());
    let expired = store.claim(&first(&session)).await.unwrap();
    assert_eq!(expired, Claim::OutOfPlace(OutOfPlace::SessionExpired));
    let opening = OpenSession::new(Key::new("leases", "c-1").unwrap());
    assert_eq!(store.open(&opening).await.unwrap(), Opened::New);
    assert_eq!(store.touch(&session).await.unwrap(), Touched::Living);
    let claim = store.claim(&first(&session)).await.unwrap();
    assert!(matches!(claim, Claim::Acquired(_)), "{claim:?}");
    store.close(&session).await.unwrap();
    assert_eq!(store.touch(&session).await.unwrap(), Touched::Expired);
    assert_eq!(store.expire(10).await.unwrap(), 0);
}

#[tokio::test]
async fn a_store_that_is_not_known_to_keep_sessions_refuses_them() {
    let store = AnyStore::new(MemoryStore::new());
    let opening = OpenSession::new(Key::new("leases", "c-1").unwrap());
    let refused = store.open(&opening).await.unwrap_err();
    let StoreError::Refused(why) = refused else {
        panic!("{refused:?}")
    };
    assert!(
        why.to_string().contains("`AnyStore::with_sessions`"),
        "{why}"
    );
}
