//! The test bed: a private broker, scripted handlers, workers to be killed, stores that fail on cue.
//!
//! | module | holds |
//! |---|---|
//! | [`bed`] | queues of one test's own on a private broker: publish, read dead letters, nothing stuck |
//! | [`cell`] | a store and a mode, for tests that run on each |
//! | [`queue_type`] | quorum or classic: the type of the queues that the suite runs with |
//! | [`requester`] | a client that publishes requests and takes the replies |
//! | [`script`] | a handler that does what the test says, and writes down what it did |
//! | [`readings`] | messages that their devices number, and handlers of them |
//! | [`laddered`] | a worker whose failed messages wait on short rungs of a ladder |
//! | [`running`] | a worker in this process, and the balance it ends with |
//! | [`process`] | a worker as a process of its own, to be stopped, continued and killed |
//! | [`store_at`] | where a worker's store is: a file, a database, a prefix of one test's own |
//! | [`responder`] | a server that answers requests as the test says, or does not |
//! | [`session`] | a client's session, by what is on the wire |
//! | [`registrar`] | opens sessions beside it, and ends them when the test says so |
//! | [`leases`] | the contract of its requests and replies |
//! | [`servers`] | private servers, from tests that must not block |
//! | [`postgres_pair`] | a PostgreSQL and its standby, and an address that leads to the one in charge |
//! | [`ledger`] | the charges that workers made |
//! | [`chaos`] | workers under load and a seeded schedule of faults, and what became of the orders |
//! | [`foreign_publisher`] | publishes what no client library would write, byte by byte |
//! | [`manner`] | how an order behaves when it is charged |
//! | [`metered`] | what is counted, as Prometheus would read it |
//! | [`traced`] | what is traced, as a collector would get it |
//! | [`flawed`] | a store with a bug, for tests of the tests |
//! | [`interfered`] | a store whose calls fail, or end the process, on cue |
//! | [`proxy`] | a link to a server that can be cut and frozen, and loses answers and deliveries |
//! | [`journal`] | what happened so far, and waiting for what is to happen |
//! | [`log`] | what was logged |

pub mod bed;
pub mod cell;
pub mod chaos;
pub mod flawed;
pub mod foreign_publisher;
pub mod interfered;
pub mod journal;
pub mod laddered;
pub mod leases;
pub mod ledger;
pub mod log;
pub mod manner;
pub mod metered;
pub mod postgres_pair;
pub mod process;
pub mod proxy;
pub mod queue_type;
pub mod readings;
pub mod registrar;
pub mod requester;
pub mod responder;
pub mod running;
pub mod script;
pub mod servers;
pub mod session;
pub mod store_at;
mod subscriber;
pub mod traced;
