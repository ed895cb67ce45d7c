//! Keys with a number behind them: of what a session's client numbers.

use super::{
    Key,
    encoding::{self, DIGEST_MARK},
};

/// The digits of the greatest `u64`, and the mark before them.
const NUMBER_LEN: usize = 20 + DIGEST_MARK.len_utf8();

impl Key {
    /// This key, shortened like any that is too long if no number would fit behind it.
    pub(crate) fn with_room(self) -> Self {
        if self.0.len() + NUMBER_LEN <= Self::MAX_LEN {
            return self;
        }
        let text = encoding::bound(self.0.to_string(), Self::MAX_LEN - NUMBER_LEN);
        Self(text.into())
    }

    /// `KEY~NUMBER`: no key made of parts is like that, because parts escape the mark, and because a
    /// digest is longer than any number. For a key that has room for it.
    pub(crate) fn numbered(&self, number: u64) -> Self {
        Self(format!("{}{DIGEST_MARK}{number}", self.0).into())
    }

    /// The key and the number that this one was made of, as texts.
    #[cfg_attr(
        not(any(test, feature = "redis")),
        expect(dead_code, reason = "only a cluster has to know what belongs together")
    )]
    pub(crate) fn as_numbered(&self) -> Option<(&str, &str)> {
        let digits = self.0.bytes().rev().take_while(u8::is_ascii_digit).count();
        let (head, number) = self.0.split_at(self.0.len() - digits);
        let head = head.strip_suffix(DIGEST_MARK)?;
        (1..NUMBER_LEN).contains(&digits).then_some((head, number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(part: &str) -> Key {
        Key::new("leases", part).unwrap()
    }

    #[test]
    fn a_numbered_key_tells_what_it_was_made_of() {
        for number in [0, 17, u64::MAX] {
            let numbered = key("c-1").numbered(number);
            assert_eq!(numbered.as_str(), format!("leases:c-1~{number}"));
            let text = number.to_string();
            assert_eq!(numbered.as_numbered(), Some(("leases:c-1", &*text)));
        }
    }

    #[test]
    fn no_key_made_of_parts_is_taken_for_a_numbered_one() {
        let long = "1".repeat(400);
        for part in ["c-1", "c~1", "1", &long] {
            assert_eq!(key(part).as_numbered(), None, "{part}");
        }
    }

    #[test]
    fn a_digest_of_digits_is_no_number() {
        let digest = "1".repeat(64);
        let key = Key(format!("leases:c~{digest}").into());
        assert_eq!(key.as_numbered(), None);
    }

    #[test]
    fn the_longest_number_fits_behind_every_key() {
        for length in [1, 226, 227, 228, 247, 400] {
            let key = key(&"c".repeat(length)).with_room();
            let numbered = key.numbered(u64::MAX);
            assert!(numbered.as_str().len() <= Key::MAX_LEN, "{length}");
            assert_eq!(numbered.as_numbered().unwrap().0, key.as_str());
        }
    }

    #[test]
    fn keys_that_are_shortened_for_a_number_stay_apart() {
        let [one, other] = ["a", "b"].map(|end| key(&("c".repeat(240) + end)).with_room());
        assert_ne!(one, other);
    }
}
