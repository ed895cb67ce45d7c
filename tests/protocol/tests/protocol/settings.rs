//! The settings that are checked.

use idem_core::{
    Policy,
    handler::{GivenUp, InDoubt, OnConflict},
};
use idem_protocol::{Mode, Setting};

/// Three workers, one message twice, two attempts, two faults of any kind.
pub(crate) fn leased() -> Setting {
    Setting {
        mode: Mode::Leased,
        policy: policy(InDoubt::Retry),
        finds_done: false,
        copies: vec![2],
        workers: 3,
        faults: 2,
    }
}

/// The same, where an effect must not be repeated even in doubt.
pub(crate) fn quarantined() -> Setting {
    Setting {
        policy: policy(InDoubt::Quarantine),
        ..leased()
    }
}

/// The same, where copies are dropped that come while their key is held.
pub(crate) fn dropping(setting: &Setting) -> Setting {
    let policy = setting.policy.to_builder().on_conflict(OnConflict::Ack);
    Setting {
        policy: policy.build().expect("it is a valid policy"),
        ..setting.clone()
    }
}

/// The same, where what is given up is dropped.
pub(crate) fn giving_up(setting: &Setting) -> Setting {
    let policy = setting.policy.to_builder();
    let policy = policy.on_rejected(GivenUp::Ack).on_exhausted(GivenUp::Ack);
    Setting {
        policy: policy.build().expect("it is a valid policy"),
        ..setting.clone()
    }
}

/// The same, where handlers find in their own rows what is done.
pub(crate) fn finding_done(setting: &Setting) -> Setting {
    Setting {
        finds_done: true,
        ..setting.clone()
    }
}

/// The same, where the effect commits with its completion.
pub(crate) fn atomic() -> Setting {
    Setting {
        mode: Mode::Atomic,
        ..leased()
    }
}

/// Two workers, and one fault more.
pub(crate) fn with_three_faults(setting: &Setting) -> Setting {
    Setting {
        workers: 2,
        faults: 3,
        ..setting.clone()
    }
}

/// Two messages, each with a key of its own, and one fault.
pub(crate) fn with_two_keys(setting: &Setting) -> Setting {
    Setting {
        copies: vec![1, 1],
        faults: 1,
        ..setting.clone()
    }
}

/// Only one copy, so that no other heals what befalls it.
pub(crate) fn single(setting: &Setting) -> Setting {
    Setting {
        copies: vec![1],
        ..setting.clone()
    }
}

/// As little as most flaws need to show.
pub(crate) fn small(setting: &Setting) -> Setting {
    Setting {
        workers: 2,
        faults: 1,
        ..setting.clone()
    }
}

fn policy(in_doubt: InDoubt) -> Policy {
    let policy = Policy::builder().max_attempts(2).in_doubt(in_doubt);
    policy.build().expect("it is a valid policy")
}
