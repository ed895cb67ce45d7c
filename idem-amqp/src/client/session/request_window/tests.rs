use super::*;

fn request(name: &str) -> Arc<Message> {
    Arc::new(Message::json("leases", &name).unwrap())
}

fn requests(window: u32) -> RequestWindow {
    RequestWindow::new(window)
}

/// The number that is taken, and the lowest that is awaited.
fn begin(requests: &mut RequestWindow) -> Option<(u64, u64)> {
    let place = requests.begin(&request("printer"))?;
    assert!(!place.doubtful, "it was never sent");
    Some((place.number, place.awaited))
}

/// Why a number cannot be asked with once more.
fn taken(requests: &mut RequestWindow, number: u64) -> Option<Taken> {
    requests.again(number).err()
}

#[test]
fn numbers_follow_each_other_and_each_says_which_is_awaited() {
    let mut requests = requests(3);
    assert_eq!(begin(&mut requests), Some((0, 0)));
    assert_eq!(begin(&mut requests), Some((1, 0)));
    requests.settle(0);
    assert_eq!(begin(&mut requests), Some((2, 1)));
    requests.settle(2);
    assert_eq!(begin(&mut requests), Some((3, 1)));
    requests.settle(1);
    requests.settle(3);
    assert_eq!(begin(&mut requests), Some((4, 4)));
}

#[test]
fn a_number_is_taken_only_inside_the_window_of_the_lowest_awaited() {
    let mut requests = requests(3);
    for number in 0..3 {
        assert_eq!(begin(&mut requests), Some((number, 0)));
    }
    // Two answers, but not the lowest one: 3 would be beyond the server's window.
    requests.settle(1);
    requests.settle(2);
    assert_eq!(begin(&mut requests), None);
    requests.settle(0);
    assert_eq!(begin(&mut requests), Some((3, 3)));
}

#[test]
fn a_number_that_nobody_waits_for_is_given_up_when_it_is_in_the_way_and_not_before() {
    let mut requests = requests(3);
    for _ in 0..2 {
        begin(&mut requests);
    }
    requests.set_aside(0);
    requests.set_aside(1);
    assert_eq!(begin(&mut requests), Some((2, 0)), "there is room");
    assert_eq!(requests.unanswered().len(), 2);
    assert_eq!(begin(&mut requests), Some((3, 1)), "0 is given up");
    assert_eq!(taken(&mut requests, 0), Some(Taken::Settled));
    let left: Vec<_> = requests
        .unanswered()
        .iter()
        .map(|left| left.number)
        .collect();
    assert_eq!(left, [1]);
}

#[test]
fn a_number_that_is_not_the_lowest_is_not_given_up_for_one_that_is_waited_for() {
    let mut requests = requests(2);
    for _ in 0..2 {
        begin(&mut requests);
    }
    requests.set_aside(1);
    assert_eq!(
        begin(&mut requests),
        None,
        "0 is in the way, and waited for"
    );
    assert_eq!(requests.unanswered().len(), 1);
}

#[test]
fn only_a_number_that_has_no_answer_and_that_nobody_waits_for_is_asked_again() {
    let mut requests = requests(3);
    let first = request("printer");
    requests.begin(&first);
    assert_eq!(taken(&mut requests, 0), Some(Taken::Asked));
    assert_eq!(taken(&mut requests, 1), Some(Taken::Unused));
    requests.set_aside(0);
    begin(&mut requests);
    let (place, message) = requests.again(0).unwrap();
    let expected = Place {
        number: 0,
        awaited: 0,
        doubtful: true,
    };
    assert_eq!(place, expected);
    assert!(Arc::ptr_eq(&message, &first));
    assert_eq!(taken(&mut requests, 0), Some(Taken::Asked));
    requests.settle(0);
    assert_eq!(taken(&mut requests, 0), Some(Taken::Settled));
}

#[test]
fn a_number_is_given_up_by_hand_unless_it_is_waited_for() {
    let mut requests = requests(3);
    begin(&mut requests);
    assert!(!requests.give_up(0), "somebody waits for it");
    assert!(!requests.give_up(7));
    requests.set_aside(0);
    assert!(requests.give_up(0));
    assert!(!requests.give_up(0));
    assert_eq!(begin(&mut requests), Some((1, 1)));
}

#[test]
fn what_is_kept_goes_on_where_it_ended() {
    let mut before = requests(3);
    let message = Message::json("leases", &"printer").unwrap();
    let message = Arc::new(message.with_header("tenant", "a").unwrap());
    for _ in 0..3 {
        before.begin(&message);
    }
    before.settle(1);
    let (version, next, unanswered) = before.to_keep();
    assert_eq!((version, next), (4, 3), "three requests, one answer");
    let mut after = RequestWindow::kept(StoredSession {
        holder: String::new(),
        server: "leases".into(),
        id: "s".into(),
        window: 3,
        life_ms: 1,
        next,
        unanswered,
    })
    .unwrap();
    let left = after.unanswered();
    let numbers: Vec<_> = left.iter().map(|left| left.number).collect();
    assert_eq!(numbers, [0, 2]);
    assert_eq!(left[0].body, r#""printer""#);
    assert_eq!(left[0].headers, [("tenant".into(), "a".into())]);
    let (place, again) = after.again(2).unwrap();
    assert_eq!((place.number, place.awaited, place.doubtful), (2, 0, true));
    assert_eq!(again.body, message.body);
    assert_eq!(again.own_headers(), message.own_headers());
    after.settle(0);
    assert_eq!(begin(&mut after), Some((3, 2)));
}

/// Should a storage have lost the next number, none that was in use is used again.
#[test]
fn the_next_number_is_above_all_that_are_kept() {
    let kept = StoredSession {
        holder: String::new(),
        server: "leases".into(),
        id: "s".into(),
        window: 3,
        life_ms: 1,
        next: 0,
        unanswered: vec![StoredRequest {
            number: 7,
            body: "1".into(),
            headers: Vec::new(),
        }],
    };
    assert_eq!(begin(&mut RequestWindow::kept(kept).unwrap()), Some((8, 7)));
}
