//! How much memory a process occupies, as Linux tells it.

use std::fs;

use crate::Result;

/// What this process occupies now, in bytes.
///
/// # Errors
/// The kernel does not tell: it is not Linux.
pub fn resident_memory() -> Result<u64> {
    own("VmRSS:")
}

/// The most that this process ever occupied, in bytes.
///
/// # Errors
/// The kernel does not tell: it is not Linux.
pub fn peak_memory() -> Result<u64> {
    own("VmHWM:")
}

fn own(what: &str) -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(what));
    let kilobytes = line.and_then(|line| line.split_whitespace().next());
    let kilobytes: u64 = kilobytes.ok_or("the kernel does not tell")?.parse()?;
    Ok(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_back_counts_towards_the_peak() {
        const BYTES: usize = 64 << 20;
        let before = resident_memory().unwrap();
        let ballast = vec![1_u8; BYTES];
        assert!(resident_memory().unwrap() >= before + BYTES as u64 / 2);
        drop(std::hint::black_box(ballast));
        assert!(peak_memory().unwrap() >= before + BYTES as u64 / 2);
    }
}
