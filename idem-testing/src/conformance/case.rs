//! One case, and how it is run.

use std::{fmt, pin::Pin};

use super::Harness;

/// A case by its name, for a test runner of your own; see [`Case::of_store`].
pub struct Case<H> {
    name: &'static str,
    run: Run<H>,
}

type Run<H> = for<'a> fn(&'a H) -> Pin<Box<dyn Future<Output = ()> + 'a>>;

impl<H: Harness> Case<H> {
    pub(super) fn new(name: &'static str, run: Run<H>) -> Self {
        Self { name, run }
    }

    /// The file and the function, as in `claims::a_new_key_is_acquired_as_its_first_attempt`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Runs the case; it panics if the store breaks the rule.
    pub async fn run(&self, harness: &H) {
        (self.run)(harness).await;
    }
}

impl<H> fmt::Debug for Case<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Case").field(&self.name).finish()
    }
}

/// Runs one case on a fresh store, by [`Harness::block_on`]; what the tests written by
/// [`conformance!`](crate::conformance!) call.
pub fn run<H: Harness>(case: impl AsyncFnOnce(&H) + 'static) {
    run_erased(Box::new(|harness| Box::pin(case(harness))));
}

type Erased<H> = Box<dyn for<'a> FnOnce(&'a H) -> Pin<Box<dyn Future<Output = ()> + 'a>>>;

/// Knows the harness, and not the case: it is compiled for each harness, not for each of its hundreds of cases.
fn run_erased<H: Harness>(case: Erased<H>) {
    H::block_on(Box::pin(async {
        let harness = H::start().await;
        case(&harness).await;
    }));
}
