//! Keys and outcomes that look like SQL, or are large.

use super::*;

#[tokio::test]
async fn hostile_keys_are_only_keys() {
    let shop = Shop::open().await;
    for id in [
        "o'1",
        "'); DROP TABLE charges; --",
        "\\'; SELECT 1/0; --",
        "$$ $idem$ {outcome} {token} ?1 $1",
        "/* \" ` ; \u{7f}\t\r\n",
        "日本 🧾 e\u{301}",
        "\u{0}",
    ] {
        let (lease, mut open) = shop.begin(id).await;
        // In the dialect in which a backslash escapes the quote.
        let old = "SET LOCAL standard_conforming_strings = off; SET LOCAL backslash_quote = on";
        execute(lend(&mut open), old).await.unwrap();
        charge(lend(&mut open)).await;
        shop.commits(open, &lease).await;
        assert!(shop.is_completed(id).await, "{id:?}");
    }
    assert_eq!(shop.charges().await, 7);
}

#[tokio::test]
async fn an_outcome_is_remembered_byte_for_byte() {
    let shop = Shop::open().await;
    let every_byte: Vec<u8> = (0..=255).collect();
    let megabyte = every_byte.repeat(4096);
    for (id, bytes) in [
        ("empty", Vec::new()),
        ("quotes", b"'\\'); ROLLBACK; --{key}".to_vec()),
        ("every byte", every_byte),
        ("a megabyte", megabyte),
    ] {
        let (lease, open) = shop.begin(id).await;
        let outcome = Outcome::new(bytes);
        let commit = TransactionalStore::<Lent>::finish(
            &shop.store,
            open,
            complete(&lease, &outcome, MINUTE),
        );
        assert!(matches!(commit.await, Ok(Finished::Committed)), "{id}");
        match shop.store.claim(&request(id)).await.unwrap() {
            Claim::Completed { outcome: kept, .. } => assert!(kept == outcome, "{id}"),
            other => panic!("{id}: {other:?}"),
        }
    }
}

/// As a completion by itself does it: an index hangs on the time.
#[tokio::test]
async fn a_commit_keeps_the_time_of_its_purge_where_that_still_does() {
    let shop = Shop::open().await;
    let mut bystander = shop.bystander().await;
    let mut times = async || -> (f64, f64) {
        let times =
            "SELECT extract(epoch FROM purge_after)::float8, extract(epoch FROM forget_at)::float8
                     FROM idem_records";
        sqlx::query_as(times)
            .fetch_one(&mut bystander)
            .await
            .unwrap()
    };
    for (retention, is_kept) in [(30 * MINUTE, true), (120 * MINUTE, false), (MINUTE, false)] {
        let (lease, open) = shop.begin("o-1").await;
        let (before, _) = times().await;
        let outcome = Outcome::new("done");
        let commit = complete(&lease, &outcome, retention);
        let commit = TransactionalStore::<Lent>::finish(&shop.store, open, commit);
        assert!(matches!(commit.await, Ok(Finished::Committed)));
        let (after, end) = times().await;
        let expected = if is_kept { before } else { end };
        assert!((after - expected).abs() < 0.001, "{retention:?}");
        execute(&mut shop.bystander().await, "DELETE FROM idem_records")
            .await
            .unwrap();
    }
}
