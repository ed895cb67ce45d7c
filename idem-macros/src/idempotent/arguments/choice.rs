//! Arguments that are one of a few words, each a variant of a type in `idem_core::handler`.

use proc_macro2::Span;
use syn::{Error, Ident, LitStr, Result, ext::IdentExt, parse::ParseStream};

/// `on_rejected = "ack"`, say.
pub(in crate::idempotent) struct Choice {
    /// The argument, which is also the setter of `PolicyBuilder`.
    pub(in crate::idempotent) name: Ident,
    /// The type.
    pub(in crate::idempotent) policy: Ident,
    /// Its variant.
    pub(in crate::idempotent) variant: Ident,
}

/// The type of an argument, and its words with their variants.
fn words(name: &str) -> (&'static str, &'static [(&'static str, &'static str)]) {
    match name {
        "on_rejected" | "on_exhausted" => {
            ("GivenUp", &[("dead-letter", "DeadLetter"), ("ack", "Ack")])
        }
        "late" => ("Late", &[("run", "Run"), ("quarantine", "Quarantine")]),
        "keyless" => ("Keyless", &[("dead-letter", "DeadLetter"), ("run", "Run")]),
        "on_duplicate" => (
            "OnDuplicate",
            &[("ack", "Ack"), ("dead-letter", "DeadLetter")],
        ),
        "on_conflict" => (
            "OnConflict",
            &[
                ("wait", "Wait"),
                ("requeue", "Requeue"),
                ("dead-letter", "DeadLetter"),
                ("ack", "Ack"),
            ],
        ),
        _ => unreachable!("`{name}` is no choice"),
    }
}

/// A word, bare or in quotes.
pub(super) fn parse(input: ParseStream<'_>, name: &Ident) -> Result<Choice> {
    let (policy, words) = words(&name.to_string());
    let (word, span) = word(input).map_err(|error| Error::new(error.span(), cure(name, words)))?;
    let known = words.iter().find(|(known, _)| *known == word);
    let (_, variant) = known.ok_or_else(|| Error::new(span, cure(name, words)))?;
    Ok(Choice {
        name: name.clone(),
        policy: Ident::new(policy, span),
        variant: Ident::new(variant, span),
    })
}

fn word(input: ParseStream<'_>) -> Result<(String, Span)> {
    if input.peek(LitStr) {
        let literal: LitStr = input.parse()?;
        return Ok((literal.value(), literal.span()));
    }
    let bare = input.call(Ident::parse_any)?;
    Ok((bare.to_string(), bare.span()))
}

/// What to write instead: all that is allowed.
fn cure(name: &Ident, words: &[(&str, &str)]) -> String {
    let all: Vec<_> = words
        .iter()
        .map(|(word, _)| format!("`{name} = \"{word}\"`"))
        .collect();
    let (last, others) = all.split_last().expect("there are words");
    format!("write {} or {last}", others.join(", "))
}
