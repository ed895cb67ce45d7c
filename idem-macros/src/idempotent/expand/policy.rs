//! The policy as a constant.

use std::time::Duration;

use proc_macro2::TokenStream;
use quote::quote;

use crate::idempotent::arguments::{Arguments, Choice};

/// `const POLICY`, if an argument departs from the defaults.
pub(super) fn constant(root: &TokenStream, arguments: &Arguments) -> Option<TokenStream> {
    let lease = arguments.lease.map(|lease| {
        let duration = duration(lease.duration);
        quote!(.lease(#duration))
    });
    let retention = arguments.retention.map(|retention| {
        let duration = duration(retention.duration);
        quote!(.retention(#duration))
    });
    let timeout = arguments.timeout.map(|timeout| {
        let duration = duration(timeout.duration);
        quote!(.timeout(#duration))
    });
    let max_attempts = arguments
        .max_attempts
        .as_ref()
        .map(|number| quote!(.max_attempts(#number)));
    let max_outcome = arguments
        .max_outcome
        .as_ref()
        .map(|bytes| quote!(.max_outcome(#bytes)));
    let backoff = arguments.backoff.map(|(first, longest)| {
        let (first, longest) = (duration(first.duration), duration(longest.duration));
        quote!(.backoff(#root::handler::Backoff::new(#first, #longest)))
    });
    let in_doubt = arguments
        .in_doubt
        .as_ref()
        .map(|in_doubt| &in_doubt.0)
        .map(|variant| quote!(.in_doubt(#root::handler::InDoubt::#variant)));
    let store_outage = arguments
        .store_outage
        .as_ref()
        .map(|store_outage| &store_outage.0)
        .map(|variant| quote!(.store_outage(#root::handler::StoreOutage::#variant)));
    let enforcement = arguments
        .enforcement
        .as_ref()
        .map(|enforcement| &enforcement.0)
        .map(|variant| quote!(.enforcement(#root::handler::Enforcement::#variant)));
    let time_header = arguments
        .time_header
        .as_ref()
        .map(|name| quote!(.time_header(#name)));
    let choices = arguments.choices.iter().map(|choice| {
        let Choice {
            name,
            policy,
            variant,
        } = choice;
        quote!(.#name(#root::handler::#policy::#variant))
    });

    let set = [
        lease,
        retention,
        timeout,
        max_attempts,
        backoff,
        in_doubt,
        store_outage,
        max_outcome,
        enforcement,
        time_header,
    ];
    let set: Vec<_> = set.into_iter().flatten().chain(choices).collect();
    if set.is_empty() {
        return None;
    }
    Some(
        quote!(const POLICY: #root::handler::Policy = #root::handler::Policy::builder() #(#set)* .build_const();),
    )
}

pub(super) fn duration(duration: Duration) -> TokenStream {
    let seconds = duration.as_secs();
    let nanos = duration.subsec_nanos();
    quote!(::core::time::Duration::new(#seconds, #nanos))
}
