//! The test bed: a private broker, scripted handlers, workers to be killed, stores that fail on cue.
//!
//! | module | holds |
//! |---|---|
//! | [`bed`] | queues of one test's own on a private broker: publish, read dead letters, nothing stuck |
//! | [`script`] | a handler that does what the test says, and writes down what it did |
//! | [`running`] | a worker in this process, and the balance it ends with |
//! | [`process`] | a worker as a process of its own, to be stopped, continued and killed |
//! | [`ledger`] | the charges that worker processes made |
//! | [`interfered`] | a store whose calls fail, or end the process, on cue |
//! | [`proxy`] | a link to the broker that can be cut and frozen |
//! | [`journal`] | what happened so far, and waiting for what is to happen |
//! | [`log`] | what was logged |

pub mod bed;
pub mod interfered;
pub mod journal;
pub mod ledger;
pub mod log;
pub mod process;
pub mod proxy;
pub mod running;
pub mod script;
