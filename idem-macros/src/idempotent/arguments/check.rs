//! What is wrong with arguments that are each well-formed: together, or for this function.

use syn::ext::IdentExt;

use super::{
    Arguments, StoreOutage, batch, enforcement, group, ordered_by, outbox, recorded_by, times,
};
use crate::{
    idempotent::{function::Function, scope, signature::Signature},
    mistakes::Mistakes,
};

impl Arguments {
    /// Looks at the arguments and the function together.
    pub(in crate::idempotent) fn check(
        &self,
        function: &Function,
        signature: Option<&Signature>,
        mistakes: &mut Mistakes,
    ) {
        self.one_key(mistakes);
        self.a_scope(function, mistakes);
        times::check(self, mistakes);
        recorded_by::check(self, signature, mistakes);
        group::check(self, signature, mistakes);
        batch::check(self, signature, mistakes);
        outbox::check(self, signature, mistakes);
        ordered_by::check(self, mistakes);
        if signature.is_some_and(Signature::is_atomic) {
            self.no_doubt(mistakes);
            self.no_store_outage(mistakes);
        }
        enforcement::check(self, signature, mistakes);
        self.no_numbers_without_the_store(mistakes);
    }

    /// Which numbers are done, the store alone knows.
    fn no_numbers_without_the_store(&self, mistakes: &mut Mistakes) {
        if self.sequence.is_some()
            && let Some(StoreOutage(outage)) = &self.store_outage
            && outage == "FailOpen"
        {
            mistakes.at(
                outage,
                "only the store knows which numbers of a sequence are done, so nothing numbered runs without it: remove `store_outage`",
            );
        }
    }

    fn one_key(&self, mistakes: &mut Mistakes) {
        if let (Some(_), Some(span)) = (self.span_of("key"), self.span_of("key_with")) {
            mistakes.push(syn::Error::new(
                span,
                "`key` and `key_with` are two ways to say the same: keep one",
            ));
        }
    }

    /// Without `scope`, the function's name is a part of it.
    fn a_scope(&self, function: &Function, mistakes: &mut Mistakes) {
        let name = &function.signature.ident;
        if self.span_of("scope").is_none()
            && let Some(mistake) = scope::mistake(&name.unraw().to_string())
        {
            mistakes.at(
                name,
                format!("{mistake}; or name it: `scope = \"orders.charge\"`"),
            );
        }
    }

    fn no_store_outage(&self, mistakes: &mut Mistakes) {
        if let Some(span) = self.span_of("store_outage") {
            mistakes.push(syn::Error::new(
                span,
                "an atomic handler cannot run without its store, it waits for it: remove `store_outage`",
            ));
        }
    }

    fn no_doubt(&self, mistakes: &mut Mistakes) {
        if let Some(span) = self.span_of("in_doubt") {
            mistakes.push(syn::Error::new(
                span,
                "an atomic handler is never in doubt, its unfinished attempts were rolled back: remove `in_doubt`",
            ));
        }
    }
}
