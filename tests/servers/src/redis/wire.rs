//! A command for a Redis, and its answer as text, over a connection of its own: `redis-cli` would be a process for each.

use std::{
    io::{self, BufRead, BufReader, Write as _},
    net::{Ipv4Addr, TcpStream},
};

/// What Redis has answered: text, or why it refuses.
pub(super) type Answer = Result<String, String>;

/// Sends a command to a port of this machine, and waits for the answer, for as long as that takes. An element of a list
/// is a line of the text; nothing is an empty one.
pub(super) fn ask(port: u16, password: Option<&str>, command: &[String]) -> io::Result<Answer> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    let login = password.map(|password| encoded(&["AUTH", password]));
    let request = encoded(command);
    stream.write_all(&[login.clone().unwrap_or_default(), request].concat())?;
    let mut answers = BufReader::new(stream);
    if login.is_some()
        && let Err(refusal) = read(&mut answers)?
    {
        return Ok(Err(refusal));
    }
    read(&mut answers)
}

fn encoded<S: AsRef<str>>(words: &[S]) -> Vec<u8> {
    let words: Vec<_> = words
        .iter()
        .map(|word| format!("${}\r\n{}\r\n", word.as_ref().len(), word.as_ref()))
        .collect();
    format!("*{}\r\n{}", words.len(), words.concat()).into_bytes()
}

fn read(answers: &mut impl BufRead) -> io::Result<Answer> {
    let mut line = Vec::new();
    answers.read_until(b'\n', &mut line)?;
    // Redis may cut what it quotes in the middle of a character.
    let line = String::from_utf8_lossy(&line);
    let unknown = || io::Error::new(io::ErrorKind::InvalidData, format!("an answer {line:?}"));
    let line = line
        .strip_suffix("\r\n")
        .ok_or(io::ErrorKind::UnexpectedEof)?;
    let (kind, rest) = line.split_at_checked(1).ok_or_else(unknown)?;
    let length = || rest.parse::<usize>().map_err(|_| unknown());
    Ok(match kind {
        "+" | ":" => Ok(format!("{rest}\n")),
        "-" => Err(rest.to_owned()),
        "$" | "*" if rest == "-1" => Ok("\n".to_owned()),
        "$" => {
            let length = length()?;
            let mut bytes = vec![0; length + 2];
            answers.read_exact(&mut bytes)?;
            bytes.truncate(length);
            Ok(String::from_utf8_lossy(&bytes).into_owned() + "\n")
        }
        "*" => {
            let mut text = String::new();
            for _ in 0..length()? {
                text += &read(answers)?.unwrap_or_else(|refusal| refusal + "\n");
            }
            Ok(text)
        }
        _ => return Err(unknown()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(bytes: &str) -> io::Result<Answer> {
        read(&mut bytes.as_bytes())
    }

    #[test]
    fn an_answer_is_told_in_lines() {
        for (bytes, text) in [
            ("+OK\r\n", "OK\n"),
            (":7\r\n", "7\n"),
            ("$-1\r\n", "\n"),
            ("$4\r\na\r\nb\r\n", "a\r\nb\n"),
            ("*0\r\n", ""),
            ("*3\r\n+a\r\n*2\r\n:1\r\n$-1\r\n-no\r\n", "a\n1\n\nno\n"),
        ] {
            assert_eq!(answer(bytes).unwrap(), Ok(text.to_owned()), "{bytes:?}");
        }
        assert_eq!(answer("-ERR no\r\n").unwrap(), Err("ERR no".to_owned()));
        for broken in ["", ":1", "+OK\r", "\r\n", "?\r\n", "$x\r\n", "$9\r\nab\r\n"] {
            assert!(answer(broken).is_err(), "{broken:?}");
        }
    }

    #[test]
    fn a_command_is_sent_by_the_lengths_of_its_words() {
        let sent = encoded(&["SET", "é", ""]);
        assert_eq!(sent, "*3\r\n$3\r\nSET\r\n$2\r\né\r\n$0\r\n\r\n".as_bytes());
    }
}
