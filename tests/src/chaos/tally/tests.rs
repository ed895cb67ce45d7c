use super::*;

fn orders<const N: usize>(orders: [(&str, Manner); N]) -> BTreeMap<String, Manner> {
    orders.map(|(id, manner)| (id.into(), manner)).into()
}

fn ids<const N: usize>(ids: [&str; N]) -> BTreeSet<String> {
    ids.map(Into::into).into()
}

fn charge(id: &str, attempt: u32) -> Charge {
    Charge::new(id, attempt, &format!("worker-{attempt}"))
}

fn letter(id: &str, reason: &str) -> DeadOrder {
    DeadOrder {
        id: id.into(),
        reason: reason.into(),
    }
}

#[test]
fn orders_that_ended_as_they_were_meant_to_are_clean() {
    let orders = orders([
        ("a", Manner::Ordinary),
        ("b", Manner::Fails(2)),
        ("c", Manner::Kills),
        ("d", Manner::Rejected),
        ("e", Manner::Hopeless),
        ("f", Manner::Garbled),
        ("g", Manner::Unreadable),
    ]);
    let evidence = Evidence {
        charges: vec![charge("a", 1), charge("b", 3), charge("c", 2)],
        dead: vec![
            letter("d", "rejected"),
            letter("e", "exhausted"),
            letter("f", "undecodable"),
            letter("g", "unreadable"),
            // Of its copy, or of a worker that died between confirm and ack.
            letter("d", "rejected"),
        ],
        ..Evidence::default()
    };
    let tally = Tally::of(&orders, &evidence);
    assert!(tally.is_clean(), "{tally:?}");
    assert_eq!((tally.published, tally.effects, tally.dead), (7, 3, 4));
}

#[test]
fn an_order_without_a_trace_is_lost() {
    let orders = orders([("a", Manner::Ordinary), ("b", Manner::Rejected)]);
    let tally = Tally::of(&orders, &Evidence::default());
    assert_eq!(tally.lost, ids(["a", "b"]));
    assert!(!tally.is_clean());
}

#[test]
fn a_dead_letter_that_was_not_meant_is_a_loss() {
    let orders = orders([
        ("a", Manner::Ordinary),
        ("b", Manner::Fails(1)),
        ("c", Manner::Rejected),
    ]);
    let evidence = Evidence {
        // Charged, and dead-lettered nevertheless.
        charges: vec![charge("b", 2)],
        dead: vec![
            letter("a", "exhausted"),
            letter("b", "key-reused"),
            letter("c", "exhausted"),
        ],
        ..Evidence::default()
    };
    assert_eq!(Tally::of(&orders, &evidence).lost, ids(["a", "b", "c"]));
}

#[test]
fn every_charge_has_its_event_once_and_nothing_else_has() {
    let orders = orders([
        ("a", Manner::Ordinary),
        ("untold", Manner::Ordinary),
        ("twice", Manner::Ordinary),
        ("invented", Manner::Rejected),
        ("to leave", Manner::Ordinary),
        ("unpublished", Manner::Ordinary),
    ]);
    let charged = ["a", "untold", "twice", "to leave", "unpublished"];
    let mut evidence = Evidence {
        charges: charged.map(|id| charge(id, 1)).into(),
        dead: vec![letter("invented", "rejected")],
        on_the_way: ids(["to leave"]),
        unpublished: ids(["unpublished"]),
        shipments: Some(
            ["a", "twice", "twice", "invented"]
                .map(|id| charge(id, 1))
                .into(),
        ),
        ..Evidence::default()
    };
    let tally = Tally::of(&orders, &evidence);
    assert_eq!(tally.lost, ids(["untold", "unpublished"]));
    assert_eq!(tally.doubled, ids(["twice", "invented"]));
    assert_eq!(tally.stuck, ids(["to leave"]));
    evidence.shipments = None;
    let tally = Tally::of(&orders, &evidence);
    assert!(
        tally.lost.is_empty() && tally.doubled.is_empty(),
        "{tally:?}"
    );
}

#[test]
fn an_order_with_two_charges_is_doubled() {
    let orders = orders([("a", Manner::Ordinary), ("b", Manner::Ordinary)]);
    let evidence = Evidence {
        charges: vec![charge("a", 1), charge("b", 1), charge("a", 2)],
        ..Evidence::default()
    };
    let tally = Tally::of(&orders, &evidence);
    assert_eq!(tally.doubled, ids(["a"]));
    assert!(tally.lost.is_empty() && !tally.is_clean());
}

#[test]
fn a_charge_that_was_not_meant_is_one_too_many() {
    let orders = orders([("a", Manner::Rejected)]);
    let evidence = Evidence {
        charges: vec![charge("a", 1)],
        dead: vec![letter("a", "rejected")],
        leased: true,
        ..Evidence::default()
    };
    assert_eq!(Tally::of(&orders, &evidence).doubled, ids(["a"]));
}

#[test]
fn only_a_leased_order_is_excused() {
    let orders = orders([("a", Manner::Ordinary)]);
    let mut evidence = Evidence {
        charges: vec![charge("a", 1), charge("a", 2)],
        completions: vec![Completion::new("a", 2)],
        leased: true,
        ..Evidence::default()
    };
    let tally = Tally::of(&orders, &evidence);
    assert_eq!(tally.excused, ids(["a"]));
    assert!(tally.is_clean(), "{tally:?}");
    evidence.leased = false;
    assert_eq!(Tally::of(&orders, &evidence).doubled, ids(["a"]));
}

#[test]
fn an_order_on_its_way_is_stuck_and_not_lost() {
    let orders = orders([("a", Manner::Ordinary), ("b", Manner::Ordinary)]);
    let evidence = Evidence {
        // Its copy is on its way.
        charges: vec![charge("b", 1)],
        on_the_way: ids(["a", "b"]),
        ..Evidence::default()
    };
    let tally = Tally::of(&orders, &evidence);
    assert_eq!(tally.stuck, ids(["a", "b"]));
    assert!(tally.lost.is_empty() && !tally.is_clean());
}

#[test]
fn an_order_that_was_not_published_is_not_lost_and_may_be_doubled() {
    let orders = orders([("a", Manner::Ordinary), ("b", Manner::Ordinary)]);
    let evidence = Evidence {
        charges: vec![charge("b", 1), charge("b", 2)],
        unpublished: ids(["a", "b"]),
        ..Evidence::default()
    };
    let tally = Tally::of(&orders, &evidence);
    assert_eq!((tally.published, tally.effects), (0, 0));
    assert!(tally.lost.is_empty(), "{tally:?}");
    assert_eq!(tally.doubled, ids(["b"]));
}
