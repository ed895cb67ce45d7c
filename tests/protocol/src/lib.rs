//! The protocol of claims, leases and settlements as a model, checked in every state that it can
//! reach. Tests on servers show that the program keeps to the protocol where they look; the model
//! shows that the protocol is right where no test can look: in every order of events.
//!
//! ```sh
//! cargo test -p idem-protocol -- --nocapture    # says how many states were visited
//! ```
//!
//! # What is modelled
//!
//! | | |
//! |---|---|
//! | store | the real rules: `idem_core::model::Kept` is the record behind `MemoryStore`, and the SQL and Lua of the other stores are held to the same rules by the conformance suite |
//! | decisions | the engine's real ones: why a lease is given back unrun, what a failure comes to |
//! | leased | claim, extend, complete and release as calls of their own; the handler's effect is a step before the completion |
//! | atomic | the effect is committed with the fenced completion or not at all, as in `SqliteStore`; an unanswered commit is found out by claiming again, then by completing again |
//! | broker | copies of a message, redelivery of what was not acknowledged, dead letters, the retry ladder: published, confirmed, then acknowledged |
//! | time | a lease, or the delay after a failure, may end at any moment, and need not |
//! | what is given up | dead-lettered, or dropped as the policy says (`on_rejected`, `on_exhausted`): acknowledged and kept nowhere. That is an end of a message, but only of one that was rejected, or whose attempts are used up |
//! | done before | leased: a handler that finds its effect in its own rows has it no second time, and the key is completed |
//! | pause | a worker need not take its next step; so every order of events is one in which somebody was paused, over its lease too |
//!
//! What may go wrong, in any mix, up to a number of [faults](Setting::faults):
//!
//! | fault | |
//! |---|---|
//! | an answer is lost | of any call: the caller hears an error; the call arrives later, at any time, or never |
//! | a worker crashes | the broker has its delivery back, the store knows what it knew |
//! | a channel ends | the broker delivers again while the worker goes on; its verdict goes nowhere. So do a broker's restart and its consumer timeout look |
//! | a heartbeat comes late | it revives a lease that ran out and that nobody took over |
//! | a worker stops | a claim that was granted is given back as abandoned |
//!
//! # What is checked
//!
//! [`properties`] has the sentences. What must never be is looked for in every state. That everything
//! is settled at last is a matter of paths: since the faults are bounded, every path ends
//! ([`longest_path`] makes sure of it, because the checker would miss one that goes round), and at
//! its end all messages have to be done or dead-lettered, and no worker busy. That states of interest
//! are reached (a takeover, a zombie, a duplicate, a repeated completion, a late call) is checked too.
//!
//! [`Flaw`]s break one rule each, and a named property must notice.
//!
//! | setting (maximum attempts 2) | states | longest path |
//! |---|---|---|
//! | leased, 3 workers, 2 copies, 2 faults | 866,397 | 80 |
//! | leased, 2 workers, 2 copies, 3 faults | 1,376,524 | 102 |
//! | leased, quarantined in doubt, 3 workers, 2 copies, 2 faults | 335,344 | 64 |
//! | leased, 3 workers, 1 copy, 2 faults | 91,053 | 59 |
//! | leased, 3 workers, 2 messages, 1 fault | 213,208 | 52 |
//! | atomic, 3 workers, 2 copies, 2 faults | 473,728 | 80 |
//! | atomic, 2 workers, 2 copies, 3 faults | 895,876 | 102 |
//! | atomic, 3 workers, 1 copy, 2 faults | 54,327 | 59 |
//! | leased, copies are dropped, 2 workers, 2 copies, 2 faults | 442,507 | 80 |
//! | atomic, copies are dropped, 2 workers, 2 copies, 2 faults | 293,320 | 80 |
//! | leased, what is given up is dropped, 2 workers, 2 copies, 2 faults | 155,365 | 76 |
//! | atomic, what is given up is dropped, 2 workers, 2 copies, 2 faults | 91,387 | 76 |
//! | leased, quarantined in doubt, what is given up is dropped, 2 workers, 2 copies, 2 faults | 85,478 | 62 |
//! | leased, handlers find what is done, 3 workers, 2 copies, 2 faults | 689,024 | 80 |
//!
//! States are counted without regard to the order of workers, the names of owners, and the values of tokens other than
//! their order. All of it takes 45 s of one core. Three workers, two copies and three faults have been checked by hand:
//! 7.8 million states leased, 4.9 million atomic, 2.6 million quarantined. So have two workers and three faults where
//! copies are dropped: 3.4 million leased.
//!
//! # What is not modelled
//!
//! - Retention and purging, fingerprints, replays, failing open, the cache in front of a store: tests have them.
//! - A store that forgets what it had answered. That ends every promise; see `docs/guarantees.md`.
//! - An atomic handler that finds its work done before: in the model nobody but its own commit does it, so there is
//!   nothing to find. Batches, groups and `recorded_by`, where it is said in other ways: tests have them.
//! - `on_duplicate = "dead-letter"`, `on_conflict = "dead-letter"` or `"requeue"`: what they concern is kept or sent
//!   again before it is acknowledged. `keyless`, `late` and `validate`: what they concern is not claimed, or given back
//!   unrun.
//! - `PostgresStore`'s atomic mode, where the claim is part of the transaction and a lock takes the
//!   place of the lease. The conformance suite and the tests on servers have it.
//! - A conflict that is held for too long, or over the cap, and goes back to its queue. For store and
//!   broker that is a channel that ended while the worker was claiming.
//! - That the code is what the model says. The store's rules and the engine's decisions are the code
//!   itself; the order of calls (`executor/leased.rs`, `executor/atomic.rs`) and the settlements
//!   (`idem-core`'s `settlement.rs`) are written down here a second time.
//!
//! Two things are so by the rules, and the properties allow them:
//!
//! - A record knows its last owner only. A claim that arrives after its owner's lease was ended, and
//!   after another owner's as well, acquires: nobody works under that lease, it runs out, and the
//!   attempt counts.
//! - A key that is given up is not in doubt any more. If its last attempt had ended without a word, the dead letter
//!   says so to a person, or the line in the log if it is dropped; a further copy of the message is not told.

mod action;
mod call;
mod delivery;
mod flaw;
mod names;
mod paths;
pub mod properties;
mod protocol;
mod setting;
mod settlement;
mod store;
mod world;

pub use action::Action;
pub use call::{Ask, Call, Reason};
pub use delivery::{Afterwards, Delivery, Grant, Phase};
pub use flaw::Flaw;
pub use paths::longest_path;
pub use protocol::Protocol;
pub use setting::{Mode, Setting};
pub use world::{Breach, Message, World};
