use std::collections::VecDeque;

use futures_util::{FutureExt as _, io::AsyncReadExt as _};

use super::*;
use crate::connection::frames::tests::{content_header, frame, through};

/// What a socket has, and no more at a time than this.
struct Socket {
    chunks: VecDeque<Vec<u8>>,
}

impl Socket {
    fn of(bytes: &[u8], at_a_time: usize) -> Self {
        let chunks = bytes.chunks(at_a_time).map(<[u8]>::to_vec).collect();
        Self { chunks }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let Some(chunk) = self.chunks.front_mut() else {
            return Poll::Ready(Ok(0));
        };
        let read = chunk.len().min(buffer.len());
        buffer[..read].copy_from_slice(&chunk[..read]);
        chunk.drain(..read);
        if chunk.is_empty() {
            self.chunks.pop_front();
        }
        Poll::Ready(Ok(read))
    }
}

/// Two messages, of which the client could not read the properties of the second, and a body of this size.
fn stream(body: usize) -> Vec<u8> {
    let good = content_header(1, &[0, 0]);
    let bad = content_header(1, b"\x80\0\x01\xe9");
    let body = frame(3, 1, &vec![b'x'; body]);
    [&good, &body[..], &bad, &body, &good, &body].concat()
}

#[test]
fn however_little_is_read_at_a_time_the_same_comes_out() {
    let sent = stream(100);
    let expected = through(&mut Frames::new(0), &sent);
    assert!(expected.len() > sent.len());
    for at_a_time in [1, 2, 7, 8, 30, 64, 100, 1000] {
        for room in [1, 3, 64, 1000] {
            let mut filtered = Filtered::new(Socket::of(&sent, at_a_time), 0);
            let (mut came, mut buffer) = (Vec::<u8>::new(), vec![0; room]);
            loop {
                let read = filtered.read(&mut buffer).now_or_never().unwrap().unwrap();
                if read == 0 {
                    break;
                }
                came.extend(&buffer[..read]);
            }
            assert_eq!(came, expected, "{at_a_time} bytes into {room}");
        }
    }
}

#[test]
fn what_is_fine_is_not_copied() {
    let fine = [
        content_header(1, &[0, 0]),
        frame(3, 1, &vec![b'x'; 100_000]),
    ]
    .concat();
    let mut filtered = Filtered::new(Socket::of(&fine, usize::MAX), 0);
    let mut buffer = vec![0; fine.len()];
    let read = filtered.read(&mut buffer).now_or_never().unwrap().unwrap();
    assert_eq!((read, buffer), (fine.len(), fine));
    assert_eq!(
        (filtered.ready.capacity(), filtered.partial.capacity()),
        (0, 0)
    );
}

#[test]
fn what_comes_behind_a_frame_that_was_cut_is_not_copied() {
    let good = content_header(1, &[0, 0]);
    let sent = [&good[..], &frame(3, 1, &vec![b'x'; 100_000]), &good].concat();
    for cut in [3, good.len() - 1, good.len() + 3] {
        let chunks = [&sent[..cut], &sent[cut..]].map(<[u8]>::to_vec).into();
        let mut filtered = Filtered::new(Socket { chunks }, 0);
        let (mut came, mut buffer) = (Vec::new(), vec![0; sent.len()]);
        while came.len() < sent.len() {
            let read = filtered.read(&mut buffer).now_or_never().unwrap().unwrap();
            came.extend_from_slice(&buffer[..read]);
        }
        assert_eq!(came, sent);
        let kept = filtered.ready.capacity() + filtered.partial.capacity();
        assert!(kept < 1000, "{kept} bytes, cut at {cut}");
    }
}
