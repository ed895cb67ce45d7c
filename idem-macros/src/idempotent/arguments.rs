//! What stands in the parentheses of `#[idempotent(…)]`.

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use syn::{
    Error, Ident, LitInt, LitStr, Path, Result, Token,
    ext::IdentExt,
    parse::{ParseStream, Parser},
    token::Paren,
};

use super::{
    duration::{self, Written},
    key_source::{self, KeySource},
    list,
    sequence::{self, Sequence},
    suggestion,
};
use crate::mistakes::Mistakes;

mod batch;
mod check;
mod choice;
mod enforcement;
mod group;
mod ordered_by;
mod outbox;
mod recorded_by;
mod times;
mod value;

pub(super) use choice::Choice;
pub(super) use value::{Enforcement, Fingerprint, InDoubt, StoreOutage};

const NAMES: [&str; 31] = [
    "key",
    "key_with",
    "scope",
    "ordered_by",
    "overtake",
    "lease",
    "retention",
    "timeout",
    "max_attempts",
    "max_outcome",
    "backoff",
    "in_doubt",
    "store_outage",
    "enforcement",
    "keyless",
    "on_rejected",
    "on_exhausted",
    "on_duplicate",
    "on_conflict",
    "late",
    "time_header",
    "fingerprint",
    "recorded_by",
    "group",
    "batch",
    "batch_bytes",
    "batch_wait",
    "decode",
    "validate",
    "outdated",
    "crate",
];

/// The arguments; those that were not given, or not understood, are `None`.
#[derive(Default)]
pub(super) struct Arguments {
    pub(super) key: Option<Vec<KeySource>>,
    /// Instead of the key's parts.
    pub(super) sequence: Option<Sequence>,
    pub(super) key_with: Option<Path>,
    pub(super) scope: Option<LitStr>,
    pub(super) ordered_by: Option<Vec<KeySource>>,
    /// Whether messages may overtake one that has failed.
    pub(super) overtake_failed: Option<bool>,
    pub(super) lease: Option<Written>,
    pub(super) retention: Option<Written>,
    pub(super) timeout: Option<Written>,
    pub(super) max_attempts: Option<LitInt>,
    pub(super) max_outcome: Option<LitInt>,
    pub(super) backoff: Option<(Written, Written)>,
    pub(super) in_doubt: Option<InDoubt>,
    pub(super) store_outage: Option<StoreOutage>,
    pub(super) enforcement: Option<Enforcement>,
    /// Those that are a word, by their names: the type, and the variant that the word means.
    pub(super) choices: Vec<Choice>,
    pub(super) time_header: Option<LitStr>,
    pub(super) fingerprint: Option<Fingerprint>,
    pub(super) recorded_by: Option<LitStr>,
    pub(super) group: Option<LitInt>,
    pub(super) batch: Option<LitInt>,
    pub(super) batch_bytes: Option<LitInt>,
    pub(super) batch_wait: Option<Written>,
    pub(super) decode: Option<Path>,
    pub(super) validate: Option<Path>,
    pub(super) outdated: Option<Path>,
    pub(super) renamed: Option<Path>,
    names: Vec<Ident>,
}

