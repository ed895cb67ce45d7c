//! Who gets the place, whoever asks for it first.

use super::*;

/// A desk at which so many deliveries run.
fn desk(running: usize) -> Desk {
    Desk {
        room: Room::new(running, 1),
        delivery_limit: 20,
        verdicts: Verdicts::to_nobody(),
        ended: CancellationToken::new(),
        draining: CancellationToken::new(),
        failures: Arc::default(),
        vitals: Arc::new(Vitals::of(["orders"].into_iter())),
    }
}

fn arrivals<const N: usize>(desk: &Desk) -> [Seat; N] {
    std::array::from_fn(|_| Seat::on_arrival(desk))
}

/// `None` while it has to wait.
fn sits(seat: &mut Seat, desk: &Desk) -> Option<bool> {
    seat.sit_down(desk).now_or_never()
}

#[test]
fn places_are_taken_in_the_order_of_arrival() {
    let desk = desk(1);
    let [mut first, mut second, mut third] = arrivals(&desk);
    assert_eq!(sits(&mut third, &desk), None);
    assert_eq!(sits(&mut second, &desk), None);
    assert_eq!(sits(&mut first, &desk), Some(true));
    drop(first);
    assert_eq!(sits(&mut third, &desk), None);
    assert_eq!(sits(&mut second, &desk), Some(true));
    drop(second);
    assert_eq!(sits(&mut third, &desk), Some(true));
}

#[test]
fn whoever_stood_up_is_behind_those_that_have_arrived() {
    let desk = desk(1);
    let [mut first, mut second, mut third] = arrivals(&desk);
    assert_eq!(sits(&mut first, &desk), Some(true));
    assert!(first.step_aside(&desk));
    assert_eq!(sits(&mut first, &desk), None);
    assert_eq!(sits(&mut third, &desk), None);
    assert_eq!(sits(&mut second, &desk), Some(true));
    second.stand_up();
    assert_eq!(sits(&mut first, &desk), None);
    assert_eq!(sits(&mut third, &desk), Some(true));
    drop(third);
    assert_eq!(sits(&mut first, &desk), Some(true));
    let Seats { running, held } = desk.room.taken();
    assert_eq!((running, held), (1, 0));
}

#[test]
fn whoever_leaves_the_line_holds_nobody_up() {
    let desk = desk(1);
    let [first, second, mut third, mut fourth] = arrivals(&desk);
    assert_eq!(sits(&mut third, &desk), None);
    // The place is the second's when it leaves.
    drop(first);
    drop(second);
    assert_eq!(sits(&mut fourth, &desk), None);
    // The fourth waits behind it.
    drop(third);
    assert_eq!(sits(&mut fourth, &desk), Some(true));
    drop(fourth);
    assert_eq!(desk.room.taken().running, 0);
}

#[test]
fn nobody_sits_down_at_a_desk_that_stops() {
    let desk = desk(1);
    let [mut first, mut second] = arrivals(&desk);
    assert_eq!(sits(&mut second, &desk), None);
    desk.draining.cancel();
    assert_eq!(sits(&mut second, &desk), Some(false));
    assert_eq!(sits(&mut first, &desk), Some(false));
    drop((first, second));
    assert_eq!(desk.room.taken().running, 0);
}
