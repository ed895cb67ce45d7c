//! What can be done to workers, links, broker and store.

use std::ops::RangeInclusive;

use super::StoreKind;

/// Something that goes wrong, or is done by an operator, while orders are charged.
#[derive(Clone, Copy, Debug, clap::ValueEnum, PartialEq, Eq)]
pub enum Fault {
    /// A worker is killed (SIGKILL), and another one takes its place after a while
    Kill,
    /// A worker is stopped where it is (SIGSTOP) for longer than its lease, and goes on
    Pause,
    /// A worker is told to stop (SIGTERM), and another one takes its place
    Replace,
    /// A link to the broker is cut
    CutLink,
    /// A link to the broker goes silent without being closed
    FreezeLink,
    /// A link to the store is cut
    CutStoreLink,
    /// A link to the store goes silent without being closed
    FreezeStoreLink,
    /// The broker closes all connections
    CloseConnections,
    /// The broker takes nothing from publishers, as when it is short of memory, and then again
    BlockPublishers,
    /// The broker is killed and started again
    CrashBroker,
    /// The broker is stopped as its operator would, and started again
    RestartBroker,
    /// The broker hangs, and goes on
    HangBroker,
    /// The store is killed and started again
    CrashStore,
    /// The store hangs, and goes on
    HangStore,
    /// The standby that confirms the store's commits receives no more; then the store is killed, and the standby
    /// takes its place
    FailOver,
}

/// Whom a fault befalls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Victim {
    Worker,
    Link,
    StoreLink,
    Broker,
    Store,
}

/// Until a broker that was started answers: about as long as it takes on an idle machine.
const BOOT_MS: u64 = 6_000;

/// Until a standby is promoted and has a standby itself: likewise.
const NEW_STANDBY_MS: u64 = 3_000;

impl Fault {
    /// Once round, each as often as it shall occur beside the others.
    pub(super) const ROUND: [Self; 19] = [
        Self::Kill,
        Self::Kill,
        Self::Pause,
        Self::Pause,
        Self::Replace,
        Self::Replace,
        Self::CutLink,
        Self::FreezeLink,
        Self::FreezeLink,
        Self::CutStoreLink,
        Self::FreezeStoreLink,
        Self::CloseConnections,
        Self::BlockPublishers,
        Self::CrashBroker,
        Self::RestartBroker,
        Self::HangBroker,
        Self::CrashStore,
        Self::HangStore,
        Self::FailOver,
    ];

    /// As it is written on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Pause => "pause",
            Self::Replace => "replace",
            Self::CutLink => "cut-link",
            Self::FreezeLink => "freeze-link",
            Self::CutStoreLink => "cut-store-link",
            Self::FreezeStoreLink => "freeze-store-link",
            Self::CloseConnections => "close-connections",
            Self::BlockPublishers => "block-publishers",
            Self::CrashBroker => "crash-broker",
            Self::RestartBroker => "restart-broker",
            Self::HangBroker => "hang-broker",
            Self::CrashStore => "crash-store",
            Self::HangStore => "hang-store",
            Self::FailOver => "fail-over",
        }
    }

    /// Whether it can be done where this is the store: a file has no links, and no process to be
    /// killed; Redis has no standby whose word a write could wait for.
    pub(super) fn befalls(self, store: StoreKind) -> bool {
        let needs_a_server = self == Self::CrashStore || self.victim() == Victim::StoreLink;
        match store {
            StoreKind::Postgres => true,
            StoreKind::Redis => self != Self::FailOver,
            StoreKind::Sqlite => self != Self::FailOver && !needs_a_server,
        }
    }

    pub(super) fn victim(self) -> Victim {
        match self {
            Self::Kill | Self::Pause | Self::Replace => Victim::Worker,
            Self::CutLink | Self::FreezeLink => Victim::Link,
            Self::CutStoreLink | Self::FreezeStoreLink => Victim::StoreLink,
            Self::CloseConnections
            | Self::BlockPublishers
            | Self::CrashBroker
            | Self::RestartBroker
            | Self::HangBroker => Victim::Broker,
            Self::CrashStore | Self::HangStore | Self::FailOver => Victim::Store,
        }
    }

    /// How long it lasts, in milliseconds. Pauses and outages are shorter and longer than the lease
    /// of two seconds, a pause of a worker always longer.
    pub(super) fn lasts(self) -> RangeInclusive<u64> {
        match self {
            Self::Replace
            | Self::CutLink
            | Self::FreezeLink
            | Self::CutStoreLink
            | Self::FreezeStoreLink
            | Self::CloseConnections
            | Self::RestartBroker => 0..=0,
            Self::Kill => 0..=1_500,
            Self::Pause => 2_500..=6_000,
            Self::CrashBroker | Self::CrashStore => 0..=3_000,
            Self::BlockPublishers | Self::HangBroker => 1_000..=5_000,
            Self::HangStore => 500..=6_000,
            // How long commits wait before the server is killed: shorter than workers wait for an answer.
            Self::FailOver => 0..=800,
        }
    }

    /// How long nothing else is done to the same victim, in milliseconds after the fault.
    pub(super) fn rest(self) -> u64 {
        match self {
            Self::CrashBroker | Self::RestartBroker => BOOT_MS,
            Self::FailOver => NEW_STANDBY_MS,
            _ => 1_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::Fault;

    #[test]
    fn every_fault_occurs_in_a_round_under_the_name_that_chooses_it() {
        for fault in Fault::value_variants() {
            assert!(Fault::ROUND.contains(fault), "{fault:?}");
            let chosen = Fault::from_str(fault.name(), false);
            assert_eq!(chosen.as_ref(), Ok(fault));
        }
    }
}
