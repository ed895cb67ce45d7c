//! A few words with a server, to learn whether it answers and is the one we mean.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// For how long a server that accepts connections may be silent.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);
const LONGEST_ANSWER: usize = 64 * 1024;

/// Sends `words` to a port of this machine and reads until `expected` is in the answer; `false`
/// if the server refuses, closes or stays silent before that.
pub(crate) fn answers(port: u16, words: &[u8], expected: impl AsRef<[u8]>) -> bool {
    hears(port, words, expected.as_ref()).unwrap_or(false)
}

fn hears(port: u16, words: &[u8], expected: &[u8]) -> io::Result<bool> {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(words)?;
    let mut answer = Vec::new();
    let mut chunk = [0; 4096];
    while answer.len() < LONGEST_ANSWER {
        let length = stream.read(&mut chunk)?;
        answer.extend_from_slice(&chunk[..length]);
        if contains(&answer, expected) {
            return Ok(true);
        }
        if length == 0 {
            break;
        }
    }
    Ok(false)
}

fn contains(answer: &[u8], expected: &[u8]) -> bool {
    answer
        .windows(expected.len())
        .any(|window| window == expected)
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, thread};

    use super::*;

    fn a_server_that_says(answer: &'static [&'static str]) -> u16 {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        thread::spawn(move || {
            let (mut client, _) = listener.accept().expect("a client");
            let mut words = [0; 5];
            client.read_exact(&mut words).expect("its words");
            for chunk in answer {
                client.write_all(chunk.as_bytes()).expect("it listens");
            }
        });
        port
    }

    #[test]
    fn the_expected_words_may_come_in_parts() {
        assert!(answers(
            a_server_that_says(&["I am o", "urs", "!"]),
            b"hello",
            "ours"
        ));
    }

    #[test]
    fn another_server_on_that_port_is_not_ours() {
        assert!(!answers(
            a_server_that_says(&["I am not"]),
            b"hello",
            "ours"
        ));
    }
}
