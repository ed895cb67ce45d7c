//! Enough of PostgreSQL's protocol to run SQL where no `psql` is installed: a start without password, and one simple
//! query.

use std::io::{self, Read, Write};

/// A message of the server's.
struct Message {
    kind: u8,
    body: Vec<u8>,
}

/// What became of a query: its rows, a line each, columns separated by `|`; or what the server has against it.
pub(super) fn run(
    stream: &mut (impl Read + Write),
    user: &str,
    database: &str,
    sql: &str,
) -> io::Result<Result<String, String>> {
    stream.write_all(&startup(user, database))?;
    if let Err(refusal) = until_ready(stream, &mut String::new())? {
        return Ok(Err(refusal));
    }
    stream.write_all(&message(b'Q', format!("{sql}\0").as_bytes()))?;
    let mut rows = String::new();
    let ended = until_ready(stream, &mut rows)?;
    stream.write_all(&message(b'X', &[]))?;
    Ok(ended.map(|()| rows))
}

/// Without a kind: who we are, and where.
fn startup(user: &str, database: &str) -> Vec<u8> {
    let who = format!("user\0{user}\0database\0{database}\0\0");
    let version = (3_u32 << 16).to_be_bytes();
    let mut words = length(who.len() + version.len());
    words.extend(version);
    words.extend(who.as_bytes());
    words
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut words = vec![kind];
    words.extend(length(body.len()));
    words.extend(body);
    words
}

/// It counts itself.
fn length(body: usize) -> Vec<u8> {
    let length = u32::try_from(body + 4).expect("a query of a test");
    length.to_be_bytes().to_vec()
}

/// Reads up to `ReadyForQuery`; an error while starting is the last word.
fn until_ready(stream: &mut impl Read, rows: &mut String) -> io::Result<Result<(), String>> {
    let mut ended = Ok(());
    loop {
        let message = next(stream)?;
        match message.kind {
            b'Z' => return Ok(ended),
            b'D' => rows.push_str(&row(&message.body)),
            b'E' => {
                ended = Err(said(&message.body));
                if is_fatal(&message.body) {
                    return Ok(ended);
                }
            }
            b'R' if message.body.get(..4) != Some(&[0; 4]) => {
                let wants = "it asks for a password: tests use a PostgreSQL that trusts, as in compose.yaml";
                return Ok(Err(wants.to_owned()));
            }
            _ => {}
        }
    }
}

fn next(stream: &mut impl Read) -> io::Result<Message> {
    let mut head = [0; 5];
    stream.read_exact(&mut head)?;
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
    let mut body = vec![0; (length as usize).saturating_sub(4)];
    stream.read_exact(&mut body)?;
    Ok(Message {
        kind: head[0],
        body,
    })
}

/// A count of columns, and for each its length and its text; a length of -1 is NULL.
fn row(body: &[u8]) -> String {
    let mut columns = Vec::new();
    let mut rest = body.get(2..).unwrap_or_default();
    while let Some((length, text)) = rest.split_first_chunk::<4>() {
        let length = usize::try_from(i32::from_be_bytes(*length)).unwrap_or(0);
        let (column, others) = text.split_at(length.min(text.len()));
        columns.push(String::from_utf8_lossy(column).into_owned());
        rest = others;
    }
    columns.join("|") + "\n"
}

/// Fields are a letter and a text each: `S` the severity, `M` the message.
fn field(body: &[u8], letter: u8) -> Option<String> {
    let mut fields = body.split(|byte| *byte == 0);
    let field = fields.find(|field| field.first() == Some(&letter))?;
    Some(String::from_utf8_lossy(&field[1..]).into_owned())
}

fn said(body: &[u8]) -> String {
    field(body, b'M').unwrap_or_else(|| "an error without a message".to_owned())
}

fn is_fatal(body: &[u8]) -> bool {
    field(body, b'S').is_some_and(|severity| severity == "FATAL" || severity == "PANIC")
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    /// What a server says, and what it hears.
    struct Talk(Cursor<Vec<u8>>, Vec<u8>);

    impl Read for Talk {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.read(buffer)
        }
    }

    impl Write for Talk {
        fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
            self.1.write(buffer)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn answered(messages: &[(u8, &[u8])]) -> Result<String, String> {
        let said = messages
            .iter()
            .flat_map(|(kind, body)| message(*kind, body));
        let mut talk = Talk(Cursor::new(said.collect()), Vec::new());
        run(&mut talk, "idem", "idem", "SELECT 1").expect("the server says enough")
    }

    const STARTED: [(u8, &[u8]); 2] = [(b'R', &[0; 4]), (b'Z', b"I")];

    #[test]
    fn rows_are_lines_and_columns_are_separated() {
        let row = b"\0\x02\0\0\0\x01a\xff\xff\xff\xff";
        let messages = [
            STARTED[0],
            STARTED[1],
            (b'D', row),
            (b'C', b"x\0"),
            (b'Z', b"I"),
        ];
        assert_eq!(answered(&messages), Ok("a|\n".to_owned()));
    }

    #[test]
    fn what_the_server_has_against_it_is_an_error() {
        let error = b"SERROR\0Mthere is no such table\0\0";
        let messages = [STARTED[0], STARTED[1], (b'E', &error[..]), (b'Z', b"I")];
        assert_eq!(
            answered(&messages),
            Err("there is no such table".to_owned())
        );
        let starting = b"SFATAL\0Mthe database system is starting up\0\0";
        let refused = answered(&[(b'E', starting)]);
        assert_eq!(
            refused,
            Err("the database system is starting up".to_owned())
        );
    }

    #[test]
    fn a_server_that_wants_a_password_is_told_apart() {
        let refused = answered(&[(b'R', &[0, 0, 0, 10])]);
        assert!(refused.is_err_and(|text| text.contains("compose.yaml")));
    }
}
