//! How an order behaves when it is charged.

use serde::{Deserialize, Serialize};

/// How an order behaves when it is charged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Manner {
    /// It is charged.
    #[default]
    Ordinary,
    /// Its first attempts fail, so many of them.
    Fails(u32),
    /// It is rejected for good.
    Rejected,
    /// Every attempt fails.
    Hopeless,
    /// It kills the process, after the charge, when it is handled for the first time.
    Kills,
    /// Its body cannot be decoded.
    Garbled,
    /// The AMQP client of a worker cannot read its properties.
    Unreadable,
}

impl Manner {
    /// Whether it is to be charged in the end, and not to be dead-lettered.
    pub fn is_charged(self) -> bool {
        matches!(self, Self::Ordinary | Self::Fails(_) | Self::Kills)
    }

    /// Whether it is as most orders are.
    pub fn is_ordinary(&self) -> bool {
        *self == Self::Ordinary
    }
}
