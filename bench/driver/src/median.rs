//! The middle of several figures, which a few outliers do not move.

/// The middle figure, or the mean of the two in the middle; `None` of none.
pub(crate) fn median(figures: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut figures: Vec<_> = figures.into_iter().collect();
    figures.sort_by(f64::total_cmp);
    let upper = figures.get(figures.len() / 2)?;
    let lower = figures[(figures.len() - 1) / 2];
    Some(f64::midpoint(lower, *upper))
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn half_of_the_figures_are_on_either_side() {
        let cases: [(&[f64], _); 5] = [
            (&[], None),
            (&[3.0], Some(3.0)),
            (&[4.0, 1.0], Some(2.5)),
            (&[9.0, 1.0, 2.0], Some(2.0)),
            (&[1000.0, 1.0, 3.0, 2.0], Some(2.5)),
        ];
        for (figures, expected) in cases {
            assert_eq!(median(figures.iter().copied()), expected, "{figures:?}");
        }
    }
}
