//! What mistakes read like, and what must compile: one file each under `ui/`, named after it.
//!
//! After a deliberate change of words, `TRYBUILD=overwrite cargo test -p idem-macros --test ui`
//! writes the new ones; read them before they are committed.

#[test]
fn mistakes_are_explained_and_correct_handlers_compile() {
    // Together, because each `TestCases` builds all dependencies in a way of its own.
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/fail/*.rs");
    cases.pass("tests/ui/pass/*.rs");
}
