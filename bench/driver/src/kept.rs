//! Figures that are kept in files.

use std::{fs, path::Path};

use idem_servers::{Error, Result};
use serde::Serialize;

/// Writes figures as JSON.
pub(crate) fn json(file: &Path, figures: &impl Serialize) -> Result<()> {
    let json = serde_json::to_vec_pretty(figures).expect("figures are plain data");
    text(file, json)
}

/// Writes what is text already.
pub(crate) fn text(file: &Path, text: impl AsRef<[u8]>) -> Result<()> {
    fs::write(file, text).map_err(Error::io(format!("write {}", file.display())))
}
