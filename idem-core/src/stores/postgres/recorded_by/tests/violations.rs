//! Which violations make a duplicate, and how they are found behind a handler's error.

use std::error::Error as StdError;

use super::*;

#[tokio::test]
async fn the_same_key_inserted_twice_by_one_handler_is_a_failure() {
    let till = Till::open().await;
    let twice = pay_and("INSERT INTO payments VALUES ('o-1')");
    let (attempt, error) = failed(&till.handle::<Pay, _>("o-1", &twice).await);
    assert_eq!(attempt, 1);
    assert!(error.contains("payments_order_id_key"), "{error}");
    assert_eq!(till.count("payments").await, 0);
}

#[tokio::test]
async fn another_messages_key_is_a_failure() {
    let till = Till::open().await;
    till.pays("o-1").await;
    let others = act(|db, _, attempt| {
        Box::pin(async move {
            insert(db, "o-1").await?;
            Ok(attempt.number())
        })
    });
    let (attempt, _) = failed(&till.handle::<Pay, _>("o-2", &others).await);
    assert_eq!(attempt, 1);
    till.pays("o-3").await;
}

#[tokio::test]
async fn another_constraint_is_a_failure() {
    let till = Till::open().await;
    till.run("CREATE UNIQUE INDEX ON payments (amount); INSERT INTO payments VALUES ('o-0', 7)")
        .await;
    for violation in [
        "UPDATE payments SET amount = 7 WHERE order_id = 'o-1'",
        "UPDATE payments SET amount = 0 WHERE order_id = 'o-1'",
    ] {
        let execution = till.handle::<Pay, _>("o-1", &pay_and(violation)).await;
        assert!(
            matches!(
                execution,
                Execution::Failed { .. } | Execution::Conflict { .. }
            ),
            "{violation}: {execution:?}"
        );
        till.run("DELETE FROM idem_records").await;
    }
    assert_eq!(till.count("payments").await, 1);
}

/// Though its row is there: it was found by another constraint.
#[tokio::test]
async fn another_constraint_is_a_failure_for_a_copy_too() {
    let till = Till::open().await;
    till.pays("o-1").await;
    let act = act(|db, _, attempt| {
        Box::pin(async move {
            run(db, "INSERT INTO payments VALUES ('x', 0)").await?;
            Ok(attempt.number())
        })
    });
    assert_eq!(failed(&till.handle::<Pay, _>("o-1", &act).await).0, 1);
}

#[tokio::test]
async fn the_same_name_in_another_schema_is_a_failure() {
    let till = Till::open().await;
    till.pays("o-1").await;
    let (_, schema) = till.url.rsplit_once('=').unwrap();
    till.run(&format!(
        "CREATE SCHEMA {schema}_old;
         CREATE TABLE {schema}_old.payments (
            order_id text CONSTRAINT payments_order_id_key UNIQUE
         );
         INSERT INTO {schema}_old.payments VALUES ('o-1')"
    ))
    .await;
    let old = schema.to_owned();
    let act = act(move |db, _, attempt| {
        let insert = format!("INSERT INTO {old}_old.payments VALUES ('o-1')");
        Box::pin(async move {
            run(db, insert).await?;
            Ok(attempt.number())
        })
    });
    assert_eq!(failed(&till.handle::<Pay, _>("o-1", &act).await).0, 1);
}

/// Behind one of the driver, which an enum passes on as its own.
#[derive(Debug)]
enum Hidden {
    Passed(sqlx::Error),
    Wrapped(Box<Hidden>),
    Told,
}

impl fmt::Display for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("23505 payments_order_id_key")
    }
}

impl StdError for Hidden {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Passed(error) => error.source(),
            Self::Wrapped(error) => Some(error),
            Self::Told => None,
        }
    }
}

impl Failure for Hidden {}

handler!(
    PayHidden,
    "payments_order_id_key",
    1,
    Hidden,
    |error: &Hidden| Some(error)
);

fn pay_hiding(hide: fn(sqlx::Error) -> Hidden) -> Act<Hidden> {
    act(move |db, message, attempt| {
        Box::pin(async move {
            insert(db, &message[0]).await.map_err(hide)?;
            Ok(attempt.number())
        })
    })
}

#[tokio::test]
async fn a_violation_is_found_however_deep_it_lies() {
    let till = Till::open().await;
    till.pays("o-1").await;
    for hide in [Hidden::Passed as fn(sqlx::Error) -> Hidden, |error| {
        Hidden::Wrapped(Box::new(Hidden::Passed(error)))
    }] {
        is_duplicate(&till.handle::<PayHidden, _>("o-1", &pay_hiding(hide)).await);
    }
    for make in [
        Failed::from as fn(sqlx::Error) -> Failed,
        |error| Failed::rejected(error),
        |error| Failed::retry(Hidden::Passed(error)),
        |error| Failed::retry_after(SECOND, Arc::new(error)),
    ] {
        let act = act(move |db, message: Message, attempt| {
            Box::pin(async move {
                insert(db, &message[0]).await.map_err(make)?;
                Ok(attempt.number())
            })
        });
        is_duplicate(&till.handle::<Pay, _>("o-1", &act).await);
    }
}

#[tokio::test]
async fn words_alone_make_no_duplicate() {
    let till = Till::open().await;
    till.pays("o-1").await;
    let told = pay_hiding(|_| Hidden::Told);
    assert_eq!(
        failed(&till.handle::<PayHidden, _>("o-1", &told).await).0,
        1
    );
}

handler!(PayLater, "later_order_id_key", 1);

const LATER: &str = "
    CREATE TABLE payments (
        order_id text CONSTRAINT later_order_id_key UNIQUE DEFERRABLE INITIALLY DEFERRED
    );
    CREATE TABLE notes (text text)";

#[tokio::test]
async fn a_violation_that_shows_at_the_commit_makes_a_duplicate_as_well() {
    let till = Till::with(LATER).await;
    assert_eq!(executed(till.handle::<PayLater, _>("o-1", &pay()).await), 1);
    is_duplicate(&till.handle::<PayLater, _>("o-1", &pay()).await);
    assert_eq!(till.count("payments").await, 1);
    assert_eq!(till.count("notes").await, 1);
    assert_eq!(till.count("idem_records").await, 0);

    let twice = pay_and("INSERT INTO payments VALUES ('o-2')");
    assert_eq!(
        failed(&till.handle::<PayLater, _>("o-2", &twice).await).0,
        1
    );
    assert_eq!(till.count("payments").await, 1);
}
