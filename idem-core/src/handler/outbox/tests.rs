use super::*;

struct Event(usize);

impl IntoOutgoing for Event {
    fn into_outgoing(self, id: String) -> Result<OutgoingContent, OutboxError> {
        Ok(OutgoingContent {
            message_id: id,
            target: "shipping".into(),
            head: Vec::new(),
            body: vec![0; self.0],
        })
    }
}

fn outbox(id: &str) -> Outbox {
    Outbox::for_key(&Key::new("orders.charge", id).unwrap())
}

#[test]
fn ids_count_up_from_the_key_and_are_the_same_in_each_attempt() {
    let ids = || {
        let outbox = outbox("o-17");
        outbox.publish(Event(1)).unwrap();
        outbox.ordered_by("c-1").publish(Event(1)).unwrap();
        let messages = outbox.take();
        assert!(outbox.messages().is_empty());
        messages
            .into_iter()
            .map(|it| it.message_id)
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(), ["orders.charge:o-17#0", "orders.charge:o-17#1"]);
    assert_eq!(ids(), ids());
}

#[test]
fn the_id_of_a_long_key_fits_into_an_amqp_property_and_differs_from_others() {
    let long = "x".repeat(400);
    let ids = |id: &str| {
        let outbox = outbox(id);
        outbox.publish(Event(0)).unwrap();
        outbox.publish(Event(0)).unwrap();
        outbox.take().into_iter().map(|it| it.message_id)
    };
    let ids: Vec<_> = ids(&format!("{long}a"))
        .chain(ids(&format!("{long}b")))
        .collect();
    assert!(ids.iter().all(|id| id.len() <= 255), "{ids:?}");
    let distinct: std::collections::BTreeSet<_> = ids.iter().collect();
    assert_eq!(distinct.len(), 4, "{ids:?}");
}

#[test]
fn how_it_is_to_leave_is_said_of_what_is_published_with_it() {
    let outbox = outbox("o-17");
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
    outbox
        .after(Duration::from_secs(5))
        .publish(Event(0))
        .unwrap();
    outbox.at(time).ordered_by("c-1").publish(Event(0)).unwrap();
    outbox.publish(Event(0)).unwrap();
    let [after, at, now] = outbox.take().try_into().unwrap();
    assert_eq!(
        (after.due, after.lane),
        (Due::After(Duration::from_secs(5)), None)
    );
    assert_eq!((at.due, at.lane.as_deref()), (Due::At(time), Some("c-1")));
    assert_eq!((now.due, now.lane), (Due::AtOnce, None));
}

#[test]
fn too_much_is_refused_and_what_was_before_it_stays() {
    let many = outbox("many");
    for _ in 0..Outbox::MOST {
        many.publish(Event(0)).unwrap();
    }
    assert!(matches!(many.publish(Event(0)), Err(OutboxError::Full)));
    assert_eq!(many.take().len(), Outbox::MOST);

    let long = outbox("long");
    long.publish(Event(Outbox::MOST_BYTES)).unwrap();
    let error = long.publish(Event(1)).unwrap_err();
    assert!(error.to_string().contains("16 MiB"), "{error}");
    assert_eq!(long.take().len(), 1);
}

#[test]
fn what_outlives_its_call_publishes_nothing_into_the_next() {
    let outbox = outbox("o-17");
    let first = outbox.of_next_call();
    first.publish(Event(1)).unwrap();
    let second = outbox.of_next_call();
    assert!(matches!(first.publish(Event(2)), Err(OutboxError::Ended)));
    second.publish(Event(3)).unwrap();
    let taken = outbox.take();
    assert_eq!((taken.len(), taken[0].body.len()), (1, 3));
    assert_eq!(taken[0].message_id, "orders.charge:o-17#0");
    assert!(matches!(second.publish(Event(4)), Err(OutboxError::Ended)));
}

#[test]
fn what_comes_after_a_stores_publish_is_refused() {
    let outbox = Outbox::outside();
    let later = outbox.after(Duration::from_hours(24));
    outbox.publish(Event(1)).unwrap();
    assert_eq!(outbox.take_for_anybody().unwrap().len(), 1);
    for late in [&outbox, &later] {
        assert_matches!(late.publish(Event(1)), Err(OutboxError::Ended));
        assert_matches!(late.take_for_anybody(), Err(OutboxError::Ended));
    }
}

#[test]
fn the_name_of_an_order_is_one_that_every_database_keeps() {
    let outbox = outbox("o-17");
    for lane in ["a\0b".to_owned(), "x".repeat(256)] {
        let refused = outbox.ordered_by(lane).publish(Event(0));
        assert!(matches!(refused, Err(OutboxError::Invalid(_))));
    }
    outbox
        .ordered_by("x".repeat(255))
        .publish(Event(0))
        .unwrap();
}

#[test]
fn an_id_is_read_as_it_is_written_and_later_ones_are_greater() {
    let first = OutgoingId::new();
    assert_eq!(first.to_string().parse(), Ok(first));
    assert_eq!(first.to_string().len(), 36);
    std::thread::sleep(Duration::from_millis(3));
    assert!(OutgoingId::new() > first);
    for wrong in ["", "o-17", &"0".repeat(33), &format!("+{}", "0".repeat(31))] {
        assert_eq!(
            wrong.parse::<OutgoingId>(),
            Err(InvalidOutgoingId),
            "{wrong}"
        );
    }
}
