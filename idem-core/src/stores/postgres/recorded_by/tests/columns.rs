//! Columns of all types, compared as their index compares them.

use super::*;

handler!(ByColumn, "orders_key", 1);
handler!(ByColumns, "orders_key", 2);

/// Inserts the parts, read as the columns' types.
fn order() -> Act<Failed> {
    act(|db, message, attempt| {
        let values: Vec<_> = message.iter().map(|part| format!("'{part}'")).collect();
        let insert = format!("INSERT INTO orders VALUES ({})", values.join(", "));
        Box::pin(async move {
            run(db, insert).await?;
            Ok(attempt.number())
        })
    })
}

#[tokio::test]
async fn columns_of_every_type_are_looked_up() {
    let long = "x".repeat(200);
    for (kind, value, other) in [
        ("text", "o-1", "o-11"),
        ("varchar(300)", &*long, "o-1"),
        ("char(8)", "o-1", "o-11"),
        ("name", "o-1", "o-11"),
        ("int", "7", "77"),
        ("smallint", "-7", "7"),
        ("bigint", "9223372036854775807", "1"),
        ("numeric(12,2)", "7.50", "7.51"),
        (
            "uuid",
            "6b2a2f0e-9f6f-4c55-8a53-6d6a4f2f0a01",
            "6b2a2f0e-9f6f-4c55-8a53-6d6a4f2f0a02",
        ),
        ("date", "2026-11-22", "2026-11-23"),
        ("inet", "10.0.0.1", "10.0.0.2"),
        ("bool", "true", "false"),
        ("colour", "red", "green"),
        ("order_number", "7", "8"),
        ("shade", "red", "green"),
        ("int[]", "{7,8}", "{7}"),
    ] {
        let till = Till::with(&format!(
            "CREATE TYPE colour AS ENUM ('red', 'green');
             CREATE DOMAIN order_number AS int CHECK (value > 0);
             CREATE DOMAIN shade AS colour;
             CREATE TABLE orders (id {kind} CONSTRAINT orders_key UNIQUE)"
        ))
        .await;
        assert_eq!(
            executed(till.handle::<ByColumn, _>(value, &order()).await),
            1,
            "{kind}"
        );
        is_duplicate(&till.handle::<ByColumn, _>(value, &order()).await);
        assert_eq!(
            executed(till.handle::<ByColumn, _>(other, &order()).await),
            1,
            "{kind}"
        );
        assert_eq!(till.count("orders").await, 2, "{kind}");
        assert_eq!(till.count("idem_records").await, 0, "{kind}");
    }
}

#[tokio::test]
async fn parts_stand_in_the_constraints_order_not_in_the_tables() {
    let till = Till::with(
        "CREATE TABLE orders (number int, customer text);
         CREATE UNIQUE INDEX orders_key ON orders (customer, number)",
    )
    .await;
    let order = act(|db, message: Message, attempt| {
        Box::pin(async move {
            let [customer, number] = [&message[0], &message[1]];
            run(
                db,
                format!("INSERT INTO orders VALUES ({number}, '{customer}')"),
            )
            .await?;
            Ok(attempt.number())
        })
    });
    for message in ["ann 1", "ann 2", "bob 1"] {
        assert_eq!(
            executed(till.handle::<ByColumns, _>(message, &order).await),
            1
        );
    }
    for message in ["ann 1", "ann 2", "bob 1"] {
        is_duplicate(&till.handle::<ByColumns, _>(message, &order).await);
    }
}

/// As the column sees it, it is the same.
#[tokio::test]
async fn what_the_column_takes_for_equal_is_a_duplicate() {
    let till = Till::with("CREATE TABLE orders (id int CONSTRAINT orders_key UNIQUE)").await;
    assert_eq!(executed(till.handle::<ByColumn, _>("7", &order()).await), 1);
    is_duplicate(&till.handle::<ByColumn, _>("007", &order()).await);
}

#[tokio::test]
async fn a_key_that_the_column_cannot_hold_is_a_failure() {
    let till = Till::with("CREATE TABLE orders (id int CONSTRAINT orders_key UNIQUE)").await;
    let seven = || {
        act(|db, _, attempt| {
            Box::pin(async move {
                run(db, "INSERT INTO orders VALUES (7)").await?;
                Ok(attempt.number())
            })
        })
    };
    assert_eq!(executed(till.handle::<ByColumn, _>("7", &seven()).await), 1);
    // Violates, and cannot be looked for.
    let (attempt, error) = failed(&till.handle::<ByColumn, _>("seven", &seven()).await);
    assert_eq!(attempt, 1);
    assert!(error.contains("orders_key"), "{error}");
    // Does not violate, and cannot be looked for.
    till.run("DELETE FROM orders; DELETE FROM idem_records")
        .await;
    let (_, error) = failed(&till.handle::<ByColumn, _>("seven", &seven()).await);
    assert!(error.contains("seven"), "{error}");
    assert_eq!(till.count("orders").await, 0);
}

#[tokio::test]
async fn a_key_that_is_no_sql_is_read_as_none() {
    let till = Till::open().await;
    for order in ["';DROP", "\\'--", "{key}", "{found}", "$1", "ü\u{1f980}"] {
        till.pays(order).await;
        is_duplicate(&till.handle::<Pay, _>(order, &pay()).await);
    }
    assert_eq!(till.count("payments").await, 6);
}

/// A handler may choose what names mean to it.
#[tokio::test]
async fn the_handlers_search_path_does_not_matter() {
    let till = Till::with(
        "CREATE TYPE colour AS ENUM ('red', 'green');
         CREATE TABLE orders (id colour CONSTRAINT orders_key UNIQUE)",
    )
    .await;
    let order = act(|db, message: Message, attempt| {
        Box::pin(async move {
            run(db, format!("INSERT INTO orders VALUES ('{}')", message[0])).await?;
            run(db, "SET LOCAL search_path = pg_catalog").await?;
            Ok(attempt.number())
        })
    });
    assert_eq!(executed(till.handle::<ByColumn, _>("red", &order).await), 1);
    is_duplicate(&till.handle::<ByColumn, _>("red", &order).await);
}
