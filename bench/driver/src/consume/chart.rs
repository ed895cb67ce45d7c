//! The standings as a picture: a bar per contestant, and how far its rounds were apart.

use std::fmt;

use super::{super::table::grouped, Contestant, figures::Standing};

const WIDTH: f64 = 760.0;
const NAMES: f64 = 230.0;
/// For the figures behind the longest bar.
const MARGIN: f64 = 130.0;
const ROW: f64 = 24.0;
const BAR: f64 = 14.0;
const TITLE: f64 = 40.0;

/// One panel per race.
#[derive(Debug)]
pub(crate) struct Chart<'a> {
    races: &'a [Vec<Standing>],
}

impl<'a> Chart<'a> {
    pub(crate) fn of(races: &'a [Vec<Standing>]) -> Self {
        Self { races }
    }

    /// The pixels of one message per second, the same in all panels.
    fn scale(&self) -> f64 {
        let fastest = self.races.iter().flatten().map(Standing::fastest);
        (WIDTH - NAMES - MARGIN) / fastest.fold(1.0, f64::max)
    }

    fn height(&self) -> f64 {
        self.races.iter().map(|race| panel_height(race)).sum()
    }
}

fn panel_height(race: &[Standing]) -> f64 {
    race.iter().fold(TITLE, |height, _| height + ROW)
}

/// Ours, theirs that deduplicate, and theirs that do not.
fn colour(contestant: Contestant) -> &'static str {
    if contestant.name().starts_with("idem-") {
        "#2f6fab"
    } else if contestant.deduplicates() {
        "#c98a3b"
    } else {
        "#9aa0a6"
    }
}

impl fmt::Display for Chart<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (height, scale) = (self.height() + ROW / 2.0, self.scale());
        writeln!(
            f,
            r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="13" fill="#202124">"##
        )?;
        writeln!(f, "<title>Messages per second of each consumer</title>")?;
        writeln!(f, r##"<rect width="100%" height="100%" fill="#ffffff"/>"##)?;
        let mut top = 0.0;
        for race in self.races {
            panel(f, race, top, scale)?;
            top += panel_height(race);
        }
        writeln!(f, "</svg>")
    }
}

fn panel(f: &mut fmt::Formatter<'_>, race: &[Standing], top: f64, scale: f64) -> fmt::Result {
    let Some(first) = race.first() else {
        return Ok(());
    };
    let baseline = top + TITLE - 14.0;
    let title = format!("{}: messages per second", first.setting);
    writeln!(
        f,
        r#"<text x="12" y="{baseline}" font-weight="bold">{title}</text>"#
    )?;
    race.iter()
        .scan(top + TITLE, |y, standing| {
            let row = *y;
            *y += ROW;
            Some((row, standing))
        })
        .try_for_each(|(y, standing)| row(f, standing, y, scale))
}

fn row(f: &mut fmt::Formatter<'_>, standing: &Standing, y: f64, scale: f64) -> fmt::Result {
    let (baseline, middle) = (y + 12.0, y + BAR / 2.0);
    let at = |msgs_per_s: f64| NAMES + msgs_per_s * scale;
    let (name, colour) = (standing.contestant.name(), colour(standing.contestant));
    let (length, slowest, fastest) = (
        standing.msgs_per_s * scale,
        at(standing.slowest()),
        at(standing.fastest()),
    );
    writeln!(
        f,
        r#"<text x="{:.1}" y="{baseline:.1}" text-anchor="end">{name}</text>"#,
        NAMES - 8.0
    )?;
    writeln!(
        f,
        r#"<rect x="{NAMES:.1}" y="{y:.1}" width="{length:.1}" height="{BAR}" fill="{colour}"/>"#
    )?;
    writeln!(
        f,
        r##"<line x1="{slowest:.1}" y1="{middle:.1}" x2="{fastest:.1}" y2="{middle:.1}" stroke="#202124"/>"##
    )?;
    writeln!(
        f,
        r#"<text x="{:.1}" y="{baseline:.1}">{} · {:.2}</text>"#,
        fastest + 8.0,
        grouped(standing.msgs_per_s),
        standing.ratio
    )
}

#[cfg(test)]
mod tests {
    use super::{
        super::figures::tests::{SETTING, figures},
        *,
    };

    fn standings() -> Vec<Standing> {
        use Contestant::{IdemMemory, LapinAckEach};
        let figures = figures(&[
            (LapinAckEach, 1_000),
            (IdemMemory, 2_000),
            (IdemMemory, 3_000),
            (IdemMemory, 4_000),
        ]);
        figures.standings(SETTING, &[LapinAckEach, IdemMemory])
    }

    #[test]
    fn a_bar_is_as_long_as_its_contestant_is_fast() {
        let races = [standings()];
        let svg = Chart::of(&races).to_string();
        let bars: Vec<_> = (svg.lines())
            .filter_map(|line| line.strip_prefix(r#"<rect x="230.0" "#))
            .collect();
        // The fastest round takes all the room there is: 400 for 4,000.
        assert!(
            bars[0].contains(r##"width="100.0" height="14" fill="#9aa0a6""##),
            "{bars:?}"
        );
        assert!(
            bars[1].contains(r##"width="300.0" height="14" fill="#2f6fab""##),
            "{bars:?}"
        );
        assert!(svg.contains(r#"x1="430.0" y1="71.0" x2="630.0""#), "{svg}");
        assert!(svg.contains(">3,000 · 3.00</text>"), "{svg}");
    }

    #[test]
    fn panels_are_below_each_other() {
        let races = [standings(), standings()];
        let svg = Chart::of(&races).to_string();
        assert!(
            svg.starts_with("<svg ") && svg.ends_with("</svg>\n"),
            "{svg}"
        );
        let titles: Vec<_> = (svg.lines())
            .filter(|line| line.contains("classic queue, prefetch 256"))
            .collect();
        assert!(titles[0].contains(r#"y="26""#), "{titles:?}");
        assert!(titles[1].contains(r#"y="114""#), "{titles:?}");
    }
}
