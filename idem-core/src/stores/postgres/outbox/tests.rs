use super::*;

/// From the table's start once a minute, else from where it was looked last, and a bit before that.
#[test]
fn the_table_is_read_from_where_it_was_looked_at_last() {
    let now = Instant::now() + Duration::from_hours(1);
    let ago = |seconds: u64| now.checked_sub(Duration::from_secs(seconds));
    // When all was looked at, when it was looked at from the start, and how far back it is read now, in seconds.
    let table = [
        (None, None, None),
        (ago(1), None, None),
        (None, ago(1), None),
        (ago(0), ago(0), Some(5)),
        (ago(1), ago(1), Some(6)),
        (ago(1), ago(60), Some(6)),
        (ago(60), ago(60), Some(65)),
        (ago(1), ago(61), None),
        (ago(61), ago(61), None),
    ];
    for (up_to, whole, expected) in table {
        let since = Looked { up_to, whole }.since(now);
        assert_eq!(
            since.map(|since| since.as_secs()),
            expected,
            "{up_to:?} {whole:?} {now:?}"
        );
    }
}
