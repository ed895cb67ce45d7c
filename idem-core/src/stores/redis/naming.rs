//! What a key's record is called in Redis.

use super::scan;
use crate::{
    message::{Key, SessionKey},
    store::ConnectError,
};

/// The prefix of all names of a store.
#[derive(Debug, Clone)]
pub(super) struct Naming {
    prefix: Box<str>,
}

impl Naming {
    const MAX_PREFIX_LEN: usize = 48;

    /// Checks the prefix: nothing that means something to a pattern, a slot or a shell.
    pub(super) fn new(prefix: &str) -> Result<Self, ConnectError> {
        let fine = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:/".contains(&byte);
        if prefix.is_empty() || prefix.len() > Self::MAX_PREFIX_LEN || !prefix.bytes().all(fine) {
            return Err(ConnectError::InvalidPrefix {
                prefix: prefix.to_owned(),
            });
        }
        Ok(Self {
            prefix: prefix.into(),
        })
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// `prefix:{key}`. The braces make the key alone decide the slot of a cluster, so it must not
    /// have any itself; percent signs are escaped to keep escaped and unescaped keys apart.
    ///
    /// A session's answer is `prefix:{session}~number`, so that the session alone decides.
    pub(super) fn record(&self, key: &Key) -> Vec<u8> {
        let Some((session, number)) = key.as_numbered() else {
            return self.braced(key.as_str());
        };
        let mut name = self.braced(session);
        name.push(b'~');
        name.extend_from_slice(number.as_bytes());
        name
    }

    /// `prefix:{session}~`: what the names of its answers begin with.
    pub(super) fn session(&self, session: &SessionKey) -> Vec<u8> {
        self.beside(session.as_str())
    }

    /// `prefix:{key}~`: what the names begin with of all that belongs to this key.
    pub(super) fn beside(&self, key: &str) -> Vec<u8> {
        let mut name = self.braced(key);
        name.push(b'~');
        name
    }

    /// What operators did to a key: beside its record, in the same slot. No number is like that.
    pub(super) fn audit(&self, key: &Key) -> Vec<u8> {
        let mut name = self.record(key);
        name.extend_from_slice(b"~audit");
        name
    }

    /// How far a handler has come in a stream. No number is like that, either.
    pub(super) fn stream(&self, stream: &Key) -> Vec<u8> {
        let mut name = self.braced(stream.as_str());
        name.extend_from_slice(b"~stream");
        name
    }

    /// The names of all streams, as `SCAN` takes them.
    pub(super) fn all_streams(&self) -> Vec<u8> {
        let mut pattern = scan::beginning_with(&self.head(""));
        pattern.extend_from_slice(b"}~stream");
        pattern
    }

    /// The text of the key of the stream whose mark is called so; `None` if it is no mark.
    pub(super) fn stream_of(&self, name: &str) -> Option<String> {
        self.key_of(name.strip_suffix("~stream")?)
    }

    /// What the names of the records begin with whose keys begin with this text, up to the mark before
    /// a number, which stands behind the braces.
    pub(super) fn head(&self, text: &str) -> Vec<u8> {
        let (head, _) = text.split_once('~').unwrap_or((text, ""));
        let mut name = self.braced(head);
        name.pop();
        name
    }

    /// The text of the key whose record is called so; `None` if it is no record.
    pub(super) fn key_of(&self, record: &str) -> Option<String> {
        let braced = record.strip_prefix(self.prefix())?.strip_prefix(":{")?;
        let (inside, behind) = braced.split_once('}')?;
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let is_record = behind.is_empty() || behind.strip_prefix('~').is_some_and(is_number);
        let text = inside
            .replace("%7B", "{")
            .replace("%7D", "}")
            .replace("%25", "%");
        is_record.then(|| text + behind)
    }

    fn braced(&self, key: &str) -> Vec<u8> {
        let mut name = Vec::with_capacity(self.prefix.len() + key.len() + 24);
        name.extend_from_slice(self.prefix.as_bytes());
        name.extend_from_slice(b":{");
        for byte in key.as_bytes() {
            match byte {
                b'{' => name.extend_from_slice(b"%7B"),
                b'}' => name.extend_from_slice(b"%7D"),
                b'%' => name.extend_from_slice(b"%25"),
                _ => name.push(*byte),
            }
        }
        name.push(b'}');
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_called_by_its_key() {
        let naming = Naming::new("idem").unwrap();
        let name = |part: &str| {
            let key = Key::new("orders", part).unwrap();
            String::from_utf8(naming.record(&key)).unwrap()
        };
        for (part, expected) in [
            ("o-17", "idem:{orders:o-17}"),
            ("ü 🦀", "idem:{orders:ü 🦀}"),
            ("{}a", "idem:{orders:%7B%7Da}"),
            ("%7B", "idem:{orders:%25257B}"),
            ("a:b", "idem:{orders:a%253Ab}"),
        ] {
            assert_eq!(name(part), expected);
        }
    }

    #[test]
    fn a_record_tells_its_key() {
        let naming = Naming::new("idem").unwrap();
        for part in ["o-17", "{}a", "%7B", "a:b~", "%257B", &"x".repeat(400)] {
            let key = Key::new("orders", part).unwrap().with_room();
            for key in [key.clone(), key.numbered(17)] {
                let name = String::from_utf8(naming.record(&key)).unwrap();
                assert_eq!(naming.key_of(&name).as_deref(), Some(key.as_str()));
                let audit = String::from_utf8(naming.audit(&key)).unwrap();
                assert_eq!(naming.key_of(&audit), None);
            }
        }
        let others = [
            "idem:{a}~",
            "idem:{a}~mark",
            "idem:{a}~exceptions",
            "idem:a",
        ];
        for other in others.into_iter().chain(["other:{a:b}", "idem:{a"]) {
            assert_eq!(naming.key_of(other), None, "{other}");
        }
    }

    #[test]
    fn a_session_and_its_answers_share_their_braces() {
        let naming = Naming::new("idem").unwrap();
        let text = |name: Vec<u8>| String::from_utf8(name).unwrap();
        for (part, expected) in [
            ("c-1", "idem:{leases:c-1}~"),
            ("{c}", "idem:{leases:%7Bc%7D}~"),
        ] {
            let session = SessionKey::from(Key::new("leases", part).unwrap());
            assert_eq!(text(naming.session(&session)), expected);
            let answer = naming.record(&session.request(17));
            assert_eq!(text(answer), format!("{expected}17"));
        }
    }

    #[test]
    fn a_prefix_has_no_character_that_means_something() {
        for good in ["idem", "shop:orders", "a.b_c-d/e", "9"] {
            assert!(Naming::new(good).is_ok(), "{good}");
        }
        let long = "x".repeat(49);
        for bad in [
            "", "a b", "a{b", "a}b", "a*", "a?", "a[b]", "é", "a\\", &long,
        ] {
            assert!(Naming::new(bad).is_err(), "{bad}");
        }
    }
}
