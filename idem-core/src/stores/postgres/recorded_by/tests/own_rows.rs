//! Whose row it is that is there at the commit: this run's, or that of another.

use super::*;

const NOTE: &str = "INSERT INTO notes VALUES ('paid')";
const UNLESS_THERE: &str = "INSERT INTO payments VALUES ('o-1', 7) ON CONFLICT DO NOTHING";

fn runs(statements: &'static [&'static str]) -> Act<Failed> {
    act(move |db, _, attempt| {
        Box::pin(async move {
            for &statement in statements {
                run(db, statement).await?;
            }
            Ok(attempt.number())
        })
    })
}

#[tokio::test]
async fn a_copy_that_finds_the_row_there_is_a_duplicate_and_leaves_nothing() {
    let till = Till::open().await;
    let politely = runs(&[NOTE, UNLESS_THERE]);
    assert_eq!(executed(till.handle::<Pay, _>("o-1", &politely).await), 1);
    for _ in 0..2 {
        is_duplicate(&till.handle::<Pay, _>("o-1", &politely).await);
    }
    let mut again = message::<Pay>("o-1").redelivered(true);
    is_duplicate(&till.handle_again(&mut again, &politely).await);
    assert_eq!(till.count("payments").await, 1);
    assert_eq!(till.count("notes").await, 1);
    assert_eq!(till.count("idem_records").await, 0);
}

/// Another run commits the row in between: it is there, and younger than this transaction.
#[tokio::test]
async fn a_row_that_another_has_committed_meanwhile_is_not_its_own() {
    let till = Arc::new(Till::open().await);
    let of_act = Arc::clone(&till);
    let overtaken = act(move |db, _, attempt| {
        let till = Arc::clone(&of_act);
        Box::pin(async move {
            run(db, NOTE).await?;
            till.run("INSERT INTO payments VALUES ('o-1')").await;
            run(db, UNLESS_THERE).await?;
            Ok(attempt.number())
        })
    });
    is_duplicate(&till.handle::<Pay, _>("o-1", &overtaken).await);
    assert_eq!(till.count("notes").await, 0);
}

#[tokio::test]
async fn a_row_that_was_inserted_in_a_savepoint_is_its_own() {
    let nested: [&[&str]; 4] = [
        &["SAVEPOINT a", UNLESS_THERE, "RELEASE a"],
        &["SAVEPOINT a", "SAVEPOINT b", UNLESS_THERE],
        &[
            "SAVEPOINT a",
            UNLESS_THERE,
            "ROLLBACK TO a",
            NOTE,
            UNLESS_THERE,
        ],
        &["DO $$ BEGIN
               INSERT INTO payments VALUES ('o-1');
           EXCEPTION WHEN unique_violation THEN
               NULL;
           END $$"],
    ];
    for statements in nested {
        let till = Till::open().await;
        let act = runs(statements);
        let execution = till.handle::<Pay, _>("o-1", &act).await;
        assert_eq!(executed(execution), 1, "{statements:?}");
        is_duplicate(&till.handle::<Pay, _>("o-1", &act).await);
        assert_eq!(till.count("payments").await, 1, "{statements:?}");
    }
}

/// So that the savepoint is none of the youngest transactions any more.
#[tokio::test]
async fn a_row_of_a_savepoint_is_its_own_though_others_have_committed_since() {
    let till = Arc::new(Till::open().await);
    let of_act = Arc::clone(&till);
    let slow = act(move |db, _, attempt| {
        let till = Arc::clone(&of_act);
        Box::pin(async move {
            run(db, "SAVEPOINT a").await?;
            run(db, UNLESS_THERE).await?;
            till.run("INSERT INTO payments VALUES ('o-2')").await;
            Ok(attempt.number())
        })
    });
    assert_eq!(executed(till.handle::<Pay, _>("o-1", &slow).await), 1);
    assert_eq!(till.count("payments").await, 2);
}

#[tokio::test]
async fn a_row_that_the_handler_has_updated_is_its_own() {
    let updates: [&[&str]; 3] = [
        &[UNLESS_THERE, "UPDATE payments SET amount = 8"],
        &[
            UNLESS_THERE,
            "SAVEPOINT a",
            "UPDATE payments SET amount = 8",
            "RELEASE a",
        ],
        &[
            UNLESS_THERE,
            "SELECT FROM payments FOR UPDATE",
            "DELETE FROM payments",
            UNLESS_THERE,
        ],
    ];
    for statements in updates {
        let till = Till::open().await;
        let execution = till.handle::<Pay, _>("o-1", &runs(statements)).await;
        assert_eq!(executed(execution), 1, "{statements:?}");
        is_duplicate(&till.handle::<Pay, _>("o-1", &pay()).await);
    }
}

#[tokio::test]
async fn a_row_is_its_own_at_every_level() {
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        let till = Till::open().await;
        let act = act(move |db, message: Message, attempt| {
            Box::pin(async move {
                run(db, format!("SET TRANSACTION ISOLATION LEVEL {level}")).await?;
                run(db, "SAVEPOINT a").await?;
                insert(db, &message[0]).await?;
                Ok(attempt.number())
            })
        });
        let execution = till.handle::<Pay, _>("o-1", &act).await;
        assert_eq!(executed(execution), 1, "{level}");
    }
}

/// The server tells the lower half of the number of the transaction that wrote a row, also when these have come
/// round.
#[tokio::test]
async fn a_row_is_not_its_own_however_long_it_was_there_before() {
    let till = Till::open().await;
    let transactions_ago = [
        1_i64,
        1 << 30,
        (1 << 31) - 1,
        1 << 31,
        3 << 30,
        (1 << 32) - 1000,
    ];
    for ago in transactions_ago {
        let ask = format!(
            "BEGIN;
             SET LOCAL idem.transaction = 'open';
             DO $$
             DECLARE
                 written_by xid := ((pg_current_xact_id()::text::bigint - {ago}) & 4294967295)::text::xid;
             BEGIN
                 PERFORM idem_records_recorded(ARRAY[written_by], NULL, NULL);
                 RAISE 'the row of {ago} transactions ago is taken for its own';
             EXCEPTION WHEN SQLSTATE 'IDEM4' THEN
             END
             $$;
             COMMIT"
        );
        till.run(&ask).await;
    }
}
