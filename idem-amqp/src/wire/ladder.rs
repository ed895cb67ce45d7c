//! What the retry ladder is called on the broker: its queues and exchanges.

use std::time::Duration;

/// The name of a rung's exchange and of its queue. Frozen: messages wait in these queues.
pub(crate) fn rung_name(rung: Duration) -> String {
    const UNITS: [(u128, &str); 3] = [(3_600_000, "h"), (60_000, "m"), (1_000, "s")];
    let milliseconds = rung.as_millis();
    let unit = UNITS
        .iter()
        .find(|(length, _)| milliseconds.is_multiple_of(*length));
    let (length, unit) = unit.unwrap_or(&(1, "ms"));
    format!("{RUNG}{}{unit}", milliseconds / length)
}

/// Whether a queue is a rung of some ladder.
pub(crate) fn is_rung(queue: &str) -> bool {
    queue.starts_with(RUNG)
}

/// Where rungs dead-letter to. Each origin queue is bound to it by its own name, which is the
/// routing key that a message keeps on its rung.
pub(crate) const RETURN: &str = "idem.return";

const RUNG: &str = "idem.retry.";

#[cfg(test)]
mod tests {
    use idem_core::settlement::Ladder;

    use super::*;

    #[test]
    fn the_names_of_rungs_stay_as_they_were_released() {
        let (ms, secs) = (Duration::from_millis, Duration::from_secs);
        let table = [
            (ms(100), "idem.retry.100ms"),
            (ms(1500), "idem.retry.1500ms"),
            (secs(1), "idem.retry.1s"),
            (secs(90), "idem.retry.90s"),
            (secs(60), "idem.retry.1m"),
            (secs(900), "idem.retry.15m"),
            (secs(3600), "idem.retry.1h"),
            (Ladder::LONGEST_RUNG, "idem.retry.24h"),
        ];
        for (rung, name) in table {
            assert_eq!(rung_name(rung), name);
        }
    }
}
