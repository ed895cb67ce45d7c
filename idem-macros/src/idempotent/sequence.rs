//! A key that is a place in a producer's sequence: `key = sequence(producer = "device_id", number = "seq")`.

use proc_macro2::{Span, TokenStream};
use quote::ToTokens as _;
use syn::{
    Error, Ident, LitInt, LitStr, Result, Token, ext::IdentExt, parenthesized, parse::ParseStream,
    token::Paren,
};

use super::{
    duration::{self, Written},
    key_source::{self, KeySource},
    list, suggestion,
};
use crate::mistakes::Mistakes;

mod limits;

const NAMES: [&str; 5] = ["producer", "number", "epoch", "window", "skip_gaps_after"];

/// The headers with which `idem_amqp`'s publisher numbers what it publishes.
const PRODUCER: &str = "idem-producer";
const EPOCH: &str = "idem-epoch";
const NUMBER: &str = "idem-sequence";

/// Who numbers the messages, and by what.
pub(super) struct Sequence {
    pub(super) producer: Vec<KeySource>,
    pub(super) epoch: Vec<KeySource>,
    pub(super) number: KeySource,
    pub(super) window: Option<LitInt>,
    pub(super) skip_gaps_after: Option<Written>,
}

/// What was written; the rest becomes mistakes.
#[derive(Default)]
struct Draft {
    producer: Option<Vec<KeySource>>,
    epoch: Option<Vec<KeySource>>,
    number: Option<KeySource>,
    window: Option<LitInt>,
    skip_gaps_after: Option<Written>,
    names: Vec<Ident>,
}

/// Whether a sequence comes next, and no field of that name.
pub(super) fn is_next(input: ParseStream<'_>) -> bool {
    let word = input.fork().call(Ident::parse_any);
    word.is_ok_and(|word| word == "sequence") && input.peek2(Paren)
}

/// Parses `sequence(…)`.
pub(super) fn parse(input: ParseStream<'_>) -> Result<Sequence> {
    let word: Ident = input.parse()?;
    let content;
    parenthesized!(content in input);
    let mut draft = Draft::default();
    let mut mistakes = Mistakes::default();
    list::each(&content, &mut mistakes, |input| draft.one(input));
    mistakes.into_result()?;
    draft.finish(word.span())
}

impl Draft {
    fn one(&mut self, input: ParseStream<'_>) -> Result<()> {
        let name = self.name(input)?;
        match name.to_string().as_str() {
            "producer" => self.producer = Some(key_source::parse(input)?),
            "epoch" => self.epoch = Some(key_source::parse(input)?),
            "number" => self.number = Some(number(input)?),
            "window" => self.window = Some(limits::window(input)?),
            _ => {
                let wait = duration::parse(input, "skip_gaps_after", "10m")?;
                self.skip_gaps_after = Some(limits::skip_gaps_after(wait)?);
            }
        }
        Ok(())
    }

    /// A known name that was not there before, and its `=`.
    fn name(&mut self, input: ParseStream<'_>) -> Result<Ident> {
        const SAY: &str =
            "say what this is, as in `sequence(producer = \"device_id\", number = \"seq\")`";
        if input.peek(LitStr) || !input.peek(Ident::peek_any) || input.peek2(Paren) {
            return Err(input.error(SAY));
        }
        let name: Ident = input.call(Ident::parse_any)?;
        let written = name.to_string();
        if !NAMES.contains(&written.as_str()) {
            if !input.peek(Token![=]) && suggestion::nearest(&written, &NAMES).is_none() {
                return Err(Error::new(name.span(), SAY));
            }
            let message = suggestion::unknown(&written, "an argument of `sequence`", &NAMES);
            return Err(Error::new(name.span(), message));
        }
        if self.names.contains(&name) {
            return Err(Error::new(name.span(), format!("`{name}` is given twice")));
        }
        self.names.push(name.clone());
        input.parse::<Token![=]>().map_err(|_| {
            let message = format!("`{name}` needs a value: write `{name} = …`");
            Error::new(name.span(), message)
        })?;
        Ok(name)
    }

    /// Producer and number go together; without both, the headers tell that the publisher stamps.
    fn finish(self, span: Span) -> Result<Sequence> {
        let (producer, epoch, number) = match (self.producer, self.epoch, self.number) {
            (Some(producer), epoch, Some(number)) => {
                let epoch = epoch.unwrap_or_default();
                distinct(producer.iter().chain(&epoch), &number)?;
                (producer, epoch, number)
            }
            (None, None, None) => {
                let stamp = |name| KeySource::Header(LitStr::new(name, span));
                (vec![stamp(PRODUCER)], vec![stamp(EPOCH)], stamp(NUMBER))
            }
            (Some(_), _, None) => {
                return Err(Error::new(
                    span,
                    "say which field or header numbers the producer's messages: `number = \"seq\"`",
                ));
            }
            (None, ..) => {
                return Err(Error::new(
                    span,
                    "say whose messages are numbered: `producer = \"device_id\"`; or write `sequence()` for what a `SequencePublisher` publishes",
                ));
            }
        };
        Ok(Sequence {
            producer,
            epoch,
            number,
            window: self.window,
            skip_gaps_after: self.skip_gaps_after,
        })
    }
}

/// A field or a header.
fn number(input: ParseStream<'_>) -> Result<KeySource> {
    const ONE: &str = "a number is in one field or header: write `number = \"seq\"` or `number = header(\"x-seq\")`";
    let span = input.span();
    let mut sources = key_source::parse(input)?;
    match (sources.pop(), sources.is_empty()) {
        (Some(number @ (KeySource::Field(_) | KeySource::Header(_))), true) => Ok(number),
        (Some(other), true) => Err(Error::new(other.span(), ONE)),
        _ => Err(Error::new(span, ONE)),
    }
}

fn distinct<'a>(parts: impl Iterator<Item = &'a KeySource>, number: &'a KeySource) -> Result<()> {
    let mut names: Vec<String> = Vec::new();
    for part in parts.chain([number]) {
        let name = part.name();
        if names.contains(&name) {
            let message = format!("`{name}` is in the key already");
            return Err(Error::new(part.span(), message));
        }
        names.push(name);
    }
    Ok(())
}

/// For a sequence where a part of a key is expected.
pub(super) fn inside(word: &Ident, content: ParseStream<'_>) -> Error {
    let rest = content.parse::<TokenStream>();
    drop(rest);
    Error::new_spanned(
        word.to_token_stream(),
        "a sequence is the whole key: write `key = sequence(…)`, and several parts as `producer = [\"tenant\", \"device_id\"]`",
    )
}

#[cfg(test)]
mod tests;
