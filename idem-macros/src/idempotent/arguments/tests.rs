//! What is read, and that all mistakes are found in one pass.

use proc_macro2::TokenStream;
use quote::quote;

use super::*;

fn mistakes(tokens: TokenStream) -> Vec<String> {
    let mut mistakes = Mistakes::default();
    Arguments::parse(tokens, &mut mistakes);
    let errors = mistakes.into_result().err().into_iter().flatten();
    errors.map(|error| error.to_string()).collect()
}

#[test]
fn no_arguments_are_fine() {
    assert!(mistakes(quote!()).is_empty());
}

#[test]
fn a_trailing_comma_is_fine() {
    assert!(mistakes(quote!(key = "order_id", lease = "30s",)).is_empty());
}

#[test]
fn every_argument_is_known() {
    let all = quote! {
        key = [a, "b.c", header("x"), message_id(), content(), first(d, header("y"))],
        key_with = keys::order, scope = "orders", lease = "1s", retention = "1h",
        max_attempts = 3, max_outcome = 65536, backoff = "1s..1m", in_doubt = quarantine,
        store_outage = fail_open, enforcement = observe, fingerprint = [a, "b"],
        recorded_by = "orders_key",
        decode = decode, outdated = older::lease, crate = idem
    };
    assert_eq!(mistakes(all), [""; 0]);
}

#[test]
fn a_sequence_is_a_key_and_a_field_of_that_name_is_one() {
    assert_eq!(mistakes(quote!(key = sequence(), lease = "1s")), [""; 0]);
    let mut none = Mistakes::default();
    let read = Arguments::parse(quote!(key = sequence), &mut none);
    assert!(none.is_empty() && read.sequence.is_none() && read.key.is_some());
}

#[test]
fn one_mistake_does_not_hide_the_next() {
    let found = mistakes(quote!(leese = "1s", lease = 5, scope = "a b", key = x y, key = z));
    assert_eq!(found.len(), 5, "{found:#?}");
    assert!(found[0].starts_with("`leese` is not an argument: did you mean `lease`?"));
    assert_eq!(found[3], "expected `,`");
    assert_eq!(found[4], "`key` is given twice");
}

#[test]
fn one_mistake_in_a_list_does_not_hide_the_next() {
    let found = mistakes(quote!(key = [5, headers("x"), first(), a a, b, b], lease = ""));
    assert_eq!(found.len(), 6, "{found:#?}");
    assert_eq!(found[4], "`b` is in the key already");
}
