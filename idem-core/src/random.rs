//! What nobody else has, because the system has drawn it at random.

use std::sync::{
    OnceLock,
    atomic::{AtomicU32, Ordering::Relaxed},
};

/// Random bytes, good enough for secrets. Each call asks the system.
pub(crate) fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // Nothing is safe that is not unique: rather no name than one that another process may have.
    getrandom::fill(&mut bytes).expect("the system gives random bytes to each process");
    bytes
}

/// A name of 32 hexadecimal digits.
pub(crate) fn name() -> String {
    format!("{:032x}", u128::from_be_bytes(bytes()))
}

/// A number that nobody else has, at least not within the same millisecond: drawn once by each process, and counted on.
/// It costs no call of the system, and is no secret.
pub(crate) fn numbered() -> [u8; 10] {
    static PROCESS: OnceLock<[u8; 6]> = OnceLock::new();
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let mut all = [0; 10];
    all[..6].copy_from_slice(PROCESS.get_or_init(bytes));
    all[6..].copy_from_slice(&COUNT.fetch_add(1, Relaxed).to_be_bytes());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_names_are_of_32_digits_each_and_differ() {
        let (one, other) = (name(), name());
        assert_ne!(one, other);
        for name in [one, other] {
            assert!(
                name.len() == 32 && name.bytes().all(|it| it.is_ascii_hexdigit()),
                "{name}"
            );
        }
    }
}
