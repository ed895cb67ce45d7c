//! Enough of Redis' protocol to run commands where no `redis-cli` is installed.

use std::io::{self, BufRead, Write};

/// Sends one command, and reads what it answers as `redis-cli` prints it to a file: a line for each text and each
/// number; or what Redis has against it.
pub(super) fn run(
    mut to: impl Write,
    from: &mut impl BufRead,
    words: &[String],
) -> io::Result<Result<String, String>> {
    let mut command = Vec::new();
    write!(command, "*{}\r\n", words.len())?;
    for word in words {
        write!(command, "${}\r\n{word}\r\n", word.len())?;
    }
    to.write_all(&command)?;
    let mut printed = String::new();
    Ok(answer(from, &mut printed)?.map(|()| printed))
}

fn answer(stream: &mut impl BufRead, printed: &mut String) -> io::Result<Result<(), String>> {
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let line = line.trim_end();
    let (kind, rest) = line.split_at_checked(1).unwrap_or(("", ""));
    let count = || rest.parse::<usize>().unwrap_or(0);
    match kind {
        "-" => return Ok(Err(rest.to_owned())),
        // Nil is an empty line, and so is an array of nothing.
        "$" | "*" if rest.starts_with('-') => printed.push('\n'),
        "*" if count() == 0 => printed.push('\n'),
        "$" => {
            let mut text = vec![0; count() + 2];
            stream.read_exact(&mut text)?;
            printed.push_str(&String::from_utf8_lossy(&text[..count()]));
            printed.push('\n');
        }
        "*" => {
            for _ in 0..count() {
                if let Err(refusal) = answer(stream, printed)? {
                    return Ok(Err(refusal));
                }
            }
        }
        _ => {
            printed.push_str(rest);
            printed.push('\n');
        }
    }
    Ok(Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_printed_a_line_each() {
        let printed = |said: &str| {
            let mut heard = Vec::new();
            let answer = run(&mut heard, &mut said.as_bytes(), &["GET".to_owned()]);
            assert_eq!(heard, b"*1\r\n$3\r\nGET\r\n");
            answer.expect("it says enough")
        };
        assert_eq!(printed("+OK\r\n"), Ok("OK\n".to_owned()));
        assert_eq!(printed(":7\r\n"), Ok("7\n".to_owned()));
        assert_eq!(printed("$4\r\nkept\r\n"), Ok("kept\n".to_owned()));
        assert_eq!(printed("$-1\r\n"), Ok("\n".to_owned()));
        assert_eq!(printed("*2\r\n$1\r\na\r\n:2\r\n"), Ok("a\n2\n".to_owned()));
        assert_eq!(printed("-ERR no\r\n"), Err("ERR no".to_owned()));
    }
}
