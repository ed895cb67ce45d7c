use clap::ValueEnum as _;

use super::*;
use crate::chaos::{Mode, Queues, StoreKind};

fn plan(seed: u64) -> Plan {
    Plan {
        seed,
        seconds: 60,
        store: StoreKind::Postgres,
        mode: Mode::Atomic,
        outbox: false,
        queues: Queues::Quorum,
        workers: 4,
        only: Vec::new(),
    }
}

const SEEDS: std::ops::Range<u64> = 0..200;

#[test]
fn the_same_seed_plans_the_same_faults_at_the_same_times() {
    for seed in SEEDS {
        assert_eq!(plan(seed).schedule(), plan(seed).schedule());
    }
    assert_ne!(plan(1).schedule(), plan(2).schedule());
}

#[test]
fn a_shorter_run_is_the_beginning_of_a_longer_one() {
    for seed in SEEDS {
        let long = plan(seed).schedule();
        let short = Plan {
            seconds: 20,
            ..plan(seed)
        };
        let short = short.schedule();
        assert_eq!(short.injections(), &long.injections()[..short.0.len()]);
    }
}

#[test]
fn forty_seconds_see_every_fault() {
    for seed in SEEDS {
        let shorter = Plan {
            seconds: 40,
            ..plan(seed)
        };
        let schedule = shorter.schedule();
        for &fault in Fault::value_variants() {
            assert!(schedule.includes(fault), "{seed}: {fault:?} in\n{schedule}");
        }
    }
}

/// `CHAOS` of `xtask/src/checks.rs`.
#[test]
fn continuous_integration_sees_every_fault() {
    let plan = Plan {
        seconds: 30,
        ..plan(1)
    };
    let schedule = plan.schedule();
    for &fault in Fault::value_variants() {
        assert!(schedule.includes(fault), "{fault:?} in\n{schedule}");
    }
}

#[test]
fn a_place_recovers_from_one_fault_before_the_next() {
    for seed in SEEDS {
        let schedule = plan(seed).schedule();
        let places: Vec<_> = schedule.0.iter().map(|injection| injection.place).collect();
        for place in places {
            for pair in schedule.at(place).windows(2) {
                let healed = pair[0].at + pair[0].lasting + pair[0].fault.rest();
                assert!(healed <= pair[1].at, "{seed}: {pair:?}");
            }
        }
    }
}

#[test]
fn faults_happen_in_their_places_and_last_as_long_as_they_may() {
    for Injection {
        fault,
        place,
        lasting,
        ..
    } in plan(3).schedule().0
    {
        let fits = match place {
            Place::Worker(number) => fault.victim() == Victim::Worker && (1..=4).contains(&number),
            Place::Link(number) => fault.victim() == Victim::Link && number <= 4,
            Place::StoreLink(number) => {
                fault.victim() == Victim::StoreLink && (1..=4).contains(&number)
            }
            Place::Broker => fault.victim() == Victim::Broker,
            Place::Store => fault.victim() == Victim::Store,
        };
        assert!(fits, "{fault:?} {place:?}");
        assert!(fault.lasts().contains(&lasting), "{fault:?} {lasting}");
    }
}

#[test]
fn only_the_chosen_faults_occur() {
    let chosen = Plan {
        only: vec![Fault::Kill, Fault::CrashBroker],
        ..plan(5)
    };
    let schedule = chosen.schedule();
    assert!(schedule.0.len() > 10, "{schedule}");
    let mut faults = schedule.0.iter().map(|injection| injection.fault);
    assert!(
        faults.all(|fault| chosen.only.contains(&fault)),
        "{schedule}"
    );
}

#[test]
fn a_file_is_not_killed_and_has_no_links() {
    let on_a_file = Plan {
        store: StoreKind::Sqlite,
        ..plan(5)
    };
    let mut faults = on_a_file
        .schedule()
        .0
        .into_iter()
        .map(|injection| injection.fault);
    let needs_a_server =
        |fault: Fault| fault == Fault::CrashStore || fault.victim() == Victim::StoreLink;
    assert!(!faults.any(needs_a_server));
}

#[test]
fn only_postgres_fails_over() {
    for store in [StoreKind::Sqlite, StoreKind::Redis] {
        let schedule = Plan { store, ..plan(5) }.schedule();
        assert!(!schedule.includes(Fault::FailOver), "{schedule}");
    }
}

#[test]
fn a_schedule_is_a_line_per_fault() {
    let schedule = Schedule(vec![
        Injection {
            at: 1_500,
            fault: Fault::Pause,
            place: Place::Worker(2),
            lasting: 3_040,
        },
        Injection {
            at: 12_345,
            fault: Fault::CutLink,
            place: Place::Link(0),
            lasting: 0,
        },
    ]);
    let lines = [
        "   1.500 s  worker 2: pause for 3.040 s\n",
        "  12.345 s  link of the publisher: cut-link\n",
    ];
    assert_eq!(schedule.to_string(), lines.concat());
}
