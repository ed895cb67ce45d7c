use idem_core::{Envelope, Failed, handler::{DecodeError, Handler}, idempotent};

struct Line(String);

fn line(envelope: &Envelope) -> Result<Line, DecodeError> {
    let text = str::from_utf8(envelope.body()).map_err(DecodeError::new)?;
    Ok(Line(text.to_owned()))
}

#[idempotent(key = "0", decode = self::line)]
async fn charge(line: Line) -> Result<(), Failed> {
    drop(line.0);
    Ok(())
}

fn consume<H: Handler<()>>() {}

fn main() {
    consume::<charge>();
}
