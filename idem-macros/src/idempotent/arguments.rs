//! What stands in the parentheses of `#[idempotent(…)]`.

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use syn::{
    Error, Ident, LitInt, LitStr, Path, Result, Token, bracketed,
    ext::IdentExt,
    parse::{ParseStream, Parser},
    token::{Bracket, Paren},
};

use super::{
    duration::{self, Written},
    field_path::FieldPath,
    key_source::{self, KeySource},
    list, scope, suggestion,
};
use crate::mistakes::Mistakes;

mod check;
mod times;

const NAMES: [&str; 11] = [
    "key",
    "key_with",
    "scope",
    "lease",
    "retention",
    "max_attempts",
    "backoff",
    "in_doubt",
    "fingerprint",
    "decode",
    "crate",
];

/// The arguments; those that were not given, or not understood, are `None`.
#[derive(Default)]
pub(super) struct Arguments {
    pub(super) key: Option<Vec<KeySource>>,
    pub(super) key_with: Option<Path>,
    pub(super) scope: Option<LitStr>,
    pub(super) lease: Option<Written>,
    pub(super) retention: Option<Written>,
    pub(super) max_attempts: Option<LitInt>,
    pub(super) backoff: Option<(Written, Written)>,
    pub(super) in_doubt: Option<InDoubt>,
    pub(super) fingerprint: Option<Fingerprint>,
    pub(super) decode: Option<Path>,
    pub(super) renamed: Option<Path>,
    names: Vec<Ident>,
}

/// `in_doubt = "retry"` or `"quarantine"`, as the variant of `InDoubt` that it means.
pub(super) struct InDoubt(pub(super) Ident);

/// `fingerprint = off`, or of some fields.
pub(super) enum Fingerprint {
    Off,
    Fields(Vec<FieldPath>),
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
            "key" => self.key = Some(key_source::parse(input)?),
            "key_with" => self.key_with = Some(path(input, &name, "path::to::function")?),
            "scope" => self.scope = Some(text(input, "scope", "orders.charge")?),
            "lease" => self.lease = Some(duration::parse(input, "lease", "30s")?),
            "retention" => self.retention = Some(duration::parse(input, "retention", "72h")?),
            "max_attempts" => self.max_attempts = Some(max_attempts(input)?),
            "backoff" => self.backoff = Some(duration::parse_range(input)?),
            "in_doubt" => self.in_doubt = Some(in_doubt(input)?),
            "fingerprint" => self.fingerprint = Some(fingerprint(input)?),
            "decode" => self.decode = Some(path(input, &name, "path::to::function")?),
            _ => self.renamed = Some(path(input, &name, "path::to::idem")?),
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

    /// Where the argument's name was written, if it was.
    pub(super) fn span_of(&self, name: &str) -> Option<Span> {
        let ident = self.names.iter().find(|written| *written == name)?;
        Some(ident.span())
    }
}

fn path(input: ParseStream<'_>, name: &Ident, example: &str) -> Result<Path> {
    input.call(Path::parse_mod_style).map_err(|error| {
        Error::new(
            error.span(),
            format!("write `{name} = {example}`, without quotes or parentheses"),
        )
    })
}

fn text(input: ParseStream<'_>, name: &str, example: &str) -> Result<LitStr> {
    let literal: LitStr = input
        .parse()
        .map_err(|error| Error::new(error.span(), format!("write `{name} = \"{example}\"`")))?;
    match scope::mistake(&literal.value()) {
        Some(message) => Err(Error::new(literal.span(), message)),
        None => Ok(literal),
    }
}

fn max_attempts(input: ParseStream<'_>) -> Result<LitInt> {
    const CURE: &str = "write a number from 1 to 4294967295, such as `max_attempts = 10`";
    let span = input.span();
    let number = input.parse::<LitInt>();
    let number = number.map_err(|_| Error::new(span, CURE))?;
    match number.base10_parse::<u32>() {
        Ok(0) => Err(Error::new(
            span,
            "no attempt would ever run: write at least 1",
        )),
        Ok(_) => Ok(number),
        Err(_) => Err(Error::new(span, CURE)),
    }
}

/// A word, bare or in quotes.
fn word(input: ParseStream<'_>) -> Result<Ident> {
    if input.peek(LitStr) {
        let literal: LitStr = input.parse()?;
        literal.parse_with(Ident::parse_any)
    } else {
        input.call(Ident::parse_any)
    }
}

fn in_doubt(input: ParseStream<'_>) -> Result<InDoubt> {
    const CURE: &str = "write `in_doubt = \"retry\"` or `in_doubt = \"quarantine\"`";
    let word = word(input).map_err(|error| Error::new(error.span(), CURE))?;
    let variant = match word.to_string().as_str() {
        "retry" => "Retry",
        "quarantine" => "Quarantine",
        _ => return Err(Error::new(word.span(), CURE)),
    };
    Ok(InDoubt(Ident::new(variant, word.span())))
}

fn fingerprint(input: ParseStream<'_>) -> Result<Fingerprint> {
    const CURE: &str =
        "write `fingerprint = off`, or the fields to compare: `fingerprint = [\"amount_cents\"]`";
    if input.peek(Bracket) {
        let content;
        let brackets = bracketed!(content in input);
        let mut fields = Vec::new();
        let mut mistakes = Mistakes::default();
        list::each(&content, &mut mistakes, |input| {
            fields.push(FieldPath::parse(input)?);
            Ok(())
        });
        mistakes.into_result()?;
        if fields.is_empty() {
            return Err(Error::new(brackets.span.join(), CURE));
        }
        return Ok(Fingerprint::Fields(fields));
    }
    match word(input) {
        Ok(word) if word == "off" => Ok(Fingerprint::Off),
        Ok(word) => Err(Error::new_spanned(word.to_token_stream(), CURE)),
        Err(error) => Err(Error::new(error.span(), CURE)),
    }
}