impl Arguments {
    /// Reads as much as can be understood; the rest becomes mistakes.
    pub(super) fn parse(tokens: TokenStream, mistakes: &mut Mistakes) -> Self {
        let mut arguments = Self::default();
        let mut here = Mistakes::default();
        let read = |input: ParseStream<'_>| {
            list::each(input, &mut here, |input| arguments.one(input));
            Ok(())
        };
        // What a mistake left unread inside brackets is no mistake of its own.
        let unread = read.parse2(tokens);
        mistakes.keep(here.into_result().and(unread));
        arguments
    }

    fn one(&mut self, input: ParseStream<'_>) -> Result<()> {
        let name = self.name(input)?;
        match name.to_string().as_str() {
            "key" if sequence::is_next(input) => self.sequence = Some(sequence::parse(input)?),
            "key" => self.key = Some(key_source::parse(input)?),
            "key_with" => self.key_with = Some(value::path(input, &name, "path::to::function")?),
            "scope" => self.scope = Some(value::scope(input)?),
            "ordered_by" => self.ordered_by = Some(ordered_by::parse(input)?),
            "overtake" => self.overtake_failed = Some(ordered_by::overtake(input)?),
            "lease" => self.lease = Some(duration::parse(input, "lease", "30s")?),
            "retention" => self.retention = Some(duration::parse(input, "retention", "72h")?),
            "timeout" => self.timeout = Some(duration::parse(input, "timeout", "30s")?),
            "max_attempts" => self.max_attempts = Some(value::max_attempts(input)?),
            "max_outcome" => self.max_outcome = Some(value::max_outcome(input)?),
            "backoff" => self.backoff = Some(duration::parse_range(input)?),
            "in_doubt" => self.in_doubt = Some(value::in_doubt(input)?),
            "store_outage" => self.store_outage = Some(value::store_outage(input)?),
            "enforcement" => self.enforcement = Some(value::enforcement(input)?),
            "keyless" | "on_rejected" | "on_exhausted" | "on_duplicate" | "on_conflict"
            | "late" => {
                self.choices.push(choice::parse(input, &name)?);
            }
            "time_header" => self.time_header = Some(value::header(input)?),
            "fingerprint" => self.fingerprint = Some(value::fingerprint(input)?),
            "recorded_by" => self.recorded_by = Some(recorded_by::parse(input)?),
            "group" => self.group = Some(group::parse(input)?),
            "batch" => self.batch = Some(batch::parse(input)?),
            "batch_bytes" => self.batch_bytes = Some(batch::bytes(input)?),
            "batch_wait" => {
                self.batch_wait = Some(duration::parse(input, "batch_wait", "5ms")?);
            }
            "decode" => self.decode = Some(value::path(input, &name, "path::to::function")?),
            "validate" => self.validate = Some(value::path(input, &name, "path::to::function")?),
            "outdated" => self.outdated = Some(value::path(input, &name, "path::to::function")?),
            _ => self.renamed = Some(value::path(input, &name, "path::to::idem")?),
        }
        Ok(())
    }

    /// A known name that was not there before, and its `=`.
    fn name(&mut self, input: ParseStream<'_>) -> Result<Ident> {
        if let Ok(literal) = input.fork().parse::<LitStr>() {
            let literal = literal.to_token_stream();
            return Err(input.error(format!("say what this is: write `key = {literal}`")));
        }
        if !input.peek(Ident::peek_any) {
            return Err(input.error("say what this is: write `key = …`"));
        }
        let name: Ident = input.call(Ident::parse_any)?;
        let written = name.to_string();
        if !NAMES.contains(&written.as_str()) {
            if !input.peek(Token![=]) && suggestion::nearest(&written, &NAMES).is_none() {
                let call = if input.peek(Paren) { "(…)" } else { "" };
                let message = format!("say what this is: write `key = {written}{call}`");
                return Err(Error::new(name.span(), message));
            }
            return Err(Error::new(
                name.span(),
                suggestion::unknown(&written, "an argument", &NAMES),
            ));
        }
        if self.names.contains(&name) {
            return Err(Error::new(name.span(), format!("`{name}` is given twice")));
        }
        self.names.push(name.clone());
        input.parse::<Token![=]>().map_err(|_| {
            Error::new(
                name.span(),
                format!("`{name}` needs a value: write `{name} = …`"),
            )
        })?;
        Ok(name)
    }

    /// Whether the key is the message's position, and nothing else.
    pub(super) fn is_named_by_position(&self) -> bool {
        matches!(self.key.as_deref(), Some([KeySource::Position(_)]))
    }

    /// Whether its messages run without a claim, so that they need no key.
    pub(super) fn is_plain(&self) -> bool {
        matches!(&self.enforcement, Some(Enforcement(mode)) if mode == "Plain")
    }

    /// Where the argument's name was written, if it was.
    pub(super) fn span_of(&self, name: &str) -> Option<Span> {
        let ident = self.names.iter().find(|written| *written == name)?;
        Some(ident.span())
    }
}

#[cfg(test)]
mod tests;
