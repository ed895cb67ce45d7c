//! Who gets the place, whoever asks for it first.

use super::*;

/// The context of a channel of which so many deliveries run at once.
fn context(running: usize) -> ChannelContext {
    ChannelContext {
        slots: Slots::new(running, 1),
        delivery_limit: 20,
        acks: AckSender::to_nobody(),
        closed: CancellationToken::new(),
        draining: CancellationToken::new(),
        failures: Arc::default(),
        health: Arc::new(HealthState::of(["orders"].into_iter())),
        reading: None,
        in_order: None,
    }
}

fn arrivals<const N: usize>(context: &ChannelContext) -> [Slot; N] {
    std::array::from_fn(|_| Slot::on_arrival(context, 1))
}

/// `None` while it has to wait.
fn sits(slot: &mut Slot, context: &ChannelContext) -> Option<bool> {
    slot.start_running(context).now_or_never()
}

#[test]
fn places_are_taken_in_the_order_of_arrival() {
    let context = context(1);
    let [mut first, mut second, mut third] = arrivals(&context);
    assert_eq!(sits(&mut third, &context), None);
    assert_eq!(sits(&mut second, &context), None);
    assert_eq!(sits(&mut first, &context), Some(true));
    drop(first);
    assert_eq!(sits(&mut third, &context), None);
    assert_eq!(sits(&mut second, &context), Some(true));
    drop(second);
    assert_eq!(sits(&mut third, &context), Some(true));
}

#[test]
fn whoever_stood_up_is_behind_those_that_have_arrived() {
    let context = context(1);
    let [mut first, mut second, mut third] = arrivals(&context);
    assert_eq!(sits(&mut first, &context), Some(true));
    assert!(first.start_waiting(&context));
    assert_eq!(sits(&mut first, &context), None);
    assert_eq!(sits(&mut third, &context), None);
    assert_eq!(sits(&mut second, &context), Some(true));
    second.stop_running();
    assert_eq!(sits(&mut first, &context), None);
    assert_eq!(sits(&mut third, &context), Some(true));
    drop(third);
    assert_eq!(sits(&mut first, &context), Some(true));
    let SlotCounts { running, waiting } = context.slots.taken();
    assert_eq!((running, waiting), (1, 0));
}

#[test]
fn whoever_leaves_the_line_holds_nobody_up() {
    let context = context(1);
    let [first, second, mut third, mut fourth] = arrivals(&context);
    assert_eq!(sits(&mut third, &context), None);
    // The place is the second's when it leaves.
    drop(first);
    drop(second);
    assert_eq!(sits(&mut fourth, &context), None);
    // The fourth waits behind it.
    drop(third);
    assert_eq!(sits(&mut fourth, &context), Some(true));
    drop(fourth);
    assert_eq!(context.slots.taken().running, 0);
}

#[test]
fn nothing_runs_any_more_on_a_channel_that_has_stopped() {
    let context = context(1);
    let [mut first, mut second] = arrivals(&context);
    assert_eq!(sits(&mut second, &context), None);
    context.draining.cancel();
    assert_eq!(sits(&mut second, &context), Some(false));
    assert_eq!(sits(&mut first, &context), Some(false));
    drop((first, second));
    assert_eq!(context.slots.taken().running, 0);
}
