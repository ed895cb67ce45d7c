//! Measurements on standard output, progress on standard error.

use std::io::Write as _;

use bench_driver::stores::Measurement;

use crate::Result;

/// Tells what was measured.
pub(crate) fn measured(measurement: &Measurement) -> Result<()> {
    let mut output = std::io::stdout().lock();
    serde_json::to_writer(&mut output, measurement)?;
    writeln!(output)?;
    Ok(output.flush()?)
}
