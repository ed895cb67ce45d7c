//! How far the demonstration is: one line redrawn on a terminal, a line now and then elsewhere.

use std::{
    io::{self, IsTerminal, Write},
    time::{Duration, Instant},
};

use super::tally::Tally;

const BAR: u64 = 24;

#[derive(Debug)]
pub(super) struct Progress {
    start: Instant,
    total: u64,
    redraw: bool,
    last: Option<Instant>,
    /// Figures of the last line, which is not repeated where it stays.
    shown: (u64, u64),
}

impl Progress {
    pub(super) fn new(total: u64) -> Self {
        Self {
            start: Instant::now(),
            total,
            redraw: io::stdout().is_terminal(),
            last: None,
            shown: (u64::MAX, 0),
        }
    }

    /// Shows the figures, not more often than one can read.
    pub(super) fn show(&mut self, published: u64, tally: &Tally) {
        let pause = Duration::from_millis(if self.redraw { 80 } else { 1_000 });
        let figures = (published, tally.reported());
        let unchanged = !self.redraw && self.shown == figures;
        if unchanged || self.last.is_some_and(|last| last.elapsed() < pause) {
            return;
        }
        self.shown = figures;
        self.last = Some(Instant::now());
        let line = line(self.total, published, tally, self.start.elapsed());
        if self.redraw {
            print!("\r{line}\x1b[K");
        } else {
            println!("{line}");
        }
        let _ = io::stdout().flush();
    }

    /// Says something that stays.
    pub(super) fn say(&mut self, what: &str) {
        self.clear();
        println!("{what}");
        self.last = None;
    }

    /// Takes the line away.
    pub(super) fn clear(&self) {
        if self.redraw {
            print!("\r\x1b[K");
        }
    }
}

fn line(total: u64, published: u64, tally: &Tally, elapsed: Duration) -> String {
    let ended = tally.ended().min(total);
    let filled = ended * BAR / total.max(1);
    let bar = (0..BAR).map(|cell| if cell < filled { '#' } else { '.' });
    format!(
        "[{}] {ended}/{total} settled, {published} sent, {} charged, {:.1} s",
        bar.collect::<String>(),
        tally.outcome("executed"),
        elapsed.as_secs_f64()
    )
}

#[cfg(test)]
mod tests {
    use super::{super::tally::tally, *};

    #[test]
    fn the_line_fits_a_terminal_and_fills_with_what_is_settled() {
        let executed =
            r#"{"outcome":"executed","key":"c:a","redelivered":false,"settlement":"ack"}"#;
        let half = line(2, 2, &tally(&[executed]), Duration::from_millis(1_250));
        let expected = "[############............] 1/2 settled, 2 sent, 1 charged, 1.2 s";
        assert_eq!(half, expected);
        let none = Tally::default();
        let longest = line(100_000, 100_000, &none, Duration::from_secs(999));
        assert!(longest.len() < 80, "{} columns", longest.len());
    }
}
